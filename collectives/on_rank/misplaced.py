"""Data in the wrong place: exchanged blocks, another rank's data, another rank's part."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from ..layouts import Block
from ..records import Pattern
from .evidence import SAMPLE, Evidence, Finding, View
from .verification import differs, expected_at


def swapped(evidence: Evidence) -> Finding | None:
    """The block holds what belongs elsewhere."""
    for detail, other in _candidates(evidence):
        if evidence.explains(lambda view, other=other: _moved(evidence, other, view)):  # type: ignore[misc]
            return Pattern.SWAPPED_BLOCKS, f"{_place(evidence.block)} {detail}"
    if _halves_exchanged(evidence):
        return Pattern.SWAPPED_BLOCKS, "the first and the second half are exchanged"
    return None


def _moved(evidence: Evidence, other: Block, view: View) -> Tensor:
    """What the view would hold if the block held the content of another."""
    offsets = view.offsets - evidence.block.offset + other.offset
    return expected_at(other, offsets, evidence.sources)


def _candidates(evidence: Evidence) -> Iterator[tuple[str, Block]]:
    """What the block might hold instead, with the words for it."""
    yield from _other_blocks(evidence)
    if not evidence.block.reduced:
        yield from _other_ranks(evidence)
    yield from _other_parts(evidence)


def _other_blocks(evidence: Evidence) -> Iterator[tuple[str, Block]]:
    """Another block of the same output."""
    block = evidence.block
    for other in evidence.result.blocks:
        if other is not block and other.count == block.count:
            yield _instead(evidence, other.sources[0]) + _vice_versa(evidence, other), other


def _other_ranks(evidence: Evidence) -> Iterator[tuple[str, Block]]:
    """The same place in another rank's input."""
    block = evidence.block
    for slot in range(len(evidence.sources.members)):
        if (slot,) != block.sources:
            yield _instead(evidence, slot), replace(block, sources=(slot,))


def _other_parts(evidence: Evidence) -> Iterator[tuple[str, Block]]:
    """The right source, but another part of its input than this rank's."""
    block = evidence.block
    for slot in range(len(evidence.sources.members)):
        offset = slot * block.count
        if offset != block.source_offset and offset + block.count <= evidence.sources.extent:
            words = f"what is for rank {evidence.rank(slot)}"
            yield words, replace(block, source_offset=offset)


def _place(block: Block) -> str:
    return f"offsets {block.offset} to {block.offset + block.count - 1} hold"


def _instead(evidence: Evidence, slot: int) -> str:
    right = evidence.rank(evidence.block.sources[0])
    return f"rank {evidence.rank(slot)}'s data instead of rank {right}'s"


def _vice_versa(evidence: Evidence, other: Block) -> str:
    """Whether the other block holds this one's content in turn."""
    offsets = torch.arange(other.offset, other.offset + min(other.count, SAMPLE))
    own = offsets - other.offset + evidence.block.offset
    found = evidence.result.found(offsets)
    expected = expected_at(evidence.block, own, evidence.sources)
    is_exchange = not differs(found, expected, evidence.sources.bound).any()
    return ", and the other way round" if is_exchange else ""


def _halves_exchanged(evidence: Evidence) -> bool:
    block = evidence.block
    half = block.count // 2
    if not half or block.count % 2:
        return False

    def suppose(view: View) -> Tensor:
        offsets = (view.offsets - block.offset + half) % block.count + block.offset
        return expected_at(block, offsets, evidence.sources)

    return evidence.explains(suppose)
