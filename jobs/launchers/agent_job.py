"""A run by its agents, one per host, however they were started."""

import selectors
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import TypeAlias

from ..agent import messages
from ..events import Event
from . import JobHandle
from .agent_connection import AgentConnection
from .agent_link import go

# How soon words that did not fit are tried again: a channel does not say when it can be written.
_RETRY_S = 0.01
_LOOK_S = 1.0
_TICK_S = 0.1

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
        self._listening = Listening(connections)
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
        ready = self._listening.wait(min(timeout_s, _RETRY_S) if unsent else timeout_s)
        for connection in self._all_once_a_second() or ready:
            yield from connection.receive()
            self._go_when_ready()

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
        self._listening.close()
        for connection in self._connections:
            if not connection.over:
                connection.close()

    def _all_once_a_second(self) -> Sequence[AgentConnection]:
        """All of them when it is time to notice who is silent."""
        now = time.monotonic()
        if now < self._look_at:
            return ()
        self._look_at = now + _LOOK_S
        return self._connections

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
    with closing(Listening(connections)) as listening:
        while waiting := [each for each in connections if not each.over and not done(each)]:
            if time.monotonic() > until:
                break
            for connection in waiting:
                connection.flush()
            unsent = any(each.has_more_to_send for each in waiting)
            for connection in listening.wait(_RETRY_S if unsent else _TICK_S):
                heard.extend(connection.receive())
    return heard


class Listening:
    """Which agents have something to say. Those whose wire cannot be waited for always may."""

    def __init__(self, connections: Sequence[AgentConnection]) -> None:
        """Begin to listen."""
        self._selector = selectors.DefaultSelector()
        self._unwaitable = []
        self._descriptors = {}
        for connection in connections:
            descriptor = connection.wire.fileno()
            if descriptor is None:
                self._unwaitable.append(connection)
            else:
                self._descriptors[connection] = descriptor
                self._selector.register(descriptor, selectors.EVENT_READ, connection)

    def wait(self, timeout_s: float) -> list[AgentConnection]:
        """Who can be received from, after at most so long."""
        for connection in [each for each in self._descriptors if each.over]:
            self._selector.unregister(self._descriptors.pop(connection))
        waits_s = min(timeout_s, _TICK_S) if self._unwaitable else timeout_s
        ready = [key.data for key, _ in self._selector.select(waits_s)]
        return ready + [each for each in self._unwaitable if not each.over]

    def close(self) -> None:
        """Listen no more."""
        self._selector.close()
