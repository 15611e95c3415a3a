"""Reductions done exactly, in 64 bits, and the operators as torch.distributed names them."""

import math
from collections.abc import Callable, Iterable
from functools import reduce
from types import ModuleType
from typing import Any, TypeAlias

import torch
from torch import Tensor

from ..spec import Dtype, Redop
from .inputs import FLOATS, LARGEST_EXACT, PREMUL_FACTOR, Scheme, is_average_rounded

Fold: TypeAlias = Callable[[Tensor, Tensor], Tensor]

# How two partial results become one. AVG and PREMUL_SUM add up and are finished afterwards.
FOLDS: dict[Redop, Fold] = {
    Redop.SUM: torch.add,
    Redop.AVG: torch.add,
    Redop.PREMUL_SUM: torch.add,
    Redop.PRODUCT: torch.mul,
    Redop.MIN: torch.minimum,
    Redop.MAX: torch.maximum,
    Redop.BAND: torch.bitwise_and,
    Redop.BOR: torch.bitwise_or,
    Redop.BXOR: torch.bitwise_xor,
}
# A contribution that comes twice changes nothing, or cancels out.
IDEMPOTENT = frozenset({Redop.MIN, Redop.MAX, Redop.BAND, Redop.BOR})
# Operators that complex numbers have.
COMPLEX_REDOPS = frozenset({Redop.SUM, Redop.AVG, Redop.PREMUL_SUM, Redop.PRODUCT})


def torch_dtype(dtype: Dtype) -> torch.dtype:
    """The dtype of this name."""
    found = getattr(torch, dtype)
    assert isinstance(found, torch.dtype)
    return found


def torch_redop(dist: ModuleType, redop: Redop) -> Any:
    """What torch.distributed's functions take as `op`.

    PREMUL_SUM carries its factor; torch has no public name for making one.
    """
    if redop is Redop.PREMUL_SUM:
        make = getattr(dist, "_make_nccl_premul_sum")  # noqa: B009  # see above
        return make(float(PREMUL_FACTOR))
    return getattr(dist.ReduceOp, redop.upper())


def folded(redop: Redop, raws: Iterable[Tensor]) -> Tensor:
    """Raw contributions (`inputs.raw_values`) made one, exactly."""
    return reduce(FOLDS[redop], raws)


def finished(redop: Redop, raw: Tensor, scheme: Scheme) -> Tensor:
    """What the operator makes of a folded result: an average is divided, and so on.

    Integers are divided towards zero, as NCCL does (ncclDevSumPostDiv).
    """
    if redop is Redop.PREMUL_SUM:
        return raw * PREMUL_FACTOR
    if redop is not Redop.AVG:
        return raw
    if scheme.dtype in FLOATS:
        wide = raw if raw.is_complex() else raw.to(torch.float64)
        return wide / scheme.group_size
    return torch.div(raw, scheme.group_size, rounding_mode="trunc")


def to_elements(raw: Tensor, scheme: Scheme) -> Tensor:
    """Exact values in the dtype of the case; what does not fit is rounded or wraps."""
    return raw.to(torch_dtype(scheme.dtype))


def rounding_bound(scheme: Scheme, *, premultiplied: bool) -> float:
    """How far a right average may be from the exact one; 0 everywhere else.

    gloo sums, which is exact here, and divides once: right to the last bit, since the summands
    are multiples of `average_unit`. NCCL multiplies every summand by 1/n first
    (`premultiplied`; ncclDevPreMulSum), which is exact when n is a power of two. Otherwise each
    of the w summands at an index carries two roundings (of 1/n and of the product) and at most
    w-1 from the additions; one more is left for an exact average that the dtype does not hold.
    With the unit roundoff u (2^-p for p bits of significand) and summands of size at most m,
    |error| <= ((1+u)^(w+2) - 1) * w * m / n (Higham, Accuracy and Stability of Numerical
    Algorithms, 2nd ed., section 4.2). `inputs` keeps that below half of one contribution.
    """
    if scheme.redop is not Redop.AVG or not is_average_rounded(scheme.dtype, scheme.group_size):
        return 0.0
    if scheme.unit > 1 and not premultiplied:
        return 0.0
    growth = math.expm1((scheme.window + 2) * math.log1p(1 / LARGEST_EXACT[scheme.dtype]))
    return growth * scheme.window * scheme.largest * scheme.unit / scheme.group_size
