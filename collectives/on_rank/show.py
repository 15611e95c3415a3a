"""--show: what each rank holds before and after a collective, in a line that can be read.

Rank r holds r0, r1, r2...: one sees at once whose data went where.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from ...jobs.agent.channel import RankChannel
from .. import operations
from ..cases import Form
from ..layouts import Counting
from ..operations import bound
from ..records import Measured, Mismatch, Pattern, Record, Shown
from ..spec import ELEMENT_BYTES, Backend, SuiteSpec
from ..steps import Step
from .backends import Group, Session
from .calls import Prepared, prepare
from .patterns import written
from .probing import Probe, Trial
from .readable import Readable
from .timing import Stopwatch, events_of
from .verification import Sources, as_bytes, differs

TITLE_WIDTH = 34
NUM_ELEMENTS = 4
NOTHING = "-"
WRONG = "WRONG, expected"

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What one step comes to on this rank. `num_checked` is 0 where nothing was compared."""

    title: str
    text: str
    count: int = 0
    num_checked: int = 0
    mismatch: Mismatch | None = None


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
        self._probe = Probe(session, can_renew=session.choice.backend is not Backend.NCCL)
        self._stopwatch = Stopwatch(counter=channel, events=events_of(session.device))

    def run(self, steps: list[Step]) -> None:
        """Do the steps from `spec.first_step` on.

        A step with a wrong result is reported as a measurement too, by all ranks.

        Raises:
            RefusedError: see `Probe.attempt`.
        """
        for step in steps:
            if step.number >= self._spec.first_step:
                self._channel.begin_step(step.number)
                scene = self._words(step) if step.case.form is Form.SCENE else self._call(step)
                line = f"{scene.title:<{TITLE_WIDTH}} {scene.text}"
                self._send(Shown(rank=self._session.rank, step=step.number, line=line))
                if self._session.largest(int(scene.mismatch is not None)):
                    self._send(self._measured(step, scene))

    def _words(self, step: Step) -> Scene:
        session, name = self._session, step.case.operation
        texts = {
            "init_process_group": f"backend {session.choice.backend}, device {session.device}",
            "get_rank": str(session.rank),
            "get_world_size": str(session.world_size),
        }
        return Scene(title=name, text=texts[name])

    def _call(self, step: Step) -> Scene:
        group = self._session.group(step.case.group)
        readable, prepared = self._prepared(step, group)
        title = _title(prepared, group)
        before = _held(prepared, prepared.call.input, prepared.layout.input_splits)
        run = bound(prepared.operation, prepared.call)
        launch = partial(self._stopwatch.launch, run)
        started = time.perf_counter()
        words = self._probe.attempt(step.case, Trial(launch=launch, group_index=group.index))
        if words is not None:
            return Scene(title=title, text=f"unsupported: {words or 'another rank was refused'}")
        self._stopwatch.finish()
        if step.case.form is Form.PLAIN:
            waited_ms = 1e3 * (time.perf_counter() - started)
            text = f"waited {waited_ms:.1f} ms for all {len(group.members)} ranks"
            return Scene(title=title, text=text)
        if step.case.form is Form.OBJECT:
            return Scene(title=title, text=_objects(prepared))
        after = _held(prepared, prepared.call.output, prepared.layout.output_splits)
        right = readable.expected(prepared.layout)
        mismatch = compared(prepared.call.output, right, readable.bound)
        return Scene(
            title=title,
            text=f"before {before}  after {after}{_verdict(prepared, right, mismatch)}",
            count=prepared.sources.extent,
            num_checked=len(right),
            mismatch=mismatch,
        )

    def _prepared(self, step: Step, group: Group) -> tuple[Readable, Prepared]:
        case = step.case
        row = operations.find(case.operation, case.form)
        size = len(group.members)
        counts = {Counting.WHOLE: NUM_ELEMENTS, Counting.PARTS: size, Counting.HALVES: 2}
        count = counts.get(row.counting, 0)
        readable = Readable(
            dtype=case.dtype, redop=case.redop, group_size=size, num_indices=max(count, 1)
        )
        sources = Sources(
            scheme=readable.scheme,
            seed=self._spec.seed,
            members=group.members,
            extent=count,
            device=self._session.device,
        )
        prepared = prepare(row, case, group=group, count=count, sources=sources)
        _fill(prepared, readable)
        return readable, prepared

    def _measured(self, step: Step, scene: Scene) -> Measured:
        group = self._session.group(step.case.group)
        return Measured(
            rank=self._session.rank,
            step=step.number,
            case=step.case,
            size_bytes=scene.count * ELEMENT_BYTES[step.case.dtype],
            count=scene.count,
            group_size=len(group.members),
            group_index=group.index,
            times_ns=(),
            num_wrong=scene.mismatch.num_wrong if scene.mismatch else 0,
            num_checked=scene.num_checked,
            mismatch=scene.mismatch,
        )


def _fill(prepared: Prepared, readable: Readable) -> None:
    """Readable input; the output, where it is apart, starts as zeros, as in textbooks."""
    call = prepared.call
    as_bytes(call.output).zero_()
    call.input.copy_(readable.elements(prepared.slot, call.input.numel()))
    if prepared.case.form is Form.OBJECT:
        _fill_objects(prepared, readable.group_size)


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


def compared(output: Tensor, right: Tensor, bound: float) -> Mismatch | None:
    """Where an output is not what it should be; what is not specified of it is not compared."""
    got = output.cpu()[: len(right)]
    wrong = differs(got, right, bound).nonzero().reshape(-1).tolist()
    if not wrong:
        return None
    first = wrong[0]
    return Mismatch(
        first_offset=first,
        num_wrong=len(wrong),
        num_checked=len(right),
        expected=written(right[first : first + 1]),
        got=written(got[first : first + 1]),
        pattern=Pattern.UNRECOGNISED,
        detail="",
    )


def _verdict(prepared: Prepared, right: Tensor, mismatch: Mismatch | None) -> str:
    """Nothing when the result is right; else what it should have been."""
    if mismatch:
        return f"  {WRONG} [{', '.join(_written(value) for value in right.tolist())}]"
    is_open = not len(right) and prepared.layout.output_elements > 0
    return "  (only the root has the result)" if is_open else ""
