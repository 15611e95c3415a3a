"""The agent must run on any host's Python 3.9, shipped without the rest of rankrun."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .agent_session import find_python_39
from .running import PATIENCE_S

AGENT = Path(__file__).parents[2] / "jobs" / "agent"
MODULES = sorted(AGENT.glob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_it_imports_only_the_standard_library_and_itself(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                assert alias.name.partition(".")[0] in sys.stdlib_module_names
        elif isinstance(node, ast.ImportFrom):
            assert node.level <= 1
            if node.level == 0:
                assert (node.module or "").partition(".")[0] in sys.stdlib_module_names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_it_is_written_for_python_39(path: Path) -> None:
    compile(path.read_text(), str(path), "exec")
    ast.parse(path.read_text(), feature_version=(3, 9))
    used = {
        node.attr
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
    }
    assert not used & {"pairwise", "bit_count", "F_SETPIPE_SZ", "StrEnum", "file_digest"}


def test_it_can_be_shipped_as_it_stands(tmp_path: Path) -> None:
    interpreter = find_python_39() or sys.executable
    shutil.copytree(AGENT, tmp_path / "shipped_agent")
    program = (
        "import sys; sys.path.append(sys.argv[1]);"
        "from shipped_agent.__main__ import main; sys.exit(main())"
    )
    done = subprocess.run(
        [interpreter, "-W", "error", "-I", "-S", "-c", program, str(tmp_path)],
        input=b"",
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"finished" in done.stdout
