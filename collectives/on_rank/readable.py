"""The values of --show: such that one sees whose data went where, and that fit in the dtype.

Rank r holds r0, r1, r2... Where such numbers or what a reduction makes of them do not fit, the
ranks hold smaller ones: what is shown is exact in every dtype that a backend can reduce.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..layouts import Block, Layout
from ..spec import Dtype, Redop
from .inputs import LARGEST_EXACT, PREMUL_FACTOR, Scheme, Values
from .reductions import finished, folded, rounding_bound, to_elements

# Factors of products that would not fit otherwise: rank r gives 2 from index r (modulo this) on.
FACTOR_PERIOD = 4

_ADDING = (Redop.SUM, Redop.AVG, Redop.PREMUL_SUM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readable:
    """What the ranks of a group hold; `num_indices` is how long the longest input is."""

    dtype: Dtype
    redop: Redop | None
    group_size: int
    num_indices: int

    def value(self, slot: int, index: int) -> int:
        """Rank 3 holds 30, 31, 32... or 3, 4, 5...; for products 4, 5, 6... or ones and twos."""
        if self.dtype is Dtype.BOOL:
            return (slot + index) % 2
        if self.redop is Redop.PRODUCT:
            if self._factors_fit:
                return slot + index + 1
            return 2 if slot <= index % FACTOR_PERIOD else 1
        if self._fits(self._step):
            return slot * self._step + index
        if self._fits(1):
            return slot + index
        # Of more ranks than ones fit in a sum, the last ones hold nothing.
        is_counted = slot < LARGEST_EXACT[self.dtype] // PREMUL_FACTOR
        return (slot + index) % (self._room + 1) if is_counted else 0

    def raw(self, slot: int, indices: Tensor) -> Tensor:
        """The values of a rank, as `inputs.raw_values` gives them."""
        values = torch.tensor([self.value(slot, index) for index in indices.tolist()])
        raw = values.to(torch.int64)
        return raw.to(torch.complex128) if self.dtype is Dtype.COMPLEX64 else raw

    def elements(self, slot: int, count: int) -> Tensor:
        """The input of a rank in its dtype, on the CPU."""
        return to_elements(self.raw(slot, torch.arange(count)), self.scheme)

    def expected(self, layout: Layout) -> Tensor:
        """The specified elements of an output, in order, on the CPU."""
        blocks = [self._block(block) for block in layout.blocks if block.count]
        raw = torch.cat(blocks) if blocks else torch.empty(0, dtype=torch.int64)
        return to_elements(raw, self.scheme)

    @property
    def scheme(self) -> Scheme:
        """Of these values, for those who fold them."""
        return Scheme(
            dtype=self.dtype,
            redop=self.redop,
            group_size=self.group_size,
            values=Values.ANY,
            largest=self._largest,
            window=self.group_size,
        )

    @property
    def bound(self) -> float:
        """How far a right result may be off; only averages may."""
        return rounding_bound(self.scheme, premultiplied=True)

    def _block(self, block: Block) -> Tensor:
        indices = torch.arange(block.source_offset, block.source_offset + block.count)
        raws = [self.raw(slot, indices) for slot in block.sources]
        if not block.reduced:
            return raws[0]
        redop = self.redop or Redop.SUM
        return finished(redop, folded(redop, raws), self.scheme)

    @property
    def _step(self) -> int:
        """From one rank's values to the next one's: a power of ten."""
        return int(10 ** max(1, len(str(self.group_size - 1))))

    @property
    def _room(self) -> int:
        """The largest value of which a sum over all ranks fits."""
        room = LARGEST_EXACT[self.dtype]
        if self.redop in _ADDING:
            room //= self.group_size * self._factor
        return max(room, 1)

    def _fits(self, step: int) -> bool:
        """Whether values that go up by a step from rank to rank, or their sums, are exact."""
        size, last = self.group_size, self.num_indices - 1
        if self.redop not in _ADDING:
            return (size - 1) * step + last <= LARGEST_EXACT[self.dtype]
        total = step * size * (size - 1) // 2 + size * last
        return total * self._factor <= LARGEST_EXACT[self.dtype]

    @property
    def _factor(self) -> int:
        return PREMUL_FACTOR if self.redop is Redop.PREMUL_SUM else 1

    @property
    def _factors_fit(self) -> bool:
        highest = (slot + self.num_indices for slot in range(self.group_size))
        return math.prod(highest) <= LARGEST_EXACT[self.dtype]

    @property
    def _largest(self) -> int:
        slots, indices = range(self.group_size), range(self.num_indices)
        return max((self.value(slot, index) for slot in slots for index in indices), default=1)
