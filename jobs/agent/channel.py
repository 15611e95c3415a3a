"""What an agent shares with the program of a rank, beyond standard output and error.

The agent opens three files per rank and hands their descriptors over in the environment:

    RANKRUN_RECORD_FD     a pipe; each line the rank writes becomes a record of the run
    RANKRUN_PROGRESS_FD   a page of counters that the agent reads twice a second
    RANKRUN_STACKS_FD     where the rank's stacks go when STACKS_SIGNAL arrives

A program that knows none of them runs unchanged. Standard library only, Python 3.9.
"""

from __future__ import annotations

import faulthandler
import mmap
import os
import signal
import struct
from collections.abc import Mapping

RECORD_FD = "RANKRUN_RECORD_FD"
PROGRESS_FD = "RANKRUN_PROGRESS_FD"
STACKS_FD = "RANKRUN_STACKS_FD"

# step, calls started, calls finished, whether STACKS_SIGNAL is handled (0 or 1)
PROGRESS_PAGE = struct.Struct("<QQQQ")

# A real-time signal: USR1 and USR2 are taken by schedulers and training scripts.
STACKS_SIGNAL = signal.SIGRTMIN + 3


class RankChannel:
    """The rank's end. Without an agent every method does nothing.

    The counters cost well under a microsecond to update: they are plain stores into a
    shared page, so that a rank that hangs in a call has already said that it started it.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        """Open what the agent handed over."""
        record = environment.get(RECORD_FD)
        progress = environment.get(PROGRESS_FD)
        stacks = environment.get(STACKS_FD)
        self._record_fd = int(record) if record else None
        page = mmap.mmap(int(progress), mmap.PAGESIZE) if progress else mmap.mmap(-1, mmap.PAGESIZE)
        self._counters = memoryview(page).cast("B")[: PROGRESS_PAGE.size].cast("Q")
        if stacks:
            faulthandler.register(STACKS_SIGNAL, file=int(stacks), all_threads=True, chain=False)
            self._counters[3] = 1

    def write_record(self, line: str) -> None:
        """Send one line, ending in a newline."""
        if self._record_fd is None:
            return
        data = memoryview(line.encode())
        while data:
            data = data[os.write(self._record_fd, data) :]

    def begin_step(self, step: int) -> None:
        """The program turns to its next step; counts of calls start again."""
        self._counters[1] = 0
        self._counters[2] = 0
        self._counters[0] = step

    def begin_call(self) -> None:
        """A call is about to be made."""
        self._counters[1] += 1

    def end_call(self) -> None:
        """The call returned."""
        self._counters[2] += 1
