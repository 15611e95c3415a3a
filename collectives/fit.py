"""Latency and bandwidth of a case from its sizes: t(S) = alpha + S / bandwidth.

The model of Hockney (1994), as used by Thakur, Rabenseifner and Gropp (2005) for collectives.
Fitted by least squares of the relative error: absolute errors would let the largest size alone
decide. Neither term can be negative. Where a library changes its algorithm with the size, no
such line fits; the residual says so.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..cluster.units import BYTES_PER_GB
from .bandwidth import busbw_factor
from .cases import Case
from .measurement import Measurement

MIN_SIZES = 3
_SMALLEST_ANGLE = 1e-12  # below, the two columns are one for double precision
TOO_FEW_SIZES = f"a fit takes {MIN_SIZES} sizes or more"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlphaBeta:
    """t = latency_s + S * seconds_per_byte, both at least 0.

    `residual` is the median over the sizes of |fitted - measured| / measured.
    """

    latency_s: float
    seconds_per_byte: float
    residual: float

    @property
    def algbw_gbps(self) -> float | None:
        """The algorithm bandwidth that large sizes tend to; None if time does not grow."""
        if self.seconds_per_byte <= 0:
            return None
        return 1 / self.seconds_per_byte / BYTES_PER_GB


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFit:
    """The fit of one case, or why there is none."""

    case: Case
    group_size: int
    num_sizes: int
    fit: AlphaBeta | None
    reason: str | None = None

    @property
    def busbw_gbps(self) -> float | None:
        """The bus bandwidth that large sizes tend to."""
        factor = busbw_factor(self.case, self.group_size)
        algorithm = self.fit.algbw_gbps if self.fit else None
        return None if factor is None or algorithm is None else algorithm * factor


def fit_cases(measurements: Iterable[Measurement]) -> list[CaseFit]:
    """One entry per timed case that moves data, in order of appearance."""
    timed: dict[tuple[Case, int], list[Measurement]] = defaultdict(list)
    for measured in measurements:
        if measured.times_s and measured.size_bytes:
            timed[measured.case, measured.group_size].append(measured)
    return [_fit_case(case, size, points) for (case, size), points in timed.items()]


def _fit_case(case: Case, group_size: int, measurements: Sequence[Measurement]) -> CaseFit:
    points = [(m.size_bytes, statistics.median(m.times_s)) for m in measurements]
    fit = fit_line(points)
    return CaseFit(
        case=case,
        group_size=group_size,
        num_sizes=len({size for size, _ in points}),
        fit=fit,
        reason=None if fit else TOO_FEW_SIZES,
    )


def fit_line(points: Sequence[tuple[float, float]]) -> AlphaBeta | None:
    """The line through (bytes, seconds); None for fewer than three different sizes.

    With u = 1/t and v = S/t for every point, the relative error of alpha + beta*S is
    alpha*u + beta*v - 1: an ordinary least-squares problem in two unknowns.

    >>> line = fit_line([(0, 2.0), (10, 3.0), (20, 4.0)])
    >>> round(line.latency_s, 9), round(line.seconds_per_byte, 9), round(line.residual, 9)
    (2.0, 0.1, 0.0)
    """
    usable = [(size, time) for size, time in points if time > 0]
    if len({size for size, _ in usable}) < MIN_SIZES:
        return None
    # Sizes are scaled to at most 1, so that the sums keep their digits.
    scale = max(size for size, _ in usable)
    alpha, beta = _solve([(1 / t, size / scale / t) for size, t in usable])
    errors = [abs(alpha + beta * size / scale - t) / t for size, t in usable]
    return AlphaBeta(
        latency_s=alpha, seconds_per_byte=beta / scale, residual=statistics.median(errors)
    )


def _solve(rows: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Non-negative least squares of alpha*u + beta*v = 1."""
    inside = _unbounded(rows)
    if inside is not None and min(inside) >= 0:
        return inside
    # The error is convex: with its minimum outside, the best allowed point is on an edge.
    us, vs = [u for u, _ in rows], [v for _, v in rows]
    edges = (0.0, sum(vs) / _dot(vs, vs)), (sum(us) / _dot(us, us), 0.0)
    return min(edges, key=lambda edge: _squared_error(rows, *edge))


def _unbounded(rows: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """Least squares by orthogonalisation; None where one point outweighs all others.

    The normal equations would square what sizes from 8 bytes to gigabytes cost in digits.
    """
    us, vs = [u for u, _ in rows], [v for _, v in rows]
    norm = math.sqrt(_dot(us, us))
    direction = [u / norm for u in us]
    along = _dot(direction, vs)
    across = [v - along * d for v, d in zip(vs, direction, strict=True)]
    if _dot(across, across) <= (_SMALLEST_ANGLE**2) * _dot(vs, vs):
        return None
    ones_along = sum(direction)
    rest = [1 - ones_along * d for d in direction]
    beta = _dot(across, rest) / _dot(across, across)
    return (ones_along - along * beta) / norm, beta


def _squared_error(rows: Sequence[tuple[float, float]], alpha: float, beta: float) -> float:
    return sum((alpha * u + beta * v - 1) ** 2 for u, v in rows)


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(left, right, strict=True))
