"""Data in the wrong place: exchanged blocks, another rank's data, another rank's part."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from ..layouts import Block
from ..records import Pattern
from .verification import differs, expected_at
from .wrong_block import SAMPLE, Recognised, View, WrongBlock


def swapped(wrong: WrongBlock) -> Recognised | None:
    """The block holds what belongs elsewhere."""
    for detail, other in _candidates(wrong):
        if wrong.explains(lambda view, other=other: _moved(wrong, other, view)):  # type: ignore[misc]
            return Pattern.SWAPPED_BLOCKS, f"{_place(wrong.block)} {detail}"
    if _halves_exchanged(wrong):
        return Pattern.SWAPPED_BLOCKS, "the first and the second half are exchanged"
    return None


def _moved(wrong: WrongBlock, other: Block, view: View) -> Tensor:
    """What the view would hold if the block held the content of another."""
    offsets = view.offsets - wrong.block.offset + other.offset
    return expected_at(other, offsets, wrong.sources)


def _candidates(wrong: WrongBlock) -> Iterator[tuple[str, Block]]:
    """What the block might hold instead, with the words for it."""
    yield from _other_blocks(wrong)
    if not wrong.block.reduced:
        yield from _other_ranks(wrong)
    yield from _other_parts(wrong)


def _other_blocks(wrong: WrongBlock) -> Iterator[tuple[str, Block]]:
    """Another block of the same output."""
    block = wrong.block
    for other in wrong.result.blocks:
        if other is not block and other.count == block.count:
            yield _instead(wrong, other.sources[0]) + _vice_versa(wrong, other), other


def _other_ranks(wrong: WrongBlock) -> Iterator[tuple[str, Block]]:
    """The same place in another rank's input."""
    block = wrong.block
    for slot in range(len(wrong.sources.members)):
        if (slot,) != block.sources:
            yield _instead(wrong, slot), replace(block, sources=(slot,))


def _other_parts(wrong: WrongBlock) -> Iterator[tuple[str, Block]]:
    """The right source, but another part of its input than this rank's."""
    block = wrong.block
    for slot in range(len(wrong.sources.members)):
        offset = slot * block.count
        if offset != block.source_offset and offset + block.count <= wrong.sources.extent:
            words = f"what is for rank {wrong.rank(slot)}"
            yield words, replace(block, source_offset=offset)


def _place(block: Block) -> str:
    return f"offsets {block.offset} to {block.offset + block.count - 1} hold"


def _instead(wrong: WrongBlock, slot: int) -> str:
    right = wrong.rank(wrong.block.sources[0])
    return f"rank {wrong.rank(slot)}'s data instead of rank {right}'s"


def _vice_versa(wrong: WrongBlock, other: Block) -> str:
    """Whether the other block holds this one's content in turn."""
    offsets = torch.arange(other.offset, other.offset + min(other.count, SAMPLE))
    own = offsets - other.offset + wrong.block.offset
    found = wrong.result.found(offsets)
    expected = expected_at(wrong.block, own, wrong.sources)
    is_exchange = not differs(found, expected, wrong.sources.bound).any()
    return ", and the other way round" if is_exchange else ""


def _halves_exchanged(wrong: WrongBlock) -> bool:
    block = wrong.block
    half = block.count // 2
    if not half or block.count % 2:
        return False

    def suppose(view: View) -> Tensor:
        offsets = (view.offsets - block.offset + half) % block.count + block.offset
        return expected_at(block, offsets, wrong.sources)

    return wrong.explains(suppose)
