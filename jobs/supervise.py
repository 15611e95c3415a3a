"""A run from submission to verdict: who watches it, and what is written at its end."""

import time
from collections.abc import Sequence

from .folder_writer import FolderWriter
from .gather import Echo, Gatherer
from .launchers import LAUNCHERS, Launcher
from .observers import Observer
from .outcomes import RunResult
from .plan import LaunchPlan, plan_document
from .policies import AgentLoss, Deadline, FirstFailure, Interruption
from .results import write_results
from .run_folder import RunFolder
from .signals import noted_signals
from .story import Story
from .supervisor import Supervisor
from .verdict import judge


def run_job(
    plan: LaunchPlan,
    *,
    folder: RunFolder,
    observers: Sequence[Observer] = (),
    echo: Echo | None = None,
    colour: bool = False,
    launcher: Launcher | None = None,
) -> RunResult:
    """Run a plan to its end and leave a readable run folder, whatever happens.

    `observers` see every event; `echo` gets each finished line of the ranks, with its prefix,
    and with the ranks' own colours if `colour`. `launcher` stands in for the plan's own. On the
    main thread SIGINT, SIGTERM and SIGHUP end the run in order; a second one kills at once.

    Raises:
        RunFolderError: if the folder cannot be written to before the start.
    """
    started_s = time.time()
    writer = FolderWriter(folder, world_size=len(plan.ranks))
    try:
        folder.write_json(folder.plan, plan_document(plan))
        many_hosts = len(plan.placement.hosts) > 1
        gatherer = Gatherer(writer, echo=echo, colour=colour, many_hosts=many_hosts)
        with noted_signals() as signals:
            story = Story(planned.rank for planned in plan.ranks)
            first_failure = FirstFailure(story)
            policies: tuple[Observer, ...] = (
                Interruption(signals),
                first_failure,
                AgentLoss(story),
                Deadline(plan.limits.deadline_s, story),
            )
            watching = (gatherer, *policies, *observers)
            supervisor = Supervisor(
                plan, writer=writer, story=story, observers=watching, signals=signals
            )
            try:
                supervisor.run(launcher or LAUNCHERS[plan.launcher]())
            finally:
                gatherer.close()
            facts = supervisor.facts(failure=first_failure)
            writer.close()
            return write_results(plan, folder, judge(facts), started_s=started_s)
    finally:
        writer.close()
