"""`--matrix`: every operation with every dtype and operator, tried once each on this backend.

A combination can crash a rank (some libraries abort) or hang. The ranks are then started again
from the step after it, so that one combination costs one cell and not the rest of the matrix.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from ..cluster.diagnosis.findings import Finding, Severity
from ..cluster.errors import ExitCode, RunFolderError
from ..jobs.launchers import Starter
from ..jobs.outcomes import RunResult
from ..jobs.results import write_results
from ..jobs.run_folder import RunFolder
from ..jobs.terminal import Display
from .matrix_cells import Casualty, Cell, Outcome, cells_of, totals
from .run_suite import (
    Launched,
    facts_of,
    judged,
    launch_steps,
    print_lines,
    show_findings,
    suite_folder,
)
from .suite_files import write_casualties
from .suite_plan import SuitePlan, replan
from .suite_result import MatrixResult


def run_matrix(
    plan: SuitePlan, display: Display, *, launcher: Starter | None = None
) -> MatrixResult:
    """Try every combination; print the matrix and what was found.

    Raises:
        RunFolderError: if the run folder cannot be made.
        LaunchError: if the agent cannot be started.
    """
    started_s = time.time()
    with suite_folder(plan, display) as folder:
        launches: list[_Launch] = []
        for launch in _launches(plan, folder, display, launcher):
            launches.append(launch)
            # A full disk is told by what is written last.
            with suppress(RunFolderError):
                write_casualties(folder, _casualties(launches))
        cells = _cells(plan, launches)
        run = write_results(plan.launch, folder, _summed_up(launches, cells), started_s=started_s)
        joined = next((launch.launched.assembly.first_joined for launch in launches), None)
        result = MatrixResult(
            facts=facts_of(plan, run.exit_code, joined), cells=cells, findings=run.findings
        )
        print_lines(display, result.lines())
        show_findings(run, folder.path, display)
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class _Launch:
    launched: Launched
    run: RunResult
    casualty: Casualty | None


def _launches(
    plan: SuitePlan, folder: RunFolder, display: Display, launcher: Starter | None
) -> Iterator[_Launch]:
    """Launch until all steps are done or there is no use in going on.

    The results of the first launch are not written: its folder is that of the whole matrix.
    """
    current, home = plan, folder
    began_s = time.monotonic()
    while True:
        started_s = time.time()
        launched = launch_steps(
            current, home, display, launcher=launcher, measurements=folder.measurements
        )
        run = judged(launched)
        if home is not folder:
            run = write_results(current.launch, home, run, started_s=started_s)
            run = replace(run, findings=tuple(_placed(f, home.path.name) for f in run.findings))
        casualty = casualty_of(launched)
        yield _Launch(launched=launched, run=run, casualty=casualty)
        rest = [s for s in current.steps if casualty and s.number > casualty.step]
        if not rest:
            return
        home = RunFolder.create(folder.part(rest[0].number))
        current = replan(
            plan,
            first_step=rest[0].number,
            run_folder=home.path,
            elapsed_s=time.monotonic() - began_s,
        )


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


def _casualties(launches: Sequence[_Launch]) -> list[Casualty]:
    return [launch.casualty for launch in launches if launch.casualty]


def _cells(plan: SuitePlan, launches: Sequence[_Launch]) -> tuple[Cell, ...]:
    measured = [m for launch in launches for m in launch.launched.assembly.measurements]
    return tuple(cells_of(plan.steps, measured, _casualties(launches)))


def _summed_up(launches: Sequence[_Launch], cells: Sequence[Cell]) -> RunResult:
    """The last launch's result with all launches' findings; crashes are results here."""
    last = launches[-1].run
    findings = [finding for launch in launches for finding in launch.run.findings]
    findings.sort(key=lambda finding: list(Severity).index(finding.severity))
    failed = any(finding.severity is Severity.ERROR for finding in findings)
    code = last.exit_code
    if code == ExitCode.OK and failed:
        code = ExitCode.CHECK_FAILED
    achieved = f"{len(cells)} combinations: {totals(cells)}"
    return replace(last, exit_code=code, findings=tuple(findings), achieved=achieved)
