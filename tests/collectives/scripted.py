"""Ranks that are a script: what a suite run would see of them, without any process."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from rankrun.collectives.records import Left, Record
from rankrun.collectives.steps import Step
from rankrun.jobs.events import Event, RankExited, RankStarted
from rankrun.jobs.launchers import Job, JobHandle, Starter
from rankrun.jobs.plan import LaunchPlan

from .samples import HOST, JOINED, event, measured

RANKS = 2


@dataclass
class ScriptedJob:
    """Gives its events one by one; then it has ended."""

    script: list[Event]
    handle: JobHandle = field(default_factory=lambda: JobHandle(launcher="script", job_id="1"))
    ended: bool = False
    stopped: str | None = None

    def events(self, timeout_s: float) -> Iterator[Event]:
        if self.script:
            yield self.script.pop(0)
        self.ended = not self.script

    def request_stacks(self, *, abort: bool) -> None:
        return None

    def stop(self, reason: str, *, grace_s: float) -> None:
        self.stopped = reason
        self.script = [_exited(rank, -15, stopped=True) for rank in range(RANKS)]

    def close(self) -> None:
        self.ended = True


@dataclass
class ScriptedLauncher:
    """Each launch plays the next script; `plans` are what was launched, `before` is called."""

    scripts: list[list[Event]]
    before: Callable[[], object] = lambda: None
    plans: list[LaunchPlan] = field(default_factory=list)

    def submit(self, plan: LaunchPlan) -> Job:
        self.before()
        self.plans.append(plan)
        return ScriptedJob(self.scripts.pop(0))


_IS_A_STARTER: Starter = ScriptedLauncher([])


def began() -> list[Event]:
    """Both ranks run and have joined."""
    started = [RankStarted(time_s=1.0, host=HOST, rank=r, pid=1000 + r) for r in range(RANKS)]
    joined = [event(replace(JOINED, rank=r, world_size=RANKS)) for r in range(RANKS)]
    return [*started, *joined]


def reported(*records: Record) -> list[Event]:
    return [event(record) for record in records]


def right(step: Step) -> list[Event]:
    """Both ranks report a step as right."""
    return reported(*(measured(rank, step, group_size=RANKS) for rank in range(RANKS)))


def ended() -> list[Event]:
    """Both ranks leave and end well."""
    left = reported(*(Left(rank=rank) for rank in range(RANKS)))
    return [*left, *(_exited(rank, 0) for rank in range(RANKS))]


def crashed(rank: int) -> list[Event]:
    """One rank ends by itself; what becomes of the other is up to the run."""
    return [_exited(rank, 17)]


def _exited(rank: int, code: int, *, stopped: bool = False) -> Event:
    return RankExited(time_s=2.0, host=HOST, rank=rank, code=code, stopped_by_us=stopped)
