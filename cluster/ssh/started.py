"""A channel from the moment that our program runs; what the login shell printed is put aside."""

import secrets

from .quoting import first_line
from .tail import Tail
from .transport import Stream


class StartedChannel:
    """Sends the program's start line and skips the output until the marker in it comes back."""

    def __init__(self, channel: Stream, command: str) -> None:
        """`channel` runs LOGIN_COMMAND."""
        marker = f"rankrun-{secrets.token_hex(12)}"
        self._channel = channel
        self._marker = marker.encode("ascii") + b"\n"
        self._start = first_line(command, marker)
        self._pending = b""
        self._started = False
        self._input_over = False
        self._prelude = Tail()
        self._send_start()

    def fileno(self) -> int:
        """Readable when there is something to do."""
        return self._channel.fileno()

    def read(self, size: int) -> bytes | None:
        """The program's output, from its first byte."""
        self._send_start()
        data = self._channel.read(size)
        if self._started or data is None:
            return data
        if not data:
            self._prelude.add(self._pending)
            self._pending = b""
            return data
        return self._after_marker(data) or None

    def write(self, data: bytes) -> int:
        """As much as is taken now; nothing before the program was told to start."""
        return 0 if self._send_start() else self._channel.write(data)

    def end_input(self) -> None:
        """The program sees the end of its input."""
        self._input_over = True
        if not self._send_start():
            self._channel.end_input()

    def close(self) -> None:
        """Let go of the program."""
        self._channel.close()

    @property
    def exit_code(self) -> int | None:
        """The program's; the login shell's if it did not begin."""
        return self._channel.exit_code

    @property
    def stderr(self) -> str:
        """The end of what it said on its standard error."""
        return self._channel.stderr

    @property
    def prelude(self) -> str:
        """What the login shell printed."""
        return self._prelude.text

    @property
    def started(self) -> bool:
        """Whether the program began."""
        return self._started

    def _send_start(self) -> bool:
        """Whether some of the start line still waits."""
        if not self._start:
            return False
        try:
            self._start = self._start[self._channel.write(self._start) :]
        except OSError:
            self._start = b""  # `read` will say how it ended
        if not self._start and self._input_over:
            self._channel.end_input()
        return bool(self._start)

    def _after_marker(self, data: bytes) -> bytes:
        before, found, after = (self._pending + data).partition(self._marker)
        if found:
            self._started = True
            self._prelude.add(before)
            self._pending = b""
            return after
        cut = max(0, len(before) - len(self._marker))
        self._prelude.add(before[:cut])
        self._pending = before[cut:]
        return b""
