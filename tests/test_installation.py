"""The wheel and the sdist, built from a clean copy, give a working `rankrun` elsewhere."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*argv: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in argv],
        cwd=cwd,
        env=env or os.environ,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, f"{argv}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def clean_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a clone of the working tree would hold: what git tracks, and new files it would."""
    copy = tmp_path_factory.mktemp("copy") / "rankrun"
    listed = run("git", "ls-files", "-co", "--exclude-standard", cwd=ROOT)
    for name in filter(None, listed.splitlines()):
        source, destination = ROOT / name, copy / name
        if source.exists() or source.is_symlink():
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, destination, follow_symlinks=False)
    return copy


@pytest.fixture(scope="module")
def distributions(clean_copy: Path) -> tuple[Path, Path]:
    run(sys.executable, "-m", "build", "--outdir", "dist", ".", cwd=clean_copy)
    (wheel,) = (clean_copy / "dist").glob("*.whl")
    (sdist,) = (clean_copy / "dist").glob("*.tar.gz")
    return wheel, sdist


def test_the_wheel_holds_every_module_once(distributions: tuple[Path, Path]) -> None:
    names = zipfile.ZipFile(distributions[0]).namelist()
    expected = {
        f"rankrun/{path.relative_to(ROOT)}"
        for layer in ("cluster", "jobs", "collectives", "scripts")
        for path in (ROOT / layer).rglob("*.py")
    }
    top = {f"rankrun/{name}" for name in ("__init__.py", "__main__.py", "py.typed")}
    assert expected | top == {name for name in names if ".dist-info/" not in name}
    assert len(names) == len(set(names))


def test_the_sdist_can_be_built_from(distributions: tuple[Path, Path]) -> None:
    with tarfile.open(distributions[1]) as sdist:
        members = sdist.getnames()
    for needed in ("LICENSE", "README.md", "pyproject.toml", "jobs/agent/__main__.py"):
        assert any(member.endswith(f"/{needed}") for member in members), needed


@pytest.mark.parametrize("which", ["wheel", "sdist"])
def test_installed_elsewhere_it_works(
    distributions: tuple[Path, Path], which: str, tmp_path: Path
) -> None:
    """Installed without its dependencies, which are lent from this environment: they are large."""
    distribution = distributions[0 if which == "wheel" else 1]
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", venv, cwd=tmp_path)
    run(venv / "bin/python", "-m", "pip", "install", "-q", "--no-deps", distribution, cwd=tmp_path)
    lent = next(path for path in sys.path if path.endswith("site-packages"))
    environment = {**os.environ, "PYTHONPATH": lent, "RANKRUN_RUNS": str(tmp_path / "runs")}
    script = venv / "bin/rankrun"
    where = "import rankrun; print(rankrun.__file__)"
    assert str(venv) in run(venv / "bin/python", "-c", where, cwd=tmp_path, env=environment)
    assert "rankrun 0." in run(script, "--version", cwd=tmp_path, env=environment)
    program = "import os; print('I am', os.environ['RANK'])"
    output = run(
        script, "launch", "-t", "local:2", "--", "python3", "-c", program,
        cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert "I am 0" in output
    assert "I am 1" in output
