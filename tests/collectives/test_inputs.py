import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rankrun.collectives.on_rank.inputs import (
    LARGEST_EXACT,
    PERIOD,
    Scheme,
    Values,
    raw_values,
    scheme_for,
)
from rankrun.collectives.on_rank.reductions import COMPLEX_REDOPS, torch_dtype
from rankrun.collectives.on_rank.verification import poison_value
from rankrun.collectives.spec import Dtype, Redop

BITWISE = (Redop.BAND, Redop.BOR, Redop.BXOR)
INTEGERS = (Dtype.INT8, Dtype.UINT8, Dtype.INT16, Dtype.INT32, Dtype.INT64)

schemes = st.builds(
    scheme_for,
    st.sampled_from(Dtype),
    st.sampled_from([None, *Redop]),
    st.integers(1, 40) | st.sampled_from([100, 257, 300]),
)


def applies(scheme: Scheme) -> bool:
    if scheme.redop in BITWISE:
        return scheme.dtype in INTEGERS
    return scheme.dtype is not Dtype.COMPLEX64 or scheme.redop in (None, *COMPLEX_REDOPS)


def contributions(scheme: Scheme, count: int = 40, seed: int = 1) -> Tensor:
    """All ranks' values: shape (group size, count)."""
    indices = torch.arange(count)
    return torch.stack(
        [
            raw_values(scheme, seed=seed, rank=slot, slot=slot, indices=indices)
            for slot in range(scheme.group_size)
        ]
    )


@settings(deadline=None, max_examples=40)
@given(schemes)
def test_values_are_exact_in_their_dtype(scheme: Scheme) -> None:
    raw = contributions(scheme)
    if scheme.redop in BITWISE and scheme.dtype not in INTEGERS:
        return
    back = raw.to(torch_dtype(scheme.dtype)).to(raw.dtype)
    assert torch.equal(back, raw)


@settings(deadline=None, max_examples=40)
@given(schemes)
def test_sums_stay_exact_in_any_order(scheme: Scheme) -> None:
    if scheme.values is not Values.SUMMANDS:
        return
    raw = contributions(scheme)
    factor = 2 if scheme.redop is Redop.PREMUL_SUM else 1
    for part in (raw.real, raw.imag) if raw.is_complex() else (raw,):
        assert int(part.abs().sum(0).max()) * factor <= max(
            LARGEST_EXACT[scheme.dtype], scheme.unit
        )


@settings(deadline=None, max_examples=40)
@given(schemes)
def test_products_stay_finite_in_any_order(scheme: Scheme) -> None:
    if scheme.values is not Values.FACTORS or not applies(scheme):
        return
    raw = contributions(scheme)
    part = raw.real if raw.is_complex() else raw
    exponents = part.abs().to(torch.float64).log2().sum(0)
    largest = torch.finfo if torch_dtype(scheme.dtype).is_floating_point else torch.iinfo
    limit = 2**31 if raw.is_complex() else largest(torch_dtype(scheme.dtype)).max
    assert 2 ** float(exponents.max()) <= limit


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(Dtype), st.sampled_from(list(Redop)), st.integers(2, 64))
def test_every_rank_counts_somewhere(dtype: Dtype, redop: Redop, n: int) -> None:
    scheme = scheme_for(dtype, redop, n)
    neutral = {Values.FACTORS: 1, Values.HOLES: -1}.get(scheme.values, 0)
    raw = contributions(scheme, count=40 * n)
    if scheme.values is Values.ONE_FALSE:
        neutral = 1
    for slot in range(n):
        assert bool(raw[slot].ne(neutral).any())


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 40), st.sampled_from([Redop.SUM, Redop.MAX, Redop.BOR, Redop.BXOR]))
def test_bool_has_at_most_one_true(n: int, redop: Redop) -> None:
    # gloo adds the bytes of bools: two of them would make a byte of 2.
    raw = contributions(scheme_for(Dtype.BOOL, redop, n), count=200)
    assert int(raw.sum(0).max()) <= 1
    assert int(raw.sum()) > 0
    raw = contributions(scheme_for(Dtype.BOOL, Redop.BAND, n), count=200)
    assert int((1 - raw).sum(0).max()) <= 1


@settings(deadline=None, max_examples=40)
@given(schemes)
def test_no_value_is_the_poison(scheme: Scheme) -> None:
    if scheme.dtype in INTEGERS:
        assert not contributions(scheme).eq(int(poison_value(scheme.dtype))).any()


@given(st.integers(0, 10**9), st.integers(0, 10**6), st.integers(1, 10**6))
def test_values_depend_on_seed_rank_and_index_modulo_the_period(
    seed: int, rank: int, shift: int
) -> None:
    scheme = scheme_for(Dtype.FLOAT32, None, 4)
    indices = torch.arange(100)

    def values(seed: int, rank: int, indices: Tensor) -> Tensor:
        return raw_values(scheme, seed=seed, rank=rank, slot=0, indices=indices)

    base = values(seed, rank, indices)
    assert torch.equal(base, values(seed, rank, indices + PERIOD))
    assert not torch.equal(base, values(seed + 1, rank, indices))
    assert not torch.equal(base, values(seed, rank + 1, indices))
    if shift % PERIOD:
        assert not torch.equal(base, values(seed, rank, indices + shift))


def test_values_never_change() -> None:
    """Results of two versions of this program can be compared."""
    scheme = scheme_for(Dtype.INT32, None, 4)
    raw = raw_values(scheme, seed=1, rank=2, slot=2, indices=torch.arange(3))
    assert raw.tolist() == [1735607846, 1710056756, 806337168]


def test_values_spread_over_the_range() -> None:
    raw = contributions(scheme_for(Dtype.INT8, None, 1), count=20_000)
    assert len(set(raw.flatten().tolist())) == 255
    assert abs(float(raw.to(torch.float64).mean())) < 2


@pytest.mark.parametrize("n", [2, 4, 100, 1000])
def test_large_groups_use_a_window(n: int) -> None:
    scheme = scheme_for(Dtype.FLOAT8_E5M2, Redop.SUM, n)
    assert scheme.window == min(n, 8)
    assert int(contributions(scheme, count=8).ne(0).sum(0).max()) == scheme.window
