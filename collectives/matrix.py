"""`--matrix`: every operation with every dtype and operator, tried once each on this backend.

A combination can crash a rank (some libraries abort) or hang. The ranks are then started again
from the step after it, so that one combination costs one cell and not the rest of the matrix.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..cluster.diagnosis.findings import Finding, Severity
from ..cluster.errors import ExitCode
from ..jobs.launchers import Launcher
from ..jobs.outcomes import RunResult
from ..jobs.results import write_results
from ..jobs.run_folder import RunFolder
from ..jobs.terminal import Display
from .documents import SuiteFacts
from .matrix_cells import Casualty, Cell, Outcome, cells_of
from .matrix_text import matrix_document, matrix_lines
from .run_suite import (
    Launched,
    SuiteResult,
    facts_of,
    first_joined,
    judged,
    launch_steps,
    show_findings,
)
from .suite_files import write_request
from .suite_plan import SuitePlan, replan


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixResult:
    """The whole matrix."""

    facts: SuiteFacts
    cells: tuple[Cell, ...]
    findings: tuple[Finding, ...]

    @property
    def exit_code(self) -> int:
        """Of the command."""
        return self.facts.exit_code or ExitCode.OK

    def lines(self) -> list[str]:
        """The grids."""
        return matrix_lines(self.facts, self.cells)

    def document(self) -> dict[str, Any]:
        """What --json writes."""
        return matrix_document(self.facts, self.cells, self.findings)


def run_matrix(
    plan: SuitePlan, display: Display, *, launcher: Launcher | None = None
) -> MatrixResult:
    """Try every combination; print the matrix and what was found.

    Raises:
        RunFolderError: if the run folder cannot be made.
        LaunchError: if the agent cannot be started.
    """
    folder = RunFolder.create(plan.launch.run_folder)
    write_request(folder, plan)
    started_s = time.time()
    try:
        launches = list(_launches(plan, folder, display, launcher))
        run = _summed_up(launches)
        run = write_results(plan.launch, folder, run, started_s=started_s)
        result = _result(plan, launches, run)
        for line in result.lines():
            display.line(line)
        show_findings(run, folder.path, display)
    finally:
        display.close()
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class _Launch:
    launched: Launched
    run: RunResult
    casualty: Casualty | None


def _launches(
    plan: SuitePlan, folder: RunFolder, display: Display, launcher: Launcher | None
) -> Iterator[_Launch]:
    """Launch until all steps are done or there is no use in going on."""
    current, home = plan, folder
    while True:
        launched = launch_steps(
            current, home, display, launcher=launcher, measurements=folder.measurements
        )
        casualty = casualty_of(launched)
        run = judged(launched)
        if home is not folder:
            run = replace(run, findings=tuple(_placed(f, home.path.name) for f in run.findings))
        yield _Launch(launched=launched, run=run, casualty=casualty)
        rest = [s for s in current.steps if casualty and s.number > casualty.step]
        if not rest:
            return
        home = RunFolder.create(folder.path / f"from-step-{rest[0].number}")
        current = replan(plan, first_step=rest[0].number, run_folder=home.path)


def _placed(finding: Finding, folder: str) -> Finding:
    """The finding with its evidence in a folder of the run folder."""
    evidence = tuple(replace(e, file=e.file and f"{folder}/{e.file}") for e in finding.evidence)
    return replace(finding, evidence=evidence)


def casualty_of(launched: Launched) -> Casualty | None:
    """The step that ended a launch; None if it was ended for another reason, or not at all."""
    assembly, culprit = launched.assembly, launched.result.first_failure
    if not assembly.joined:
        return None
    words = launched.result.findings[0].message if launched.result.findings else ""
    if launched.hung_step is not None:
        return Casualty(step=launched.hung_step, outcome=Outcome.HUNG, words=words)
    if culprit is None:
        return None
    reported = assembly.last_report(culprit.rank)
    step = next((s for s in assembly.unfinished() if s.number > reported), None)
    if step is None:
        return None
    return Casualty(step=step.number, outcome=Outcome.CRASHED, words=words)


def _summed_up(launches: Sequence[_Launch]) -> RunResult:
    """The last launch's result with all launches' findings; crashes are results here."""
    last = launches[-1].run
    findings = [finding for launch in launches for finding in launch.run.findings]
    findings.sort(key=lambda finding: list(Severity).index(finding.severity))
    failed = any(finding.severity is Severity.ERROR for finding in findings)
    code = last.exit_code
    if code == ExitCode.OK and failed:
        code = ExitCode.CHECK_FAILED
    return replace(last, exit_code=code, findings=tuple(findings))


def _result(plan: SuitePlan, launches: Sequence[_Launch], run: RunResult) -> MatrixResult:
    measured = [m for launch in launches for m in launch.launched.assembly.measurements]
    casualties = [launch.casualty for launch in launches if launch.casualty]
    joined = next((first_joined(launch.launched.assembly) for launch in launches), None)
    return MatrixResult(
        facts=facts_of(plan, run.exit_code, joined),
        cells=tuple(cells_of(plan.steps, measured, casualties)),
        findings=run.findings,
    )


def matrix_of(result: SuiteResult) -> MatrixResult:
    """The matrix of a run read from its folder.

    A step without a result that others came after ended a launch; how, its findings say.
    """
    last = max((measured.step for measured in result.measurements), default=0)
    done = {measured.step for measured in result.measurements}
    casualties = [
        Casualty(step=step.number, outcome=Outcome.CRASHED, words="see findings.json")
        for step in result.steps
        if step.number < last and step.number not in done
    ]
    return MatrixResult(
        facts=result.facts,
        cells=tuple(cells_of(result.steps, result.measurements, casualties)),
        findings=result.findings,
    )
