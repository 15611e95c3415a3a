"""Bringing ranks to an end, and proving that nothing of them is left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable

from .kernel import send
from .processes import Process, descendants
from .rank import RankProcess

POLL_S = 0.05
# Helpers that follow their rank by themselves (multiprocessing's tracker) get this long.
_SETTLE_S = 0.25
_TERM_S = 0.5
# What survives SIGKILL this long hangs in the kernel and cannot be ended by anybody.
_GIVE_UP_S = 3.0
# A rank that is printing its stacks is not killed before.
_ABORT_S = 0.5

Report = Callable[[str, str], None]


class Stopping:
    """SIGTERM to every rank's group, then, after the grace, SIGKILL to everything."""

    def __init__(self) -> None:
        """Not asked for yet."""
        self._kill_at: float | None = None
        self._killed = False

    @property
    def requested(self) -> bool:
        """Whether the ranks were told to end."""
        return self._kill_at is not None

    @property
    def due_at(self) -> float | None:
        """When `tick` has work to do; None: nothing planned."""
        return None if self._killed else self._kill_at

    def begin(self, ranks: Iterable[RankProcess], *, grace_s: float, now: float) -> None:
        """Ask the living ranks to end. A later call can only shorten the grace."""
        kill_at = now + grace_s
        if self._kill_at is not None:
            self._kill_at = min(self._kill_at, kill_at)
            return
        self._kill_at = kill_at
        for rank in ranks:
            rank.told_to_end = True
            if rank.aborted:
                self._kill_at = max(self._kill_at, now + _ABORT_S)
            elif grace_s > 0:
                send(rank.pid, signal.SIGTERM, group=True)
                send(rank.pid, signal.SIGCONT, group=True)  # a stopped rank could not obey

    def tick(self, ranks: Iterable[RankProcess], now: float) -> None:
        """Kill, once the grace is over."""
        if self._kill_at is None or self._killed or now < self._kill_at:
            return
        self._killed = True
        for rank in ranks:
            send(rank.pid, signal.SIGKILL, group=True)
        for process in descendants(os.getpid()):
            send(process.pid, signal.SIGKILL)


class Leftovers:
    """Ends what outlives the ranks.

    As the agent inherits every orphan of its ranks, having no child left proves that nothing
    of the run is left.
    """

    def __init__(self, report: Report) -> None:
        """`report` gets (what, detail) for each process that had to be ended."""
        self._report = report
        self._since: float | None = None
        self._told: set[int] = set()

    def tick(self, now: float, *, at_once: bool) -> bool:
        """One step, every POLL_S while children are left; False: give up."""
        if self._since is None:
            self._since = now - (_SETTLE_S + _TERM_S if at_once else 0.0)
        waited = now - self._since
        if waited < _SETTLE_S:
            return True
        remaining = descendants(os.getpid())
        if waited > _SETTLE_S + _TERM_S + _GIVE_UP_S:
            for process in remaining:
                self._report("cannot-be-ended", _name(process))
            return False
        number = signal.SIGTERM if waited < _SETTLE_S + _TERM_S else signal.SIGKILL
        for process in remaining:
            self._end(process, number)
        return True

    def _end(self, process: Process, number: int) -> None:
        first = process.pid not in self._told
        if first:
            self._told.add(process.pid)
            self._report("leftover-ended", _name(process))
        if first or number == signal.SIGKILL:
            send(process.pid, number)


def _name(process: Process) -> str:
    return f"pid {process.pid} ({process.name})"


def end_everything_below(root: int) -> None:
    """SIGKILL to all descendants of `root` until none lives; for when the agent cannot do it."""
    until = time.monotonic() + _GIVE_UP_S
    while time.monotonic() < until:
        remaining = descendants(root)
        if not remaining:
            return
        for process in remaining:
            send(process.pid, signal.SIGKILL)
        time.sleep(0.01)
