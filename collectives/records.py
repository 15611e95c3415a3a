"""What a rank of the suite reports, one JSON line each, on its record pipe.

The ranks write them (standard library only); the controller reads them with pydantic.
`step` is the number of the (case, size) that all ranks do at the same time, counted from 1.
"""

import dataclasses
import json
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..cluster.compat import StrEnum
from .cases import Case


class Pattern(StrEnum):
    """What a wrong result looks like."""

    MISSING_CONTRIBUTION = "missing contribution"
    DOUBLED_CONTRIBUTION = "doubled contribution"
    SWAPPED_BLOCKS = "swapped blocks"
    STALE_OUTPUT = "stale output"
    SINGLE_ELEMENT = "single corrupted element"
    WRONG_OPERATOR = "wrong operator"
    UNRECOGNISED = "no known pattern"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """A wrong result on one rank. Offsets count elements of the rank's output.

    `expected` and `got` are the values at `first_offset`, written out; `detail` says who:
    "rank 2's contribution is missing".
    """

    first_offset: int
    num_wrong: int
    num_checked: int
    expected: str
    got: str
    pattern: Pattern
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The process group is up on this rank."""

    kind: Literal["joined"] = "joined"
    rank: int
    world_size: int
    num_steps: int
    backend: str
    device: str
    device_name: str
    torch: str
    nccl: str | None
    python: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One rank's part of one step. `times_ns` holds each timed call, in order.

    `size_bytes` is S as nccl-tests counts it, `count` its elements; `group_size` the ranks of
    the group this rank was in, `members` their global ranks. `mismatch` is None when the result
    was right or, with `num_checked` 0, not checked. Elements count once after the first call and,
    where timed calls leave the same result, once more after those.
    """

    kind: Literal["measured"] = "measured"
    rank: int
    step: int
    case: Case
    size_bytes: int
    count: int
    group_size: int
    group_index: int
    times_ns: tuple[int, ...]
    num_wrong: int
    num_checked: int
    mismatch: Mismatch | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """The backend refuses this case; `reason` in its own words (empty: another rank was told)."""

    kind: Literal["unsupported"] = "unsupported"
    rank: int
    step: int
    case: Case
    size_bytes: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A line of --show; lines of one step are printed in the order of ranks."""

    kind: Literal["shown"] = "shown"
    rank: int
    step: int
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """This rank did all steps and left the process group."""

    kind: Literal["left"] = "left"
    rank: int


Record: TypeAlias = Joined | Measured | Unsupported | Shown | Left


def to_line(record: Record) -> str:
    """One line of JSON, with its newline."""
    return json.dumps(dataclasses.asdict(record), separators=(",", ":")) + "\n"
