"""A run by its agents, one per host, however they were started."""

import selectors
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from ..agent import messages
from ..events import Event
from . import JobHandle
from .agent_connection import AgentConnection
from .agent_link import go

# How soon words that did not fit are tried again: a channel does not say when it can be written.
_RETRY_S = 0.01
_LOOK_S = 1.0

Condition: TypeAlias = Callable[[AgentConnection], bool]


class AgentJob:
    """All agents of a run; the first is the master's, which holds MASTER_PORT."""

    def __init__(
        self,
        handle: JobHandle,
        connections: Sequence[AgentConnection],
        *,
        lease_s: float | None,
        so_far: Sequence[Event] = (),
    ) -> None:
        """The agents were told what to start. `so_far` are events that already came in."""
        self.handle = handle
        self._connections = connections
        self._so_far = list(so_far)
        self._told_to_go = False
        self._look_at = 0.0
        self._selector = selectors.DefaultSelector()
        self._descriptors = {each: each.wire.fileno() for each in connections}
        for connection, descriptor in self._descriptors.items():
            self._selector.register(descriptor, selectors.EVENT_READ, connection)
        self._heart = Heart(connections, every_s=lease_s / 4) if lease_s is not None else None

    @property
    def ended(self) -> bool:
        """Whether no further event can come."""
        return not self._so_far and all(each.over for each in self._connections)

    def events(self, timeout_s: float) -> Iterator[Event]:
        """What came in; waits at most `timeout_s` for the first of it."""
        so_far, self._so_far = self._so_far, []
        yield from so_far
        self._go_when_ready()
        unsent = [each for each in self._connections if not each.over and each.has_more_to_send]
        for connection in unsent:
            connection.flush()
        if so_far:
            return
        ready = self._selector.select(min(timeout_s, _RETRY_S) if unsent else timeout_s)
        for connection in self._all_once_a_second() or [key.data for key, _ in ready]:
            yield from self._receive(connection)

    def request_stacks(self, *, abort: bool) -> None:
        """Ask every living rank for its stacks."""
        self._tell(messages.TakeStacks(abort))

    def stop(self, reason: str, *, grace_s: float) -> None:
        """Ask every rank to end; kill after the grace."""
        self._tell(messages.Stop(reason, grace_s))

    def close(self) -> None:
        """End every agent and all below it, if they are still there."""
        if self._heart is not None:
            self._heart.stop()
        for connection in list(self._descriptors):
            self._forget(connection)
            connection.close()
        self._selector.close()

    def _all_once_a_second(self) -> Sequence[AgentConnection]:
        """All of them when it is time to notice who is silent."""
        now = time.monotonic()
        if now < self._look_at:
            return ()
        self._look_at = now + _LOOK_S
        return self._connections

    def _receive(self, connection: AgentConnection) -> Iterator[Event]:
        if connection not in self._descriptors:
            return
        yield from connection.receive()
        self._go_when_ready()
        if connection.over:
            self._forget(connection)

    def _forget(self, connection: AgentConnection) -> None:
        """Wait no more for an agent that is gone or about to be."""
        self._selector.unregister(self._descriptors.pop(connection))

    def _go_when_ready(self) -> None:
        """The ranks start when the port is known that they will meet at."""
        port = self._connections[0].link.port
        if port is None or self._told_to_go:
            return
        self._told_to_go = True
        for connection in self._connections:
            connection.put(go(port))

    def _tell(self, message: messages.Message) -> None:
        for connection in self._connections:
            if not connection.over:
                connection.tell(message)


class Heart:
    """Prolongs the leases by a thread of its own, so that a slow disk or terminal ends no run."""

    def __init__(self, connections: Sequence[AgentConnection], *, every_s: float) -> None:
        """Begin to beat."""
        self._stopped = threading.Event()
        self._connections = connections
        self._every_s = every_s
        self._thread = threading.Thread(target=self._beat, name="rankrun-heart", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Beat no more."""
        self._stopped.set()
        self._thread.join()

    def _beat(self) -> None:
        beat = messages.encode(messages.Beat())
        while not self._stopped.wait(self._every_s):
            for connection in self._connections:
                # What waits says that we live as well, once it gets through.
                if not connection.over and not connection.has_more_to_send:
                    connection.put(beat)


def wait_for_all(
    connections: Sequence[AgentConnection], *, done: Condition, timeout_s: float
) -> list[Event]:
    """Listen until every agent has said what is awaited, or is lost; what was heard meanwhile."""
    until = time.monotonic() + timeout_s
    heard: list[Event] = []
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection.wire, selectors.EVENT_READ, connection)
        while waiting := [each for each in connections if not each.over and not done(each)]:
            if time.monotonic() > until:
                break
            for connection in waiting:
                connection.flush()
            unsent = any(each.has_more_to_send for each in waiting)
            for key, _ in selector.select(_RETRY_S if unsent else 0.1):
                connection = key.data
                descriptor = key.fd
                heard.extend(connection.receive())
                if connection.over:
                    selector.unregister(descriptor)
    return heard
