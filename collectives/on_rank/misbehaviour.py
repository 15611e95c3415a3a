"""What a fault on request does on the rank that it is for.

Either the call goes wrong, or its right result is made wrong in one of the ways that `patterns`
knows; the tests of those use the same corruptions.
"""

import os
import time
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from ..cases import Form
from ..faults import EXIT_CODE, LATE_S, ONCE, Fault, FaultKind, fault_step, parse_fault
from ..layouts import Block
from ..spec import Dtype, Redop
from ..steps import Step
from .calls import Prepared
from .inputs import BIT_MASK
from .reductions import IDEMPOTENT, finished, folded, to_elements
from .verification import as_bytes
from .wrong_block import Result


class Misbehaviour:
    """The fault of a run, if it is this rank's; does nothing on the others."""

    def __init__(self, text: str | None, *, rank: int, steps: list[Step]) -> None:
        """Read the fault of the spec."""
        fault = parse_fault(text) if text else None
        self._fault: Fault | None = fault if fault and fault.rank == rank else None
        self._once_at = fault_step(fault, steps) if fault and fault.kind in ONCE else None

    def wants_larger_call(self, step: Step) -> bool:
        """Whether this rank is to make the call of this step with another size."""
        return self._now(step) is FaultKind.WRONG_SIZE

    def before_call(self, step: Step, prepared: Prepared) -> None:
        """Hang, exit, come late or call something else, if now is the time."""
        match self._now(step):
            case FaultKind.HANG:
                while True:
                    time.sleep(60)
            case FaultKind.EXIT:
                os._exit(EXIT_CODE)
            case FaultKind.LATE:
                time.sleep(LATE_S)
            case FaultKind.WRONG_OP:
                _call_another(step, prepared)
            case _:
                pass

    def after_call(self, step: Step, result: Result) -> None:
        """Corrupt the result, if this rank's are to be."""
        if self._fault and self._fault.kind not in ONCE and self._fault.fits(step):
            corrupt(self._fault.kind, result)

    def _now(self, step: Step) -> FaultKind | None:
        return self._fault.kind if self._fault and step.number == self._once_at else None


def _call_another(step: Step, prepared: Prepared) -> None:
    """A barrier instead; instead of a barrier, an all_reduce."""
    if step.case.form is Form.PLAIN:
        dist.all_reduce(
            torch.zeros(1, device=prepared.call.input.device), group=prepared.call.group
        )
    else:
        dist.barrier(group=prepared.call.group)


def corrupt(kind: FaultKind, result: Result) -> bool:
    """Change the output of a result in this way; False where the way does not apply to it."""
    change = CORRUPTIONS.get(kind)
    return bool(change and result.blocks and change(result, result.blocks))


def _missing(result: Result, blocks: Sequence[Block]) -> bool:
    """The contribution of the group's last rank is left out."""
    slots = blocks[0].sources
    if not blocks[0].reduced or len(slots) < 2:
        return False
    return _rewrite(result, blocks[0], slots[:-1], _redop(result))


def _doubled(result: Result, blocks: Sequence[Block]) -> bool:
    """The contribution of the group's last rank is counted twice."""
    slots, redop = blocks[0].sources, _redop(result)
    if not blocks[0].reduced or redop in IDEMPOTENT or redop is Redop.BXOR:
        return False
    return _rewrite(result, blocks[0], (*slots, slots[-1]), redop)


def _operator(result: Result, blocks: Sequence[Block]) -> bool:
    """Another operator is used."""
    if not blocks[0].reduced or result.sources.scheme.dtype is Dtype.COMPLEX64:
        return False
    other = Redop.MIN if _redop(result) is Redop.MAX else Redop.MAX
    if result.case.dtype in BIT_MASK and _redop(result) in (Redop.BOR, Redop.BAND):
        other = Redop.BXOR
    return _rewrite(result, blocks[0], blocks[0].sources, other)


def _swapped(result: Result, blocks: Sequence[Block]) -> bool:
    """The first two blocks are exchanged, or the halves of the only one."""
    if len(blocks) > 1 and blocks[0].count == blocks[1].count:
        first, second = (_part(result, block) for block in blocks[:2])
    else:
        half = blocks[0].count // 2
        if not half or blocks[0].count % 2:
            return False
        first, second = _part(result, blocks[0]).chunk(2)
    held = as_bytes(first).clone()
    as_bytes(first).copy_(as_bytes(second))
    as_bytes(second).copy_(held)
    return True


def _stale(result: Result, blocks: Sequence[Block]) -> bool:
    """The output is what it was before the call."""
    for block in blocks:
        offsets = torch.arange(block.offset, block.offset + block.count)
        _part(result, block).copy_(result.before(offsets))
    return True


def _element(result: Result, blocks: Sequence[Block]) -> bool:
    """The lowest bit of the middle element is flipped."""
    block = blocks[len(blocks) // 2]
    middle = block.offset + block.count // 2
    byte = result.output[middle : middle + 1].view(torch.uint8)[:1]
    byte ^= 1
    return True


CORRUPTIONS: dict[FaultKind, Callable[[Result, Sequence[Block]], bool]] = {
    FaultKind.MISSING: _missing,
    FaultKind.DOUBLED: _doubled,
    FaultKind.OPERATOR: _operator,
    FaultKind.SWAPPED: _swapped,
    FaultKind.STALE: _stale,
    FaultKind.ELEMENT: _element,
}


def _redop(result: Result) -> Redop:
    return result.case.redop or Redop.SUM


def _part(result: Result, block: Block) -> Tensor:
    return result.output[block.offset : block.offset + block.count]


def _rewrite(result: Result, block: Block, slots: tuple[int, ...], redop: Redop) -> bool:
    """Write the reduction over these ranks into a block."""
    sources = result.sources
    indices = torch.arange(block.source_offset, block.source_offset + block.count)
    raw = folded(redop, (sources.raw(slot, indices) for slot in slots))
    _part(result, block).copy_(to_elements(finished(redop, raw, sources.scheme), sources.scheme))
    return True
