import json
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankrun.cluster.errors import RunFolderError
from rankrun.jobs.run_folder import RunFolder, new_run_id, runs_directory


def test_only_the_owner_may_look(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "deep" / "run")
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700


@given(st.floats(min_value=0, max_value=4e9), st.floats(min_value=0.002, max_value=1e9))
def test_run_ids_sort_by_time(start_s: float, later_s: float) -> None:
    assert new_run_id("suite", now_s=start_s) < new_run_id("launch", now_s=start_s + later_s)


def test_a_folder_that_cannot_be_made_says_where_and_what_next(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(RunFolderError, match=r"cannot make .*/file: File exists; .*--runs"):
        RunFolder.create(blocker / "run")


def test_json_appears_whole(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    folder.write_json(folder.summary, {"text": "\udc80 é"})
    assert folder.read_json(folder.summary)["text"] == "\udc80 é"
    assert [path.name for path in folder.path.glob(".*")] == []


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    folder.write_json(folder.summary, 1)
    with pytest.raises(RunFolderError, match="cannot write"):
        folder.write_json(folder.path / "no" / "x.json", 2)
    assert json.loads(folder.summary.read_text()) == 1


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    folder.summary.write_text("{")
    with pytest.raises(RunFolderError, match=r"summary\.json is not JSON"):
        folder.read_json(folder.summary)
    with pytest.raises(RunFolderError, match=r"cannot read .*plan\.json"):
        folder.read_json(folder.plan)


def test_where_runs_go(tmp_path: Path) -> None:
    assert runs_directory(tmp_path, {"RANKRUN_RUNS": "/elsewhere"}) == tmp_path
    assert runs_directory(None, {"RANKRUN_RUNS": "/elsewhere"}) == Path("/elsewhere")
    assert runs_directory(None, {}) == Path.cwd() / "rankrun-runs"
