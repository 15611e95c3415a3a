"""How runs are brought to an end, and that nothing of them is left."""

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rankrun.cluster.errors import RankrunError
from rankrun.jobs.agent.processes import descendants
from rankrun.jobs.controllers import Controller
from rankrun.jobs.outcomes import End
from rankrun.jobs.plan import Limits
from rankrun.jobs.run_folder import RunFolder
from rankrun.jobs.runs import RunState, load_run

from .running import (
    Run,
    WhenSaid,
    eventually,
    python,
    run_local,
    start_controller,
    survivors,
)

READY_AND_WAIT = python("print('ready', flush=True); import time; time.sleep(600)")

# Leaves its session, its process group and its parents, as a daemon does.
DAEMON = """
import os, time
reader, writer = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(writer, b"x")
        time.sleep(600)
    os._exit(0)
os.read(reader, 1)
"""

IGNORE = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"


def test_a_daemon_that_outlives_its_rank_is_ended_and_reported(tmp_path: Path) -> None:
    run = run_local(tmp_path / "run", python(DAEMON), ranks=2)
    assert run.result.exit_code == 0
    assert run.causes == ["leftovers-ended"]
    assert "(python" in run.result.findings[0].message


def test_a_daemon_that_ignores_sigterm_and_holds_the_pipe(tmp_path: Path) -> None:
    run = run_local(tmp_path / "run", python(IGNORE + DAEMON + "print('last words')"), ranks=1)
    assert run.result.exit_code == 0
    assert run.out() == b"last words\n"
    assert run.causes == ["leftovers-ended"]


def test_a_daemon_of_a_stopped_run_is_ended(tmp_path: Path) -> None:
    program = python(IGNORE + DAEMON + "import sys\nif os.environ['RANK'] == '0': sys.exit(9)\n"
                     "time.sleep(600)")  # fmt: skip
    limits = Limits(deadline_s=60, grace_s=0.2)
    assert run_local(tmp_path / "run", program, limits=limits).result.exit_code == 9


def test_a_rank_closes_its_output_and_goes_on(tmp_path: Path) -> None:
    program = python(
        "import os\nos.write(1, b'before\\n')\nos.close(1); os.close(2)\n"
        "os.write(int(os.environ['RANKRUN_RECORD_FD']), b'after\\n')\nos._exit(3)"
    )
    run = run_local(tmp_path / "run", program, ranks=1)
    assert run.result.exit_code == 3
    assert run.out() == b"before\n"
    assert [e["text"] for e in run.events() if e["what"] == "record"] == ["after"]


def interrupted(tmp_path: Path, number: int) -> Run:
    when = WhenSaid(b"ready", lambda: signal.raise_signal(number), count=2)
    return run_local(tmp_path / "run", READY_AND_WAIT, observers=[when])


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_interruption(tmp_path: Path, name: str, code: int) -> None:
    before = signal.getsignal(signal.Signals[name])
    run = interrupted(tmp_path, signal.Signals[name])
    assert run.result.exit_code == code
    assert run.causes == ["interrupted"]
    assert {outcome.end for outcome in run.result.outcomes} == {End.STOPPED}
    assert run.folder.read_json(run.folder.summary)["exit_code"] == code
    assert signal.getsignal(signal.Signals[name]) is before


def test_a_second_interruption_does_not_wait_for_the_grace(tmp_path: Path) -> None:
    def twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    run = run_local(
        tmp_path / "run",
        python(IGNORE + "\nprint('ready', flush=True)\nimport time; time.sleep(600)"),
        observers=[WhenSaid(b"ready", twice, count=2)],
        limits=Limits(grace_s=3600),
    )
    assert run.result.exit_code == 130
    assert [outcome.code for outcome in run.result.outcomes] == [-signal.SIGKILL] * 2


def test_an_ignored_hangup_stays_ignored(tmp_path: Path) -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    flag = tmp_path / "flag"

    def hang_up() -> None:
        signal.raise_signal(signal.SIGHUP)
        flag.touch()

    program = python(
        "import os, time\nprint('ready', flush=True)\n"
        "while not os.path.exists(os.environ['FLAG']): time.sleep(0.01)"
    )
    when = WhenSaid(b"ready", hang_up, count=2)
    try:
        run = run_local(tmp_path / "run", program, observers=[when], settings={"FLAG": str(flag)})
    finally:
        signal.signal(signal.SIGHUP, before)
    assert run.result.exit_code == 0


def test_ctrl_c_of_a_real_controller(tmp_path: Path) -> None:
    controller = start_controller(tmp_path, READY_AND_WAIT)
    controller.wait_for_output(b"ready", 2)
    controller.process.send_signal(signal.SIGINT)
    code, out, err = controller.end()
    assert code == 130
    assert out.count("ready") == 2
    assert "interrupted: Ctrl-C" in err
    assert survivors(controller.run_id) == []


def test_a_killed_controller_leaves_nothing_running(tmp_path: Path) -> None:
    program = python(IGNORE + DAEMON + "print('ready', flush=True)\ntime.sleep(600)")
    controller = start_controller(tmp_path, program)
    controller.wait_for_output(b"ready", 2)
    assert len(survivors(controller.run_id)) >= 4
    controller.process.kill()
    controller.end()
    assert eventually(lambda: survivors(controller.run_id) == [])


def agent_pid(folder: RunFolder) -> int:
    return int(folder.read_json(folder.handle)["job_id"].partition(":")[0])


def kill_agent(folder: RunFolder, *, whom: str) -> None:
    guardian = agent_pid(folder)
    if whom == "guardian":
        os.kill(guardian, signal.SIGKILL)
    else:
        (worker,) = [p for p in descendants(guardian) if p.parent == guardian]
        os.kill(worker.pid, signal.SIGKILL)


@pytest.mark.parametrize("whom", ["guardian", "worker"])
def test_a_killed_agent_takes_its_ranks_along(tmp_path: Path, whom: str) -> None:
    folder = RunFolder(tmp_path / "run")
    when = WhenSaid(b"ready", lambda: kill_agent(folder, whom=whom), count=2)
    program = python(DAEMON + "print('ready', flush=True)\ntime.sleep(600)")
    run = run_local(tmp_path / "run", ("sh", "-c", '"$@"; true', "sh", *program), observers=[when])
    assert run.result.exit_code == 3
    assert run.causes[0] == "agent-lost"
    assert {outcome.end for outcome in run.result.outcomes} == {End.STOPPED}
    assert run.folder.read_json(run.folder.summary)["exit_code"] == 3


def test_a_silent_agent_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankrun.jobs.launchers.local.SILENCE_S", 1.0)
    folder = RunFolder(tmp_path / "run")

    def freeze() -> None:
        for process in descendants(agent_pid(folder)):
            if process.parent == agent_pid(folder):
                os.kill(process.pid, signal.SIGSTOP)

    run = run_local(
        tmp_path / "run", READY_AND_WAIT, observers=[WhenSaid(b"ready", freeze, count=2)]
    )
    assert run.result.exit_code == 3
    assert "has said nothing" in run.finding("agent-lost").message


def test_another_shell_watches_and_cancels_a_run(tmp_path: Path) -> None:
    process = start_controller(tmp_path, READY_AND_WAIT)
    process.wait_for_output(b"ready", 2)
    run = load_run(process.folder.path)
    assert run.state is RunState.RUNNING
    assert run.controller is not None
    stale = replace(run.controller, start_ticks=run.controller.start_ticks + 1)
    assert stale.alive is False
    stale.cancel()
    assert run.state is RunState.RUNNING
    run.controller.cancel()
    code, _, err = process.end()
    assert code == 143
    assert "SIGTERM" in err
    assert load_run(process.folder.path).state is RunState.ENDED
    assert survivors(process.run_id) == []


def test_a_run_that_is_led_from_elsewhere_is_cancelled_there() -> None:
    elsewhere = Controller(host="elsewhere", pid=1, start_ticks=1)
    assert elsewhere.alive is None
    with pytest.raises(RankrunError, match="led from elsewhere"):
        elsewhere.cancel()


def test_the_deadline_names_who_still_runs(tmp_path: Path) -> None:
    program = python("import os, time\nif os.environ['RANK'] != '1': time.sleep(600)")
    run = run_local(tmp_path / "run", program, ranks=3, limits=Limits(deadline_s=3))
    assert run.result.exit_code == 124
    assert run.causes == ["deadline-exceeded"]
    assert "ranks 0,2 of 3 still running" in run.result.findings[0].message
    assert run.result.first_failure is None
    ends = [outcome.end for outcome in run.result.outcomes]
    assert ends == [End.STOPPED, End.COMPLETED, End.STOPPED]
    for rank in (0, 2):
        assert "Fatal Python error: Aborted" in run.err(rank).decode()
        assert 'File "<string>", line 2' in run.err(rank).decode()
        assert "the kernel says" in run.folder.stacks(rank).read_text()


def test_the_python_below_a_shell_gives_its_stacks(tmp_path: Path) -> None:
    command = ("sh", "-c", '"$@"; true', "sh", *python("import time; time.sleep(600)"))
    run = run_local(tmp_path / "run", command, ranks=1, limits=Limits(deadline_s=3))
    assert run.result.exit_code == 124
    assert "line 1 in <module>" in run.err().decode()
    assert "python" in run.folder.stacks(0).read_text()


CHANNEL = """
import sys
sys.path.append({source!r})
from rankrun.jobs.agent.channel import RankChannel
channel = RankChannel()
def wait_for_peer():
    import time
    time.sleep(600)
channel.begin_step(4)
channel.begin_call()
print('ready', flush=True)
wait_for_peer()
"""


def test_a_rank_with_a_channel_gives_its_stacks_and_lives_on(tmp_path: Path) -> None:
    source = str(Path(__file__).parents[2] / "src")
    program = python(CHANNEL.format(source=source))
    run = run_local(tmp_path / "run", program, ranks=2, limits=Limits(deadline_s=3))
    assert run.result.exit_code == 124
    for rank in (0, 1):
        assert "in wait_for_peer" in run.folder.stacks(rank).read_text()
        assert run.err(rank) == b""
        assert run.result.outcomes[rank].code == -signal.SIGTERM
    (first, _) = run.finding("deadline-exceeded").evidence
    assert "in wait_for_peer" in first.text
    assert first.file == "ranks/0.stacks.txt"
    assert first.line is not None


@pytest.mark.parametrize("with_channel", [True, False])
def test_a_suspended_rank_is_seen_as_such(tmp_path: Path, with_channel: bool) -> None:
    source = str(Path(__file__).parents[2] / "src")
    channel = CHANNEL.format(source=source).replace("wait_for_peer()\n", "") if with_channel else ""
    stop = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"
    run = run_local(
        tmp_path / "run", python(channel + stop), ranks=1, limits=Limits(deadline_s=3, grace_s=0.5)
    )
    assert run.result.exit_code == 124
    assert "T (stopped)" in run.folder.stacks(0).read_text()
    assert "T (stopped)" in run.finding("deadline-exceeded").evidence[0].text


def test_a_lease_is_prolonged_while_the_controller_lives(tmp_path: Path) -> None:
    program = python("import time; time.sleep(2)")
    limits = Limits(deadline_s=60, lease_s=1.0)
    assert run_local(tmp_path / "run", program, limits=limits).result.exit_code == 0


@pytest.mark.parametrize(
    ("interpreter", "message"),
    [("/bin/false", "ended early with code 1"), ("/no/such/python", "No such file")],
)
def test_an_agent_that_cannot_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interpreter: str, message: str
) -> None:
    program = python("pass")
    monkeypatch.setattr(sys, "executable", interpreter)
    run = run_local(tmp_path / "run", program)
    assert run.result.exit_code == 3
    assert run.causes == ["agent-lost"]
    assert message in run.result.findings[0].message
    assert {outcome.end for outcome in run.result.outcomes} == {End.NEVER_REPORTED}
