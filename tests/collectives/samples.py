"""What tests of the controller's side share: cases, records and events made by hand."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from rankrun.collectives.assembly import Assembly
from rankrun.collectives.cases import Case, Form, GroupKind
from rankrun.collectives.measurement import Measurement, RankMismatch, Status
from rankrun.collectives.records import (
    Joined,
    Measured,
    Mismatch,
    Pattern,
    Record,
    Unsupported,
    to_line,
)
from rankrun.collectives.spec import ELEMENT_BYTES, Dtype, Redop, SuiteSpec
from rankrun.collectives.steps import Step, Topology, enumerate_steps
from rankrun.jobs.events import RankRecord
from rankrun.jobs.terminal import ProgressState

HOST = "node0"
FOUR = Topology(world_size=4, node_leaders=(0,))
TWO = Topology(world_size=2, node_leaders=(0,))

CASE = Case(
    operation="all_reduce",
    form=Form.TENSOR,
    group=GroupKind.WORLD,
    in_place=True,
    asynchronous=False,
    dtype=Dtype.FLOAT32,
    redop=Redop.SUM,
    root=None,
)
GATHER = replace(CASE, operation="all_gather", in_place=False, redop=None)
BROADCAST = replace(CASE, operation="broadcast", redop=None, root=0)

MISMATCH = Mismatch(
    first_offset=3,
    num_wrong=5,
    num_checked=8,
    expected="10",
    got="7",
    pattern=Pattern.MISSING_CONTRIBUTION,
    detail="rank 2's contribution is missing",
)

JOINED = Joined(
    rank=0,
    world_size=4,
    num_steps=3,
    backend="gloo",
    device="cpu",
    device_name="x86_64",
    torch="2.13.0",
    nccl=None,
    python="3.11.2",
)


def steps_of(
    topology: Topology = FOUR, *, ops: Sequence[str] = ("all_reduce",), sizes: Sequence[int] = (8,)
) -> list[Step]:
    spec = SuiteSpec(operations=tuple(ops), sizes_bytes=tuple(sizes))
    return enumerate_steps(spec, topology)


def plain_step(number: int, case: Case = CASE, size_bytes: int = 1024) -> Step:
    return Step(
        number=number,
        case=case,
        size_bytes=size_bytes,
        count=size_bytes // ELEMENT_BYTES[case.dtype],
        verify=True,
        time=True,
    )


def measured(
    rank: int,
    step: Step,
    *,
    times_us: Sequence[int] = (100, 200, 300),
    mismatch: Mismatch | None = None,
    group_size: int = 4,
) -> Measured:
    return Measured(
        rank=rank,
        step=step.number,
        case=step.case,
        size_bytes=step.size_bytes,
        count=step.count,
        group_size=group_size,
        group_index=0,
        times_ns=tuple(time * 1000 for time in times_us),
        num_wrong=mismatch.num_wrong if mismatch else 0,
        num_checked=step.count,
        mismatch=mismatch,
    )


def refused(rank: int, step: Step, reason: str) -> Unsupported:
    return Unsupported(
        rank=rank, step=step.number, case=step.case, size_bytes=step.size_bytes, reason=reason
    )


def measurement(
    case: Case = CASE,
    size_bytes: int = 1024,
    *,
    step: int = 1,
    time_us: float | None = 100.0,
    group_size: int = 4,
    status: Status = Status.RIGHT,
    wrong_on: Iterable[int] = (),
    reason: str | None = None,
) -> Measurement:
    mismatches = tuple(RankMismatch(rank=rank, mismatch=MISMATCH) for rank in wrong_on)
    return Measurement(
        step=step,
        case=case,
        size_bytes=size_bytes,
        count=size_bytes // ELEMENT_BYTES[case.dtype],
        group_size=group_size,
        status=Status.WRONG if mismatches else status,
        times_s=() if time_us is None else (time_us / 1e6,),
        num_wrong=5 * len(mismatches),
        num_checked=0 if status is Status.NOT_CHECKED else size_bytes,
        reason=reason,
        mismatches=mismatches,
    )


def event(record: Record) -> RankRecord:
    return RankRecord(time_s=1.0, host=HOST, rank=record.rank, line=to_line(record).encode())


def joined(assembly: Assembly, world_size: int) -> None:
    for rank in range(world_size):
        assembly.add(replace(JOINED, rank=rank, world_size=world_size))


@dataclass
class Recorder:
    """A Display that keeps what it was given."""

    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    states: list[ProgressState] = field(default_factory=list)
    closed: bool = False

    def line(self, text: str) -> None:
        self.lines.append(text)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def progress(self, state: ProgressState) -> None:
        self.states.append(state)

    def close(self) -> None:
        self.closed = True
