"""Standard output and error that may be closed, full, or have lost their reader."""

import errno
import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from typing import TextIO


def prepare_standard_streams() -> None:
    """Give a place to those that are closed; show with backslashes what cannot be encoded.

    Without a place a file of the run would get the number of a closed one, and receive what is
    printed. The place is /dev/null, open for reading only: writing to it fails, as it does on a
    full disk, so that output which nobody gets is noticed in one way.
    """
    for descriptor in range(3):
        if not _is_open(descriptor):
            os.open(os.devnull, os.O_RDONLY)  # gets the lowest free number: this one
    sys.stdout = _usable(sys.stdout, 1)
    sys.stderr = _usable(sys.stderr, 2)


def write_text(stream: TextIO, text: str) -> OSError | None:
    """Write at once. Gives back why it could not be written; the stream then leads nowhere."""
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        abandon(stream)
        return error
    return None


def abandon(stream: TextIO) -> None:
    """Let what is still written to a stream vanish, also what Python flushes at its end."""
    with suppress(OSError, ValueError):  # not a file
        descriptor = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


def has_no_reader(error: OSError) -> bool:
    """Whether the reader of a pipe has had enough, as `head` has: no failure."""
    return error.errno == errno.EPIPE


def same_file(one: TextIO | None, other: TextIO | None) -> bool:
    """Whether both streams lead to one place, as after `2>&1`."""
    if one is None or other is None:
        return False
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError):
        return False


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _usable(stream: TextIO | None, descriptor: int) -> TextIO:
    if stream is None:
        return open(descriptor, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream
