"""The examples in docstrings are true."""

import doctest
import importlib
import pkgutil

import pytest

import rankrun

SKIPPED = {"__main__"}  # programs, not modules


def module_names() -> list[str]:
    return [
        module.name
        for module in pkgutil.walk_packages(rankrun.__path__, "rankrun.")
        if module.name.rpartition(".")[2] not in SKIPPED
    ]


@pytest.mark.parametrize("name", module_names())
def test_examples(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


def test_examples_exist() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = sum(
        bool(test.examples)
        for name in module_names()
        for test in finder.find(importlib.import_module(name))
    )
    assert found >= 5
