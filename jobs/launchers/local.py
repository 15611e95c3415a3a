"""Ranks on this machine: the agent is a child process in its own session."""

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from ...cluster.errors import LaunchError
from ..agent import messages
from ..agent.ending import end_everything_below
from ..agent.frames import ProtocolError
from ..agent.kernel import send, signal_name
from ..agent.outbox import Outbox
from ..agent.processes import read_process
from ..events import AGENT_LOST, Event, HostEvent
from ..plan import LaunchPlan
from ..run_folder import RunFolder
from . import JobHandle, JobState
from .agent_link import AgentLink, go, opening

# An agent says something twice a second; one silent for so long is stopped or hangs.
SILENCE_S = 30.0

_READ_BYTES = 1 << 20
_LEAVE_S = 5.0
# Isolated (-I) and without site (-S): nothing in the user's folder or environment can stand in
# for the standard library, and the start is faster. The last argument is for `ps`.
_BOOTSTRAP = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from rankrun.jobs.agent.__main__ import main; sys.exit(main())"
)


class LocalLauncher:
    """Starts plans whose ranks all run here."""

    def submit(self, plan: LaunchPlan) -> "LocalJob":
        """Start the agent and tell it what to start.

        Raises:
            LaunchError: if the agent cannot be started.
        """
        hosts = plan.placement.hosts
        if len(hosts) != 1:
            raise LaunchError(f"target {plan.target!r}: the local launcher serves one host only")
        log = RunFolder(plan.run_folder).agent_log(0)
        try:
            agent = _start_agent(plan.run_id, log)
        except OSError as error:
            raise LaunchError(f"cannot start the agent with {sys.executable}: {error}") from error
        job = LocalJob(agent, host=hosts[0].name, log=log, lease_s=plan.limits.lease_s)
        job.open(opening(plan, group_rank=0))
        return job

    def state(self, handle: JobHandle) -> JobState:
        """Whether the agent still runs."""
        return JobState.ENDED if _agent_pid(handle) is None else JobState.RUNNING

    def cancel(self, handle: JobHandle) -> None:
        """Ask the agent to end its ranks; nothing if it is gone."""
        pid = _agent_pid(handle)
        if pid is not None:
            send(pid, signal.SIGTERM)


class LocalJob:
    """A run whose agent is our child."""

    def __init__(
        self, agent: subprocess.Popen[bytes], *, host: str, log: Path, lease_s: float | None
    ) -> None:
        """Talk to an agent that was just started."""
        assert agent.stdin is not None
        assert agent.stdout is not None
        self.handle = JobHandle(launcher="local", job_id=_job_id(agent.pid))
        self.ended = False
        self._agent = agent
        self._host = host
        self._log = log
        self._link = AgentLink(host)
        self._input = agent.stdin.fileno()
        self._output = agent.stdout.fileno()
        self._outbox = Outbox(self._input)
        self._told_to_go = False
        self._heard_at = time.monotonic()
        self._beat_every_s = lease_s / 4 if lease_s is not None else None
        self._beat_at = self._heard_at
        os.set_blocking(self._output, False)

    def open(self, words: bytes) -> None:
        """Tell the agent what to start."""
        self._outbox.put(words)
        self._outbox.send()

    def events(self, timeout_s: float) -> Iterator[Event]:
        """What came in; waits at most `timeout_s` for the first of it."""
        self._beat()
        self._outbox.send()
        with selectors.PollSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            if self._outbox:
                selector.register(self._input, selectors.EVENT_WRITE)
            selector.select(timeout_s)
        try:
            data = os.read(self._output, _READ_BYTES)
        except BlockingIOError:
            yield from self._check_silence()
            return
        if data:
            self._heard_at = time.monotonic()
            yield from self._decode(data)
        else:
            yield from self._at_end()

    def request_stacks(self, *, abort: bool) -> None:
        """Ask every living rank for its stacks."""
        self._tell(messages.TakeStacks(abort))

    def stop(self, reason: str, *, grace_s: float) -> None:
        """Ask every rank to end; kill after the grace."""
        self._tell(messages.Stop(reason, grace_s))

    def close(self) -> None:
        """End the agent and all below it, if they are still there."""
        self.ended = True
        if self._agent.poll() is None:
            end_everything_below(self._agent.pid)
            self._agent.kill()
        self._agent.wait()
        for pipe in (self._agent.stdin, self._agent.stdout):
            assert pipe is not None
            pipe.close()

    def _beat(self) -> None:
        """Prolong the lease, if there is one."""
        now = time.monotonic()
        if self._beat_every_s is not None and now >= self._beat_at:
            self._beat_at = now + self._beat_every_s
            self._outbox.put(messages.encode(messages.Beat()))

    def _tell(self, message: messages.Message) -> None:
        self._outbox.put(messages.encode(message))
        self._outbox.send()

    def _decode(self, data: bytes) -> Iterator[Event]:
        try:
            for event in self._link.feed(data):
                if self._link.port is not None and not self._told_to_go:
                    self._told_to_go = True
                    self._outbox.put(go(self._link.port))
                    self._outbox.send()
                yield event
        except ProtocolError as error:
            yield self._lost(f"what it says is not understood: {error}")

    def _check_silence(self) -> Iterator[Event]:
        silent_s = time.monotonic() - self._heard_at
        if silent_s > SILENCE_S and not self.ended:
            yield self._lost(f"it has said nothing for {silent_s:.0f} s")

    def _at_end(self) -> Iterator[Event]:
        """The agent closed its side: orderly, or because it was killed."""
        try:
            code = self._agent.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            code = None
        if self._link.finished and code == 0:
            self.ended = True
        else:
            yield self._lost(_how_it_ended(code))

    def _lost(self, why: str) -> Event:
        self.close()
        said = _last_line(self._log)
        detail = f"{why}{f'; its last words: {said}' if said else ''}"
        return HostEvent(time_s=time.time(), host=self._host, what=AGENT_LOST, detail=detail)


def _start_agent(run_id: str, log: Path) -> subprocess.Popen[bytes]:
    top_package = sys.modules[__name__.partition(".")[0]]
    assert top_package.__file__ is not None
    root = Path(top_package.__file__).parent.parent
    with log.open("wb") as stderr:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _BOOTSTRAP, str(root), f"rankrun-agent:{run_id}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            bufsize=0,
            start_new_session=True,
        )


def _job_id(pid: int) -> str:
    process = read_process(pid)
    return f"{pid}:{process.start_ticks if process else 0}"


def _agent_pid(handle: JobHandle) -> int | None:
    """The agent's process id; None if it ended, even if another process has its number now."""
    pid = int(handle.job_id.partition(":")[0])
    process = read_process(pid)
    alive = process is not None and process.state not in "ZX"
    return pid if alive and _job_id(pid) == handle.job_id else None


def _how_it_ended(code: int | None) -> str:
    if code is None:
        return "it closed its end and hangs"
    if code < 0:
        return f"it was killed by {signal_name(-code)}"
    return f"it ended early with code {code}"


def _last_line(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 4096))
            lines = file.read().decode(errors="backslashreplace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
