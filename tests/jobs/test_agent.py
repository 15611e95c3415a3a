"""The agent's own behaviour, spoken to over its pipes."""

import signal
import socket
import sys
from pathlib import Path

import pytest

from rankrun.jobs.agent.frames import STDOUT, Chunk
from rankrun.jobs.agent.kernel import reserve_port
from rankrun.jobs.agent.loop import FAILED_ALONE
from rankrun.jobs.agent.messages import (
    PROTOCOL,
    Beat,
    Counters,
    Exited,
    Finished,
    Go,
    Hello,
    Message,
    Note,
    Port,
    StacksTaken,
    Started,
    Stop,
    TakeStacks,
    Welcome,
)
from rankrun.jobs.agent.processes import read_process
from rankrun.jobs.run_folder import new_run_id

from .agent_session import AgentSession, find_python_39
from .running import PATIENCE_S, SOURCE, eventually, python

WAIT = python("print('ready', flush=True); import time; time.sleep(600)")
STUBBORN = python(
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print('ready', flush=True); time.sleep(600)"
)


def session(**options: str) -> AgentSession:
    return AgentSession(new_run_id("test"), **options)


def is_ready(chunk: Chunk) -> bool:
    return b"ready" in chunk.data


def notes(heard: list[Message | Chunk], what: str) -> list[str]:
    return [thing.detail for thing in heard if isinstance(thing, Note) and thing.what == what]


def exits(heard: list[Message | Chunk]) -> list[tuple[int, bool]]:
    return [(e.code, e.stopped_by_us) for e in heard if isinstance(e, Exited)]


def python_39() -> str:
    found = find_python_39()
    return found or pytest.skip("no Python 3.9 here")


@pytest.mark.parametrize("version", ["this", "3.9"])
def test_a_whole_session(version: str) -> None:
    interpreter = sys.executable if version == "this" else python_39()
    command = python(
        "import os; print(os.environ['RANK'], os.environ['MASTER_PORT'], flush=True); os._exit(3)"
    )
    with session(interpreter=interpreter) as agent:
        agent.launch(command, ranks=2)
        heard = agent.hear_out()
        port = agent.hear(Port).port
        assert agent.hear(Welcome).protocol == PROTOCOL
    said = {chunk.rank: chunk.data for chunk in heard if isinstance(chunk, Chunk)}
    assert said == {rank: f"{rank} {port}\n".encode() for rank in (0, 1)}
    assert exits(heard) == [(3, False), (3, False)]


@pytest.mark.parametrize("version", ["this", "3.9"])
def test_stacks_and_stop(version: str) -> None:
    interpreter = sys.executable if version == "this" else python_39()
    with session(interpreter=interpreter) as agent:
        agent.launch(WAIT)
        agent.hear(Chunk, is_ready)
        agent.say(TakeStacks(abort=False))
        assert "the kernel says" in agent.hear(StacksTaken).text
        agent.say(Stop("enough", 30.0))
        heard = agent.hear_out()
    assert exits(heard) == [(-signal.SIGTERM, True)]
    assert notes(heard, "stopping") == ["enough"]


def test_nothing_starts_before_the_word() -> None:
    with session() as agent:
        agent.prepare(("true",))
        agent.hear(Counters)
        assert not any(isinstance(thing, Started) for thing in agent.heard)
        agent.say(Go({}))
        agent.hear(Started)


def test_a_lost_controller_ends_everything_at_once() -> None:
    with session() as agent:
        agent.launch(STUBBORN, ranks=2)
        for rank in (0, 1):
            agent.hear(Chunk, lambda c, rank=rank: c.rank == rank)  # type: ignore[misc]
        agent.hang_up()
        assert exits(agent.hear_out()) == [(-signal.SIGKILL, True)] * 2


def test_the_lease_runs_out() -> None:
    with session() as agent:
        agent.launch(STUBBORN, lease_s=0.5)
        heard = agent.hear_out()
    assert "no word from the controller" in notes(heard, "stopping")[0]
    assert exits(heard) == [(-signal.SIGKILL, True)]


def test_beats_prolong_the_lease() -> None:
    with session() as agent:
        agent.launch(WAIT, lease_s=3.0)
        agent.hear(Chunk, is_ready)
        for _ in range(8):  # Counters come twice a second: this takes longer than the lease
            agent.say(Beat())
            agent.heard.clear()
            agent.hear(Counters)
        agent.say(Stop("enough", 30.0))
        assert notes(agent.hear_out(), "stopping") == ["enough"]


@pytest.mark.parametrize("noise", [b"SSH-2.0-OpenSSH_9.2\r\n", b"\0\0\0\2\1{}"])
def test_noise_from_the_controller_ends_everything(noise: bytes) -> None:
    with session() as agent:
        agent.launch(WAIT)
        agent.hear(Started)
        agent.say_raw(noise)
        assert "not a" in notes(agent.hear_out(), "stopping")[0]


def test_another_protocol_is_refused() -> None:
    with session() as agent:
        agent.say(Hello(PROTOCOL + 1))
        assert str(PROTOCOL + 1) in notes(agent.hear_out(), "stopping")[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_agent_ends_its_ranks(number: signal.Signals) -> None:
    with session() as agent:
        agent.launch(WAIT)
        agent.hear(Chunk, is_ready)
        agent.process.send_signal(number)
        heard = agent.hear_out()
    assert number.name in notes(heard, "cancelled")[0]
    assert exits(heard) == [(-signal.SIGTERM, True)]


def test_a_later_stop_can_shorten_the_grace() -> None:
    with session() as agent:
        agent.launch(STUBBORN)
        agent.hear(Chunk, is_ready)
        agent.say(Stop("later", 3600.0), Stop("now", 0.0), Stop("later again", 3600.0))
        assert exits(agent.hear_out()) == [(-signal.SIGKILL, True)]


CHANNEL = f"""
import sys
sys.path.append({str(SOURCE)!r})
from rankrun.jobs.agent.channel import RankChannel
channel = RankChannel()
channel.begin_step(7)
channel.begin_call(); channel.begin_call(); channel.end_call()
channel.write_record('{{}}\\n')
sys.stdin.read()
import time; time.sleep(600)
"""


def test_counters_of_the_progress_page() -> None:
    with session() as agent:
        agent.launch(python(CHANNEL), ranks=2)
        row = agent.hear(Counters, lambda c: [tuple(r[1:4]) for r in c.ranks] == [(7, 2, 1)] * 2)
        assert all(unchanged_s >= 0 for *_, unchanged_s in row.ranks)
        agent.say(Stop("enough", 30.0))
        agent.hear_out()


def test_an_agent_that_is_not_read_holds_little_and_loses_nothing() -> None:
    flood = python("import os\nfor _ in range(1024): os.write(1, b'x' * 65536)")
    with session() as agent:
        agent.launch(flood)
        pid = agent.hear(Started).pid
        agent_pid = read_process(pid)
        assert agent_pid is not None

        def blocked() -> bool:
            """The rank no longer gets on."""
            place = Path(f"/proc/{pid}/wchan").read_text()
            return "pipe" in place

        assert eventually(blocked)
        status = Path(f"/proc/{agent_pid.parent}/status").read_text()
        peak_kib = int(status.split("VmHWM:")[1].split()[0])
        assert peak_kib < 64 * 1024
        heard = agent.hear_out()
    written = sum(len(c.data) for c in heard if isinstance(c, Chunk) and c.stream == STDOUT)
    assert written == 1024 * 65536


def test_the_port_is_kept_for_rank_0() -> None:
    with session() as agent:
        agent.launch(WAIT)
        agent.hear(Chunk, is_ready)
        port = agent.hear(Port).port
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0")):
            with socket.socket(family) as rank_0:
                rank_0.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                rank_0.bind((address, port))
                rank_0.listen()
                socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S).close()
        agent.say(Stop("enough", 30.0))
        agent.hear_out()
        with socket.socket() as anybody:
            anybody.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            anybody.bind(("127.0.0.1", port))


def test_reserved_ports_differ() -> None:
    held = [reserve_port() for _ in range(50)]
    try:
        assert len({bound.getsockname()[1] for bound in held}) == 50
    finally:
        for bound in held:
            bound.close()


def test_an_agent_that_was_told_nothing_leaves_in_order() -> None:
    with session() as agent:
        agent.hang_up()
        agent.hear_out()
    assert agent.process.returncode == 0


@pytest.mark.parametrize("others", ["time.sleep(600)", "pass"])
def test_a_failure_that_no_controller_answers_ends_the_other_ranks(others: str) -> None:
    program = f"import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(3)\n{others}"
    with AgentSession(new_run_id("test")) as agent:
        agent.launch([sys.executable, "-c", program], ranks=2, alone_s=0.2)
        while agent.listen():
            pass
        assert isinstance(agent.heard[-1], Finished)
        assert agent.process.wait(60) == FAILED_ALONE
        assert "no controller" in agent.hear(Note, lambda note: note.what == "stopping").detail


def test_a_failure_that_the_controller_answers_is_its_affair() -> None:
    with AgentSession(new_run_id("test")) as agent:
        agent.launch([sys.executable, "-c", "raise SystemExit(3)"], alone_s=60)
        agent.hear(Exited)
        agent.say(Stop("rank 0 failed", 0.0))
        agent.hear_out()
