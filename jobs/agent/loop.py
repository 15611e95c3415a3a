"""The agent's work: what its controller asks for, what its ranks do, and what time brings."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from . import ending, facts, stacks
from .ending import Leftovers, Stopping
from .kernel import become_subreaper, load_prctl, raise_file_limit, reserve_port, signal_name
from .messages import (
    PROTOCOL,
    Counters,
    Dial,
    Dialled,
    Exited,
    Finished,
    Go,
    Hello,
    Message,
    Note,
    NotStarted,
    Ping,
    Pong,
    Port,
    PortRefused,
    Reserve,
    StacksTaken,
    Start,
    Started,
    Stop,
    TakeStacks,
    Welcome,
    portable,
)
from .processes import count_oom_kills
from .rank import CannotStartError, RankProcess, Surroundings
from .reach import PortHolder, dial
from .traces import Trace, end_earlier_runs, mark_of
from .wires import Wires

_COUNTERS_S = 0.5
# The exit code of an agent that had to end its ranks because one failed and nobody was there.
FAILED_ALONE = 75
# How long an agent that was not yet told what to start waits for another word.
_IDLE_S = 60.0


class Agent:
    """One run on one host, from Hello to Finished."""

    def __init__(self, wires: Wires, *, bundle_fd: int | None = None) -> None:
        """Become the one who inherits all orphans; nothing is started yet."""
        self._wires = wires
        self._bundle_fd = bundle_fd
        self._guardian = os.getppid()
        self._prctl = load_prctl()
        self._is_subreaper = become_subreaper(self._prctl)
        self._file_limit = raise_file_limit()
        self._ranks: dict[int, RankProcess] = {}
        self._start: Start | None = None
        self._port: PortHolder | None = None
        self._lease_s: float | None = _IDLE_S
        self._trace: Trace | None = None
        self._launched = False
        self._childless = True
        self._finished = False
        self._alone_at: float | None = None
        self._failed_alone = False
        self._stopping = Stopping()
        self._leftovers = Leftovers(self._note)
        self._stacks = stacks.StacksTaker()
        self._duties: dict[type[Message], Callable[[Any], None]] = {
            Hello: self._on_hello,
            Ping: self._on_ping,
            Reserve: self._on_reserve,
            Dial: self._on_dial,
            Start: self._on_start,
            Go: self._on_go,
            TakeStacks: self._on_take_stacks,
            Stop: self._on_stop,
        }
        self._counters_at = time.monotonic() + _COUNTERS_S
        # As it was two looks ago: a kill is counted a little before its process can be waited for.
        self._oom_kills = (count_oom_kills(),) * 2

    def run(self) -> int:
        """Serve until nothing of the run is left; the process's exit code."""
        while not self._finished:
            commands, signals = self._wires.wait(self._timeout_s())
            for command in commands:
                self._obey(command)
            if signals:
                self._on_signals(signals)
            self._on_time(time.monotonic())
        self._wires.flush()
        return FAILED_ALONE if self._failed_alone else 0

    def _timeout_s(self) -> float:
        now = time.monotonic()
        due = [self._counters_at]
        if self._stopping.due_at is not None:
            due.append(self._stopping.due_at)
        if self._stacks.waiting:
            due.append(now + stacks.POLL_S)
        if self._launched and not any(self._living()):
            due.append(now + ending.POLL_S)
        return max(0.0, min(due) - now)

    # What the controller asks for

    def _obey(self, command: Message) -> None:
        duty = self._duties.get(type(command))
        if duty is not None:
            duty(command)

    def _on_hello(self, hello: Hello) -> None:
        if hello.protocol != PROTOCOL:
            self._end_all(f"the controller speaks protocol {hello.protocol}, this is {PROTOCOL}")
        self._wires.tell(_welcome())
        for process in end_earlier_runs():
            self._note("earlier-run-ended", process)
        if not self._is_subreaper:
            self._note("limited", "no prctl: processes that detach themselves may be left over")

    def _on_ping(self, ping: Ping) -> None:
        self._wires.tell(Pong(time.time(), ping.sent_s))

    def _on_reserve(self, reserve: Reserve) -> None:
        try:
            held = reserve_port(reserve.port or 0)
            self._port = PortHolder(held.getsockname()[1], held)
            if reserve.answer:
                self._wires.serve(self._port.listen(reserve.answer), self._port.answer_callers)
        except OSError as error:
            self._wires.tell(PortRefused(time.time(), error.strerror or str(error)))
            return
        self._wires.tell(Port(time.time(), self._port.port))

    def _on_dial(self, request: Dial) -> None:
        attempts = dial(request.addresses, request.port, request.answer, request.timeout_s)
        self._wires.tell(Dialled(time.time(), [(*attempt,) for attempt in attempts]))

    def _on_start(self, start: Start) -> None:
        self._start = start
        self._lease_s = start.lease_s

    def _on_go(self, go: Go) -> None:
        start = self._start
        if start is None or self._launched or self._stopping.requested:
            return
        self._launched = True
        around = Surroundings(
            start.argv,
            start.workdir,
            {**_own_environment(start), **start.environment, **go.environment},
            self._prctl,
            self._file_limit,
            self._bundle_fd if start.with_rankrun else None,
        )
        if self._port is not None:
            self._wires.stop_serving()
            self._port.stop_listening()
        for number, environment in start.ranks:
            self._launch(number, environment, around)
        self._trace = Trace(start.run_id, [mark_of(self._guardian), mark_of(os.getpid())])
        self._trace.write([mark_of(pid) for pid in self._ranks])

    def _launch(self, number: int, environment: dict[str, str], around: Surroundings) -> None:
        try:
            rank = RankProcess(number, environment, around=around, now=time.monotonic())
        except CannotStartError as error:
            self._wires.tell(NotStarted(time.time(), number, error.code, error.message))
            return
        self._ranks[rank.pid] = rank
        self._childless = False
        self._wires.follow(rank)
        self._wires.tell(Started(time.time(), number, rank.pid))

    def _on_take_stacks(self, request: TakeStacks) -> None:
        now = time.monotonic()
        for rank in self._living():
            text = self._stacks.ask(rank, abort=request.abort, now=now)
            if text is not None:
                self._wires.tell(StacksTaken(time.time(), rank.rank, text))

    def _on_stop(self, stop: Stop) -> None:
        if not self._stopping.requested:
            self._note("stopping", stop.reason)
        self._launched = True
        self._stopping.begin(self._living(), grace_s=stop.grace_s, now=time.monotonic())

    # What ranks and the system do

    def _on_signals(self, signals: set[int]) -> None:
        for number in signals - {signal.SIGCHLD}:
            reason = f"the agent received {signal_name(number)}"
            if os.getppid() != self._guardian:  # its death is what this signal tells
                self._note("agent-lost", "its guardian was killed")
            else:
                self._note("cancelled", reason)
            self._on_stop(Stop(reason, self._start.grace_s if self._start else 0.0))
        if signal.SIGCHLD in signals:
            self._reap()

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._childless = True
                return
            if pid == 0:
                return
            rank = self._ranks.get(pid)
            if rank is not None:
                self._on_exit(rank, os.waitstatus_to_exitcode(status))

    def _on_exit(self, rank: RankProcess, code: int) -> None:
        rank.exit_code = rank.process.returncode = code
        self._wires.drain(rank)
        was_killed = code == -signal.SIGKILL and not rank.told_to_end
        if was_killed and count_oom_kills() > self._oom_kills[0]:
            self._note(
                "out-of-memory", f"rank {rank.rank} died as the kernel's OOM killer was at work"
            )
        self._wires.tell(Exited(time.time(), rank.rank, code, rank.told_to_end))
        alone_s = self._start.alone_s if self._start is not None else None
        if code and not rank.told_to_end and alone_s is not None and self._alone_at is None:
            self._alone_at = time.monotonic() + alone_s

    # What time brings

    def _on_time(self, now: float) -> None:
        self._check_controller(now)
        self._stopping.tick(self._living(), now)
        for rank, text in self._stacks.collect(now) if self._stacks.waiting else ():
            self._wires.tell(StacksTaken(time.time(), rank.rank, text))
        if now >= self._counters_at:
            self._counters_at = now + _COUNTERS_S
            self._oom_kills = (self._oom_kills[1], count_oom_kills())
            self._tell_counters(now)
        if self._launched and not self._waits_for_word and not any(self._living()):
            self._finish(now)

    def _check_controller(self, now: float) -> None:
        if self._wires.lost is not None:
            self._end_all(self._wires.lost)
        elif self._lease_s is not None and now - self._wires.heard_at > self._lease_s:
            self._end_all(f"no word from the controller for {self._lease_s:g} s")
        elif self._waits_for_word and now > (self._alone_at or now):
            self._failed_alone = True
            self._end_all("a rank failed, and no controller said what to do")

    @property
    def _waits_for_word(self) -> bool:
        """Whether a rank failed and the controller has yet to say what to do."""
        return self._alone_at is not None and not self._stopping.requested

    def _end_all(self, reason: str) -> None:
        self._on_stop(Stop(reason, 0.0))

    def _tell_counters(self, now: float) -> None:
        rows = []
        for rank in self._living():
            counts, unchanged_s = rank.read_counts(now)
            rows.append((rank.rank, *counts[:3], round(unchanged_s, 3)))
        self._wires.tell(Counters(time.time(), rows))

    def _finish(self, now: float) -> None:
        at_once = self._stopping.requested and self._stopping.due_at is None
        if not self._childless and self._leftovers.tick(now, at_once=at_once):
            return
        for rank in self._ranks.values():
            self._wires.drain(rank)
        if self._port is not None:
            self._port.close()
        if self._trace is not None:
            self._trace.remove()
        self._wires.tell(Finished(time.time()))
        self._finished = True

    def _living(self) -> Iterator[RankProcess]:
        return (rank for rank in self._ranks.values() if rank.alive)

    def _note(self, what: str, detail: str) -> None:
        self._wires.tell(Note(time.time(), what, detail))


def _welcome() -> Welcome:
    return Welcome(
        time_s=time.time(),
        protocol=PROTOCOL,
        pid=os.getpid(),
        python=sys.version.split()[0],
        executable=sys.executable,
        host_name=socket.gethostname(),
        num_gpus=facts.count_gpus(),
        addresses=facts.list_addresses(),
    )


def _own_environment(start: Start) -> dict[str, str]:
    """What the host's login gave the agent, if the ranks begin with it."""
    if not start.own_environment:
        return {}
    return {portable(name): portable(value) for name, value in os.environb.items()}
