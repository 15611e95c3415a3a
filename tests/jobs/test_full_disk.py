"""A disk that fills up while the ranks write, on a real small file system."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rankrun.cluster.errors import RunFolderError
from rankrun.jobs.run_folder import RunFolder
from rankrun.jobs.supervise import run_job

from .running import WhenSaid, local_plan, python, run_local


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("stream", [1, 2])
def test_a_disk_that_fills_up(small_disk: Path, stream: int) -> None:
    program = python(f"import os\nfor _ in range(64): os.write({stream}, b'x' * 65536)")
    run = run_local(small_disk / "run", program, ranks=2)
    assert run.result.exit_code == 3
    finding = run.finding("run-folder-full")
    assert str(small_disk / "run") in finding.message
    assert "No space left on device" in finding.message
    summary = run.folder.read_json(run.folder.summary)
    assert summary["exit_code"] == 3
    assert len(run.folder.read_json(run.folder.outcomes)["outcomes"]) == 2
    assert run.folder.read_json(run.folder.findings)["findings"][0]["cause"] == "run-folder-full"


def test_a_rank_that_ignores_sigterm_does_not_hang_on_a_full_pipe(small_disk: Path) -> None:
    program = python(
        "import os, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "while True: os.write(1, b'x' * 65536)"
    )
    assert run_local(small_disk / "run", program, ranks=1).result.exit_code == 3


def test_a_disk_that_is_already_full(small_disk: Path) -> None:
    plan = local_plan(small_disk / "run", ("true",))
    folder = RunFolder.create(small_disk / "run")
    with pytest.raises(OSError, match="No space"):
        (small_disk / "filler").write_bytes(bytes(2 << 20))
    with pytest.raises(RunFolderError, match=r"No space left on device.*--runs"):
        run_job(plan, folder=folder)


def test_a_folder_that_vanishes(tmp_path: Path) -> None:
    """The files that are open take what comes; at the end there is no place for the verdict."""
    program = python(
        "import os, sys\nprint('ready', flush=True)\nwhile os.path.exists(sys.argv[1]): pass"
    )
    when = WhenSaid(b"ready", lambda: shutil.rmtree(tmp_path / "run"))
    plan = local_plan(tmp_path / "run", [*program, str(tmp_path / "run")], ranks=1)
    folder = RunFolder.create(tmp_path / "run")
    result = run_job(plan, folder=folder, observers=[when])
    assert result.exit_code == 3
    assert [finding.cause for finding in result.findings] == ["run-folder-full"]
