"""The tensors of one call, laid out for one rank."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from ..binding import Call
from ..cases import Case, Form
from ..layouts import Layout, Overlap, Position
from ..operations import Operation
from .backends import Group
from .reductions import torch_dtype, torch_redop
from .verification import Sources, poison
from .wrong_block import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A call ready to be made; `refill` sets its tensors as they are before a call."""

    operation: Operation
    case: Case
    layout: Layout
    slot: int
    sources: Sources
    call: Call

    def refill(self) -> None:
        """Poison the output, then write the input."""
        overlap = self.overlap
        if overlap in (None, Overlap.INPUT_IN_OUTPUT) and self.call.output.numel():
            poison(self.call.output, self.layout.blocks, self.sources)
        self.sources.fill(self.call.input, self.slot)
        if self.case.form is Form.OBJECT:
            _refill_objects(self)

    @property
    def overlap(self) -> Overlap | None:
        """How the buffers overlap; None when they are apart."""
        return _overlap(self.operation, self.case, self.layout)

    @property
    def is_repeatable(self) -> bool:
        """Whether any number of calls leave the result that the first one does.

        Not so where a reduction replaces its own input, nor where there is no result.
        """
        return bool(self.layout.blocks) and not (self.overlap and self.operation.reduces)

    def result(self) -> Result:
        """The output, to be judged."""
        if self.case.form is Form.OBJECT:
            _unpack_objects(self)
        return Result(
            case=self.case,
            layout=self.layout,
            slot=self.slot,
            output=self.call.output,
            sources=self.sources,
            overlap=self.overlap,
        )


def prepare(
    operation: Operation, case: Case, *, group: Group, count: int, sources: Sources
) -> Prepared:
    """Allocate the tensors of a call with `count` elements of S on this rank."""
    assert group.slot is not None
    position = Position(
        group_size=len(group.members), rank=group.slot, root=case.root if case.root else 0
    )
    layout = operation.layout(position, count)
    overlap = _overlap(operation, case, layout)
    source, target = _buffers(layout, overlap, torch_dtype(case.dtype), sources.device)
    call = Call(
        dist=dist,
        group=group.handle,
        peers=group.members,
        rank=group.slot,
        root=group.members[position.root],
        redop=None if case.redop is None else torch_redop(dist, case.redop),
        asynchronous=case.asynchronous,
        input=source,
        output=target,
        inputs=_parts(source, layout.input_splits),
        outputs=_parts(target, layout.output_splits),
    )
    return Prepared(
        operation=operation, case=case, layout=layout, slot=group.slot, sources=sources, call=call
    )


def _overlap(operation: Operation, case: Case, layout: Layout) -> Overlap | None:
    """None also on a rank that only gives or only gets, as all but the root of a scatter do."""
    has_both = layout.input_elements and layout.output_elements
    return operation.overlap if case.in_place and has_both else None


def _buffers(
    layout: Layout, overlap: Overlap | None, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Input and output, flat, sharing memory as the overlap says."""

    def empty(count: int) -> Tensor:
        return torch.empty(count, dtype=dtype, device=device)

    if overlap is Overlap.INPUT_IN_OUTPUT:
        whole = empty(layout.output_elements)
        return whole[layout.own_offset :][: layout.input_elements], whole
    whole = empty(layout.input_elements)
    if overlap is Overlap.SAME:
        return whole, whole
    if overlap is Overlap.OUTPUT_IN_INPUT:
        return whole, whole[layout.own_offset :][: layout.output_elements]
    return whole, empty(layout.output_elements)


def _parts(buffer: Tensor, splits: Sequence[int]) -> list[Tensor]:
    return list(torch.split(buffer, list(splits))) if splits else []


def _refill_objects(prepared: Prepared) -> None:
    """The objects are bytes: the input cut in parts, and as many places for what comes."""
    call, layout = prepared.call, prepared.layout
    sent = [bytes(part.tolist()) for part in call.inputs or [call.input]]
    call.objects_in[:] = sent
    if prepared.operation.name == "broadcast_object_list":
        call.objects_out[:] = sent if call.is_root else [None]
    else:
        call.objects_out[:] = [None] * (len(layout.output_splits) or 1)


def _unpack_objects(prepared: Prepared) -> None:
    """Write the objects that came into the output; what is no bytes leaves poison there."""
    poison(prepared.call.output, prepared.layout.blocks, prepared.sources)
    parts = prepared.call.outputs or [prepared.call.output]
    for part, received in zip(parts, prepared.call.objects_out, strict=False):
        if isinstance(received, bytes) and len(received) == part.numel():
            part.copy_(torch.tensor(list(received), dtype=torch.uint8))
