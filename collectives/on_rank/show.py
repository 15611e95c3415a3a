"""--show: what each rank holds before and after a collective, in a line that can be read.

Rank r holds r0, r1, r2...: one sees at once whose data went where.
"""

import math
import operator
import time
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from ...jobs.agent.channel import RankChannel
from .. import operations
from ..cases import Case, Form
from ..layouts import Block, Counting, Layout
from ..operations import bound
from ..records import Record, Shown
from ..spec import Dtype, Redop, SuiteSpec
from ..steps import SHOWN_FIRST, Step
from .backends import Group, Session
from .calls import Prepared, prepare
from .inputs import scheme_for
from .refusals import is_refusal, reason
from .timing import call_once
from .verification import Sources

TITLE_WIDTH = 34
NUM_ELEMENTS = 4
NOTHING = "-"
WRONG = "WRONG, expected"

REDUCTIONS: dict[Redop, Callable[[Sequence[float]], float]] = {
    Redop.SUM: math.fsum,
    Redop.AVG: lambda values: sum(values) / len(values),
    Redop.PRODUCT: math.prod,
    Redop.MIN: min,
    Redop.MAX: max,
    Redop.BAND: lambda values: reduce(operator.and_, map(int, values)),
    Redop.BOR: lambda values: reduce(operator.or_, map(int, values)),
    Redop.BXOR: lambda values: reduce(operator.xor, map(int, values)),
    Redop.PREMUL_SUM: lambda values: 2 * sum(values),
}

TITLES = {
    "broadcast": "broadcast from rank {root}",
    "reduce": "reduce {redop} to rank {root}",
    "all_reduce": "all_reduce {redop}",
    "reduce_scatter": "reduce_scatter {redop}",
    "gather": "gather to rank {root}",
    "scatter": "scatter from rank {root}",
    "send_recv": "send to {next}, recv from {previous}",
    "batch_isend_irecv": "isend to {next}, irecv from {previous}",
    "broadcast_object_list": "broadcast_object_list from rank {root}",
    "gather_object": "gather_object to rank {root}",
    "scatter_object_list": "scatter_object_list from rank {root}",
}


def readable_value(case: Case, *, slot: int, index: int, group_size: int) -> int:
    """What a rank holds at an index: rank 3 holds 30, 31, 32...; for products 4, 5, 6..."""
    if case.dtype is Dtype.BOOL:
        return (slot + index) % 2
    if case.redop is Redop.PRODUCT:
        return slot + index + 1
    digits = max(1, len(str(group_size - 1)))
    return slot * int(10**digits) + index


def expected_values(case: Case, layout: Layout, group_size: int) -> dict[int, float]:
    """The specified elements of an output by their offset."""

    def value(block: Block, number: int) -> float:
        index = block.source_offset + number
        held = [
            readable_value(case, slot=slot, index=index, group_size=group_size)
            for slot in block.sources
        ]
        return REDUCTIONS[case.redop or Redop.SUM](held) if block.reduced else held[0]

    return {
        block.offset + number: value(block, number)
        for block in layout.blocks
        for number in range(block.count)
    }


class Show:
    """Does each shown step and says what this rank held before and after it."""

    def __init__(
        self,
        session: Session,
        spec: SuiteSpec,
        channel: RankChannel,
        send: Callable[[Record], None],
    ) -> None:
        """Nothing is done yet."""
        self._session = session
        self._spec = spec
        self._channel = channel
        self._send = send

    def run(self, steps: list[Step]) -> list[str]:
        """Do the steps from `spec.first_step` on; the titles of those with a wrong result."""
        wrong = []
        for step in steps:
            if step.number >= self._spec.first_step:
                self._channel.begin_step(step.number)
                title, text = self._scene(step)
                if WRONG in text:
                    wrong.append(title)
                line = f"{title:<{TITLE_WIDTH}} {text}"
                self._send(Shown(rank=self._session.rank, step=step.number, line=line))
        return wrong

    def _scene(self, step: Step) -> tuple[str, str]:
        name = step.case.operation
        if name not in SHOWN_FIRST:
            return self._collective(step)
        session = self._session
        texts = {
            "init_process_group": f"backend {session.choice.backend}, device {session.device}",
            "get_rank": str(session.rank),
            "get_world_size": str(session.world_size),
        }
        return name, texts[name]

    def _collective(self, step: Step) -> tuple[str, str]:
        group = self._session.group(step.case.group)
        prepared = self._prepared(step, group)
        before = _held(prepared, prepared.call.input, prepared.layout.input_splits)
        started = time.perf_counter()
        refusal = self._call(prepared)
        waited_ms = 1e3 * (time.perf_counter() - started)
        title = _title(prepared, group)
        if self._session.largest(int(refusal is not None)):
            if step.case.form is not Form.PLAIN:
                self._session.renew(step.case.group)
            return title, f"unsupported: {refusal or 'another rank was refused'}"
        if step.case.form is Form.PLAIN:
            return title, f"waited {waited_ms:.1f} ms for all {len(group.members)} ranks"
        if step.case.form is Form.OBJECT:
            return title, _objects(prepared)
        after = _held(prepared, prepared.call.output, prepared.layout.output_splits)
        return title, f"before {before}  after {after}{verdict(prepared, group)}"

    def _prepared(self, step: Step, group: Group) -> Prepared:
        case = step.case
        row = operations.find(case.operation, case.form)
        size = len(group.members)
        counts = {Counting.WHOLE: NUM_ELEMENTS, Counting.PARTS: size, Counting.HALVES: 2}
        count = counts.get(row.counting, 0)
        sources = Sources(
            scheme=scheme_for(case.dtype, case.redop, size),
            seed=self._spec.seed,
            members=group.members,
            extent=count,
            device=self._session.device,
        )
        prepared = prepare(row, case, group=group, count=count, sources=sources)
        _fill(prepared, size)
        return prepared

    def _call(self, prepared: Prepared) -> str | None:
        """None, or why the backend does not do it."""
        try:
            run = bound(prepared.operation, prepared.call)
            call_once(run, progress=self._channel, device=self._session.device)
        except Exception as error:
            if not is_refusal(error):
                raise
            return reason(error)
        return None


def _fill(prepared: Prepared, group_size: int) -> None:
    """Readable input; the output, where it is apart, starts as zeros, as in textbooks."""
    call, slot = prepared.call, prepared.slot
    if call.output.data_ptr() != call.input.data_ptr():
        call.output.zero_()
    values = [
        readable_value(prepared.case, slot=slot, index=index, group_size=group_size)
        for index in range(call.input.numel())
    ]
    call.input.copy_(torch.tensor(values).to(call.input.dtype))
    if prepared.case.form is Form.OBJECT:
        _fill_objects(prepared, group_size)


def _fill_objects(prepared: Prepared, group_size: int) -> None:
    call = prepared.call
    own = [f"object {number} of rank {call.peers[call.rank]}" for number in range(group_size)]
    call.objects_in[:] = own
    num_places = len(prepared.layout.output_splits) or 1
    is_sent_in_place = prepared.operation.name == "broadcast_object_list" and call.is_root
    call.objects_out[:] = own[:1] if is_sent_in_place else [None] * num_places


def _objects(prepared: Prepared) -> str:
    call = prepared.call
    num_sent = len(prepared.layout.input_splits) or int(call.input.numel() > 0)
    sends = call.is_root or not prepared.operation.name.startswith("broadcast")
    sent = call.objects_in[:num_sent] if sends else []
    received = call.objects_out if prepared.layout.output_elements else []
    return f"before {sent or NOTHING}  after {received or NOTHING}"


def _title(prepared: Prepared, group: Group) -> str:
    case, call = prepared.case, prepared.call
    return TITLES.get(case.operation, case.operation).format(
        root=group.members[case.root or 0],
        redop=case.redop.upper() if case.redop else "",
        next=call.neighbour(1),
        previous=call.neighbour(-1),
    )


def _held(prepared: Prepared, tensor: Tensor, splits: Sequence[int]) -> str:
    """A tensor as a reader sees it; a list of tensors as a list of lists."""
    if not tensor.numel():
        return NOTHING
    flat = [_written(value) for value in tensor.cpu().tolist()]
    if prepared.case.form is not Form.LIST or not splits:
        return f"[{', '.join(flat)}]"
    parts, start = [], 0
    for length in splits:
        parts.append(f"[{', '.join(flat[start : start + length])}]")
        start += length
    return f"[{', '.join(parts)}]"


def _written(value: Any) -> str:
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if is_whole else str(value)


def verdict(prepared: Prepared, group: Group) -> str:
    """Nothing when the result is right; else what it should have been."""
    expected = expected_values(prepared.case, prepared.layout, len(group.members))
    if not expected:
        is_output = prepared.layout.output_elements > 0
        return "  (only the root has the result)" if is_output else ""
    output = prepared.call.output
    right = torch.tensor([expected[offset] for offset in sorted(expected)]).to(output.dtype)
    if torch.equal(output.cpu(), right):
        return ""
    return f"  {WRONG} [{', '.join(_written(value) for value in right.tolist())}]"
