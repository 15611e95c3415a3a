"""What happens during a run, as the controller sees it. Times are the host's clock, in seconds.

Every launcher yields these, in order of arrival; every observer consumes them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Stream: TypeAlias = Literal["stdout", "stderr"]
STREAMS: tuple[Stream, ...] = ("stdout", "stderr")

# Values of HostEvent.what that somebody acts upon; the agent's own are in its code.
MASTER_PORT_RESERVED = "master-port"
AGENT_LOST = "agent-lost"
LEFTOVER_ENDED = "leftover-ended"
CANNOT_BE_ENDED = "cannot-be-ended"
OUT_OF_MEMORY = "out-of-memory"
CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStarted:
    """A rank's process runs."""

    time_s: float
    host: str
    rank: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankNotStarted:
    """A rank's command could not be executed; `code` as a shell has it (126, 127)."""

    time_s: float
    host: str
    rank: int
    code: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RankOutput:
    """Bytes a rank wrote, as they came; not cut at lines."""

    time_s: float
    host: str
    rank: int
    stream: Stream
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRecord:
    """One line of JSON that a rank's program wrote to its record pipe (RANKRUN_RECORD_FD)."""

    time_s: float
    host: str
    rank: int
    line: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A rank's counters as its program keeps them in its progress page (RANKRUN_PROGRESS_FD).

    `step` counts what the program does one after the other, alike on all ranks (0: not there
    yet); `started` and `finished` count its calls within the step. `unchanged_s` is how long
    ago the agent last saw any of them change.
    """

    step: int
    started: int
    finished: int
    unchanged_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProgress:
    """The counters of all living ranks of a host, about twice a second."""

    time_s: float
    host: str
    ranks: Mapping[int, Progress]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStacks:
    """A rank's Python stacks, or what the kernel says of a process that does not answer."""

    time_s: float
    host: str
    rank: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RankExited:
    """A rank's process ended; negative codes are signals, as subprocess has them."""

    time_s: float
    host: str
    rank: int
    code: int
    stopped_by_us: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEvent:
    """Anything else worth keeping: port reserved, stop asked for, leftovers ended, agent lost."""

    time_s: float
    host: str
    what: str
    detail: str = ""


Event: TypeAlias = (
    RankStarted
    | RankNotStarted
    | RankOutput
    | RankRecord
    | HostProgress
    | RankStacks
    | RankExited
    | HostEvent
)
