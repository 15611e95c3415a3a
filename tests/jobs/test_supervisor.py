"""Supervision alone: a job that is a script of events, no process, no clock to wait for."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rankrun.cluster.diagnosis.findings import Finding
from rankrun.cluster.errors import LaunchError
from rankrun.jobs.events import (
    AGENT_LOST,
    MASTER_PORT_RESERVED,
    Event,
    HostEvent,
    RankExited,
    RankOutput,
    RankStacks,
    RankStarted,
    Stream,
)
from rankrun.jobs.launchers import Job, JobHandle, Starter
from rankrun.jobs.observers import Observer, StopRequest
from rankrun.jobs.outcomes import End, RunResult
from rankrun.jobs.plan import LaunchPlan, Limits
from rankrun.jobs.run_folder import RunFolder
from rankrun.jobs.supervise import run_job

from .running import local_plan

HANDLE = JobHandle(launcher="fake", job_id="7")
NO_LIMITS = Limits()


def started(rank: int) -> Event:
    return RankStarted(time_s=1.0, host="here", rank=rank, pid=1000 + rank)


def exited(rank: int, code: int = 0, *, stopped: bool = False, time_s: float = 2.0) -> Event:
    return RankExited(time_s=time_s, host="here", rank=rank, code=code, stopped_by_us=stopped)


def output(rank: int, data: bytes, stream: Stream = "stdout") -> Event:
    return RankOutput(time_s=1.5, host="here", rank=rank, stream=stream, data=data)


def stacks(rank: int, text: str = '  File "x.py", line 1 in f\n') -> Event:
    return RankStacks(time_s=1.5, host="here", rank=rank, text=text)


@dataclass
class FakeJob:
    """Gives a batch of events at each call; after a stop, `at_end`; then it has ended."""

    batches: list[list[Event]]
    at_end: list[Event] = field(default_factory=list)
    on_stacks: list[Event] = field(default_factory=list)
    obeys: bool = True
    handle: JobHandle = HANDLE
    ended: bool = False
    calls: list[str] = field(default_factory=list)

    def events(self, timeout_s: float) -> Iterator[Event]:
        if self.batches:
            yield from self.batches.pop(0)
        elif self.obeys:
            self.ended = True

    def request_stacks(self, *, abort: bool) -> None:
        self.calls.append(f"stacks abort={abort}")
        self.batches = [self.on_stacks, *self.batches]

    def stop(self, reason: str, *, grace_s: float) -> None:
        self.calls.append(f"stop {grace_s:g}: {reason}")
        self.batches = [self.at_end] if self.obeys else []

    def close(self) -> None:
        self.calls.append("close")
        self.ended = True


@dataclass
class FakeLauncher:
    job: Job | None

    def submit(self, plan: LaunchPlan) -> Job:
        if self.job is None:
            raise LaunchError("no agent for you")
        return self.job


_IS_A_STARTER: Starter = FakeLauncher(None)


@dataclass
class FakeObserver:
    """Derives events from output, asks for a stop at the given tick."""

    stop_at: int | None = None
    want_stacks: bool = False
    derives: list[Event] = field(default_factory=list)
    seen: list[Event] = field(default_factory=list)
    ticks: int = 0

    def on_event(self, event: Event) -> Iterable[Event]:
        self.seen.append(event)
        return self.derives if isinstance(event, RankOutput) else ()

    def on_tick(self, now_s: float) -> StopRequest | None:
        self.ticks += 1
        if self.stop_at is None or self.ticks < self.stop_at:
            return None
        return StopRequest(reason="seen enough", exit_code=42, want_stacks=self.want_stacks)

    def findings(self) -> Sequence[Finding]:
        return ()


class Supervised:
    """Two ranks of a fake job, supervised in a folder of its own."""

    def __init__(self, path: Path) -> None:
        self.folder = RunFolder.create(path / "run")
        self.lines: list[str] = []

    def __call__(
        self,
        job: FakeJob | None,
        *observers: Observer,
        limits: Limits = NO_LIMITS,
    ) -> RunResult:
        plan = local_plan(self.folder.path, ("true",), limits=limits)
        return run_job(
            plan,
            folder=self.folder,
            observers=observers,
            echo=lambda line, stream: self.lines.append(line),
            launcher=FakeLauncher(job),
        )


@pytest.fixture
def supervise(tmp_path: Path) -> Supervised:
    return Supervised(tmp_path)


def test_nothing_is_asked_of_a_job_that_ends_well(supervise: Supervised) -> None:
    job = FakeJob([[started(0), started(1)], [exited(0), exited(1)]])
    assert supervise(job).exit_code == 0
    assert job.calls == ["close"]


def test_a_failure_stops_the_others(supervise: Supervised) -> None:
    job = FakeJob(
        [[started(0), started(1)], [output(1, b"boom\n", "stderr"), exited(1, 5)]],
        at_end=[exited(0, -15, stopped=True)],
    )
    result = supervise(job, limits=Limits(grace_s=1.5))
    assert result.exit_code == 5
    assert job.calls == ["stop 1.5: rank 1 failed", "close"]
    assert [outcome.end for outcome in result.outcomes] == [End.STOPPED, End.FAILED]
    assert result.outcomes[1].last_words == ("boom",)


def test_a_rank_that_never_reported_has_an_outcome(supervise: Supervised) -> None:
    result = supervise(FakeJob([[started(0)], [exited(0)]]))
    assert result.exit_code == 3
    assert [outcome.end for outcome in result.outcomes] == [End.COMPLETED, End.NEVER_REPORTED]
    assert [finding.cause for finding in result.findings] == ["rank-never-reported"]


def test_no_agent(supervise: Supervised) -> None:
    result = supervise(None)
    assert result.exit_code == 3
    assert [finding.cause for finding in result.findings] == ["agent-lost"]
    assert "no agent for you" in result.findings[0].message
    assert supervise.folder.read_json(supervise.folder.summary)["exit_code"] == 3


def test_an_agent_lost_after_a_failure_does_not_hide_it(supervise: Supervised) -> None:
    lost = HostEvent(time_s=3.0, host="here", what=AGENT_LOST, detail="gone")
    job = FakeJob([[started(0), started(1), exited(0, 9)]], at_end=[lost])
    result = supervise(job)
    assert result.exit_code == 9
    assert [finding.cause for finding in result.findings] == ["rank-failed", "agent-lost"]


def test_derived_events_are_kept_and_shown_but_not_observed_again(supervise: Supervised) -> None:
    observer = FakeObserver(derives=[output(0, b"derived\n")])
    job = FakeJob([[started(0), started(1), output(1, b"own\n")], [exited(0), exited(1)]])
    supervise(job, observer)
    assert supervise.lines == ["[1] own", "[0] derived"]
    assert supervise.folder.log(0, "stdout").read_bytes() == b"derived\n"
    assert [event for event in observer.seen if isinstance(event, RankOutput)] == [
        output(1, b"own\n")
    ]


def test_every_observer_sees_every_event_in_order(supervise: Supervised) -> None:
    observers = (FakeObserver(), FakeObserver())
    events = [started(0), started(1), output(0, b"x"), exited(0), exited(1)]
    supervise(FakeJob([events]), *observers)
    assert observers[0].seen == observers[1].seen == events


def test_a_stop_waits_for_the_stacks_of_those_who_live(supervise: Supervised) -> None:
    job = FakeJob(
        [[started(0), started(1)], [exited(1)], [], []],
        on_stacks=[stacks(0)],
        at_end=[exited(0, -15, stopped=True)],
    )
    result = supervise(job, FakeObserver(stop_at=3, want_stacks=True), limits=Limits(grace_s=1))
    assert result.exit_code == 42
    assert job.calls == ["stacks abort=True", "stop 1: seen enough", "close"]
    assert 'File "x.py"' in supervise.folder.stacks(0).read_text()
    assert not supervise.folder.stacks(1).exists()


def test_the_first_request_counts(supervise: Supervised) -> None:
    job = FakeJob([[started(0), started(1)], [], []])
    result = supervise(job, FakeObserver(stop_at=1), FakeObserver(stop_at=1, want_stacks=True))
    assert result.exit_code == 42
    assert [call for call in job.calls if call.startswith("stacks")] == []


def test_stacks_that_do_not_come_are_not_awaited_for_ever(
    supervise: Supervised, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rankrun.jobs.supervise.STACKS_S", 0.0)
    job = FakeJob([[started(0), started(1)], [], [], []])
    assert supervise(job, FakeObserver(stop_at=1, want_stacks=True)).exit_code == 42
    assert job.calls[1].startswith("stop")


def test_a_job_that_does_not_end_is_closed(
    supervise: Supervised, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rankrun.jobs.supervise.OVERTIME_S", 0.0)
    job = FakeJob([[started(0), started(1)]], obeys=False)
    result = supervise(job, FakeObserver(stop_at=2), limits=Limits(grace_s=0))
    assert result.exit_code == 42
    assert job.calls[-2:] == ["close", "close"]
    assert {outcome.end for outcome in result.outcomes} == {End.STOPPED}


def test_a_broken_observer_leaves_no_job_behind(supervise: Supervised) -> None:
    class Broken(FakeObserver):
        def on_event(self, event: Event) -> Iterable[Event]:
            raise ZeroDivisionError

    job = FakeJob(
        [[started(0), started(1)]], at_end=[output(1, b"last\n"), exited(0, -15, stopped=True)]
    )
    looker = FakeObserver()
    result = supervise(job, Broken(), looker, limits=Limits(grace_s=1))
    assert job.calls == ["stop 1: rankrun itself failed: ZeroDivisionError", "close"]
    assert result.exit_code == 3
    (finding,) = result.findings
    assert finding.cause == "internal-error"
    assert "rankrun itself failed (Broken): ZeroDivisionError" in finding.message
    assert any("in on_event" in evidence.text for evidence in finding.evidence)
    # The others saw everything, and the folder is whole.
    assert output(1, b"last\n") in looker.seen
    assert supervise.folder.log(1, "stdout").read_bytes() == b"last\n"
    assert supervise.folder.read_json(supervise.folder.summary)["exit_code"] == 3
    for path in (supervise.folder.outcomes, supervise.folder.findings):
        assert path.exists()


def test_a_broken_search_for_findings_loses_no_results(supervise: Supervised) -> None:
    class Broken(FakeObserver):
        def findings(self) -> Sequence[Finding]:
            raise ZeroDivisionError

    job = FakeJob([[started(0), started(1)], [exited(0), exited(1)]])
    result = supervise(job, Broken())
    assert (result.exit_code, result.findings[0].cause) == (3, "internal-error")
    assert {outcome.end for outcome in result.outcomes} == {End.COMPLETED}


def test_an_echo_that_fails_ends_the_run_and_loses_no_output(tmp_path: Path) -> None:
    def broken(line: str, stream: Stream) -> None:
        raise ZeroDivisionError(line)

    folder = RunFolder.create(tmp_path / "run")
    job = FakeJob([[started(0), started(1), output(0, b"held")], [output(1, b"a line\n")]])
    plan = local_plan(folder.path, ("true",), limits=NO_LIMITS)
    result = run_job(plan, folder=folder, echo=broken, launcher=FakeLauncher(job))
    assert (result.exit_code, result.findings[0].cause) == (3, "internal-error")
    assert folder.log(0, "stdout").read_bytes() == b"held"
    assert folder.read_json(folder.summary)["exit_code"] == 3


def test_a_deadline_counts_from_the_start_of_the_whole_run(supervise: Supervised) -> None:
    limits = Limits(deadline_s=3600).after(1800).after(1801)
    job = FakeJob([[started(0), started(1)], []], on_stacks=[stacks(0), stacks(1)])
    result = supervise(job, limits=limits)
    assert result.exit_code == 124
    assert "did not end within 3600 s" in result.findings[0].message


def test_the_environment_is_written_when_the_port_is_known(supervise: Supervised) -> None:
    port = HostEvent(time_s=1.0, host="here", what=MASTER_PORT_RESERVED, detail="4711")
    supervise(FakeJob([[port, started(0), started(1)], [exited(0), exited(1)]]))
    document = supervise.folder.read_json(supervise.folder.environment)
    assert document["schema"] == "rankrun.environment/1"
    assert document["common"]["MASTER_PORT"] == "4711"
    assert document["ranks"]["1"]["RANK"] == "1"
