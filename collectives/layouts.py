"""Who holds what before and after a collective, in elements. Pure arithmetic, no torch.

A layout describes one rank of a group of `n`: how many elements it gives and gets, and where
each block of its output comes from. Ranks here are ranks within the group.

Sizes are counted as nccl-tests counts them (doc/PERFORMANCE.md and the `*GetCollByteCount`
functions of v2.19): S is the larger of a rank's send and receive buffer; a collective that cuts
its buffer in n parts takes n equal parts, each rounded down to 16 bytes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TypeAlias

from ..cluster.compat import StrEnum

ALIGNMENT_BYTES = 16


class Counting(StrEnum):
    """How S is cut."""

    WHOLE = "whole"  # one buffer
    PARTS = "parts"  # one equal part per rank
    HALVES = "halves"  # one for each neighbour
    NOTHING = "nothing"  # no data at all


class Overlap(StrEnum):
    """How input and output share memory when the collective runs in place."""

    SAME = "same"  # one buffer
    OUTPUT_IN_INPUT = "output in input"  # the output is this rank's own part of the input
    INPUT_IN_OUTPUT = "input in output"  # the input is this rank's own part of the output


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Which rank of which group, and which rank of it is the root."""

    group_size: int
    rank: int
    root: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """`count` elements of the output, from `offset` on.

    They are the elements from `source_offset` on of the inputs of `sources`: of the only one,
    or, when `reduced`, of all of them reduced.
    """

    offset: int
    count: int
    source_offset: int
    sources: tuple[int, ...]
    reduced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One rank's part in a collective.

    `input_splits` and `output_splits` are the lengths of the parts in order of peers, for forms
    that take lists or splits. `own_offset` is where this rank's own part lies in the larger
    buffer. What no block covers is not specified and not checked.
    """

    input_elements: int
    output_elements: int
    blocks: tuple[Block, ...]
    input_splits: tuple[int, ...] = ()
    output_splits: tuple[int, ...] = ()
    own_offset: int = 0


LayoutRule: TypeAlias = Callable[[Position, int], Layout]


def true_count(counting: Counting, asked: int, *, group_size: int, element_bytes: int) -> int:
    """Elements of S that are really used when `asked` were asked for.

    Parts are rounded down to 16 bytes like those of nccl-tests, but never to nothing: where
    nccl-tests would run a size of 0, a part here keeps its unaligned length, at least 1 element.
    The size that is reported is the true one.

    >>> [true_count(Counting.PARTS, n, group_size=4, element_bytes=4) for n in (2, 8, 16, 1000)]
    [4, 8, 16, 992]
    """
    if counting is Counting.NOTHING:
        return 0
    if counting is Counting.WHOLE:
        return max(asked, 1)
    num_parts = group_size if counting is Counting.PARTS else 2
    part = asked // num_parts
    aligned = part - part % max(1, ALIGNMENT_BYTES // element_bytes)
    return num_parts * max(aligned or part, 1)


def broadcast(at: Position, count: int) -> Layout:
    """The root's buffer on every rank."""
    block = Block(offset=0, count=count, source_offset=0, sources=(at.root,))
    return Layout(input_elements=count, output_elements=count, blocks=(block,))


def all_reduce(at: Position, count: int) -> Layout:
    """All inputs reduced, on every rank."""
    return Layout(input_elements=count, output_elements=count, blocks=(_reduced(at, count),))


def reduce(at: Position, count: int) -> Layout:
    """All inputs reduced, on the root; torch leaves open what the other ranks' buffers hold."""
    blocks = (_reduced(at, count),) if at.rank == at.root else ()
    return Layout(input_elements=count, output_elements=count, blocks=blocks)


def reduce_scatter(at: Position, count: int) -> Layout:
    """Part r of all inputs reduced, on rank r."""
    part = count // at.group_size
    return Layout(
        input_elements=count,
        output_elements=part,
        blocks=(_reduced(at, part, at.rank * part),),
        input_splits=(part,) * at.group_size,
        own_offset=at.rank * part,
    )


def all_gather(at: Position, count: int) -> Layout:
    """Every rank's part, in order of ranks, on every rank."""
    part = count // at.group_size
    return Layout(
        input_elements=part,
        output_elements=count,
        blocks=tuple(
            Block(offset=peer * part, count=part, source_offset=0, sources=(peer,))
            for peer in range(at.group_size)
        ),
        output_splits=(part,) * at.group_size,
        own_offset=at.rank * part,
    )


def gather(at: Position, count: int) -> Layout:
    """Every rank's part, in order of ranks, on the root; the others get nothing."""
    if at.rank == at.root:
        return all_gather(at, count)
    return Layout(input_elements=count // at.group_size, output_elements=0, blocks=())


def scatter(at: Position, count: int) -> Layout:
    """Part r of the root's input on rank r; only the root has an input."""
    part = count // at.group_size
    is_root = at.rank == at.root
    block = Block(offset=0, count=part, source_offset=at.rank * part, sources=(at.root,))
    return Layout(
        input_elements=count if is_root else 0,
        output_elements=part,
        blocks=(block,),
        input_splits=(part,) * at.group_size if is_root else (),
        own_offset=at.rank * part,
    )


def all_to_all(at: Position, count: int) -> Layout:
    """Part r of rank p's input is part p of rank r's output."""
    part = count // at.group_size
    return _exchange(at, [[part] * at.group_size] * at.group_size)


def uneven_all_to_all(at: Position, count: int) -> Layout:
    """As all_to_all with parts that differ per (sender, receiver), some empty.

    Each rank gives and gets `count` elements in all; see `uneven_parts`.
    """
    size = at.group_size
    by_distance = uneven_parts(count, size)
    return _exchange(at, [[by_distance[(r - s) % size] for r in range(size)] for s in range(size)])


def uneven_parts(count: int, group_size: int) -> tuple[int, ...]:
    """Elements that a rank sends to the rank 0, 1, 2... places further round the ring.

    Weights 1, 2, ..., n-1, 0: the previous rank gets nothing, so that the splits of senders and
    of receivers differ and exchanging the two is seen. They add up to `count` exactly. Of two
    ranks, each sends everything to the other.

    >>> uneven_parts(60, 4), uneven_parts(2, 4), uneven_parts(5, 2), uneven_parts(5, 1)
    ((10, 20, 30, 0), (0, 1, 1, 0), (0, 5), (5,))
    """
    weights = {1: [1], 2: [0, 1]}.get(group_size) or [*range(1, group_size), 0]
    sums = accumulate(weights, initial=0)
    bounds = [count * weight // sum(weights) for weight in sums]
    return tuple(end - start for start, end in pairwise(bounds))


def ring(at: Position, count: int) -> Layout:
    """The previous rank's buffer: each rank sends to the next."""
    previous = (at.rank - 1) % at.group_size
    block = Block(offset=0, count=count, source_offset=0, sources=(previous,))
    return Layout(input_elements=count, output_elements=count, blocks=(block,))


def both_ways(at: Position, count: int) -> Layout:
    """The first half goes to the next rank, the second to the previous one."""
    half = count // 2
    previous, following = (at.rank - 1) % at.group_size, (at.rank + 1) % at.group_size
    return Layout(
        input_elements=2 * half,
        output_elements=2 * half,
        blocks=(
            Block(offset=0, count=half, source_offset=0, sources=(previous,)),
            Block(offset=half, count=half, source_offset=half, sources=(following,)),
        ),
        input_splits=(half, half),
        output_splits=(half, half),
    )


def nothing(at: Position, count: int) -> Layout:  # noqa: ARG001  # the form of a LayoutRule
    """No data."""
    return Layout(input_elements=0, output_elements=0, blocks=())


def _reduced(at: Position, count: int, source_offset: int = 0) -> Block:
    return Block(
        offset=0,
        count=count,
        source_offset=source_offset,
        sources=tuple(range(at.group_size)),
        reduced=True,
    )


def _exchange(at: Position, sent: list[list[int]]) -> Layout:
    """The layout when sender s gives `sent[s][r]` elements to receiver r."""
    received = [row[at.rank] for row in sent]
    offsets = accumulate(received, initial=0)
    return Layout(
        input_elements=sum(sent[at.rank]),
        output_elements=sum(received),
        blocks=tuple(
            Block(
                offset=offset,
                count=received[sender],
                source_offset=sum(sent[sender][: at.rank]),
                sources=(sender,),
            )
            for sender, offset in zip(range(at.group_size), offsets, strict=False)
        ),
        input_splits=tuple(sent[at.rank]),
        output_splits=tuple(received),
        own_offset=sum(sent[at.rank][: at.rank]),
    )
