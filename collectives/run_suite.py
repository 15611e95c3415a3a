"""The suite from request to result.

`plan_suite` makes the plan; `run_suite` has `jobs.supervise.run_job` start and watch the ranks
while the collector, the hang detector and the progress reporter look on, and makes of what they
saw a SuiteResult: documents, table, findings.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..cluster.diagnosis.findings import Finding, Severity
from ..cluster.errors import ExitCode
from ..jobs.launchers import Launcher
from ..jobs.outcomes import RunResult
from ..jobs.results import write_results
from ..jobs.run_folder import RunFolder
from ..jobs.supervise import run_job
from ..jobs.terminal import Display
from ..jobs.verdict import render_verdict
from . import verdicts
from .assembly import Assembly
from .collector import Listeners, SuiteCollector
from .documents import SuiteFacts, suite_csv, suite_document
from .fit import CaseFit, fit_cases
from .hang_findings import DIED_IN_STEP
from .hangs import HangDetector, Watch
from .measurement import Combine, Measurement
from .progress import ProgressReporter
from .records import Joined
from .spec import Mode, SuiteSpec
from .steps import Step
from .suite_files import read_suite, write_request
from .suite_plan import SuitePlan
from .table import LiveTable, table_lines
from .table_ends import footer, preamble

# The notes that are told at the end; refusals already stand in the table.
_TOLD = frozenset({"interrupted", DIED_IN_STEP})


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteResult:
    """What a suite run came to; the same whether it just ran or was read from its folder.

    `shown` are the lines of --show, each after its rank.
    """

    facts: SuiteFacts
    spec: SuiteSpec
    steps: tuple[Step, ...]
    measurements: tuple[Measurement, ...]
    findings: tuple[Finding, ...]
    shown: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """Of the command; 0 for a run that still goes on."""
        return self.facts.exit_code or ExitCode.OK

    @property
    def fits(self) -> list[CaseFit]:
        """Latency and bandwidth per case."""
        return fit_cases(self.measurements)

    def document(self) -> dict[str, Any]:
        """What --json writes."""
        return suite_document(
            self.facts,
            measurements=self.measurements,
            fits=self.fits,
            findings=self.findings,
        )

    def csv(self) -> str:
        """What --csv writes."""
        return suite_csv(self.measurements)

    def lines(self) -> list[str]:
        """What the run printed: its table, or the lines of --show."""
        return list(self.shown) if self.spec.mode is Mode.SHOW else self.table()

    def table(self) -> list[str]:
        """The whole table, from the first comment to the last."""
        joined = self.facts.joined
        head = _preamble(self.spec, joined, self.facts) if joined else []
        rows = table_lines(self.steps, self.measurements)
        return [*head, *rows, *footer(self.measurements, self.fits)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """What one launch of the ranks left. `hung_step` is where the alarm rang, if it did."""

    result: RunResult
    assembly: Assembly
    hung_step: int | None


def run_suite(
    plan: SuitePlan, display: Display, *, launcher: Launcher | None = None
) -> SuiteResult:
    """Run a sweep or a show; print rows as they finish, then what was found.

    Raises:
        RunFolderError: if the run folder cannot be made.
        LaunchError: if the agent cannot be started.
    """
    folder = RunFolder.create(plan.launch.run_folder)
    write_request(folder, plan)
    started_s = time.time()
    try:
        launched = launch_steps(plan, folder, display, launcher=launcher)
        run = judged(launched)
        if run != launched.result:
            run = write_results(plan.launch, folder, run, started_s=started_s)
        result = suite_result(plan, run, launched.assembly)
        if plan.request.spec.mode is Mode.SWEEP and result.measurements:
            for line in footer(result.measurements, result.fits):
                display.line(line)
        show_findings(run, folder.path, display)
    finally:
        display.close()
    return result


def load_suite(path: Path, *, combine: Combine | None = None) -> SuiteResult:
    """A run read from its folder, during the run or any time later.

    Raises:
        RunFolderError: if the folder is none of a suite run.
    """
    stored = read_suite(path, combine=combine)
    assembly = stored.assembly
    return SuiteResult(
        facts=SuiteFacts(
            run_id=stored.run_id,
            run_folder=str(path),
            target=stored.target,
            world_size=assembly.world_size,
            combine=stored.combine,
            exit_code=stored.exit_code,
            joined=first_joined(assembly),
        ),
        spec=stored.spec,
        steps=assembly.steps,
        measurements=tuple(assembly.measurements),
        findings=stored.findings,
        shown=assembly.shown_lines,
    )


def launch_steps(
    plan: SuitePlan,
    folder: RunFolder,
    display: Display,
    *,
    launcher: Launcher | None = None,
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
    try:
        result = run_job(
            plan.launch,
            folder=folder,
            observers=(collector, hangs, ProgressReporter(assembly, plan.steps, display)),
            # The lines of --show are the result; what ranks say in a sweep is not.
            echo=display.line if is_show else display.note,
            launcher=launcher,
        )
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
        on_joined=lambda joined: _print(display, _preamble(spec, joined, facts)),
        on_measurement=lambda measured: _print(display, table.add(measured)),
        on_end=lambda: _print(display, table.flush()),
    )
    return SuiteCollector(assembly, path=path, ranks=ranks, listeners=listeners)


def _print(display: Display, lines: Sequence[str]) -> None:
    for line in lines:
        display.line(line)


def judged(launched: Launched) -> RunResult:
    """The run's result with the suite's exit code.

    A failed check makes a run of ranks that all ended well a failed one; a rank's own code is
    not the suite's; and if no rank ever joined, the suite could not run.
    """
    run, assembly = launched.result, launched.assembly
    if run.exit_code == ExitCode.OK and assembly.unfinished():
        run = replace(run, findings=(verdicts.incomplete(assembly.unfinished()), *run.findings))
    failed = any(finding.severity is Severity.ERROR for finding in run.findings)
    code = run.exit_code
    if run.first_failure or launched.hung_step is not None or (failed and code == ExitCode.OK):
        code = ExitCode.CHECK_FAILED
    if code == ExitCode.CHECK_FAILED and not assembly.joined:
        code = ExitCode.COULD_NOT_RUN
    return replace(run, exit_code=code)


def suite_result(plan: SuitePlan, run: RunResult, assembly: Assembly) -> SuiteResult:
    """What a run that just ended came to."""
    return SuiteResult(
        facts=facts_of(plan, run.exit_code, first_joined(assembly)),
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


def first_joined(assembly: Assembly) -> Joined | None:
    """What the lowest rank said when it joined; None if none did."""
    return next((joined for _, joined in sorted(assembly.joined.items())), None)


def _preamble(spec: SuiteSpec, joined: Joined, facts: SuiteFacts) -> list[str]:
    return preamble(spec, joined, target=facts.target, combine=facts.combine)
