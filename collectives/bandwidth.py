"""Algorithm and bus bandwidth, by the formulas of nccl-tests.

Source: NVIDIA/nccl-tests, doc/PERFORMANCE.md. algbw = S / t says how fast a user's data got
through; busbw = algbw * factor(n) says how fast the busiest link worked, comparable with the
link's own rate whatever the number of ranks. The factor is a column of the table of operations.
"""

from ..cluster.units import gbps
from .cases import Case
from .operations import find

NO_DATA = "it moves no data, so it has a time and no bandwidth"
ONE_RANK = "with one rank no data crosses a link, so the bus bandwidth is not defined"
# Where the factor depends on the number of ranks, one rank shows in it.
ONE_RANK_IN_FACTOR = f"{ONE_RANK} (the factor busbw / algbw is 0 for n = 1)"


def algbw_gbps(size_bytes: int, time_s: float) -> float | None:
    """GB/s of S in so many seconds; None where there is no data or no time."""
    return gbps(size_bytes, time_s) if size_bytes and time_s > 0 else None


def busbw_factor(case: Case, group_size: int) -> float | None:
    """The ratio busbw / algbw; None where `why_no_busbw` says why."""
    if why_no_busbw(case, group_size):
        return None
    return find(case.operation, case.form).bus_factor(group_size)


def why_no_busbw(case: Case, group_size: int) -> str | None:
    """Why a case has no bus bandwidth; None if it has one."""
    factor = find(case.operation, case.form).bus_factor
    if not factor(2):
        return NO_DATA
    if group_size > 1:
        return None
    return ONE_RANK if factor(1) else ONE_RANK_IN_FACTOR
