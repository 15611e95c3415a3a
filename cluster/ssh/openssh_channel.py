"""The bytes of an `ssh` process that runs a program on a host."""

import os
import subprocess
import threading
from contextlib import suppress

from .tail import Tail

# ssh's own code where it, not the program, failed (ssh(1), EXIT STATUS).
_SSH_FAILED = 255
_LEAVE_S = 5.0
_CHUNK_BYTES = 1 << 16


class OpensshChannel:
    """A `Stream` over the pipes of a process; its standard error is kept by a thread."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        """`process` has three unbuffered pipes."""
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._stderr = Tail()
        os.set_blocking(self._stdin.fileno(), False)
        os.set_blocking(self._stdout.fileno(), False)
        self._listener = threading.Thread(target=self._listen, name="rankrun-ssh", daemon=True)
        self._listener.start()

    def fileno(self) -> int:
        """Readable when output came in, or its end."""
        return self._stdout.fileno()

    def read(self, size: int) -> bytes | None:
        """At most so many bytes; empty once the process has ended."""
        try:
            data = os.read(self._stdout.fileno(), size)
        except BlockingIOError:
            return None
        if not data:
            self._wait()
        return data

    def write(self, data: bytes) -> int:
        """How many bytes the pipe took."""
        try:
            return os.write(self._stdin.fileno(), data)
        except BlockingIOError:
            return 0

    def end_input(self) -> None:
        """Close its standard input."""
        with suppress(OSError):
            self._stdin.close()

    def close(self) -> None:
        """The program sees the end of its input; ssh leaves, or is ended."""
        self.end_input()
        self._process.terminate()
        self._wait()
        self._stdout.close()

    @property
    def exit_code(self) -> int | None:
        """The program's; None while it runs and where ssh itself failed."""
        code = self._process.poll()
        return None if code is None or code == _SSH_FAILED or code < 0 else code

    @property
    def stderr(self) -> str:
        """The end of what the program or ssh said."""
        return self._stderr.text

    def _listen(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as pipe:
            while data := pipe.read(_CHUNK_BYTES):
                self._stderr.add(data)

    def _wait(self) -> None:
        try:
            self._process.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join(_LEAVE_S)
