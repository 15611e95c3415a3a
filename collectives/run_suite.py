"""The suite from plan to result.

`run_suite` has `jobs.supervise.watch_job` start and watch the ranks while the collector, the
hang detector and the progress reporter look on, and makes of what they saw a SuiteResult:
documents, table, findings.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ..cluster.diagnosis.findings import Severity
from ..cluster.errors import ExitCode
from ..jobs.events import Stream
from ..jobs.launchers import Starter
from ..jobs.outcomes import RunResult
from ..jobs.results import write_results
from ..jobs.run_folder import RunFolder
from ..jobs.supervise import watch_job
from ..jobs.terminal import Display
from ..jobs.verdict import render_verdict
from . import suite_findings
from .assembly import Assembly
from .collector import Listeners, SuiteCollector
from .documents import SuiteFacts
from .hangs.detector import HangDetector, Watch
from .hangs.findings import DIED_IN_STEP
from .progress import ProgressReporter
from .records import Joined
from .spec import Mode
from .suite_files import write_request
from .suite_plan import SuitePlan
from .suite_result import SuiteResult
from .table import LiveTable
from .table_ends import preamble

# The notes that are told at the end; refusals already stand in the table.
_TOLD = frozenset({"interrupted", DIED_IN_STEP})


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """What one launch of the ranks left. `hung_step` is where the alarm rang, if it did."""

    result: RunResult
    assembly: Assembly
    hung_step: int | None


def run_suite(plan: SuitePlan, display: Display, *, launcher: Starter | None = None) -> SuiteResult:
    """Run a sweep or a show; print rows as they finish, then what was found.

    Raises:
        RunFolderError: if the run folder cannot be made.
        LaunchError: if the agent cannot be started.
    """
    started_s = time.time()
    with suite_folder(plan, display) as folder:
        launched = launch_steps(plan, folder, display, launcher=launcher)
        run = write_results(plan.launch, folder, judged(launched), started_s=started_s)
        result = suite_result(plan, run, launched.assembly)
        if plan.request.spec.mode is Mode.SWEEP:
            print_lines(display, result.footer())
        show_findings(run, folder.path, display)
    return result


@contextmanager
def suite_folder(plan: SuitePlan, display: Display) -> Iterator[RunFolder]:
    """The run folder of a suite that begins; at its end the display is closed.

    Raises:
        RunFolderError: if it cannot be made.
    """
    folder = RunFolder.create(plan.launch.run_folder)
    write_request(folder, plan)
    try:
        yield folder
    finally:
        display.close()


def launch_steps(
    plan: SuitePlan,
    folder: RunFolder,
    display: Display,
    *,
    launcher: Starter | None = None,
    measurements: Path | None = None,
) -> Launched:
    """Launch the ranks once and look on until they end.

    `measurements` is the file that records go to, if not the folder's own.
    """
    request = plan.request
    assembly = Assembly(plan.steps, plan.topology, combine=request.combine)
    hangs = HangDetector(
        Watch(deadline_s=request.spec.deadline_s, start_up_s=request.start_up_s),
        assembly=assembly,
        steps=plan.steps,
        topology=plan.topology,
    )
    path = measurements or folder.measurements
    try:
        collector = _collector(plan, assembly, display, path)
    except OSError as error:
        raise folder.error("write", path, error) from error
    is_show = request.spec.mode is Mode.SHOW

    def echo(line: str, stream: Stream) -> None:
        """The lines of --show are the result; what else ranks say is not."""
        (display.line if is_show and stream == "stdout" else display.note)(line)

    try:
        result = watch_job(
            plan.launch,
            folder=folder,
            observers=(collector, hangs, ProgressReporter(assembly, plan.steps, display)),
            echo=echo,
            launcher=launcher,
        )
        collector.end()
    finally:
        collector.close()
    return Launched(result=result, assembly=assembly, hung_step=hangs.step)


def _collector(plan: SuitePlan, assembly: Assembly, display: Display, path: Path) -> SuiteCollector:
    ranks = range(plan.topology.world_size)
    if plan.request.spec.mode is not Mode.SWEEP:
        return SuiteCollector(assembly, path=path, ranks=ranks)
    table = LiveTable(plan.steps)
    facts = facts_of(plan, None, None)
    spec = plan.request.spec
    listeners = Listeners(
        on_joined=lambda joined: print_lines(display, preamble(spec, joined, facts)),
        on_measurement=lambda measured: print_lines(display, table.add(measured)),
        on_end=lambda: print_lines(display, table.flush()),
    )
    return SuiteCollector(assembly, path=path, ranks=ranks, listeners=listeners)


def print_lines(display: Display, lines: Sequence[str]) -> None:
    """Print lines of the result."""
    for line in lines:
        display.line(line)


def judged(launched: Launched) -> RunResult:
    """The run's result as the suite sees it: its exit code, and what went well.

    A failed check makes a run of ranks that all ended well a failed one; a rank's own code is
    not the suite's; and if no rank ever joined, the suite could not run.
    """
    run, assembly = launched.result, launched.assembly
    if run.exit_code == ExitCode.OK and assembly.unfinished():
        incomplete = suite_findings.incomplete(assembly.unfinished())
        run = replace(run, findings=(incomplete, *run.findings))
    failed = any(finding.severity is Severity.ERROR for finding in run.findings)
    code = run.exit_code
    if run.first_failure or launched.hung_step is not None or (failed and code == ExitCode.OK):
        code = ExitCode.CHECK_FAILED
    if code == ExitCode.CHECK_FAILED and not assembly.joined:
        code = ExitCode.COULD_NOT_RUN
    achieved = suite_findings.achieved(assembly.measurements, world_size=assembly.world_size)
    return replace(run, exit_code=code, achieved=achieved)


def suite_result(plan: SuitePlan, run: RunResult, assembly: Assembly) -> SuiteResult:
    """What a run that just ended came to."""
    return SuiteResult(
        facts=facts_of(plan, run.exit_code, assembly.first_joined),
        spec=plan.request.spec,
        steps=plan.steps,
        measurements=tuple(assembly.measurements),
        findings=run.findings,
        shown=assembly.shown_lines,
    )


def show_findings(run: RunResult, path: Path, display: Display) -> None:
    """Say how it ended and where everything is."""
    told = tuple(f for f in run.findings if f.severity is not Severity.NOTE or f.cause in _TOLD)
    for line in render_verdict(replace(run, findings=told)).splitlines():
        display.note(line)
    display.note(f"run folder: {path}")


def facts_of(plan: SuitePlan, exit_code: int | None, joined: Joined | None) -> SuiteFacts:
    """The run as a whole."""
    return SuiteFacts(
        run_id=plan.request.run_id,
        run_folder=str(plan.launch.run_folder),
        target=plan.launch.target,
        world_size=plan.topology.world_size,
        combine=plan.request.combine,
        exit_code=exit_code,
        joined=joined,
    )
