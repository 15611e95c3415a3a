"""Runs over real SSH connections: the same ranks, logs and verdicts as on one machine."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.ssh.servers import Site, needs_sshd, running_site

pytestmark = needs_sshd

RANKRUN = [sys.executable, "-m", "rankrun"]
TARGET = "ssh:node[0-1]*2"
GONE_S = 15.0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_site(tmp_path_factory.mktemp("site"), ["node0", "node1"]) as running:
        yield running


def environment(site: Site, tmp_path: Path) -> dict[str, str]:
    return os.environ | {
        "RANKRUN_SSH_CONFIG": str(site.config),
        "RANKRUN_RUNS": str(tmp_path / "runs"),
    }


def rankrun(site: Site, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RANKRUN, *arguments],
        env=environment(site, tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def launch(site: Site, tmp_path: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return rankrun(site, tmp_path, "launch", "-t", TARGET, "--", *command)


def run_folder(tmp_path: Path) -> Path:
    (folder,) = (tmp_path / "runs").iterdir()
    return folder


def read(tmp_path: Path, document: str) -> Any:
    return json.loads((run_folder(tmp_path) / document).read_text())


def await_gone(pids: list[int]) -> list[int]:
    """Those of the processes that are still there when the time is over."""
    deadline = time.monotonic() + GONE_S
    left = pids
    while left and time.monotonic() < deadline:
        left = [pid for pid in left if Path(f"/proc/{pid}").exists()]
        time.sleep(0.05)
    return left


def await_pids(folder: Path, count: int) -> list[int]:
    """What the ranks wrote of themselves, one file per process."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        pids = [int(path.name) for path in folder.iterdir()]
        if len(pids) == count:
            return pids
        time.sleep(0.05)
    raise AssertionError(f"{count} processes were expected in {folder}")


# Each rank and two helpers of it: one in its process group, one that left it by setsid and a
# double fork. All ignore SIGTERM.
FAMILY = """
import os, signal, subprocess, sys, time
from pathlib import Path
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
def live():
    Path(sys.argv[1], str(os.getpid())).touch()
    time.sleep(600)
if os.fork() == 0:
    live()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        live()
    os._exit(0)
live()
"""


def test_ranks_get_the_contract_and_their_lines_come_home(site: Site, tmp_path: Path) -> None:
    script = 'echo "$RANK of $WORLD_SIZE, $LOCAL_RANK on $GROUP_RANK"; echo "to err" >&2'
    done = launch(site, tmp_path, "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert sorted(line for line in done.stdout.splitlines() if " of " in line) == [
        "[node0:0] 0 of 4, 0 on 0",
        "[node0:1] 1 of 4, 1 on 0",
        "[node1:2] 2 of 4, 0 on 1",
        "[node1:3] 3 of 4, 1 on 1",
    ]
    assert (run_folder(tmp_path) / "ranks" / "3.stderr.log").read_text() == "to err\n"


def test_the_first_failure_is_named_with_its_host(site: Site, tmp_path: Path) -> None:
    script = 'if [ "$RANK" = 2 ]; then echo "cuda is gone" >&2; exit 17; fi; exec sleep 600'
    done = launch(site, tmp_path, "sh", "-c", script)
    assert done.returncode == 17
    assert "rank 2 on node1 exited with code 17: cuda is gone" in done.stderr


def test_the_suite_is_right_over_ssh(site: Site, tmp_path: Path) -> None:
    done = rankrun(
        site,
        tmp_path,
        "suite",
        "-t",
        TARGET,
        "--ops",
        "all_reduce,all_gather",
        "-b",
        "8",
        "-e",
        "64K",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Out of bounds values : 0 OK" in done.stdout
    assert {row["host"] for row in read(tmp_path, "outcomes.json")["outcomes"]} == {
        "node0",
        "node1",
    }


def test_a_secret_is_in_the_rank_but_not_in_ps_or_the_run_folder(
    site: Site, tmp_path: Path
) -> None:
    secret = "hunter2 'x' $(id)\n\"y\""
    program = (
        "import os, subprocess, sys; "
        "print(os.environ['API_TOKEN'] == bytes.fromhex(sys.argv[1]).decode()); "
        "print(bytes.fromhex(sys.argv[1])[:7] in subprocess.check_output(['ps', '-eo', 'args']))"
    )
    started = subprocess.run(
        [
            *RANKRUN,
            "launch",
            "-t",
            "ssh:node1*1",
            "--env",
            "API_TOKEN",
            "--",
            sys.executable,
            "-c",
            program,
            secret.encode().hex(),
        ],
        env=environment(site, tmp_path) | {"API_TOKEN": secret},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert started.returncode == 0, started.stderr
    assert [line.split()[-1] for line in started.stdout.splitlines()[:2]] == ["True", "False"]
    kept = b"".join(path.read_bytes() for path in run_folder(tmp_path).rglob("*") if path.is_file())
    assert b"hunter2" not in kept


@pytest.mark.parametrize("argument", ["a b", "'", '"$(id)"', "two\nlines", "\udcff", "`x`", "*"])
def test_arguments_arrive_as_they_are(site: Site, tmp_path: Path, argument: str) -> None:
    program = "import os, sys; print(os.fsencode(sys.argv[1]).hex())"
    done = rankrun(
        site, tmp_path, "launch", "-t", "ssh:node0*1", "--", sys.executable, "-c", program, argument
    )
    assert os.fsencode(argument).hex() in done.stdout


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_when_the_controller_goes(
    site: Site, tmp_path: Path, how: signal.Signals
) -> None:
    folder = tmp_path / "pids"
    folder.mkdir()
    controller = subprocess.Popen(
        [*RANKRUN, "launch", "-t", TARGET, "--", sys.executable, "-c", FAMILY, str(folder)],
        env=environment(site, tmp_path),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        pids = await_pids(folder, 12)
        controller.send_signal(how)
        controller.wait(60)
    finally:
        controller.kill()
        controller.wait()
    assert await_gone(pids) == []


def test_a_frozen_sshd_ends_the_run_on_all_hosts(tmp_path: Path) -> None:
    """Frozen with its sessions: nothing is said to the agent any more, nor by it."""
    folder = tmp_path / "pids"
    folder.mkdir()
    (tmp_path / "site").mkdir()
    with running_site(tmp_path / "site", ["node0", "node1"]) as site:
        controller = subprocess.Popen(
            [*RANKRUN, "launch", "-t", TARGET, "--", sys.executable, "-c", FAMILY, str(folder)],
            env=environment(site, tmp_path),
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        pids = await_pids(folder, 12)
        sessions = sessions_of(site.servers["node1"].process.pid)
        for pid in sessions:
            os.kill(pid, signal.SIGSTOP)
        try:
            _, said = controller.communicate(timeout=60)
            left = await_gone(pids)
        finally:
            for pid in sessions:
                os.kill(pid, signal.SIGCONT)
    assert left == []
    assert controller.returncode not in (0, None)
    assert "node1" in said


def sessions_of(server: int) -> list[int]:
    """sshd's own processes below a server, which carry its connections."""
    found = [server]
    for pid in found:
        for listing in Path(f"/proc/{pid}/task").glob("*/children"):
            children = [int(child) for child in listing.read_text().split()]
            found += [each for each in children if comm(each).startswith("sshd")]
    return found


def comm(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text()


def test_a_host_that_is_down_is_one_line_each(site: Site, tmp_path: Path) -> None:
    done = rankrun(site, tmp_path, "launch", "-t", "ssh:node0,nowhere.invalid", "--", "true")
    assert done.returncode == 3
    lines = [line for line in done.stderr.splitlines() if "nowhere.invalid" in line]
    assert len(lines) == 1
    assert not (tmp_path / "runs").exists() or list((tmp_path / "runs").iterdir()) == []


def test_two_runs_on_the_same_hosts_at_once_do_not_meet(site: Site, tmp_path: Path) -> None:
    runs = [
        subprocess.Popen(
            [*RANKRUN, "launch", "-t", TARGET, "--", "sh", "-c", "echo port=$MASTER_PORT; sleep 1"],
            env=environment(site, tmp_path),
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    ports = []
    for run in runs:
        output, _ = run.communicate(timeout=60)
        assert run.returncode == 0
        ports.append({line.split("=")[1] for line in output.splitlines() if "port=" in line})
    assert [len(each) for each in ports] == [1, 1]
    assert ports[0] != ports[1]
