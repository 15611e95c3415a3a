"""What controller and agent say to each other. One row per message; JSON on the wire.

Text that came from the system (arguments, variables, paths) travels as UTF-8 with
surrogate escapes, so that any bytes arrive as they were, whatever the locale of either side.
"""

from __future__ import annotations

import json
from typing import NamedTuple, Union

from .frames import ProtocolError, encode_text

PROTOCOL = 1


class Hello(NamedTuple):
    """Controller: who calls. Without a word for `lease_s` the agent ends everything."""

    protocol: int
    run_id: str
    lease_s: float | None


class Start(NamedTuple):
    """Controller: what to start. `ranks` holds (global rank, its own variables).

    `grace_s` holds when the agent must stop on its own account, told to by SIGTERM.
    """

    argv: list[str]
    workdir: str
    environment: dict[str, str]
    ranks: list[tuple[int, dict[str, str]]]
    reserve_port: bool
    grace_s: float


class Go(NamedTuple):
    """Controller: start the ranks, with what only became known now (MASTER_PORT)."""

    environment: dict[str, str]


class TakeStacks(NamedTuple):
    """Controller: every living rank's stacks. `abort`: SIGABRT to those that cannot give them."""

    abort: bool


class Stop(NamedTuple):
    """Controller: end every rank, kill after the grace."""

    reason: str
    grace_s: float


class Beat(NamedTuple):
    """Controller: I live."""


class Welcome(NamedTuple):
    """Agent: the answer to Hello."""

    time_s: float
    protocol: int
    pid: int
    python: str


class Port(NamedTuple):
    """Agent: this port is reserved here for rank 0."""

    time_s: float
    port: int


class Started(NamedTuple):
    """Agent: a rank runs."""

    time_s: float
    rank: int
    pid: int


class NotStarted(NamedTuple):
    """Agent: a rank's command could not be executed; codes as a shell has them (126, 127)."""

    time_s: float
    rank: int
    code: int
    message: str


class Exited(NamedTuple):
    """Agent: a rank's process ended; negative codes are signals."""

    time_s: float
    rank: int
    code: int
    stopped_by_us: bool


class Counters(NamedTuple):
    """Agent: (rank, step, started, finished, unchanged_s) of every living rank; a sign of life."""

    time_s: float
    ranks: list[tuple[int, int, int, int, float]]


class StacksTaken(NamedTuple):
    """Agent: a rank's stacks, or what the kernel says of it."""

    time_s: float
    rank: int
    text: str


class Note(NamedTuple):
    """Agent: anything else that belongs into the run's history."""

    time_s: float
    what: str
    detail: str


class Finished(NamedTuple):
    """Agent: nothing of the run is left on this host. The last message."""

    time_s: float


# fmt: off
Command = Union[Hello, Start, Go, TakeStacks, Stop, Beat]  # noqa: UP007  # Python 3.9
Report = Union[  # noqa: UP007
    Welcome, Port, Started, NotStarted, Exited, Counters, StacksTaken, Note, Finished
]
Message = Union[Command, Report]  # noqa: UP007
# fmt: on

_MESSAGES: dict[str, type[Message]] = {
    "hello": Hello,
    "start": Start,
    "go": Go,
    "take-stacks": TakeStacks,
    "stop": Stop,
    "beat": Beat,
    "welcome": Welcome,
    "port": Port,
    "started": Started,
    "not-started": NotStarted,
    "exited": Exited,
    "counters": Counters,
    "stacks-taken": StacksTaken,
    "note": Note,
    "finished": Finished,
}
_NAMES = {kind: name for name, kind in _MESSAGES.items()}


def encode(message: Message) -> bytes:
    """The frames of a message."""
    return encode_text(json.dumps([_NAMES[type(message)], *message]).encode())


def decode(text: bytes) -> Message:
    """The message of a frame's JSON.

    Raises:
        ProtocolError: if it is none of ours.
    """
    try:
        name, *fields = json.loads(text)
        return _MESSAGES[name](*fields)
    except (ValueError, KeyError, TypeError) as error:
        raise ProtocolError(f"not a message of the rankrun agent: {text[:80]!r}") from error


def portable(text: bytes) -> str:
    """System bytes as they travel."""
    return text.decode("utf-8", "surrogateescape")


def native(text: str) -> bytes:
    """The bytes of what travelled."""
    return text.encode("utf-8", "surrogateescape")
