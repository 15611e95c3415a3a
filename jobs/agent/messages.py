"""What controller and agent say to each other. One row per message; JSON on the wire.

Text that came from the system (arguments, variables, paths) travels as UTF-8 with
surrogate escapes, so that any bytes arrive as they were, whatever the locale of either side.
"""

from __future__ import annotations

import json
from typing import NamedTuple, Union

from .frames import ProtocolError, encode_text

PROTOCOL = 2


class Hello(NamedTuple):
    """Controller: who calls, in which version."""

    protocol: int


class Reserve(NamedTuple):
    """Controller: hold MASTER_PORT, this one or any; until Start, answer who dials it."""

    port: int | None
    answer: str


class Dial(NamedTuple):
    """Controller: try these addresses of the master at once; `answer` is what it says there."""

    addresses: list[str]
    port: int
    answer: str
    timeout_s: float


class Start(NamedTuple):
    """Controller: what to start. `ranks` holds (global rank, its own variables).

    `own_environment`: a rank's environment begins with the agent's own, not with nothing.
    `with_rankrun`: its Python can import the rankrun that the agent itself came in. From now on
    the agent ends everything after `lease_s` without a word; `grace_s` holds when it must stop
    on its own account, told to by SIGTERM. After a rank failed it waits `alone_s` for the
    controller to say what to do, then ends everything and leaves with a code that says so.
    """

    run_id: str
    argv: list[str]
    workdir: str
    environment: dict[str, str]
    own_environment: bool
    with_rankrun: bool
    ranks: list[tuple[int, dict[str, str]]]
    grace_s: float
    lease_s: float | None
    alone_s: float | None


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


class Ping(NamedTuple):
    """Controller: what does your clock say? `sent_s` comes back as it is."""

    sent_s: float


class Welcome(NamedTuple):
    """Agent: the answer to Hello. `addresses` holds (interface, address), loopback excepted."""

    time_s: float
    protocol: int
    pid: int
    python: str
    executable: str
    host_name: str
    num_gpus: int
    addresses: list[tuple[str, str]]


class Pong(NamedTuple):
    """Agent: the answer to Ping."""

    time_s: float
    sent_s: float


class Port(NamedTuple):
    """Agent: this port is reserved here for rank 0."""

    time_s: float
    port: int


class PortRefused(NamedTuple):
    """Agent: the port that was asked for cannot be had."""

    time_s: float
    reason: str


class Dialled(NamedTuple):
    """Agent: (address, why it was not the master that answered, own address, own interface).

    `why` is empty where the master answered.
    """

    time_s: float
    attempts: list[tuple[str, str, str, str]]


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
Command = Union[  # noqa: UP007  # Python 3.9
    Hello, Ping, Reserve, Dial, Start, Go, TakeStacks, Stop, Beat
]
Report = Union[  # noqa: UP007
    Welcome, Pong, Port, PortRefused, Dialled, Started, NotStarted, Exited, Counters,
    StacksTaken, Note, Finished,
]
Message = Union[Command, Report]  # noqa: UP007
COMMANDS = (Hello, Ping, Reserve, Dial, Start, Go, TakeStacks, Stop, Beat)
# fmt: on

_MESSAGES: dict[str, type[Message]] = {
    "hello": Hello,
    "reserve": Reserve,
    "dial": Dial,
    "start": Start,
    "go": Go,
    "take-stacks": TakeStacks,
    "stop": Stop,
    "beat": Beat,
    "ping": Ping,
    "pong": Pong,
    "welcome": Welcome,
    "port": Port,
    "port-refused": PortRefused,
    "dialled": Dialled,
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
