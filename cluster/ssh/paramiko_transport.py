"""A connection to a host through paramiko."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import paramiko

from ..errors import ConnectError
from .deadline import Deadline
from .paramiko_channel import ParamikoChannel
from .paramiko_session import Session
from .quoting import LOGIN_COMMAND
from .running import run_to_end
from .started import StartedChannel
from .transport import Completed

OPEN_S = 20.0


class ParamikoTransport:
    """Programs on one host, each on a channel of its own."""

    def __init__(
        self,
        host: str,
        session: Session,
        *,
        peer_address: str,
        local_address: str | None,
        notes: tuple[str, ...],
        release: Callable[[], None],
    ) -> None:
        """`release` lets go of what carries the connection."""
        self.host = host
        self.session = session
        self._peer_address = peer_address
        self._local_address = local_address
        self._notes = notes
        self._release = release
        self._closed = False

    def open(self, command: str) -> StartedChannel:
        """Start a command of POSIX sh."""
        deadline = Deadline(OPEN_S)
        with closing_at(deadline, self.session):
            try:
                channel = self.session.open_session(timeout=deadline.left_s)
                channel.exec_command(LOGIN_COMMAND)
            except (paramiko.SSHException, EOFError, OSError) as error:
                raise self._refused(error, deadline) from error
        return StartedChannel(ParamikoChannel(channel, self.session), command)

    def run(self, command: str, *, stdin: bytes = b"", timeout_s: float) -> Completed:
        """Run a command of POSIX sh to its end."""
        return run_to_end(self.open(command), self.host, stdin=stdin, timeout_s=timeout_s)

    def close(self) -> None:
        """End the connection."""
        if self._closed:
            return
        self._closed = True
        with suppress(OSError, EOFError):
            self.session.close()
        self._release()

    @property
    def peer_address(self) -> str:
        """What was dialled."""
        return self._peer_address

    @property
    def local_address(self) -> str | None:
        """Our end of it."""
        return self._local_address

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know."""
        return self._notes

    @property
    def alive(self) -> bool:
        """Whether the connection still works, as far as is known."""
        return self.session.is_active()

    def _refused(self, error: Exception, deadline: Deadline) -> ConnectError:
        if deadline.passed:
            why = f"gave no answer within {deadline.seconds:.0f} s: it may be overloaded or gone"
        elif not self.session.is_active():
            why = "lost its connection"
        elif isinstance(error, paramiko.ChannelException):
            why = (
                f"has no room for another program ({error.text}): raise MaxSessions in its "
                "sshd_config, or end other sessions"
            )
        else:
            why = f"does not start programs ({error}): ask whether the account may run commands"
        return ConnectError(f"{self.host}: {why}")


@contextmanager
def closing_at(deadline: Deadline, session: Session) -> Iterator[None]:
    """End the session if what is inside does not end in time: some waits have no limit."""
    timer = threading.Timer(deadline.left_s, session.close)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
