"""The setup of quickstart and test, without its long installation."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def bash(program: str, *, path: str | None = None, cwd: Path = ROOT) -> tuple[int, str]:
    done = subprocess.run(
        ["bash", "-c", f"set -euo pipefail\n. {ROOT}/scripts/setup.sh\n{program}"],
        env={**os.environ, "PATH": path or os.environ["PATH"]},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def programs(folder: Path, **scripts: str) -> str:
    """A PATH with only these programs and what the script itself needs."""
    for name, body in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    for tool in ("cat", "sh", "bash"):
        (folder / tool).symlink_to(f"/bin/{tool}")
    return str(folder)


def test_a_fitting_python_is_found() -> None:
    code, output = bash("find_python")
    assert code == 0
    assert "python" in output


def test_an_old_python_is_passed_over(tmp_path: Path) -> None:
    path = programs(tmp_path, python3="exit 1", **{"python3.12": "exit 0"})
    assert bash("find_python", path=path)[1].strip() == str(tmp_path / "python3.12")


def test_a_user_is_told_what_root_would_install(tmp_path: Path) -> None:
    path = programs(tmp_path, id="echo 1000", python3="exit 1")
    code, output = bash("setup ''", path=path, cwd=tmp_path)
    assert code == 3
    assert "missing: python3 python3-venv. As root: apt-get install -y" in output
    assert not (tmp_path / ".venv").exists()


def test_root_gets_it_installed(tmp_path: Path) -> None:
    path = programs(tmp_path, **{"id": "echo 0", "apt-get": f'echo "$@" >> {tmp_path}/log'})
    code, _ = bash("need_packages python3-venv", path=path)
    assert code == 0
    assert "install -y -qq python3-venv" in (tmp_path / "log").read_text()


def test_only_the_packages_of_missing_programs_are_needed(tmp_path: Path) -> None:
    path = programs(tmp_path, id="echo 1000", here="exit 0")
    code, output = bash("need_programs here:openssh-client not-here:munge", path=path)
    assert code == 3
    assert "missing: munge. As root" in output
    assert bash("need_programs here:openssh-client", path=path) == (0, "")


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    """A checkout with a finished setup whose tools all succeed."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    tools = tmp_path / ".venv" / "bin"
    tools.mkdir(parents=True)
    for name in ("rankrun", "python", "ruff", "mypy", "shellcheck"):
        write_tool(tools / name, code=0)
    stamp = tmp_path / ".venv" / ".rankrun-setup"
    command = '"$(find_python)" -VV; cat pyproject.toml constraints.txt'
    stamp.write_text(bash(command, cwd=tmp_path)[1])
    (tmp_path / ".venv" / ".rankrun-setup[test]").touch()
    return tmp_path


def write_tool(path: Path, *, code: int) -> None:
    path.write_text(f'#!/bin/sh\necho "$(basename "$0") $*" >> "{path.parent}/log"\nexit {code}\n')
    path.chmod(0o755)


def tools_run(checkout: Path) -> list[str]:
    log = checkout / ".venv" / "bin" / "log"
    return log.read_text().splitlines() if log.exists() else []


@pytest.mark.parametrize("extra", ["", "[test]"])
def test_a_second_setup_does_nothing(prepared: Path, extra: str) -> None:
    assert bash(f"setup '{extra}'", cwd=prepared) == (0, "")
    assert tools_run(prepared) == []


def test_the_tests_needs_are_added_without_beginning_again(prepared: Path) -> None:
    (prepared / ".venv" / ".rankrun-setup[test]").unlink()
    code, output = bash("setup '[test]'", cwd=prepared)
    assert code == 0
    assert "making .venv" not in output
    assert [line for line in tools_run(prepared) if line.endswith("--editable .[test]")]


def script(checkout: Path, name: str) -> int:
    return subprocess.run(
        [checkout / name], capture_output=True, timeout=60, check=False
    ).returncode


def test_check_passes_when_all_tools_do(prepared: Path) -> None:
    assert script(prepared, "scripts/check") == 0
    assert {line.split()[0] for line in tools_run(prepared)} == {"ruff", "mypy", "shellcheck"}


@pytest.mark.parametrize("tool", ["ruff", "mypy", "shellcheck"])
@pytest.mark.parametrize("name", ["scripts/check", "scripts/test", ".ci/run"])
def test_a_failing_tool_fails_everything_above_it(prepared: Path, tool: str, name: str) -> None:
    write_tool(prepared / ".venv" / "bin" / tool, code=1)
    assert script(prepared, name) != 0


@pytest.mark.parametrize("name", ["scripts/test", ".ci/run"])
def test_failing_tests_fail(prepared: Path, name: str) -> None:
    write_tool(prepared / ".venv" / "bin" / "python", code=1)
    assert script(prepared, name) != 0
    assert tools_run(prepared)[-1].startswith("python -m pytest")
