"""What each rank puts in: values such that every correct result is exact, whatever the order.

An element is a function of (seed, rank, index), so any rank can say what any other gave. The
index is taken modulo the prime PERIOD: a reference is built once for one period and compared
tile by tile, so that checking 10 GB costs the memory of one tile. Blocks that are shifted
against each other by a power of two (or by anything but a multiple of 65521) still differ.

Reductions stay exact because every partial sum, in any order, is an integer that the dtype
holds: |sum| <= 2^8 (bfloat16), 2^11 (float16), 2^24 (float32), 2^53 (float64), 2^4
(float8_e4m3fn), 2^3 (float8_e5m2), and the range of an integer less the value that poisons
outputs. Where not every rank of a large group can take part within that range, a window of ranks
does, another one at each index, so that each rank counts somewhere; the others give the
operator's neutral element.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ...cluster.compat import StrEnum
from ..spec import Dtype, Redop

PERIOD = 65521

# Integers up to this are exact in the dtype: 2^(bits of the significand), or the range of the
# integer without the extreme that is the poison. int64: two of them still add up.
LARGEST_EXACT: dict[Dtype, int] = {
    Dtype.FLOAT16: 2**11,
    Dtype.BFLOAT16: 2**8,
    Dtype.FLOAT32: 2**24,
    Dtype.FLOAT64: 2**53,
    Dtype.INT8: 2**7 - 1,
    Dtype.UINT8: 2**8 - 2,
    Dtype.INT16: 2**15 - 1,
    Dtype.INT32: 2**31 - 1,
    Dtype.INT64: 2**62,
    Dtype.BOOL: 1,
    Dtype.COMPLEX64: 2**24,
    Dtype.FLOAT8_E4M3FN: 2**4,
    Dtype.FLOAT8_E5M2: 2**3,
}
# Powers of two up to this stay finite and leave the poison free.
LARGEST_EXPONENT: dict[Dtype, int] = {
    Dtype.INT8: 6,
    Dtype.UINT8: 7,
    Dtype.INT16: 14,
    Dtype.FLOAT8_E4M3FN: 8,
    Dtype.BOOL: 0,
}
USUAL_EXPONENT = 15
# All bits but the highest, which the poison has. Backends refuse the other dtypes.
BIT_MASK: dict[Dtype, int] = {
    Dtype.INT8: 2**7 - 1,
    Dtype.UINT8: 2**7 - 1,
    Dtype.INT16: 2**15 - 1,
    Dtype.INT32: 2**31 - 1,
    Dtype.INT64: 2**62 - 1,
}
PREMUL_FACTOR = 2
# Masks of a few ranks leave bits that the others do not set.
BIT_RANKS = 3

FLOATS = frozenset(
    {
        Dtype.FLOAT16,
        Dtype.BFLOAT16,
        Dtype.FLOAT32,
        Dtype.FLOAT64,
        Dtype.COMPLEX64,
        Dtype.FLOAT8_E4M3FN,
        Dtype.FLOAT8_E5M2,
    }
)
UNSIGNED = frozenset({Dtype.UINT8, Dtype.BOOL})


class Values(StrEnum):
    """What kind of values a rank gives."""

    ANY = "any"  # the whole exact range
    SUMMANDS = "summands"  # not 0; 0 outside of the window
    FACTORS = "factors"  # 2, -2, -1 or, unsigned, 2, 1; 1 outside of the window
    BITS = "bits"  # any bits; none outside of the window
    HOLES = "holes"  # any bits; all outside of the window
    ONE_TRUE = "one true"  # at most one rank gives True
    ONE_FALSE = "one false"  # at most one rank gives False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """Which values the ranks of a group give, for one dtype and operator.

    Within the window of an index, values are up to `largest`, times `unit`. `factor` is what
    PREMUL_SUM multiplies with.
    """

    dtype: Dtype
    redop: Redop | None
    group_size: int
    values: Values
    largest: int
    unit: int = 1
    window: int


def scheme_for(dtype: Dtype, redop: Redop | None, group_size: int) -> Scheme:
    """The scheme under which a reduction over so many ranks is exact in the dtype."""
    if redop is None or redop in (Redop.MIN, Redop.MAX):
        return _scheme(dtype, redop, group_size, _any_values(dtype, redop))
    if dtype is Dtype.BOOL:
        values = Values.ONE_FALSE if redop in (Redop.PRODUCT, Redop.BAND) else Values.ONE_TRUE
        return _scheme(dtype, redop, group_size, values)
    if redop is Redop.PRODUCT:
        exponent = LARGEST_EXPONENT.get(dtype, USUAL_EXPONENT)
        return _scheme(dtype, redop, group_size, Values.FACTORS, window=exponent)
    if redop in (Redop.BAND, Redop.BOR, Redop.BXOR):
        values = Values.HOLES if redop is Redop.BAND else Values.BITS
        return _scheme(dtype, redop, group_size, values, window=BIT_RANKS)
    return _summands(dtype, redop, group_size)


def _any_values(dtype: Dtype, redop: Redop | None) -> Values:
    """bool: MIN is AND, MAX is OR, and random bits of many ranks would always give the same."""
    if dtype is not Dtype.BOOL or redop is None:
        return Values.ANY
    return Values.ONE_FALSE if redop is Redop.MIN else Values.ONE_TRUE


def _summands(dtype: Dtype, redop: Redop, group_size: int) -> Scheme:
    """SUM, AVG and PREMUL_SUM: as many ranks at a time as fit, then values as large as fit."""
    room = LARGEST_EXACT[dtype]
    if redop is Redop.PREMUL_SUM:
        room //= PREMUL_FACTOR
    unit = average_unit(dtype, group_size) if redop is Redop.AVG else 1
    room = max(room // unit, 1)
    largest = max(room // group_size, 1)
    window = min(group_size, room // largest)
    if redop is Redop.AVG and is_average_rounded(dtype, group_size):
        # The rounding bound is to stay below half of the smallest contribution.
        finest = LARGEST_EXACT[dtype] // 2
        window = min(window, math.isqrt(finest + 1) - 1)  # window * (window + 2) <= finest
        largest = max(1, min(largest, finest // (window * (window + 2))))
    scheme = _scheme(dtype, redop, group_size, Values.SUMMANDS, window=window)
    return replace(scheme, largest=largest, unit=unit)


def is_average_rounded(dtype: Dtype, group_size: int) -> bool:
    """Whether multiplying by 1/n first, as NCCL does, rounds; see `reductions.rounding_bound`."""
    return dtype in FLOATS and group_size & (group_size - 1) != 0


def average_unit(dtype: Dtype, group_size: int) -> int:
    """What the summands of an average are multiples of, so that it divides without a rest.

    Floats divide by the powers of two in `group_size` exactly, so the odd part of it is enough.
    1 where that does not fit in the dtype: the average is then rounded, see
    `reductions.rounding_bound`.
    """
    unit = group_size
    while dtype in FLOATS and unit % 2 == 0:
        unit //= 2
    return unit if unit <= LARGEST_EXACT[dtype] else 1


def _scheme(
    dtype: Dtype, redop: Redop | None, group_size: int, values: Values, *, window: int | None = None
) -> Scheme:
    return Scheme(
        dtype=dtype,
        redop=redop,
        group_size=group_size,
        values=values,
        largest=LARGEST_EXACT[dtype],
        window=min(group_size, window or group_size),
    )


def raw_values(scheme: Scheme, *, seed: int, rank: int, slot: int, indices: Tensor) -> Tensor:
    """What a rank gives at these indices, as int64, or complex128 for complex64.

    `rank` is the rank's number in the whole run, so that the data of another group's rank is
    recognised as such; `slot` its number within the group, which the window goes by.
    """
    index = indices.to(torch.int64) % PERIOD
    first = _integers(scheme, slot, index, (seed, rank))
    if scheme.dtype is not Dtype.COMPLEX64:
        return first
    second = _integers(scheme, slot, index, (seed + 1, rank))
    return torch.complex(first.to(torch.float64), second.to(torch.float64))


def _integers(scheme: Scheme, slot: int, index: Tensor, salt: tuple[int, int]) -> Tensor:
    seed, rank = salt
    noise = _noise(seed, rank, index)
    if scheme.values in (Values.ONE_TRUE, Values.ONE_FALSE):
        # One owner per index, alike for all ranks; one case in so many nobody.
        owner = _noise(seed, -1, index) % (scheme.group_size + 1)
        return owner.eq(slot).to(torch.int64) ^ int(scheme.values is Values.ONE_FALSE)
    inside = (slot - index) % scheme.group_size < scheme.window
    return torch.where(inside, _inside(scheme, noise), _neutral(scheme))


def _inside(scheme: Scheme, noise: Tensor) -> Tensor:
    signed = scheme.dtype not in UNSIGNED
    magnitude, sign = noise >> 1, 1 - 2 * (noise & 1)
    match scheme.values:
        case Values.FACTORS:
            factors = torch.tensor([2, -2, -1, 2] if signed else [2, 1])
            return factors[magnitude % len(factors)]
        case Values.BITS | Values.HOLES:
            return magnitude & _bit_mask(scheme.dtype)
        case Values.SUMMANDS:
            value = (1 + magnitude % scheme.largest) * scheme.unit
            return value * sign if signed else value
        case _:
            value = magnitude % (scheme.largest + 1)
            return value * sign if signed else value


def _neutral(scheme: Scheme) -> Tensor:
    neutral = {Values.FACTORS: 1, Values.HOLES: _bit_mask(scheme.dtype)}.get(scheme.values, 0)
    return torch.tensor(neutral)


def _bit_mask(dtype: Dtype) -> int:
    return BIT_MASK.get(dtype, 1)


def _noise(seed: int, rank: int, index: Tensor) -> Tensor:
    """62 well-mixed bits per index (the finaliser of splitmix64, on wrapping int64)."""
    salt = (seed * 0x9E3779B97F4A7C15 + (rank + 1) * 0xBF58476D1CE4E5B9) % 2**63
    mixed = index * 0x2545F4914F6CDD1D + salt
    mixed = (mixed ^ (mixed >> 30)) * -0x40A7B892E31B1A47
    mixed = (mixed ^ (mixed >> 27)) * -0x6B2FB644ECCEEE15
    return (mixed ^ (mixed >> 31)) & (2**62 - 1)
