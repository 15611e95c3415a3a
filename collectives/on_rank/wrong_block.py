"""A result and its first wrong block: a sample of it, and who gave what, for `patterns`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TypeAlias

import torch
from torch import Tensor

from ..cases import Case
from ..layouts import Block, Layout, Overlap
from ..records import Pattern
from ..spec import Dtype, Redop
from .reductions import FOLDS, finished, to_elements
from .verification import Sources, as_bytes, differs, expected_at, poison_value, wrong_offsets

# Wrong elements looked at, and elements of all kinds beside them.
SAMPLE = 512
# So many wrong elements that a supposition explains are no coincidence.
CONVINCING = 8

Recognised: TypeAlias = tuple[Pattern, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """An output to judge: what it should hold, and what it held before the call.

    `slot` is this rank's place in its group; `overlap` is None when the call was not in place.
    """

    case: Case
    layout: Layout
    slot: int
    output: Tensor
    sources: Sources
    overlap: Overlap | None

    @property
    def blocks(self) -> list[Block]:
        """The blocks that hold anything."""
        return [block for block in self.layout.blocks if block.count]

    @property
    def num_checked(self) -> int:
        """How many elements of the output are specified."""
        return sum(block.count for block in self.layout.blocks)

    @property
    def starts_as_input(self) -> bool:
        """Whether the output held this rank's input before the call."""
        return self.overlap in (Overlap.SAME, Overlap.OUTPUT_IN_INPUT)

    def found(self, offsets: Tensor) -> Tensor:
        """The output at these offsets, on the CPU."""
        held = as_bytes(self.output)[offsets.to(self.output.device)].cpu()
        return held.view(self.output.dtype)

    def before(self, offsets: Tensor) -> Tensor:
        """What the output held before the call: the input when in place, else the poison."""
        sources = self.sources
        if self.starts_as_input:
            return sources.at((self.slot,), offsets + self.layout.own_offset, reduced=False)
        if sources.scheme.dtype is not Dtype.BOOL:
            raw = torch.full((len(offsets),), poison_value(sources.scheme.dtype))
            return to_elements(raw, sources.scheme)
        held = torch.ones(len(offsets), dtype=torch.bool)
        for block in self.blocks:
            inside = (offsets >= block.offset) & (offsets < block.offset + block.count)
            held[inside] = ~expected_at(block, offsets[inside], sources)
        return held


class View:
    """Some offsets of a block, with what each source gave there."""

    def __init__(self, block: Block, offsets: Tensor, sources: Sources) -> None:
        """Nothing is worked out before it is asked for."""
        self.offsets = offsets
        self._block = block
        self._sources = sources

    @cached_property
    def _raws(self) -> list[Tensor]:
        indices = self.offsets - self._block.offset + self._block.source_offset
        return [self._sources.raw(slot, indices) for slot in self._block.sources]

    @cached_property
    def _partial(self) -> tuple[list[Tensor], list[Tensor]]:
        """The reductions of the sources up to each, and from each on."""
        fold = FOLDS[self._redop]
        upwards = list(accumulate(self._raws, fold))
        downwards = list(accumulate(reversed(self._raws), fold))
        return upwards, downwards[::-1]

    @property
    def _redop(self) -> Redop:
        assert self._sources.scheme.redop is not None
        return self._sources.scheme.redop

    def without(self, number: int) -> Tensor:
        """The reduction over all sources but one, given by its number among them."""
        upwards, downwards = self._partial
        sides = [*upwards[number - 1 : number], *downwards[number + 1 : number + 2]]
        if number == 0:
            sides = downwards[1:2]
        return self._finished(self._redop, sides)

    def twice(self, number: int) -> Tensor:
        """The reduction with one source counted twice."""
        return self._finished(self._redop, [self._partial[0][-1], self._raws[number]])

    def with_operator(self, redop: Redop) -> Tensor:
        """The reduction by another operator."""
        return self._finished(redop, self._raws)

    def _finished(self, redop: Redop, parts: Sequence[Tensor]) -> Tensor:
        *_, total = accumulate(parts, FOLDS[redop])
        return to_elements(finished(redop, total, self._sources.scheme), self._sources.scheme)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongBlock:
    """The first wrong block: a sample of its wrong elements, and the extent of it all.

    `probed` are elements of the block, wrong and right, that a supposition about few wrong
    elements has to get right as well.
    """

    result: Result
    block: Block
    sample: View
    got: Tensor
    probed: View
    num_wrong: int
    wrong_blocks: tuple[int, ...]

    @property
    def sources(self) -> Sources:
        """Who gave what."""
        return self.result.sources

    @property
    def first_offset(self) -> int:
        """Where the first wrong element is."""
        return int(self.sample.offsets[0])

    def rank(self, slot: int) -> int:
        """A rank's number in the whole run."""
        return self.sources.members[slot]

    def explains(self, suppose: Callable[[View], Tensor]) -> bool:
        """Whether the output is what this function says it is."""
        bound = self.sources.bound
        if differs(self.got, suppose(self.sample), bound).any():
            return False
        if len(self.got) >= CONVINCING:
            return True
        found = self.result.found(self.probed.offsets)
        return not differs(found, suppose(self.probed), bound).any()


def wrong_block_of(result: Result, counts: Sequence[int]) -> WrongBlock:
    """What there is to see; `counts` are the wrong elements of each of `result.blocks`."""
    wrong_blocks = tuple(number for number, count in enumerate(counts) if count)
    block = result.blocks[wrong_blocks[0]]
    sample = wrong_offsets(result.output, block, result.sources, limit=SAMPLE)
    probed = _spread(block, around=int(sample[0]))
    return WrongBlock(
        result=result,
        block=block,
        sample=View(block, sample, result.sources),
        got=result.found(sample),
        probed=View(block, probed, result.sources),
        num_wrong=sum(counts),
        wrong_blocks=wrong_blocks,
    )


def _spread(block: Block, *, around: int) -> Tensor:
    """Offsets all over a block, and the neighbours of one of them."""
    end = block.offset + block.count
    everywhere = range(block.offset, end, max(1, block.count // SAMPLE))[:SAMPLE]
    neighbours = range(max(block.offset, around - 32), min(end, around + 32))
    return torch.tensor(sorted({*everywhere, *neighbours}))
