"""One connection to each jump host, shared by all hosts behind it."""

import threading
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

from ..errors import ConnectError
from .deadline import Deadline


class Carrier(Protocol):
    """A connection that others go through."""

    def close(self) -> None:
        """End it."""

    @property
    def alive(self) -> bool:
        """Whether it still works."""


C = TypeVar("C", bound=Carrier)


class Lease(Generic[C]):
    """The use of a carrier until `release`."""

    def __init__(self, carrier: C, release: Callable[[], None]) -> None:
        """`release` is called once."""
        self.carrier = carrier
        self._release: Callable[[], None] | None = release

    def release(self) -> None:
        """The carrier ends with its last lease."""
        release, self._release = self._release, None
        if release is not None:
            release()


class _Shared(Generic[C]):
    """A carrier, or why there is none; `own` keeps it while more hosts may need it."""

    def __init__(self) -> None:
        self.making = threading.Lock()
        self.carrier: C | None = None
        self.failure: ConnectError | None = None
        self.own: Lease[C] | None = None


class JumpHosts(Generic[C]):
    """Makes each carrier once, when it is first needed."""

    def __init__(self) -> None:
        """There is none yet."""
        self._lock = threading.Lock()
        self._shared: dict[Hashable, _Shared[C]] = {}
        self._users: dict[int, int] = {}

    def lease(
        self, key: Hashable, make: Callable[[], C], *, host: str, deadline: Deadline
    ) -> Lease[C]:
        """The carrier of this key, for `host`; the first who needs it makes it.

        Raises:
            ConnectError: if it cannot be made, the same for all, or not before the deadline.
        """
        with self._lock:
            shared = self._shared.setdefault(key, _Shared())
        if not shared.making.acquire(timeout=deadline.left_s):
            raise ConnectError(
                f"{host}: its jump host was not connected within {deadline.seconds:.0f} s"
            )
        try:
            if shared.carrier is None or not shared.carrier.alive:
                self._make(shared, make)
            if shared.failure is not None:
                raise ConnectError(f"{host}: its jump host: {shared.failure}")
            assert shared.carrier is not None
            return self._leased(shared.carrier)
        finally:
            shared.making.release()

    def close(self) -> None:
        """End the carriers that nobody uses; the others end with their last lease."""
        with self._lock:
            shared, self._shared = self._shared, {}
        for each in shared.values():
            if each.own is not None:
                each.own.release()

    def _make(self, shared: _Shared[C], make: Callable[[], C]) -> None:
        """A new carrier with no user but the pool; a broken one is left to those who have it."""
        if shared.failure is not None:
            return
        if shared.own is not None:
            shared.own.release()
        try:
            shared.carrier = make()
        except ConnectError as error:
            shared.failure = error
        else:
            shared.own = self._leased(shared.carrier)

    def _leased(self, carrier: C) -> Lease[C]:
        with self._lock:
            self._users[id(carrier)] = self._users.get(id(carrier), 0) + 1
        return Lease(carrier, lambda: self._give_back(carrier))

    def _give_back(self, carrier: C) -> None:
        with self._lock:
            left = self._users[id(carrier)] = self._users[id(carrier)] - 1
            if not left:
                del self._users[id(carrier)]
        if not left:
            carrier.close()
