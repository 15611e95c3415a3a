"""The exact reductions against the same ones done in the dtype itself, in random orders."""

import random
from functools import reduce

import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rankrun.collectives.on_rank.inputs import FLOATS, Scheme, raw_values, scheme_for
from rankrun.collectives.on_rank.reductions import (
    FOLDS,
    finished,
    folded,
    rounding_bound,
    to_elements,
    torch_dtype,
    torch_redop,
)
from rankrun.collectives.spec import Dtype, Redop

REAL_FLOATS = (Dtype.FLOAT16, Dtype.BFLOAT16, Dtype.FLOAT32, Dtype.FLOAT64)
INTEGERS = (Dtype.INT8, Dtype.UINT8, Dtype.INT16, Dtype.INT32, Dtype.INT64)
ARITHMETIC = (Redop.SUM, Redop.PRODUCT, Redop.MIN, Redop.MAX)


def raws(scheme: Scheme, count: int = 50) -> list[Tensor]:
    indices = torch.arange(count)
    return [
        raw_values(scheme, seed=3, rank=slot, slot=slot, indices=indices)
        for slot in range(scheme.group_size)
    ]


def shuffled_tree(values: list[Tensor], redop: Redop, order: random.Random) -> Tensor:
    """Reduce in the dtype of the values, two random partial results at a time."""
    left = list(values)
    while len(left) > 1:
        order.shuffle(left)
        left.append(FOLDS[redop](left.pop(), left.pop()))
    return left[0]


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from([*REAL_FLOATS, *INTEGERS]),
    st.sampled_from(ARITHMETIC),
    st.integers(1, 70),
    st.randoms(use_true_random=False),
)
def test_any_order_in_the_dtype_gives_the_exact_result(
    dtype: Dtype, redop: Redop, n: int, order: random.Random
) -> None:
    scheme = scheme_for(dtype, redop, n)
    raw = raws(scheme)
    exact = to_elements(finished(redop, folded(redop, raw), scheme), scheme)
    there = shuffled_tree([to_elements(one, scheme) for one in raw], redop, order)
    assert torch.equal(there, exact)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(INTEGERS), st.integers(1, 40), st.randoms(use_true_random=False))
def test_bitwise_operators(dtype: Dtype, n: int, order: random.Random) -> None:
    for redop in (Redop.BAND, Redop.BOR, Redop.BXOR):
        scheme = scheme_for(dtype, redop, n)
        raw = raws(scheme)
        there = shuffled_tree([to_elements(one, scheme) for one in raw], redop, order)
        assert torch.equal(there, to_elements(folded(redop, raw), scheme))


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(REAL_FLOATS),
    st.integers(1, 40) | st.just(130),
    st.randoms(use_true_random=False),
)
def test_average_as_gloo_does_it_is_exact(dtype: Dtype, n: int, order: random.Random) -> None:
    """Sum first, then divide."""
    scheme = scheme_for(dtype, Redop.AVG, n)
    raw = raws(scheme)
    summed = shuffled_tree([to_elements(one, scheme) for one in raw], Redop.SUM, order)
    exact = to_elements(finished(Redop.AVG, folded(Redop.AVG, raw), scheme), scheme)
    assert rounding_bound(scheme, premultiplied=False) == 0
    assert torch.equal(summed / n, exact)


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(REAL_FLOATS),
    st.integers(1, 40) | st.just(130),
    st.randoms(use_true_random=False),
)
def test_average_as_nccl_does_it_is_within_the_bound(
    dtype: Dtype, n: int, order: random.Random
) -> None:
    """Every summand times 1/n, then the sum; exact for powers of two."""
    scheme = scheme_for(dtype, Redop.AVG, n)
    inverse = torch.tensor(1 / n, dtype=torch_dtype(dtype))
    raw = raws(scheme)
    got = shuffled_tree([to_elements(one, scheme) * inverse for one in raw], Redop.SUM, order)
    exact = finished(Redop.AVG, folded(Redop.AVG, raw), scheme)
    bound = rounding_bound(scheme, premultiplied=True)
    assert (bound == 0) == (n & (n - 1) == 0)
    # float64 itself rounds the exact average that it is compared with.
    assert float((got.to(torch.float64) - exact).abs().max()) <= bound * (1 + 2**-40)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(REAL_FLOATS), st.integers(2, 100))
def test_the_bound_tells_a_missing_contribution_from_rounding(dtype: Dtype, n: int) -> None:
    scheme = scheme_for(dtype, Redop.AVG, n)
    raw = raws(scheme)
    right = finished(Redop.AVG, folded(Redop.AVG, raw), scheme)
    wrong = finished(Redop.AVG, folded(Redop.AVG, raw[1:]), scheme)
    error = float((right - wrong).abs().max())
    assert error > rounding_bound(scheme, premultiplied=True)


def test_integer_averages_divide_towards_zero() -> None:
    scheme = scheme_for(Dtype.INT8, Redop.AVG, 200)
    assert finished(Redop.AVG, torch.tensor([-399, 399]), scheme).tolist() == [-1, 1]


def test_float8_averages_divide_exactly() -> None:
    for n in (2, 4, 8, 64, 512):
        scheme = scheme_for(Dtype.FLOAT8_E4M3FN, Redop.AVG, n)
        exact = finished(Redop.AVG, folded(Redop.AVG, raws(scheme, 20)), scheme)
        assert torch.equal(to_elements(exact, scheme).to(torch.float64), exact)


@pytest.mark.parametrize("redop", Redop)
def test_every_operator_has_a_name_in_torch(redop: Redop) -> None:
    assert torch_redop(dist, redop) is not None


def test_complex_parts_add_up_apart() -> None:
    scheme = scheme_for(Dtype.COMPLEX64, Redop.SUM, 5)
    raw = raws(scheme)
    there = reduce(torch.add, [to_elements(one, scheme) for one in raw])
    assert torch.equal(there, to_elements(folded(Redop.SUM, raw), scheme))
    assert Dtype.COMPLEX64 in FLOATS
