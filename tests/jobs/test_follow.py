"""The merged log of a run, read from its folder while it goes on and afterwards."""

import re
import sys
from pathlib import Path

import pytest

from rankrun.cluster.errors import UsageError
from rankrun.jobs.follow import Wanted, read_log
from rankrun.jobs.run_folder import RunFolder
from rankrun.jobs.runs import LAST, RunState, find_run, list_runs, load_run

from .running import python, run_local, start_controller

TALKS = python(
    "import os, sys, time\n"
    "for i in range(50): print(os.environ['RANK'], i, flush=True)\n"
    "print('err', os.environ['RANK'], file=sys.stderr, flush=True)\n"
    "sys.stdout.write('no newline')"
)


ALL = Wanted()


def lines(folder: RunFolder, wanted: Wanted = ALL) -> list[tuple[int, str, str]]:
    return [(line.rank, line.stream, line.text) for line in read_log(folder, wanted)]


def test_every_line_once_and_in_order(tmp_path: Path) -> None:
    folder = run_local(tmp_path / "run", TALKS).folder
    shown = lines(folder)
    for rank in (0, 1):
        expected = [f"{rank} {i}" for i in range(50)] + ["no newline"]
        assert [t for r, stream, t in shown if r == rank and stream == "stdout"] == expected
        assert (rank, "stderr", f"err {rank}") in shown


def test_only_what_is_wanted(tmp_path: Path) -> None:
    folder = run_local(tmp_path / "run", TALKS).folder
    assert {rank for rank, _, _ in lines(folder, Wanted(rank=1))} == {1}
    assert lines(folder, Wanted(host="elsewhere")) == []
    pattern = re.compile("^1 4")
    assert len(lines(folder, Wanted(pattern=pattern))) == 11  # 4, 40 to 49


def test_a_run_that_goes_on_is_followed_to_its_end(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    program = python(
        "import os, sys, time\nprint('before', flush=True)\n"
        "while not os.path.exists(sys.argv[1]): time.sleep(0.01)\nprint('after')"
    )
    process = start_controller(tmp_path, [*program, str(flag)], ranks=1)
    process.wait_for_output(b"before", 1)
    path = process.folder.path
    seen = []
    log = read_log(process.folder, ALL, goes_on=lambda: load_run(path).state is RunState.RUNNING)
    for line in log:
        seen.append(line.text)
        flag.touch()
    assert seen == ["before", "after"]
    assert process.end()[0] == 0


def test_what_a_killed_controller_gathered_is_still_there(tmp_path: Path) -> None:
    program = python("import time; print('said', flush=True); time.sleep(600)")
    process = start_controller(tmp_path, program, ranks=1)
    process.wait_for_output(b"said", 1)
    process.process.kill()
    process.process.communicate()
    run = load_run(process.folder.path)
    assert run.state is RunState.LOST
    assert [text for _, _, text in lines(run.folder)] == ["said"]


def test_runs_are_found_by_id_path_and_age(tmp_path: Path) -> None:
    for name in ("20261201-000000.000-launch-aaaa", "20261202-000000.000-launch-bbbb"):
        run_local(tmp_path / name, (sys.executable, "-c", "pass"), ranks=1)
    (tmp_path / "no run").mkdir()
    first, second = list_runs(tmp_path)
    assert (first.run_id[-4:], second.run_id[-4:]) == ("aaaa", "bbbb")
    (tmp_path / "no run").rmdir()
    assert find_run(LAST, tmp_path).run_id == second.run_id
    assert find_run("aaaa", tmp_path).run_id == first.run_id
    assert find_run("20261202", tmp_path).run_id == second.run_id
    assert find_run(str(first.folder.path), Path("/nowhere")).run_id == first.run_id
    with pytest.raises(UsageError, match="may mean 2 runs"):
        find_run("2026", tmp_path)
    with pytest.raises(UsageError, match="rankrun ls"):
        find_run("cccc", tmp_path)
    with pytest.raises(UsageError, match="--runs"):
        find_run(LAST, tmp_path / "nowhere")
