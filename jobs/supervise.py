"""A run from submission to verdict: who watches it, who ends it, what is written at its end."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from signal import Signals

from ..cluster.errors import ExitCode, LaunchError
from .controllers import Controller
from .events import AGENT_LOST, MASTER_PORT_RESERVED, Event, HostEvent
from .folder_writer import FolderWriter
from .gather import Echo, Gatherer
from .launchers import LAUNCHERS, Job, Starter
from .observers import INTERNAL_ERROR, Guarded, Observer, StopRequest
from .outcomes import RunResult
from .plan import LaunchPlan, plan_document
from .policies import AgentLoss, Deadline, FirstFailure, Interruption
from .results import environment_document, write_results
from .run_folder import RunFolder
from .signals import noted_signals
from .story import Story
from .verdict import RunFacts, judge

HANDLE_SCHEMA = "rankrun.handle/2"

TICK_S = 0.1

# How long ranks that were asked for their stacks are waited for.
STACKS_S = 3.0

# How long after the grace an agent may take to end everything and say so.
OVERTIME_S = 3.0


def run_job(
    plan: LaunchPlan,
    *,
    folder: RunFolder,
    observers: Sequence[Observer] = (),
    echo: Echo | None = None,
    colour: bool = False,
    launcher: Starter | None = None,
) -> RunResult:
    """Run a plan to its end and leave a readable run folder, whatever happens.

    As `watch_job`, with outcomes, findings and summary written at the end.
    """
    started_s = time.time()
    result = watch_job(
        plan, folder=folder, observers=observers, echo=echo, colour=colour, launcher=launcher
    )
    return write_results(plan, folder, result, started_s=started_s)


def watch_job(
    plan: LaunchPlan,
    *,
    folder: RunFolder,
    observers: Sequence[Observer] = (),
    echo: Echo | None = None,
    colour: bool = False,
    launcher: Starter | None = None,
) -> RunResult:
    """Run a plan to its end; `write_results` is left to who has more to say about it.

    `observers` see every event; one that raises ends the run with a finding. `echo` gets each
    finished line of the ranks with its prefix and its stream, in their own colours if `colour`.
    `launcher` stands in for the plan's own. On the main thread SIGINT, SIGTERM and SIGHUP end
    the run in order; a second one kills at once.

    Raises:
        RunFolderError: if the folder cannot be written to before the start.
    """
    writer = FolderWriter(folder, world_size=len(plan.ranks))
    try:
        folder.write_json(folder.plan, plan_document(plan))
        many_hosts = len(plan.placement.hosts) > 1
        gatherer = Gatherer(writer, echo=echo, colour=colour, many_hosts=many_hosts)
        guarded = Guarded(gatherer)
        with noted_signals() as signals:
            story = Story(planned.rank for planned in plan.ranks)
            first_failure = FirstFailure(story)
            policies: tuple[Observer, ...] = (
                Interruption(signals),
                first_failure,
                AgentLoss(story),
                Deadline(plan.limits, story),
            )
            supervisor = Supervisor(
                plan,
                writer=writer,
                story=story,
                gatherer=guarded,
                observers=(*policies, *map(Guarded, observers)),
                signals=signals,
            )
            try:
                supervisor.run(launcher or LAUNCHERS[plan.launcher]())
            finally:
                with guarded.catching():
                    gatherer.close()
            return judge(supervisor.facts(failure=first_failure))
    finally:
        writer.close()


class Supervisor:
    """Shows every event to all who watch, and ends the run when one asks for it.

    `stop` is the first wish to end the run, `stopped_by` the observer who had it.
    """

    def __init__(
        self,
        plan: LaunchPlan,
        *,
        writer: FolderWriter,
        story: Story,
        gatherer: Observer,
        observers: Sequence[Observer],
        signals: Sequence[Signals],
    ) -> None:
        """Nothing is started yet. `gatherer` also keeps what observers derive from events."""
        self._plan = plan
        self._writer = writer
        self._story = story
        self._gatherer = gatherer
        self._observers = (gatherer, *observers)
        self._signals = signals
        self._stacks_until: float | None = None
        self._give_up_at: float | None = None
        self._hurried = False
        self.stop: StopRequest | None = None
        self.stopped_by: Observer | None = None

    def run(self, launcher: Starter) -> None:
        """From submission until nothing of the job is left."""
        try:
            job = launcher.submit(self._plan)
        except LaunchError as error:
            host = self._plan.placement.hosts[0].name
            self._handle(_lost_at_start(host, str(error)))
            self._look_around(time.monotonic())
            return
        try:
            self._write_handle(job)
            while not job.ended:
                for event in job.events(TICK_S):
                    self._handle(event)
                now_s = time.monotonic()
                self._look_around(now_s)
                if self.stop is not None and not job.ended:
                    self._pursue(job, self.stop, now_s)
        finally:
            job.close()

    def facts(self, *, failure: Observer) -> RunFacts:
        """What the run left behind; being stopped by `failure` is no reason of its own."""
        found = [finding for observer in self._observers for finding in observer.findings()]
        fault = next((finding for finding in found if finding.cause == INTERNAL_ERROR), None)
        stop = None if self.stopped_by is failure else self.stop
        if fault is not None and self.stop is None:
            stop = StopRequest(reason=fault.message, exit_code=ExitCode.COULD_NOT_RUN)
        return RunFacts(
            outcomes=tuple(rank.outcome() for rank in self._story.ranks.values()),
            stop=stop,
            notes=tuple(self._story.notes),
            observed=tuple(found),
        )

    def _handle(self, event: Event) -> None:
        self._story.add(event)
        if isinstance(event, HostEvent) and event.what == MASTER_PORT_RESERVED:
            self._write_environment(int(event.detail))
        derived = [extra for observer in self._observers for extra in observer.on_event(event)]
        for extra in derived:
            self._story.add(extra)
            self._gatherer.on_event(extra)

    def _look_around(self, now_s: float) -> None:
        for observer in self._observers:
            request = observer.on_tick(now_s)
            if request is not None and self.stop is None:
                self.stop, self.stopped_by = request, observer

    def _pursue(self, job: Job, request: StopRequest, now_s: float) -> None:
        """Stacks if wanted, then the end, then, if the agent does not manage, force."""
        if self._impatient() and not self._hurried:
            self._hurried = True
            self._end(job, request, grace_s=0.0, now_s=now_s)
        elif self._give_up_at is None:
            if request.want_stacks and self._stacks_until is None:
                self._stacks_until = now_s + STACKS_S
                job.request_stacks(abort=True)
            if not self._awaits_stacks(now_s):
                self._end(job, request, grace_s=self._plan.limits.grace_s, now_s=now_s)
        elif now_s > self._give_up_at:
            job.close()

    def _end(self, job: Job, request: StopRequest, *, grace_s: float, now_s: float) -> None:
        self._give_up_at = now_s + grace_s + OVERTIME_S
        job.stop(request.reason, grace_s=grace_s)

    def _impatient(self) -> bool:
        """A signal that came although the run was already being ended."""
        expected = 1 if isinstance(self.stopped_by, Interruption) else 0
        return len(self._signals) > expected

    def _awaits_stacks(self, now_s: float) -> bool:
        if self._stacks_until is None or now_s >= self._stacks_until:
            return False
        return any(rank.stacks is None for rank in self._story.running)

    def _write_handle(self, job: Job) -> None:
        path = self._writer.folder.handle
        document = {
            "schema": HANDLE_SCHEMA,
            **asdict(job.handle),
            "controller": asdict(Controller.this_process()),
        }
        self._writer.write_json(path, document)

    def _write_environment(self, port: int) -> None:
        path = self._writer.folder.environment
        self._writer.write_json(path, environment_document(self._plan, port=port))


def _lost_at_start(host: str, why: str) -> HostEvent:
    return HostEvent(time_s=time.time(), host=host, what=AGENT_LOST, detail=why)
