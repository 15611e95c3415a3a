"""Not too many log-ins at a server at once, and another try for one that was busy.

sshd's MaxStartups (10:30:100 unless set) counts connections that are not logged in yet; from the
tenth on it drops some at random, before or within the first words.
"""

import random
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from ..errors import ConnectError
from .deadline import Deadline

LOGINS_AT_ONCE = 8

_FIRST_PAUSE_S = 0.4
_LONGEST_PAUSE_S = 6.0

T = TypeVar("T")


class Pacer:
    """Counts log-ins by server; waits between tries."""

    def __init__(self) -> None:
        """Nobody logs in yet."""
        self._lock = threading.Lock()
        self._slots: dict[Hashable, threading.BoundedSemaphore] = {}
        self.cancelled = threading.Event()

    @contextmanager
    def slot(self, server: Hashable, host: str, deadline: Deadline) -> Iterator[None]:
        """One of the log-ins that a server gets at once.

        Raises:
            ConnectError: if there is none before the deadline.
        """
        with self._lock:
            slots = self._slots.setdefault(server, threading.BoundedSemaphore(LOGINS_AT_ONCE))
        if not slots.acquire(timeout=deadline.left_s):
            raise ConnectError(
                f"{host}: no turn to log in within {deadline.seconds:.0f} s: other log-ins at the "
                "same server hang; try again with fewer hosts, or more time"
            )
        try:
            yield
        finally:
            slots.release()

    def retry(self, attempt: Callable[[], T], deadline: Deadline) -> T:
        """What `attempt` gives, tried again while its failure is transient and time is left.

        Raises:
            ConnectError: the last failure.
        """
        tries = 0
        while True:
            tries += 1
            try:
                return attempt()
            except ConnectError as error:
                longest = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (tries - 1))
                pause_s = random.uniform(longest / 2, longest)  # noqa: S311  # jitter, no secret
                if not error.transient or pause_s >= deadline.left_s:
                    raise _with_tries(error, tries, deadline) from error
            if self.cancelled.wait(pause_s):
                raise ConnectError("given up: the others were given up too")


def _with_tries(error: ConnectError, tries: int, deadline: Deadline) -> ConnectError:
    if tries == 1:
        return error
    return ConnectError(f"{error} (tried {tries} times in {deadline.seconds:.0f} s)")
