"""What waits to be written to a pipe that may be full."""

from __future__ import annotations

import os

# Above HIGH the ranks' pipes are no longer read; below LOW they are again. A rank that
# prints faster than the controller takes it is thereby slowed down, and nothing is lost.
HIGH_BYTES = 4 << 20
LOW_BYTES = 1 << 20

_WRITE_BYTES = 1 << 18


class Outbox:
    """Bytes on their way to a non-blocking descriptor."""

    def __init__(self, descriptor: int) -> None:
        """Nothing waits. The descriptor is made non-blocking."""
        self._descriptor = descriptor
        self._waiting = bytearray()
        self.broken = False
        os.set_blocking(descriptor, False)

    def __len__(self) -> int:
        """How many bytes wait."""
        return len(self._waiting)

    def put(self, data: bytes) -> None:
        """Add to what waits; dropped if nobody is left to read it."""
        if not self.broken:
            self._waiting += data

    def send(self) -> None:
        """Write as much as the pipe takes now; `broken` if it has no reader any more."""
        while self._waiting:
            try:
                with memoryview(self._waiting) as view:
                    sent = os.write(self._descriptor, view[:_WRITE_BYTES])
            except BlockingIOError:
                return
            except OSError:
                self.broken = True
                self._waiting.clear()
                return
            del self._waiting[:sent]
