"""Showing lines on a terminal or pipe that may be slow, stuck, or gone."""

import os
import threading
from types import TracebackType

from ..cluster.errors import LaunchError

# How much may wait to be shown before the ranks are slowed down to the reader's pace: enough
# for a pager or a program that is busy for a while. Memory is bounded by it.
MAX_WAITING = 32 << 20

# A reader that then takes nothing for so long is not waited for, so that the run's deadlines
# and Ctrl-C are still minded in time; lines are left out and counted until it reads again.
PATIENCE_S = 3.0

# At the end there is nothing else to mind: what waits for a pager or a busy program is lost only
# if it takes nothing for so long.
LAST_PATIENCE_S = 600.0

_WRITE_BYTES = 64 << 10


class LineWriter:
    """Writes lines to a descriptor from a thread of its own.

    A slow reader slows the caller down. From one that takes nothing, lines are kept back, and
    how many is said once it reads again (`num_skipped`: not said yet). If it is gone, lines are
    dropped: the files have them.
    `failure` is then why nothing can be written any more.
    """

    def __init__(self, descriptor: int, *, encoding: str = "utf-8") -> None:
        """Start the thread; the descriptor stays the caller's.

        Raises:
            LaunchError: if there may be no more threads.
        """
        self._descriptor = descriptor
        self._encoding = encoding
        self._change = threading.Condition()
        self._waiting = bytearray()
        self._waiting_bytes = 0
        self.num_skipped = 0
        self._closed = False
        self.failure: OSError | None = None
        try:
            threading.Thread(target=self._write_all, name="echo", daemon=True).start()
        except RuntimeError as error:
            raise LaunchError(f"{error}: see ulimit -u and pids.max of the cgroup") from error

    def __call__(self, line: str, *, keep: bool = False) -> None:
        """Show a line, soon; one to `keep` waits for its reader however long that takes."""
        data = line.encode(self._encoding, "backslashreplace") + b"\n"
        with self._change:
            if self._waiting_bytes > MAX_WAITING and not (keep or self._room()):
                self.num_skipped += 1
                return
            if self.num_skipped:
                note = f"rankrun: {self.num_skipped} lines not shown; the run folder has them\n"
                self._put(note.encode())
                self.num_skipped = 0
            self._put(data)

    def __enter__(self) -> "LineWriter":  # noqa: PYI034  # Self is not in Python 3.10
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wait until everything is shown; a terminal that takes nothing is not waited for."""
        with self._change:
            self._closed = True
            self._change.notify_all()
        self.wait(PATIENCE_S if os.isatty(self._descriptor) else LAST_PATIENCE_S)

    def wait(self, patience_s: float = PATIENCE_S) -> None:
        """Until everything is shown, or nothing was taken for so long."""
        with self._change:
            self._wait_until_at_most(0, patience_s)

    def _put(self, data: bytes) -> None:
        if self.failure is None:
            if not self._waiting:
                self._change.notify_all()
            self._waiting += data
            self._waiting_bytes += len(data)

    def _room(self) -> bool:
        """Wait for the reader, unless it was already waited for in vain."""
        if not self.num_skipped:
            self._wait_until_at_most(MAX_WAITING, PATIENCE_S)
        return self._waiting_bytes <= MAX_WAITING

    def _wait_until_at_most(self, limit: int, patience_s: float) -> None:
        """With the lock held: until so little waits, or nothing moved for so long."""
        while self._waiting_bytes > limit:
            before = self._waiting_bytes
            self._change.wait_for(lambda: self._waiting_bytes < before, patience_s)  # noqa: B023
            if self._waiting_bytes == before:
                return

    def _write_all(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                data, self._waiting = self._waiting, bytearray()
            self._write(memoryview(data))

    def _write(self, data: memoryview) -> None:
        while data:
            try:
                written = os.write(self._descriptor, data[:_WRITE_BYTES])
            except OSError as error:  # a closed pipe, a vanished terminal, a full disk
                self.failure = error
                written = len(data)
            data = data[written:]
            with self._change:
                self._waiting_bytes -= written
                self._change.notify_all()
