"""Is a result right? Every element of it, compared on the device, tile by tile."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ..layouts import Block
from ..spec import Dtype, Redop
from .inputs import PERIOD, UNSIGNED, Scheme, raw_values
from .reductions import finished, folded, rounding_bound, to_elements, torch_dtype

# Periods compared at once: the memory of a comparison, whatever the size of the result.
TILE_PERIODS = 16
# Periods kept, of which each has at most 0.5 MB; more ranks than that are computed anew.
KEPT_PERIODS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What the ranks of one group give in one case, and what comes of it.

    `members` are the group's ranks as the whole run numbers them. `extent` is how many indices
    are in use, so that small cases build small references. `premultiplied`: averages are
    computed as NCCL does.
    """

    scheme: Scheme
    seed: int
    members: tuple[int, ...]
    extent: int
    device: torch.device
    premultiplied: bool = False
    kept: dict[tuple[int, ...], Tensor] = field(default_factory=dict)

    def keeping(self, other: "Sources | None") -> "Sources":
        """The same with what another has built already, where that is what this would build."""
        if other is None or replace(other, extent=0, kept={}) != replace(self, extent=0, kept={}):
            return self
        return replace(self, kept=other.kept) if other.length == self.length else self

    @property
    def length(self) -> int:
        """Elements after which the values come again."""
        return max(1, min(PERIOD, self.extent))

    @property
    def bound(self) -> float:
        """How far a right result may be off; 0: not at all."""
        return rounding_bound(self.scheme, premultiplied=self.premultiplied)

    def raw(self, slot: int, indices: Tensor) -> Tensor:
        """A rank's contribution in 64 bits, on the CPU; `slot` is its place in the group."""
        return raw_values(
            self.scheme, seed=self.seed, rank=self.members[slot], slot=slot, indices=indices
        )

    def at(self, slots: tuple[int, ...], indices: Tensor, *, reduced: bool) -> Tensor:
        """What the input of the rank, or the reduced inputs of the ranks, hold at these indices."""
        raw = folded(self._redop, (self.raw(slot, indices) for slot in slots))
        return to_elements(finished(self._redop, raw, self.scheme) if reduced else raw, self.scheme)

    def period(self, slots: tuple[int, ...], *, reduced: bool = False) -> Tensor:
        """The first `length` elements of that, on the device; do not change it."""
        key = (*slots, -1 if reduced else -2)
        if key not in self.kept:
            if len(self.kept) >= KEPT_PERIODS:
                self.kept.clear()
            indices = torch.arange(self.length)
            self.kept[key] = self.at(slots, indices, reduced=reduced).to(self.device)
        return self.kept[key]

    @property
    def _redop(self) -> Redop:
        return self.scheme.redop or Redop.SUM

    def fill(self, target: Tensor, slot: int) -> None:
        """Write the input of a rank into a flat tensor."""
        _write(_tiles(target, self.period((slot,))))


def poison_value(dtype: Dtype) -> float | int:
    """A value that no right result holds; bool has none, see `poison`."""
    kind = torch_dtype(dtype)
    if kind.is_floating_point or kind.is_complex:
        return math.nan
    info = torch.iinfo(kind)
    return info.max if dtype in UNSIGNED else info.min


def poison(output: Tensor, blocks: Sequence[Block], sources: Sources) -> None:
    """Fill an output with what cannot be right, so that what is not written shows.

    NaN, or the extreme of an integer that inputs never reach, or for bool the complement of
    each expected value.
    """
    dtype = sources.scheme.dtype
    if dtype is not Dtype.BOOL:
        held = as_bytes(torch.tensor([poison_value(dtype)], dtype=torch_dtype(dtype)))
        as_bytes(output).fill_(held[0].item())
        return
    output.fill_(True)
    for block in blocks:
        for tile, values in _expected_tiles(output, block, sources):
            tile.copy_(~values)


def write_expected(output: Tensor, blocks: Sequence[Block], sources: Sources) -> None:
    """Fill an output with the right result."""
    for block in blocks:
        _write(_expected_tiles(output, block, sources))


def count_wrong(output: Tensor, block: Block, sources: Sources) -> int:
    """How many elements of a block are wrong."""
    wrong = torch.zeros((), dtype=torch.int64, device=output.device)
    for tile, values in _expected_tiles(output, block, sources):
        wrong += differs(tile, values, sources.bound).sum()
    return int(wrong.item())


def wrong_offsets(output: Tensor, block: Block, sources: Sources, *, limit: int) -> Tensor:
    """Offsets within the output of wrong elements of a block, on the CPU.

    All of them in order; of more than `limit`, the first and the last ones.
    """
    half = limit // 2
    first = last = torch.empty(0, dtype=torch.int64)
    start = block.offset
    for tile, values in _expected_tiles(output, block, sources):
        wrong = differs(tile, values, sources.bound).reshape(-1).nonzero().reshape(-1)
        found = torch.cat([wrong[:limit], wrong[limit:][-limit:]]).cpu() + start
        taken = max(0, half - len(first))
        first = torch.cat([first, found[:taken]])
        last = torch.cat([last, found[taken:]])[half - limit :]
        start += tile.numel()
    return torch.cat([first, last])


def expected_at(block: Block, offsets: Tensor, sources: Sources) -> Tensor:
    """The right values at these offsets of the output, all within the block; on the CPU."""
    indices = offsets - block.offset + block.source_offset
    return sources.at(block.sources, indices, reduced=block.reduced)


def differs(got: Tensor, expected: Tensor, bound: float) -> Tensor:
    """Where two tensors of a dtype differ, by more than the bound if there is one.

    A bool of 2 is no True that could be relied on, so bool is compared as bytes, like float8.
    """
    if bound:
        return ~((_wide(got) - _wide(expected)).abs() <= bound)
    return as_bytes(got).ne(as_bytes(expected))


def as_bytes(tensor: Tensor) -> Tensor:
    """What is bool or float8 as the bytes it is; any other tensor as it is.

    Devices have few kernels for float8, so on a device it is moved and compared as bytes only.
    """
    if tensor.element_size() > 1 or tensor.dtype in (torch.int8, torch.uint8):
        return tensor
    return tensor.view(torch.uint8)


def _wide(tensor: Tensor) -> Tensor:
    """The values in double precision; those of float8 are looked up by their bytes."""
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    if tensor.is_floating_point() and tensor.element_size() == 1:
        values = torch.arange(256).to(torch.uint8).view(tensor.dtype).to(torch.float64)
        return values.to(tensor.device)[as_bytes(tensor).to(torch.int64)]
    return tensor.to(torch.float64)


def _write(tiles: Iterable[tuple[Tensor, Tensor]]) -> None:
    for tile, values in tiles:
        as_bytes(tile).copy_(as_bytes(values))


def _expected_tiles(
    output: Tensor, block: Block, sources: Sources
) -> Iterator[tuple[Tensor, Tensor]]:
    target = output[block.offset : block.offset + block.count]
    if not block.count:
        return
    period = sources.period(block.sources, reduced=block.reduced)
    shift = block.source_offset % PERIOD
    if shift:
        period = as_bytes(period).roll(-shift).view(period.dtype)
    yield from _tiles(target, period)


def _tiles(target: Tensor, period: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """A flat tensor in order, each piece with the values that the period has for it."""
    length = len(period)
    whole = len(target) // length
    rows = target[: whole * length].view(whole, length)
    for first in range(0, whole, TILE_PERIODS):
        tile = rows[first : first + TILE_PERIODS]
        yield tile, period.expand(len(tile), length)
    rest = target[whole * length :]
    if len(rest):
        yield rest, period[: len(rest)]
