from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from rankrun.collectives.layouts import Block, Position, true_count
from rankrun.collectives.on_rank.inputs import PERIOD, scheme_for
from rankrun.collectives.on_rank.reductions import torch_dtype
from rankrun.collectives.on_rank.verification import (
    TILE_PERIODS,
    Sources,
    as_bytes,
    count_wrong,
    differs,
    expected_at,
    poison,
    write_expected,
    wrong_offsets,
)
from rankrun.collectives.operations import OPERATIONS, Operation
from rankrun.collectives.spec import ELEMENT_BYTES, Dtype, Redop

CPU = torch.device("cpu")
quick = settings(deadline=None, max_examples=40)


def sources_of(dtype: Dtype, redop: Redop | None, n: int, extent: int) -> Sources:
    return Sources(
        scheme=scheme_for(dtype, redop, n),
        seed=1,
        members=tuple(range(10, 10 + n)),
        extent=extent,
        device=CPU,
    )


@quick
@given(
    row=st.sampled_from(OPERATIONS),
    dtype=st.sampled_from(Dtype),
    n=st.integers(1, 5),
    asked=st.integers(1, 300) | st.sampled_from([PERIOD - 1, PERIOD, PERIOD + 1, 3 * PERIOD + 7]),
    data=st.data(),
)
def test_what_should_be_there_is_right_and_poison_is_wrong(
    *, row: Operation, dtype: Dtype, n: int, asked: int, data: st.DataObject
) -> None:
    size = ELEMENT_BYTES[dtype]
    count = true_count(row.counting, asked, group_size=n, element_bytes=size)
    rank = data.draw(st.integers(0, n - 1))
    layout = row.layout(Position(group_size=n, rank=rank), count)
    sources = sources_of(dtype, Redop.SUM if row.reduces else None, n, count)
    output = torch.empty(layout.output_elements, dtype=torch_dtype(dtype))
    poison(output, layout.blocks, sources)
    for block in layout.blocks:
        assert count_wrong(output, block, sources) == block.count
    write_expected(output, layout.blocks, sources)
    for block in layout.blocks:
        assert count_wrong(output, block, sources) == 0
        if block.count:
            offsets = torch.tensor([block.offset, block.offset + block.count - 1])
            assert torch.equal(
                output[offsets].view(torch.uint8),
                expected_at(block, offsets, sources).view(torch.uint8),
            )


@quick
@given(st.integers(1, 2 * (TILE_PERIODS + 1)), st.data())
def test_every_wrong_element_is_found_wherever_it_is(periods: int, data: st.DataObject) -> None:
    count = periods * PERIOD + 5
    sources = sources_of(Dtype.INT8, None, 2, count + 100)
    block = Block(offset=0, count=count, source_offset=33, sources=(1,))
    output = torch.empty(count, dtype=torch.int8)
    write_expected(output, [block], sources)
    wrong = sorted(data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=5)))
    for offset in wrong:
        output[offset] ^= 1
    assert count_wrong(output, block, sources) == len(wrong)
    assert wrong_offsets(output, block, sources, limit=100).tolist() == wrong
    few = wrong_offsets(output, block, sources, limit=2).tolist()
    assert few == (wrong if len(wrong) < 2 else [wrong[0], wrong[-1]])


def test_a_small_case_builds_a_small_reference() -> None:
    assert sources_of(Dtype.FLOAT32, Redop.SUM, 4, 8).period((0, 1, 2, 3), reduced=True).shape == (
        8,
    )


def test_references_are_kept_for_the_next_size_of_a_case() -> None:
    large = sources_of(Dtype.FLOAT32, Redop.SUM, 4, PERIOD + 1)
    period = large.period((2,))
    larger = sources_of(Dtype.FLOAT32, Redop.SUM, 4, 2 * PERIOD).keeping(large)
    assert larger.period((2,)) is period
    other = sources_of(Dtype.FLOAT32, Redop.MAX, 4, 2 * PERIOD).keeping(large)
    assert other.period((2,)) is not period


FLOAT8 = (Dtype.FLOAT8_E4M3FN, Dtype.FLOAT8_E5M2)
VIEWS = {"view", "slice", "expand", "select", "detach", "as_strided", "alias", "split"}
# Making a reference, on the CPU: memory, and conversion from and to wider types.
CONVERSIONS = {"empty", "lift_fresh", "_to_copy"}


class Float8Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes what is done to tensors of float8: devices have few kernels for them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        touched, _ = tree_flatten((args, kwargs, result))
        tensors = [item for item in touched if isinstance(item, torch.Tensor)]
        if any(t.is_floating_point() and t.element_size() == 1 for t in tensors):
            self.names.add(func.overloadpacket.__name__)
        return result


@pytest.mark.parametrize("dtype", FLOAT8)
@pytest.mark.parametrize("redop", [None, Redop.AVG])  # of three ranks, an average has a bound
def test_float8_is_moved_and_compared_as_bytes(dtype: Dtype, redop: Redop | None) -> None:
    count = PERIOD + 100
    sources = replace(sources_of(dtype, redop, 3, 2 * count), premultiplied=True)
    slots = (1,) if redop is None else (0, 1, 2)
    block = Block(offset=5, count=count, source_offset=33, sources=slots, reduced=redop is not None)
    output = torch.empty(count + 5, dtype=torch_dtype(dtype))
    sources.period(slots, reduced=block.reduced)  # built on the CPU, whatever the device
    sources.period((1,))
    with Float8Operations() as done:
        sources.fill(output, 1)
        poison(output, [block], sources)
        assert count_wrong(output, block, sources) == count
        write_expected(output, [block], sources)
        as_bytes(output)[77] ^= 0x40
        assert count_wrong(output, block, sources) == 1
        assert wrong_offsets(output, block, sources, limit=100).tolist() == [77]
    assert done.names <= VIEWS | CONVERSIONS


@pytest.mark.parametrize("dtype", FLOAT8)
def test_the_values_of_float8_are_looked_up(dtype: Dtype) -> None:
    every = torch.arange(256).to(torch.uint8).view(torch_dtype(dtype))
    number = every.to(torch.float32).isfinite()
    assert torch.equal(differs(every, every, 0.5), ~number)
    zero = torch.zeros(256).to(torch_dtype(dtype))
    near = every.to(torch.float64).abs() <= 0.5
    assert torch.equal(differs(every, zero, 0.5), ~near)


def test_a_bool_of_two_is_no_true() -> None:
    got = torch.tensor([2, 1, 0], dtype=torch.uint8).view(torch.bool)
    expected = torch.tensor([True, True, False])
    assert differs(got, expected, 0.0).tolist() == [True, False, False]


def test_nan_is_always_wrong() -> None:
    nan = torch.tensor([float("nan")])
    assert differs(nan, nan, 0.0).tolist() == [True]
    assert differs(nan, torch.tensor([1.0]), 0.5).tolist() == [True]


def test_within_a_bound() -> None:
    got, expected = torch.tensor([1.0, 1.5]), torch.tensor([1.25, 1.0])
    assert differs(got, expected, 0.25).tolist() == [False, True]
