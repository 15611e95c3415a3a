"""What one step came to: all ranks' reports of one case at one size, made one.

Times are combined twice. First over ranks, iteration by iteration: the mean (nccl-tests'
default), the fastest or the slowest rank (its -a). Then over iterations: minimum, median, 95th
percentile, maximum. Bandwidths are those of the median. The percentile is the nearest rank
(the smallest time that at least 95% of the iterations do not exceed): a time that did occur.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..cluster.compat import StrEnum
from .bandwidth import algbw_gbps, busbw_factor
from .cases import Case
from .records import Mismatch


class Status(StrEnum):
    """What the check of a result said."""

    RIGHT = "right"
    WRONG = "wrong"
    UNSUPPORTED = "unsupported"
    NOT_CHECKED = "not checked"


class Combine(StrEnum):
    """How the ranks' times of one iteration become one."""

    AVG = "avg"
    MIN = "min"
    MAX = "max"


_COMBINE: dict[Combine, Callable[[Sequence[int]], float]] = {
    Combine.AVG: statistics.fmean,
    Combine.MIN: min,
    Combine.MAX: max,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSummary:
    """Seconds of one call, over the iterations."""

    min_s: float
    median_s: float
    p95_s: float
    max_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMismatch:
    """A wrong result and the rank (of the whole run) that saw it."""

    rank: int
    mismatch: Mismatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One case at one size.

    `size_bytes` is S as nccl-tests counts it, `count` its elements, `group_size` the ranks of
    the (largest) group. `times_s` has one time per iteration, combined over ranks; empty where
    nothing was timed. `num_wrong` and `num_checked` add up elements over all ranks. `reason`
    has the backend's own words when it is unsupported and gave any.
    """

    step: int
    case: Case
    size_bytes: int
    count: int
    group_size: int
    status: Status
    times_s: tuple[float, ...] = ()
    num_wrong: int = 0
    num_checked: int = 0
    reason: str | None = None
    mismatches: tuple[RankMismatch, ...] = ()

    @property
    def iterations(self) -> int:
        """Timed calls."""
        return len(self.times_s)

    @property
    def time(self) -> TimeSummary | None:
        """Over the iterations; None where nothing was timed."""
        return summarise(self.times_s)

    @property
    def algbw_gbps(self) -> float | None:
        """Algorithm bandwidth of the median time."""
        time = self.time
        return algbw_gbps(self.size_bytes, time.median_s) if time else None

    @property
    def busbw_gbps(self) -> float | None:
        """Bus bandwidth of the median time; None where it is undefined (see `bandwidth`)."""
        algorithm, factor = self.algbw_gbps, busbw_factor(self.case, self.group_size)
        return None if algorithm is None or factor is None else algorithm * factor


def combine_ranks(
    times_ns: Sequence[Sequence[int]], combine: Combine = Combine.AVG
) -> tuple[float, ...]:
    """Seconds per iteration from each rank's nanoseconds per iteration.

    Iterations that not all ranks have are left out.

    >>> combine_ranks([[1000, 2000], [3000, 6000]], Combine.MAX)
    (3e-06, 6e-06)
    """
    return tuple(_COMBINE[combine](ranks) / 1e9 for ranks in zip(*times_ns, strict=False))


def summarise(times_s: Sequence[float]) -> TimeSummary | None:
    """Minimum, median, 95th percentile and maximum; None of nothing.

    >>> summarise([1.0, 2.0, 4.0])
    TimeSummary(min_s=1.0, median_s=2.0, p95_s=4.0, max_s=4.0)
    """
    if not times_s:
        return None
    ordered = sorted(times_s)
    return TimeSummary(
        min_s=ordered[0],
        median_s=statistics.median(ordered),
        p95_s=percentile(ordered, 95),
        max_s=ordered[-1],
    )


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The nearest-rank percentile of sorted values.

    >>> [percentile(range(1, 21), p) for p in (1, 50, 95, 100)]
    [1, 10, 19, 20]
    """
    return ordered[max(math.ceil(len(ordered) * percent / 100), 1) - 1]
