from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankrun.collectives import layouts
from rankrun.collectives.layouts import (
    ALIGNMENT_BYTES,
    Block,
    Counting,
    Layout,
    Position,
    true_count,
    uneven_parts,
)
from rankrun.collectives.operations import OPERATIONS, Operation

sizes = st.integers(1, 17)
asked_counts = st.integers(0, 5000)
element_bytes = st.sampled_from([1, 2, 4, 8])
rows = st.sampled_from(OPERATIONS)


def all_layouts(row: Operation, group_size: int, count: int, root: int) -> list[Layout]:
    return [
        row.layout(Position(group_size=group_size, rank=rank, root=root), count)
        for rank in range(group_size)
    ]


def used(row: Operation, asked: int, group_size: int, size: int) -> int:
    return true_count(row.counting, asked, group_size=group_size, element_bytes=size)


@given(row=rows, n=sizes, asked=asked_counts, size=element_bytes, data=st.data())
def test_blocks_lie_within_outputs_and_inputs(
    *, row: Operation, n: int, asked: int, size: int, data: st.DataObject
) -> None:
    root = data.draw(st.integers(0, n - 1))
    count = used(row, asked, n, size)
    everyone = all_layouts(row, n, count, root)
    for layout in everyone:
        covered = sorted((block.offset, block.count) for block in layout.blocks)
        end = 0
        for offset, length in covered:
            assert offset == end  # no gap, no overlap
            end += length
        assert end in (0, layout.output_elements)
        for block in layout.blocks:
            for source in block.sources:
                assert block.source_offset + block.count <= everyone[source].input_elements
            assert block.reduced == (len(block.sources) > 1 or row.reduces)


@given(rows, sizes, asked_counts, element_bytes)
def test_size_is_the_larger_of_what_is_sent_and_received(
    row: Operation, n: int, asked: int, size: int
) -> None:
    count = used(row, asked, n, size)
    everyone = all_layouts(row, n, count, 0)
    assert count == max(max(one.input_elements, one.output_elements) for one in everyone)


@given(sizes, asked_counts, element_bytes)
def test_parts_are_those_of_nccl_tests_unless_it_has_none(n: int, asked: int, size: int) -> None:
    part = true_count(Counting.PARTS, asked, group_size=n, element_bytes=size) // n
    theirs = (asked // n) & -(ALIGNMENT_BYTES // size)
    assert part == (theirs or max(asked // n, 1))
    assert part >= 1


def test_no_size_without_data() -> None:
    assert true_count(Counting.NOTHING, 100, group_size=4, element_bytes=4) == 0
    assert true_count(Counting.WHOLE, 0, group_size=4, element_bytes=4) == 1


@given(sizes, st.integers(0, 10_000))
def test_uneven_parts_add_up_and_differ(n: int, count: int) -> None:
    parts = uneven_parts(count, n)
    assert len(parts) == n
    assert sum(parts) == count
    if n > 1:
        assert 0 in parts
        assert len(set(parts)) == n or count < n**2


@pytest.mark.parametrize("rule", [layouts.all_to_all, layouts.uneven_all_to_all])
@given(n=sizes, part=st.integers(1, 50))
def test_what_is_sent_is_what_is_received(
    rule: Callable[[Position, int], Layout], n: int, part: int
) -> None:
    everyone = [rule(Position(group_size=n, rank=rank), n * part) for rank in range(n)]
    for sender in range(n):
        for receiver in range(n):
            sent = everyone[sender].input_splits[receiver]
            assert sent == everyone[receiver].output_splits[sender]
            block = everyone[receiver].blocks[sender]
            assert block.source_offset == sum(everyone[sender].input_splits[:receiver])


def test_reduce_leaves_other_ranks_unspecified() -> None:
    layout = layouts.reduce(Position(group_size=3, rank=1, root=2), 8)
    assert (layout.output_elements, layout.blocks) == (8, ())


def test_own_part_in_place() -> None:
    at = Position(group_size=4, rank=2)
    assert layouts.all_gather(at, 40).own_offset == 20
    assert layouts.reduce_scatter(at, 40).blocks == (
        Block(offset=0, count=10, source_offset=20, sources=(0, 1, 2, 3), reduced=True),
    )


def test_both_ways_brings_each_neighbours_half() -> None:
    first, second = layouts.both_ways(Position(group_size=4, rank=0), 6).blocks
    assert (first.sources, first.source_offset) == ((3,), 0)
    assert (second.sources, second.source_offset) == ((1,), 3)
