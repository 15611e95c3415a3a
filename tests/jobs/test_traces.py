"""What a run leaves behind when nobody of it could clean up is found and ended by the next."""

import os
import signal
import sys
import uuid
from pathlib import Path

from rankrun.jobs.agent.kernel import send
from rankrun.jobs.agent.messages import PROTOCOL, Hello, Note, Started
from rankrun.jobs.agent.processes import read_process
from rankrun.jobs.agent.traces import Mark, Trace, end_earlier_runs, mark_of

from .agent_session import AgentSession
from .running import survivors

# A rank whose grandchild leaves its session, its group and its parent.
DETACHES = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("detached", flush=True)
        time.sleep(600)
    os._exit(0)
time.sleep(600)
"""


def new_run() -> str:
    return f"run-{uuid.uuid4().hex}"


def test_the_next_agent_ends_what_a_killed_one_left() -> None:
    run_id = new_run()
    killed = AgentSession(run_id)
    killed.launch([sys.executable, "-c", DETACHES])
    agent = read_process(killed.hear(Started).pid)
    assert agent is not None
    keeper = read_process(agent.parent)
    assert keeper is not None
    while len(survivors(run_id)) < 2:  # until the rank has detached its grandchild
        killed.listen()
    os.kill(killed.process.pid, signal.SIGSTOP)  # the guardian cannot act
    os.kill(agent.parent, signal.SIGKILL)
    killed.process.kill()
    killed.process.wait()
    assert survivors(run_id), "the test needs a leftover"

    with AgentSession(new_run()) as following:
        following.say(Hello(PROTOCOL))
        note = following.hear(Note, lambda note: note.what == "earlier-run-ended")
    assert run_id in note.detail
    assert survivors(run_id) == []
    for pipe in (killed.process.stdin, killed.process.stdout, killed.process.stderr):
        assert pipe is not None
        pipe.close()


def test_a_run_that_goes_on_is_left_alone(tmp_path: Path) -> None:
    run_id = new_run()
    with AgentSession(run_id) as living:
        living.launch([sys.executable, "-c", "import time; time.sleep(600)"])
        pid = living.hear(Started).pid
        assert not [line for line in end_earlier_runs() if run_id in line]
        assert send(pid, 0)


def test_another_process_with_the_same_number_is_left_alone() -> None:
    run_id = new_run()
    gone = Mark(2**22 - 1, 1)
    reused = mark_of(os.getpid())._replace(start_ticks=1)
    Trace(run_id, [gone]).write([reused])
    assert not [line for line in end_earlier_runs() if run_id in line]
