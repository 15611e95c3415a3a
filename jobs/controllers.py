"""The process that leads a run, as other shells see it: whether it lives, and how to end it.

Whatever launcher started the ranks, they end when their controller does: a run is watched and
cancelled through it. It is told from a later process of the same number by when it started.
"""

import os
import signal
import socket
from dataclasses import dataclass

from ..cluster.errors import RankrunError
from .agent.kernel import send
from .agent.processes import read_process
from .agent.traces import mark_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """A process on a host. `start_ticks` is field 22 of its /proc/PID/stat."""

    host: str
    pid: int
    start_ticks: int

    @classmethod
    def this_process(cls) -> "Controller":
        """The one that asks."""
        mark = mark_of(os.getpid())
        return cls(host=socket.gethostname(), pid=mark.pid, start_ticks=mark.start_ticks)

    @property
    def alive(self) -> bool | None:
        """None: it is on another host, and cannot be seen from here."""
        if self.host != socket.gethostname():
            return None
        found = read_process(self.pid)
        return (
            found is not None
            and found.start_ticks == self.start_ticks
            and found.state not in ("Z", "X")
        )

    def cancel(self) -> None:
        """Have it end its run in order; nothing if it is gone already.

        Raises:
            RankrunError: if it is on another host or another user's.
        """
        alive = self.alive
        if alive is None:
            raise RankrunError(f"the run is led from {self.host}: cancel it there")
        if alive and not send(self.pid, signal.SIGTERM) and self.alive:
            raise RankrunError(f"the run's controller, pid {self.pid}, is another user's")
