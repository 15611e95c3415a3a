from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rankrun.collectives.cases import Case, Form, GroupKind
from rankrun.collectives.layouts import Position
from rankrun.collectives.on_rank.backends import Group
from rankrun.collectives.on_rank.calls import prepare
from rankrun.collectives.on_rank.inputs import scheme_for
from rankrun.collectives.on_rank.show import expected_values, readable_value, verdict
from rankrun.collectives.on_rank.verification import Sources
from rankrun.collectives.operations import find
from rankrun.collectives.spec import Dtype, Mode, Redop

from .ranks import SuiteRun, run_suite


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> SuiteRun:
    return run_suite(tmp_path_factory.mktemp("show"), ranks=3, mode=Mode.SHOW)


def case(operation: str, redop: Redop | None = None, dtype: Dtype = Dtype.FLOAT32) -> Case:
    return Case(
        operation=operation,
        form=Form.TENSOR,
        group=GroupKind.WORLD,
        in_place=False,
        asynchronous=False,
        dtype=dtype,
        redop=redop,
        root=None,
    )


def test_rank_r_holds_r0_r1_r2() -> None:
    def held(slot: int, group_size: int) -> list[int]:
        return [
            readable_value(case("all_gather"), slot=slot, index=index, group_size=group_size)
            for index in range(3)
        ]

    assert held(3, 4) == [30, 31, 32]
    assert held(3, 11) == [300, 301, 302]


def test_expected_is_worked_out_from_the_layout() -> None:
    row = find("all_reduce", Form.TENSOR)
    layout = row.layout(Position(group_size=3, rank=1), 2)
    assert expected_values(case("all_reduce", Redop.MAX), layout, 3) == {0: 20, 1: 21}
    assert expected_values(case("all_reduce", Redop.PRODUCT), layout, 3) == {0: 6, 1: 24}


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_lines_of_each_rank(shown: SuiteRun, rank: int) -> None:
    assert shown.run.result.exit_code == 0
    lines = shown.lines(rank)
    expected = {
        "init_process_group": ["backend gloo, device cpu"] * 3,
        "get_rank": ["0", "1", "2"],
        "get_world_size": ["3"] * 3,
        "broadcast from rank 0": [
            "before [0, 1, 2, 3]  after [0, 1, 2, 3]",
            "before [10, 11, 12, 13]  after [0, 1, 2, 3]",
            "before [20, 21, 22, 23]  after [0, 1, 2, 3]",
        ],
        "reduce SUM to rank 0": ["before [0, 1, 2, 3]  after [30, 33, 36, 39]"],
        "all_reduce SUM": [
            f"before [{first}, {first + 1}, {first + 2}, {first + 3}]  after [30, 33, 36, 39]"
            for first in (0, 10, 20)
        ],
        "all_reduce MIN": [
            f"before [{first}, {first + 1}, {first + 2}, {first + 3}]  after [0, 1, 2, 3]"
            for first in (0, 10, 20)
        ],
        "reduce_scatter SUM": [
            "before [[0], [1], [2]]  after [30]",
            "before [[10], [11], [12]]  after [33]",
            "before [[20], [21], [22]]  after [36]",
        ],
        "all_gather": [f"before [{first}]  after [[0], [10], [20]]" for first in (0, 10, 20)],
        "gather to rank 0": [
            "before [0]  after [[0], [10], [20]]",
            "before [10]  after -",
            "before [20]  after -",
        ],
        "scatter from rank 0": [
            "before [[0], [1], [2]]  after [0]",
            "before -  after [1]",
            "before -  after [2]",
        ],
        "all_to_all": [
            "before [[0], [1], [2]]  after [[0], [10], [20]]",
            "before [[10], [11], [12]]  after [[1], [11], [21]]",
            "before [[20], [21], [22]]  after [[2], [12], [22]]",
        ],
    }
    for title, texts in expected.items():
        (line,) = [line for line in lines if line.startswith(f"{title} ")]
        if rank < len(texts):
            assert " ".join(line.split()) == " ".join(f"{title} {texts[rank]}".split())
    assert any(line.startswith("barrier") for line in lines)
    assert not any("WRONG" in line for line in lines)


def test_only_the_root_has_what_is_reduced_to_it(shown: SuiteRun) -> None:
    reduced = [line for line in shown.lines(2) if line.startswith("reduce SUM")]
    assert reduced[0].endswith("(only the root has the result)")


def test_a_wrong_result_is_shown_as_such() -> None:
    """With a group of which nothing but the members is used."""
    row = find("all_reduce", Form.TENSOR)
    group = Group(handle=None, members=(0, 1), index=0, slot=1)
    shown_case = replace(case("all_reduce", Redop.SUM), in_place=True)
    sources = Sources(
        scheme=scheme_for(Dtype.FLOAT32, Redop.SUM, 2),
        seed=1,
        members=(0, 1),
        extent=2,
        device=torch.device("cpu"),
    )
    prepared = prepare(row, shown_case, group=group, count=2, sources=sources)
    prepared.call.output.copy_(torch.tensor([10.0, 12.0]))
    assert verdict(prepared, group) == ""
    prepared.call.output[1] = 13
    assert verdict(prepared, group) == "  WRONG, expected [10, 12]"


def test_unsupported_is_shown_in_the_backends_words(tmp_path: Path) -> None:
    suite = run_suite(
        tmp_path, ranks=2, mode=Mode.SHOW, operations=("all_reduce",), dtype=Dtype.INT32
    )
    averages = [line for line in suite.lines(1) if line.startswith("all_reduce AVG")]
    assert "unsupported: result type Float can't be cast" in averages[0]
    sums = [line for line in suite.lines(1) if line.startswith("all_reduce SUM")]
    assert sums[0].endswith("before [10, 11, 12, 13]  after [10, 12, 14, 16]")
