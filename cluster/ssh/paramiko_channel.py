"""A program's bytes over a paramiko channel, for one selector over many hosts."""

import os
import threading
from contextlib import suppress

import paramiko

from .paramiko_session import Session
from .tail import Tail

# What one call sends. OpenSSH's own channels take 32 KiB at once; half of it fits what a socket
# that polls as writable takes without waiting.
_WRITE_BYTES = 16 << 10
_STDERR_READ_BYTES = 1 << 16


class ParamikoChannel:
    """Readiness is our own: paramiko's pipe can lose a wake-up when both streams are fed."""

    def __init__(self, channel: paramiko.Channel, session: Session) -> None:
        """The program was started on the channel already."""
        channel.settimeout(0.0)
        self._channel = channel
        self._session = session
        self._wakeup = Wakeup()
        self._stderr = Tail()
        self._closed = False
        channel.in_buffer.set_event(self._wakeup.flag())  # type: ignore[arg-type]  # set and clear
        channel.in_stderr_buffer.set_event(self._wakeup.flag())  # type: ignore[arg-type]

    def fileno(self) -> int:
        """Readable when either stream has something, and at the end."""
        return self._wakeup.fileno()

    def read(self, size: int) -> bytes | None:
        """Its output; None: nothing now; empty: it ended, or the connection broke."""
        self._drain_stderr()
        try:
            data = self._channel.recv(size)
        except TimeoutError:
            return None
        if data or self._is_over():
            return data
        # The output is at its end but the exit code has not come yet: closing wakes us again.
        self._wakeup.quiet()
        return b"" if self._is_over() else None

    def write(self, data: bytes) -> int:
        """As much as the program's window and our socket take now."""
        if self._channel.closed or self._channel.eof_sent:
            raise BrokenPipeError("the channel is closed")
        if not self._session.can_send():
            return 0  # the socket of a dead peer is full: a send would wait for ever
        try:
            return self._channel.send(data[:_WRITE_BYTES])
        except TimeoutError:
            return 0
        except paramiko.SSHException as error:
            raise BrokenPipeError(str(error)) from error

    def end_input(self) -> None:
        """The program sees the end of its input."""
        with suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.shutdown_write()

    def close(self) -> None:
        """The program loses its input and output."""
        if self._closed:
            return
        self._closed = True
        with suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.close()
        self._wakeup.close()

    @property
    def exit_code(self) -> int | None:
        """Negative: ended by this signal; None: it runs, or the connection broke."""
        signal_number = self._session.ended_by.get(self._channel.chanid)
        if signal_number is not None:
            return -signal_number
        code = self._channel.exit_status
        return code if code >= 0 else None

    @property
    def stderr(self) -> str:
        """The end of what it said on its standard error."""
        if not self._closed:
            self._drain_stderr()
        return self._stderr.text

    def _is_over(self) -> bool:
        return self._channel.closed

    def _drain_stderr(self) -> None:
        with suppress(TimeoutError):
            while data := self._channel.recv_stderr(_STDERR_READ_BYTES):
                self._stderr.add(data)


class Wakeup:
    """A descriptor that is readable while any of its flags is set."""

    def __init__(self) -> None:
        """None is set."""
        self._out, self._in = os.pipe()
        self._lock = threading.Lock()
        self._raised = 0
        self._flags: list[Flag] = []

    def fileno(self) -> int:
        """For a selector."""
        return self._out

    def flag(self) -> "Flag":
        """One more reason to be readable."""
        flag = Flag(self)
        self._flags.append(flag)
        return flag

    def quiet(self) -> None:
        """Lower all flags until one is set again."""
        for flag in self._flags:
            flag.clear()

    def change(self, flag: "Flag", *, up: bool) -> None:
        """Set or clear one flag."""
        with self._lock:
            if flag.up == up or self._in < 0:
                return
            flag.up = up
            self._raised += 1 if up else -1
            if up and self._raised == 1:
                os.write(self._in, b"!")
            elif not up and self._raised == 0:
                os.read(self._out, 1)

    def close(self) -> None:
        """Flags may still be set and cleared afterwards, to no effect."""
        with self._lock:
            os.close(self._out)
            os.close(self._in)
            self._in = -1


class Flag:
    """What paramiko's buffers set when they hold data or are at their end, and clear when not."""

    def __init__(self, wakeup: Wakeup) -> None:
        """It is clear."""
        self._wakeup = wakeup
        self.up = False

    def set(self) -> None:
        """There is something to read."""
        self._wakeup.change(self, up=True)

    def clear(self) -> None:
        """There is nothing to read."""
        self._wakeup.change(self, up=False)
