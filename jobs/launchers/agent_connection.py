"""One agent as the controller has it: words go out, events come in, an end is noticed.

How the bytes travel is the wire's business: pipes of a child, an SSH channel, files.
"""

import threading
import time
from collections.abc import Iterator
from typing import Protocol

from ..agent import messages
from ..agent.frames import ProtocolError
from ..events import AGENT_LOST, Event, HostEvent
from .agent_link import AgentLink

READ_BYTES = 1 << 20
_WRITE_BYTES = 1 << 16


class Wire(Protocol):
    """Bytes to and from an agent. Nothing here waits but `how_it_ended`, for seconds at most."""

    def fileno(self) -> int | None:
        """A descriptor that is readable when `read` has something to give; None: just try."""

    def read(self) -> bytes | None:
        """What came in; None: nothing now; empty: the agent's side is closed."""

    def write(self, data: memoryview) -> int:
        """How many bytes were taken; 0: try again later.

        Raises:
            OSError: if nobody takes them any more.
        """

    def how_it_ended(self) -> str | None:
        """After the end of `read`: what went wrong, with the agent's last words; None: nothing."""

    def close(self) -> None:
        """End the agent at once, if it is still there, and let go of everything."""


class AgentConnection:
    """Knows when its agent is lost: it ended early, went silent or speaks nonsense."""

    def __init__(self, wire: Wire, *, host: str, silence_s: float) -> None:
        """`host` is the name that events carry. An agent speaks twice a second."""
        self.link = AgentLink(host)
        self.host = host
        self.wire = wire
        self.over = False
        self.lost: str | None = None
        self._silence_s = silence_s
        self._heard_at = time.monotonic()
        self._out = bytearray()
        self._lock = threading.Lock()

    @property
    def has_more_to_send(self) -> bool:
        """Whether `flush` should be called again soon."""
        return bool(self._out)

    def put(self, words: bytes) -> None:
        """Say something, as far as the wire takes it now; any thread may."""
        with self._lock:
            self._out += words
        self.flush()

    def tell(self, message: messages.Message) -> None:
        """Say one message."""
        self.put(messages.encode(message))

    def flush(self) -> None:
        """Send more of what waits. A broken wire is noticed by reading."""
        with self._lock:
            try:
                while self._out:
                    with memoryview(self._out) as view:
                        sent = self.wire.write(view[:_WRITE_BYTES])
                    if not sent:
                        return
                    del self._out[:sent]
            except OSError:
                self._out.clear()

    def receive(self) -> Iterator[Event]:
        """The events that came in; AGENT_LOST is the last there can be."""
        if self.over:
            return
        data = self.wire.read()
        if data is None:
            silent_s = time.monotonic() - self._heard_at
            if silent_s > self._silence_s:
                yield self._lose(f"it has said nothing for {silent_s:.0f} s")
            return
        self._heard_at = time.monotonic()
        if not data:
            yield from self._at_end()
            return
        try:
            yield from self.link.feed(data)
        except ProtocolError as error:
            yield self._lose(f"what it says is not understood: {error}")

    def close(self) -> None:
        """End the agent if it is still there."""
        self.over = True
        self.wire.close()

    def _at_end(self) -> Iterator[Event]:
        """The agent closed its side: orderly, or because it was killed."""
        trouble = self.wire.how_it_ended()
        if self.link.finished and trouble is None:
            self.close()
        else:
            yield self._lose(trouble or "it left in the middle of its work")

    def _lose(self, why: str) -> Event:
        self.lost = why
        self.close()
        return HostEvent(time_s=time.time(), host=self.host, what=AGENT_LOST, detail=why)
