"""Runs that outlive their shell, seen from other commands."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rankrun.jobs.controllers import Controller
from rankrun.jobs.runs import load_run

RANKRUN = [sys.executable, "-m", "rankrun"]


def rankrun(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RANKRUN, *arguments],
        cwd=cwd,
        env={**os.environ, "NO_COLOR": "1", "RANKRUN_RUNS": str(cwd / "runs")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def run_id(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[0]


def test_a_detached_launch_is_followed_to_its_exit_code(tmp_path: Path) -> None:
    program = "import os, sys; r = os.environ['RANK']; print('I am', r); sys.exit(7 * int(r))"
    command = ("--", sys.executable, "-c", program)
    name = run_id(rankrun("launch", "--detach", "-t", "local:2", *command, cwd=tmp_path))
    attached = rankrun("attach", name, cwd=tmp_path)
    assert attached.returncode == 7
    assert "exited with code 7" in attached.stdout
    shown = rankrun("logs", name, "--rank", "1", cwd=tmp_path)
    assert shown.stdout == "[1] I am 1\n"
    status = rankrun("status", name, "--json", cwd=tmp_path)
    assert (status.returncode, json.loads(status.stdout)["state"]) == (7, "ended")


def test_a_detached_run_is_listed_and_cancelled(tmp_path: Path) -> None:
    command = ("--", sys.executable, "-c", "import time; time.sleep(600)")
    name = run_id(rankrun("launch", "--detach", "-t", "local:1", *command, cwd=tmp_path))
    listed = json.loads(rankrun("ls", "--json", cwd=tmp_path).stdout)["runs"]
    assert [(run["run"], run["state"]) for run in listed] == [(name, "running")]
    run = load_run(tmp_path / "runs" / name)
    assert isinstance(run.controller, Controller)
    assert os.getsid(run.controller.pid) == run.controller.pid
    done = rankrun("cancel", name, cwd=tmp_path)
    assert "has ended" in done.stdout
    assert run.controller.alive is False
    assert rankrun("status", name, cwd=tmp_path).returncode == 143
    assert "does not run" in rankrun("cancel", name, cwd=tmp_path).stdout


def test_a_detached_suite_shows_its_table(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    options = ("-t", "local:2", "--ops", "barrier", "-n", "2")
    run_id(rankrun("suite", "--detach", *options, cwd=tmp_path))
    attached = rankrun("attach", cwd=tmp_path)
    assert attached.returncode == 0, attached.stdout + attached.stderr
    assert "barrier" in attached.stdout
    assert attached.stdout.count("run folder:") == 1


def test_a_detached_run_that_cannot_start_says_why(tmp_path: Path) -> None:
    done = rankrun("launch", "--detach", "-t", "nowhere:3", "--", "true", cwd=tmp_path)
    assert done.returncode != 0
    assert "nowhere:3" in done.stderr
    assert list((tmp_path / "runs").glob(".*")) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("logs", "--rank", "9"),
        ("logs", "--host", "nowhere"),
        ("logs", "--grep", "("),
        ("status", "x"),
    ],
)
def test_wrong_words_are_refused(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    rankrun("launch", "-q", "-t", "local:1", "--", "true", cwd=tmp_path)
    done = rankrun(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("rankrun: ")
