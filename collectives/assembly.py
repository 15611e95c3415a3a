"""Ranks' records put together: a step is finished when every rank that takes part reported it.

Pure bookkeeping, used while a run goes on and again, offline, on its measurements.jsonl.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence

from . import steps as suite_steps
from .cases import Case
from .measurement import Combine, Measurement, RankMismatch, Status, combine_ranks
from .records import Joined, Left, Measured, Record, Shown, Unsupported
from .spec import ELEMENT_BYTES
from .steps import Step, Topology


class Assembly:
    """Which rank reported what of which step."""

    def __init__(
        self, steps: Sequence[Step], topology: Topology, *, combine: Combine = Combine.AVG
    ) -> None:
        """Nothing was reported yet."""
        self._steps = {step.number: step for step in steps}
        self._topology = topology
        self._combine = combine
        self._reports: dict[int, dict[int, Measured | Unsupported]] = defaultdict(dict)
        self._joined: dict[int, Joined] = {}
        self._left: set[int] = set()
        self._finished: dict[int, Measurement] = {}
        self._strays: dict[int, Measured | Unsupported] = {}
        self._shown: dict[int, dict[int, list[Shown]]] = defaultdict(dict)
        self._to_release = deque(self._steps)
        self._last_report: dict[int, int] = {}

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self._topology.world_size

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps to be done."""
        return tuple(self._steps.values())

    @property
    def joined(self) -> Mapping[int, Joined]:
        """What the ranks said when their process group was up."""
        return self._joined

    @property
    def first_joined(self) -> Joined | None:
        """What the lowest rank said when it joined; None if none did."""
        return next((joined for _, joined in sorted(self._joined.items())), None)

    @property
    def strays(self) -> Mapping[int, Measured | Unsupported]:
        """Per rank the first report of another case than the step's; none of them counts."""
        return self._strays

    @property
    def left(self) -> frozenset[int]:
        """The ranks that did all steps."""
        return frozenset(self._left)

    @property
    def shown_lines(self) -> tuple[str, ...]:
        """The lines of --show, step by step, within a step rank by rank."""
        return tuple(f"[{shown.rank}] {shown.line}" for shown in in_rank_order(self._shown))

    @property
    def measurements(self) -> list[Measurement]:
        """The finished steps, in order."""
        return [self._finished[number] for number in sorted(self._finished)]

    def add(self, record: Record) -> list[Measurement]:
        """Take a record in; the finished steps that now have no unfinished one before them.

        Records of different ranks arrive in any order, what comes out is in order of steps.
        """
        match record:
            case Joined():
                self._joined[record.rank] = record
            case Left():
                self._left.add(record.rank)
            case Shown():
                self._note(record.rank, record.step)
                self._shown[record.step].setdefault(record.rank, []).append(record)
            case Measured() | Unsupported():
                self._note(record.rank, record.step)
                self._report(record)
        return self._release()

    def last_report(self, rank: int) -> int:
        """The last step that a rank reported; 0 if none."""
        return self._last_report.get(rank, 0)

    def unfinished(self) -> list[Step]:
        """The steps that not all of their ranks reported."""
        return [step for step in self._steps.values() if not self._is_finished(step)]

    def _is_finished(self, step: Step) -> bool:
        return step.number in self._finished or (
            step.number in self._shown
            and self.participants(step) <= self._shown[step.number].keys()
        )

    def participants(self, step: Step) -> frozenset[int]:
        """The ranks of the whole run that take part in a step."""
        groups = suite_steps.members(step.case.group, self._topology)
        return frozenset(rank for group in groups for rank in group)

    def group_size(self, case: Case) -> int:
        """Ranks of the largest group of a case."""
        groups = suite_steps.members(case.group, self._topology)
        return max((len(group) for group in groups), default=0)

    def release_all(self) -> list[Measurement]:
        """The finished steps that were held back, once no more records will come."""
        held = [self._finished[n] for n in self._to_release if n in self._finished]
        self._to_release.clear()
        return held

    def _release(self) -> list[Measurement]:
        released = []
        while self._to_release and self._to_release[0] in self._finished:
            released.append(self._finished[self._to_release.popleft()])
        return released

    def _note(self, rank: int, step: int) -> None:
        self._last_report[rank] = max(step, self.last_report(rank))

    def _report(self, record: Measured | Unsupported) -> None:
        step = self._steps.get(record.step)
        if step is None or step.case != record.case:
            self._strays.setdefault(record.rank, record)
            return
        if step.number in self._finished:
            return
        reports = self._reports[step.number]
        reports[record.rank] = record
        if self.participants(step) <= reports.keys():
            del self._reports[step.number]  # every rank's times: not kept for thousands of ranks
            for measured in self._finish(step, [reports[rank] for rank in sorted(reports)]):
                self._finished[measured.step] = measured

    def _finish(self, step: Step, reports: Sequence[Measured | Unsupported]) -> list[Measurement]:
        """The measurement; of a case that is unsupported also those of its other sizes.

        The ranks do not try those.
        """
        refusals = [report for report in reports if isinstance(report, Unsupported)]
        if refusals:
            reason = next((r.reason for r in refusals if r.reason), None)
            same_case = [
                other
                for other in self._steps.values()
                if other.number >= step.number and other.case == step.case
            ]
            return [self._unsupported(other, reason) for other in same_case]
        measured = [report for report in reports if isinstance(report, Measured)]
        return [combined(measured, self._combine)]

    def _unsupported(self, step: Step, reason: str | None) -> Measurement:
        group_size = self.group_size(step.case)
        count = suite_steps.step_count(step, group_size)
        return Measurement(
            step=step.number,
            case=step.case,
            size_bytes=count * ELEMENT_BYTES[step.case.dtype],
            count=count,
            group_size=group_size,
            status=Status.UNSUPPORTED,
            reason=reason,
        )


def combined(reports: Sequence[Measured], combine: Combine) -> Measurement:
    """One step's reports, made one.

    Groups of a kind can differ by a rank, and so in what they do; the times and the size are
    those of the largest group and its equals. Correctness is that of all ranks.
    """
    largest = max(reports, key=lambda report: report.group_size)
    alike = [
        report
        for report in reports
        if (report.group_size, report.count) == (largest.group_size, largest.count)
    ]
    return Measurement(
        step=largest.step,
        case=largest.case,
        size_bytes=largest.size_bytes,
        count=largest.count,
        group_size=largest.group_size,
        status=_status(reports),
        times_s=combine_ranks([report.times_ns for report in alike], combine),
        num_wrong=sum(report.num_wrong for report in reports),
        num_checked=sum(report.num_checked for report in reports),
        mismatches=tuple(
            RankMismatch(rank=report.rank, mismatch=report.mismatch)
            for report in reports
            if report.mismatch
        ),
    )


def _status(reports: Iterable[Measured]) -> Status:
    if any(report.mismatch or report.num_wrong for report in reports):
        return Status.WRONG
    # On some ranks there can be nothing to check: reduce gives its result to the root alone.
    return Status.RIGHT if any(report.num_checked for report in reports) else Status.NOT_CHECKED


class ShownLines:
    """Holds the lines of a step back until no rank can add to them.

    A rank is past a step when it reports a later one, leaves, or ends. Lines come out step by
    step, within a step rank by rank, each rank's in the order it wrote them.
    """

    def __init__(self, ranks: Collection[int]) -> None:
        """Nothing was shown yet."""
        self._at = dict.fromkeys(ranks, 0)
        self._lines: dict[int, dict[int, list[Shown]]] = defaultdict(lambda: defaultdict(list))

    def add(self, shown: Shown) -> list[Shown]:
        """Take a line in; the lines that can now be printed."""
        self._lines[shown.step][shown.rank].append(shown)
        return self.reached(shown.rank, shown.step)

    def reached(self, rank: int, step: int) -> list[Shown]:
        """A rank is at this step now."""
        self._at[rank] = max(step, self._at.get(rank, 0))
        return self._flush(min(self._at.values()))

    def ended(self, rank: int) -> list[Shown]:
        """A rank will say no more."""
        self._at.pop(rank, None)
        return self._flush(min(self._at.values(), default=None))

    def _flush(self, before: int | None) -> list[Shown]:
        ready = [step for step in self._lines if before is None or step < before]
        return in_rank_order({step: self._lines.pop(step) for step in ready})


def in_rank_order(shown: Mapping[int, Mapping[int, Sequence[Shown]]]) -> list[Shown]:
    """Lines by step and rank: step by step, within a step rank by rank, each rank's as it wrote."""
    return [
        line
        for _, by_rank in sorted(shown.items())
        for _, lines in sorted(by_rank.items())
        for line in lines
    ]
