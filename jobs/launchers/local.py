"""Ranks on this machine: the agent is a child process in its own session."""

import os
import subprocess
import sys
from pathlib import Path

from ...cluster.errors import LaunchError
from ...cluster.hosts import Host, HostEntry
from ...cluster.targets import Target
from ..agent import messages
from ..agent.ending import end_everything_below
from ..agent.kernel import signal_name
from ..plan import LaunchPlan, ResolvedTarget
from ..run_folder import RunFolder
from . import JobHandle
from .agent_connection import READ_BYTES, AgentConnection
from .agent_job import AgentJob
from .agent_link import start

# An agent says something twice a second; one silent for so long is stopped or hangs.
SILENCE_S = 30.0

_LEAVE_S = 5.0
# Isolated (-I) and without site (-S): nothing in the user's folder or environment can stand in
# for the standard library, and the start is faster. The last argument is for `ps`.
_BOOTSTRAP = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from rankrun.jobs.agent.__main__ import main; sys.exit(main())"
)


class LocalLauncher:
    """Starts plans whose ranks all run here."""

    def resolve(self, target: Target) -> ResolvedTarget:
        """Nothing is open: this host was asked when the target was read."""
        return ResolvedTarget(
            text=target.text,
            launcher=target.launcher,
            hosts=tuple(_this_host(entry) for entry in target.hosts),
        )

    def submit(self, plan: LaunchPlan) -> AgentJob:
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
        wire = PipeWire(agent, log=log)
        connection = AgentConnection(wire, host=hosts[0].name, silence_s=SILENCE_S)
        connection.tell(messages.Hello(messages.PROTOCOL))
        connection.tell(messages.Reserve(None, ""))
        connection.put(start(plan, group_rank=0))
        handle = JobHandle(launcher="local", job_id=str(agent.pid))
        return AgentJob(handle, [connection], lease_s=plan.limits.lease_s)

    def close(self) -> None:
        """Nothing is kept."""


def _this_host(entry: HostEntry) -> Host:
    assert entry.slots is not None
    assert entry.address is not None
    return Host(
        name=entry.name,
        address=entry.address,
        slots=entry.slots,
        interface=entry.interface,
    )


class PipeWire:
    """The pipes of an agent that is our child."""

    def __init__(self, agent: subprocess.Popen[bytes], *, log: Path) -> None:
        """`log` is where its standard error goes."""
        assert agent.stdin is not None
        assert agent.stdout is not None
        self._agent = agent
        self._log = log
        self._input = agent.stdin.fileno()
        self._output = agent.stdout.fileno()
        os.set_blocking(self._input, False)
        os.set_blocking(self._output, False)

    def fileno(self) -> int:
        """The agent's output."""
        return self._output

    def read(self) -> bytes | None:
        """What came in; None: nothing now; empty: the agent closed its side."""
        try:
            return os.read(self._output, READ_BYTES)
        except BlockingIOError:
            return None

    def write(self, data: memoryview) -> int:
        """How much the pipe takes now."""
        try:
            return os.write(self._input, data)
        except BlockingIOError:
            return 0

    def how_it_ended(self) -> str | None:
        """None if it left in order."""
        try:
            code = self._agent.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            code = None
        if code == 0:
            return None
        said = _last_line(self._log)
        return f"{_how_it_ended(code)}{f'; its last words: {said}' if said else ''}"

    def close(self) -> None:
        """End the agent and all below it, if they are still there."""
        if self._agent.poll() is None:
            end_everything_below(self._agent.pid)
            self._agent.kill()
        self._agent.wait()
        for pipe in (self._agent.stdin, self._agent.stdout):
            assert pipe is not None
            pipe.close()


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
