"""The setup of quickstart and test, without its long installation."""

import os
import subprocess
from pathlib import Path

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


def test_a_second_setup_does_nothing(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text(name)
    done = tmp_path / ".venv" / "bin" / "rankrun"
    done.parent.mkdir(parents=True)
    done.write_text("#!/bin/sh\n")
    done.chmod(0o755)
    stamp = 'printf "%s\\n" "$("$(find_python)" -VV; echo ""; cat pyproject.toml constraints.txt)"'
    code, output = bash(f"{stamp} > .venv/.rankrun-setup; setup ''", cwd=tmp_path)
    assert (code, output) == (0, "")
