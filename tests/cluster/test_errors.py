"""The tree of exceptions, as its docstring draws it, is all there is."""

import ast
import inspect
from pathlib import Path

from rankrun.cluster import errors

ROOT = Path(__file__).parent.parent.parent
LAYERS = ("cluster", "jobs", "collectives", "scripts")


def defined() -> dict[str, list[str]]:
    """Every exception class of the package with its bases."""
    classes = (
        node
        for layer in LAYERS
        for path in (ROOT / layer).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    bases = {node.name: [ast.unparse(base) for base in node.bases] for node in classes}
    return {name: of for name, of in bases.items() if name.endswith(("Error", "Exception"))}


def test_every_exception_is_drawn() -> None:
    drawn = inspect.getdoc(errors) or ""
    assert len(defined()) > 5
    assert [name for name in defined() if name not in drawn] == []


def test_what_users_meet_is_in_the_tree() -> None:
    outside = {"StepError", "ProtocolError", "CannotStartError", "RankrunError"}
    strays = {n: b for n, b in defined().items() if n not in outside and "RankrunError" not in b}
    assert strays == {}


def test_exit_codes() -> None:
    assert errors.UsageError("x").exit_code == 2
    assert errors.RunFolderError("x").exit_code == 3
    assert errors.LaunchError("x").exit_code == 3
    assert errors.ConnectError("x").exit_code == 3
    assert isinstance(errors.UsageError("x"), ValueError)
