"""What a connection to a host offers, whoever speaks SSH."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """How a program ended.

    exit_code: negative is the signal that ended it; None if it did not end in time or the
    connection broke.
    """

    exit_code: int | None
    stdout: bytes
    stderr: str
    timed_out: bool = False
    truncated: bool = False


class Stream(Protocol):
    """The bytes of one running program on a host, without a terminal. Nothing here waits."""

    def fileno(self) -> int:
        """A descriptor for selectors, readable when `read` has something to do."""

    def read(self, size: int) -> bytes | None:
        """At most so many bytes of its output; None: nothing now; empty: it ended.

        Empty comes after the last output, when `exit_code` is final.
        """

    def write(self, data: bytes) -> int:
        """How many bytes were taken; 0: try again later.

        Raises:
            OSError: if nobody takes them any more.
        """

    def end_input(self) -> None:
        """Close its standard input, once all of `write` was taken."""

    def close(self) -> None:
        """Let go of the program; one that reads its input sees the end of it."""

    @property
    def exit_code(self) -> int | None:
        """Negative: ended by this signal; None: it runs, or the connection broke."""

    @property
    def stderr(self) -> str:
        """The end of what it said on its standard error so far."""


class Channel(Stream, Protocol):
    """A program, from its first byte: what its login shell printed is kept apart."""

    @property
    def prelude(self) -> str:
        """What the login shell printed before the program began; all, if it did not begin."""


class Transport(Protocol):
    """A connection to one host."""

    def open(self, command: str) -> Channel:
        """Start a command of POSIX sh, whatever the account's login shell is.

        Raises:
            ConnectError: if the host refuses, or the connection broke.
        """

    def run(self, command: str, *, stdin: bytes = b"", timeout_s: float) -> Completed:
        """Run a command of POSIX sh to its end.

        Raises:
            ConnectError: if the host refuses to start it, or its login shell fails to.
        """

    def close(self) -> None:
        """End all that was opened, and the connection."""

    @property
    def peer_address(self) -> str:
        """The address that was dialled; behind a jump host, what that host was asked to dial."""

    @property
    def local_address(self) -> str | None:
        """Our end's address; None behind a jump host or a proxy command."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know: a host key that was taken on trust."""
