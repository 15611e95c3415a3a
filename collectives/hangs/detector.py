"""The suite's alarm: a call that does not end, and ranks that never join.

Watches the counters that every rank keeps in its progress page, ends the run when they stand
still for too long, and says who arrived and who did not.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...cluster.diagnosis.findings import Finding
from ...cluster.errors import ExitCode
from ...jobs.events import Event, HostProgress, Progress, RankExited, RankStacks, RankStarted
from ...jobs.observers import StopRequest
from ...jobs.wording import format_ranks
from ..assembly import Assembly
from ..spec import START_UP_S
from ..steps import Step, Topology, members
from . import findings as hang_findings
from .arrivals import Picture, read_arrivals
from .findings import step_label
from .stack_reading import Doing, read_stacks


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """How long counters may stand still in a step, and how long ranks may take to join."""

    deadline_s: float
    start_up_s: float = START_UP_S


class HangDetector:
    """An observer that ends a run that stands still."""

    def __init__(
        self, watch: Watch, *, assembly: Assembly, steps: Sequence[Step], topology: Topology
    ) -> None:
        """Nothing has started. `assembly` knows who joined and left; it is only read."""
        self._watch = watch
        self._assembly = assembly
        self._steps = {step.number: step for step in steps}
        self._topology = topology
        self._progress: dict[int, Progress] = {}
        self._started: set[int] = set()
        self._started_s: float | None = None
        self._exits: dict[int, int] = {}
        self._stacks: dict[int, Doing] = {}
        self._verdict: Callable[[], Finding] | None = None
        self._death: Finding | None = None
        self._step: int | None = None

    @property
    def step(self) -> int | None:
        """The step that was overdue, if the alarm rang during one."""
        return self._step

    def on_event(self, event: Event) -> Iterable[Event]:
        """Take in counters, exits and stacks."""
        match event:
            case RankStarted():
                self._started.add(event.rank)
            case HostProgress():
                self._progress.update(event.ranks)
            case RankStacks():
                self._stacks[event.rank] = read_stacks(event.text)
            case RankExited():
                self._on_exit(event)
        return ()

    def on_tick(self, now_s: float) -> StopRequest | None:
        """Ring once."""
        if self._verdict is not None:
            return None
        reason = self._overdue_start(now_s) or self._overdue_call()
        if reason is None:
            return None
        return StopRequest(reason=reason, exit_code=ExitCode.CHECK_FAILED, want_stacks=True)

    def findings(self) -> Sequence[Finding]:
        """The hang, or where the ranks were when one of them died."""
        hang = [self._verdict()] if self._verdict else []
        return [*hang, *([self._death] if self._death else [])]

    def _overdue_start(self, now_s: float) -> str | None:
        if self._started_s is None and self._started:
            self._started_s = now_s
        expected = set(range(self._topology.world_size))
        absent = expected - self._assembly.joined.keys() - self._exits.keys()
        waited_s = now_s - (now_s if self._started_s is None else self._started_s)
        if not absent or waited_s <= self._watch.start_up_s:
            return None
        limit_s, joined = self._watch.start_up_s, sorted(self._assembly.joined)
        self._verdict = lambda: hang_findings.not_joined(
            sorted(absent), joined, limit_s=limit_s, doing=self._stacks
        )
        return f"{format_ranks(absent)} did not join within {limit_s:g} s"

    def _overdue_call(self) -> str | None:
        living = self._living()
        limit_s = self._watch.deadline_s
        if not any(at.step and at.unchanged_s > limit_s for at in living.values()):
            return None
        arrivals = read_arrivals(self._concerned(living))
        self._step = arrivals.step
        step = self._steps.get(arrivals.step)
        self._verdict = lambda: hang_findings.hang(
            arrivals, step, limit_s=limit_s, doing=self._stacks
        )
        return f"{step_label(step)}: no progress for {limit_s:g} s"

    def _living(self) -> Mapping[int, Progress]:
        gone = self._exits.keys() | self._assembly.left
        return {rank: at for rank, at in self._progress.items() if rank not in gone}

    def _concerned(self, living: Mapping[int, Progress]) -> Mapping[int, Progress]:
        """The ranks of the group that stands still; the others only wait for it to be done."""
        step = self._steps.get(min(at.step for at in living.values()))
        groups = members(step.case.group, self._topology) if step else ()
        parts = [{r: living[r] for r in group if r in living} for group in groups]
        return next(
            (part for part in parts if any(p.started > p.finished for p in part.values())), living
        )

    def _on_exit(self, event: RankExited) -> None:
        first = not any(self._exits.values())
        self._exits[event.rank] = event.code
        if event.code and first and not event.stopped_by_us and self._verdict is None:
            self._death = self._died(event)
        # Kept until here: they say where the rank was when it died.
        self._progress.pop(event.rank, None)

    def _died(self, event: RankExited) -> Finding | None:
        """Where everybody was, as far as the counters of half a second ago and reports tell."""
        at = self._progress.get(event.rank)
        reported = self._assembly.last_report(event.rank)
        if event.rank not in self._assembly.joined or event.rank in self._assembly.left:
            return None
        if at is None or at.step <= reported:
            later = (s for s in self._assembly.unfinished() if s.number > reported)
            return hang_findings.died(event, next(later, None), arrivals=None)
        arrivals = read_arrivals(self._concerned(self._living()))
        same_place = arrivals.step == at.step and arrivals.picture is not Picture.BETWEEN
        return hang_findings.died(
            event, self._steps.get(at.step), arrivals=arrivals if same_place else None
        )
