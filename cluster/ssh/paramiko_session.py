"""paramiko's transport, with what it lacks.

That is: our order of host key algorithms, the signal that ended a program, why a server left, and
a way to know whether a packet can be sent without waiting. Some of what this overrides is
paramiko's own (the names that begin with `_`): this folder's tests notice when it changes.
"""

import logging
import select
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress

import paramiko
from paramiko.common import MSG_CHANNEL_REQUEST

# As OpenSSH prefers them; those that a host's known keys can answer are moved to the front.
KEY_ALGORITHMS = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)
CERTIFICATE_SUFFIX = "-cert-v01@openssh.com"

# The largest packet that we send, with room for what SSH adds.
_PACKET_BYTES = 40 << 10
_REKEY_S = 15.0
_GARBAGE_LINES = 5


class Session(paramiko.Transport):
    """One connection as a client."""

    def __init__(self, sock: socket.socket | paramiko.Channel, algorithms: Sequence[str]) -> None:
        """`sock` carries the bytes; `algorithms` are the host key algorithms in our order."""
        quiet_logging()
        super().__init__(sock)
        self.ended_by: dict[int, int] = {}
        self.farewell = ""
        self.garbage: list[str] = []
        self.clear_to_send_timeout = _REKEY_S
        self._algorithms = tuple(algorithms)
        self._channel_handler_table = {
            **super()._channel_handler_table,  # type: ignore[misc]  # below: absent in the stubs
            MSG_CHANNEL_REQUEST: _handle_request,
        }

    @property
    def preferred_keys(self) -> Sequence[str]:
        """The host key algorithms that we ask for, best first."""
        return self._algorithms

    def can_send(self) -> bool:
        """Whether a packet can be sent without waiting; also when it would fail at once."""
        if isinstance(self.sock, paramiko.Channel):
            outer = self.sock.transport
            room = self.sock.closed or self.sock.out_window_size >= _PACKET_BYTES
            return room and (not isinstance(outer, Session) or outer.can_send())
        poll = select.poll()
        try:
            poll.register(self.sock.fileno(), select.POLLOUT)
        except (OSError, ValueError):
            return True
        return bool(poll.poll(0))

    def close(self) -> None:
        """End the connection and the timer of an unfinished handshake, which would hold us up."""
        super().close()
        self.packetizer.complete_handshake()
        self.sock.close()

    def _parse_disconnect(self, message: paramiko.Message) -> None:
        """Keep why the server left; paramiko only logs it."""
        copy = paramiko.Message(message.asbytes())
        copy.get_int()
        self.farewell = copy.get_text()
        super()._parse_disconnect(message)  # type: ignore[misc]

    def _log(self, level: int, message: object, *arguments: object) -> None:
        """Keep what came before SSH's own first line; paramiko only logs it."""
        if isinstance(message, str) and message.startswith("Banner: ") and not self.remote_version:
            self.garbage = [*self.garbage, message.removeprefix("Banner: ")][:_GARBAGE_LINES]
        super()._log(level, message, *arguments)  # type: ignore[misc]

    def _send_user_message(self, data: paramiko.Message) -> None:
        """A broken connection is noticed by reading; here it would lose what was just read."""
        with suppress(EOFError, OSError):
            super()._send_user_message(data)  # type: ignore[misc]


def _handle_request(channel: paramiko.Channel, message: paramiko.Message) -> None:
    """Note the signal that ended a program (RFC 4254, 6.10), then go on as paramiko does."""
    copy = paramiko.Message(message.asbytes())
    copy.get_int()
    if copy.get_text() == "exit-signal" and isinstance(channel.transport, Session):
        copy.get_boolean()
        number = getattr(signal, f"SIG{copy.get_text()}", None)
        if number is not None:
            channel.transport.ended_by[channel.chanid] = int(number)
    channel._handle_request(message)  # type: ignore[attr-defined]  # noqa: SLF001


def quiet_logging() -> None:
    """A library's errors are raised; without a handler they would also go to standard error."""
    logger = logging.getLogger("paramiko")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
