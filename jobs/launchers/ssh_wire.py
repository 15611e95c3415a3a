"""An agent at the other end of an SSH channel."""

from contextlib import suppress
from pathlib import Path

from ...cluster.ssh import Channel
from .agent_connection import READ_BYTES


class SshWire:
    """A channel without a terminal: its standard error is kept apart, as the agent's log."""

    def __init__(self, channel: Channel) -> None:
        """`log` is set once there is a run folder; what the agent says goes there at its end."""
        self.log: Path | None = None
        self._channel = channel
        self._closed = False

    def fileno(self) -> int:
        """Readable when something came in."""
        return self._channel.fileno()

    def read(self) -> bytes | None:
        """What came in; None: nothing now; empty: the agent's side is closed."""
        return self._channel.read(READ_BYTES)

    def write(self, data: memoryview) -> int:
        """How much the channel's window takes now."""
        return self._channel.write(bytes(data))

    def how_it_ended(self) -> str | None:
        """None if the agent left in order."""
        code = self._channel.exit_code
        if code == 0:
            return None
        said = self._channel.stderr.strip().rpartition("\n")[2]
        last_words = f"; its last words: {said}" if said else ""
        if code is None:
            return f"the connection broke{last_words}"
        return f"it ended early with code {code}{last_words}"

    def close(self) -> None:
        """Close the channel: the agent sees its input end, and ends its ranks."""
        if self._closed:
            return
        self._closed = True
        said = self._channel.stderr
        if self.log is not None and said:
            with suppress(OSError):
                self.log.write_text(said, encoding="utf-8", errors="backslashreplace")
        self._channel.close()
