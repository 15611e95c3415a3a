"""Imports point left only: cluster <- jobs <- collectives <- scripts; heavy packages stay put."""

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# tomli comes with coverage[toml] where Python has no tomllib yet.
tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

ROOT = Path(__file__).parent.parent
LAYERS = ["cluster", "jobs", "collectives", "scripts"]


def modules(layer: str) -> list[Path]:
    return sorted((ROOT / layer).rglob("*.py"))


def imported_layers(path: Path) -> Iterator[str]:
    """The layers that a module imports, from its relative and absolute imports."""
    package = ["rankrun", *path.relative_to(ROOT).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = [*base, *(node.module or "").split(".")]
            names = [".".join([*filter(None, module), alias.name]) for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "rankrun" and len(parts) > 1 and parts[1] in LAYERS:
                yield parts[1]


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_point_to_lower_layers_only(layer: str) -> None:
    allowed = LAYERS[: LAYERS.index(layer) + 1]
    upward = [
        f"{path.relative_to(ROOT)} imports {target}"
        for path in modules(layer)
        for target in imported_layers(path)
        if target not in allowed
    ]
    assert upward == []


def test_the_guard_reads_relative_imports() -> None:
    seen = set(imported_layers(ROOT / "scripts" / "options.py"))
    assert seen == {"jobs", "scripts"}


@pytest.mark.parametrize("package", ["torch", "paramiko", "submitit", "plotly", "pydantic"])
def test_the_command_line_loads_nothing_heavy(package: str) -> None:
    program = f"import rankrun.scripts.main, sys; sys.exit({package!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_torch_is_imported_only_where_ranks_run() -> None:
    offenders = []
    for path in (path for layer in LAYERS for path in modules(layer)):
        if "on_rank" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            else:
                continue
            imports_torch = any(name.split(".")[0] == "torch" for name in names)
            if imports_torch and not _under_type_checking(path, node.lineno):
                offenders.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert offenders == []


def _under_type_checking(path: Path, wanted_line: int) -> bool:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            if wanted_line in lines:
                return True
    return False


def test_every_folder_with_code_is_a_listed_package() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = set(pyproject["tool"]["setuptools"]["packages"])
    folders = {
        ".".join(["rankrun", *path.parent.relative_to(ROOT).parts])
        for layer in LAYERS
        for path in modules(layer)
    }
    assert listed == folders | {"rankrun"}
