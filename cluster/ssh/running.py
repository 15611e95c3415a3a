"""A program run to its end over a channel, with a deadline and bounded output."""

import selectors
from collections.abc import Iterator

from ..errors import ConnectError
from .deadline import Deadline
from .started import StartedChannel
from .transport import Completed

MAX_OUTPUT_BYTES = 16 << 20

_READ_BYTES = 1 << 18
# The start of input that was not taken is tried again so often.
_AGAIN_S = 0.02


def run_to_end(channel: StartedChannel, host: str, *, stdin: bytes, timeout_s: float) -> Completed:
    """Feed it, read it, wait for its end; the channel is closed.

    Raises:
        ConnectError: if the login shell ended before the program began.
    """
    deadline = Deadline(timeout_s)
    output = bytearray()
    size = 0
    ended = False
    try:
        for data in _exchange(channel, stdin, deadline):
            ended = not data
            size += len(data)
            output += data[: MAX_OUTPUT_BYTES - len(output)]
    finally:
        channel.close()
    if ended and not channel.started:
        raise not_started(channel, host)
    return Completed(
        exit_code=channel.exit_code if ended else None,
        stdout=bytes(output),
        stderr=channel.stderr,
        timed_out=not ended,
        truncated=size > len(output),
    )


def not_started(channel: StartedChannel, host: str) -> ConnectError:
    """Why a program did not begin: the login shell ended before it, with words of its own."""
    said = " ".join(f"{channel.prelude}\n{channel.stderr}".split())
    code = channel.exit_code
    how = "the connection broke" if code is None else f"it ended with code {code}"
    return ConnectError(
        f"{host}: the login shell did not start /bin/sh: {how}"
        + (f" and said: {said[-500:]}" if said else "")
        + "; the account needs a shell that runs commands (sh, bash, zsh, csh, fish)"
    )


def _exchange(channel: StartedChannel, stdin: bytes, deadline: Deadline) -> Iterator[bytes]:
    """Its output; the last is empty if it ended in time."""
    waiting: memoryview | None = memoryview(stdin)
    with selectors.DefaultSelector() as selector:
        selector.register(channel, selectors.EVENT_READ)
        while not deadline.passed:
            waiting = _feed(channel, waiting)
            wait_s = deadline.left_s if waiting is None else _AGAIN_S
            if not selector.select(wait_s):
                continue
            data = channel.read(_READ_BYTES)
            if data is not None:
                yield data
            if data == b"":
                return


def _feed(channel: StartedChannel, waiting: memoryview | None) -> memoryview | None:
    """What still waits to be written; None once its input was ended."""
    try:
        while waiting:
            taken = channel.write(bytes(waiting[:_READ_BYTES]))
            if not taken:
                return waiting
            waiting = waiting[taken:]
    except OSError:
        return None
    if waiting is not None:
        channel.end_input()
    return None
