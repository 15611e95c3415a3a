"""What the suite keeps in a run folder, and how a run is rebuilt from there, offline.

Nothing read is trusted: every document is checked against its dataclass and its schema. The
steps stand in suite.json, so that a later rankrun with another table reads what was run.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ..cluster.diagnosis.findings import Finding
from ..cluster.errors import RunFolderError
from ..jobs.plan import PLAN_SCHEMA
from ..jobs.results import FINDINGS_SCHEMA, SUMMARY_SCHEMA
from ..jobs.run_folder import RunFolder
from .assembly import Assembly
from .cases import Form
from .documents import SuiteFacts
from .matrix_cells import Casualty, cells_of
from .measurement import Combine
from .operations import OPERATIONS
from .reading import read_document, read_records
from .spec import Mode, SuiteSpec
from .steps import Step, Topology
from .suite_plan import SuitePlan
from .suite_result import MatrixResult, SuiteResult

REQUEST_SCHEMA = "rankrun.suite-request/1"
CASUALTIES_SCHEMA = "rankrun.casualties/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRequest:
    """suite.json: what was asked for, and the steps that it comes to."""

    schema: str = REQUEST_SCHEMA
    combine: Combine
    start_up_s: float
    spec: SuiteSpec
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCasualties:
    """casualties.json: the steps that ended a launch of a matrix."""

    schema: str = CASUALTIES_SCHEMA
    casualties: tuple[Casualty, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredRank:
    rank: int
    local_rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredPlan:
    """Of plan.json what the suite needs."""

    schema: str
    run_id: str
    target: str
    ranks: Annotated[tuple[_StoredRank, ...], Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredFindings:
    schema: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredSummary:
    schema: str
    exit_code: int


def write_request(folder: RunFolder, plan: SuitePlan) -> None:
    """Write suite.json.

    Raises:
        RunFolderError: if it cannot be written.
    """
    request = plan.request
    stored = StoredRequest(
        combine=request.combine,
        start_up_s=request.start_up_s,
        spec=request.spec,
        steps=plan.steps,
    )
    folder.write_json(folder.suite, asdict(stored))


def write_casualties(folder: RunFolder, casualties: Iterable[Casualty]) -> None:
    """Write casualties.json.

    Raises:
        RunFolderError: if it cannot be written.
    """
    stored = StoredCasualties(casualties=tuple(casualties))
    folder.write_json(folder.casualties, asdict(stored))


def load_run(path: Path, *, combine: Combine | None = None) -> SuiteResult | MatrixResult:
    """A sweep, a show or a matrix, as it was; both kinds of result give lines and a document.

    Raises:
        RunFolderError: if the folder is none of a suite run, or not as this rankrun writes it.
    """
    result = load_suite(path, combine=combine)
    if result.spec.mode is not Mode.MATRIX:
        return result
    casualties = _casualties(RunFolder(path))
    return MatrixResult(
        facts=result.facts,
        cells=tuple(cells_of(result.steps, result.measurements, casualties)),
        findings=result.findings,
    )


def load_suite(path: Path, *, combine: Combine | None = None) -> SuiteResult:
    """A run read from its folder, during the run or any time later.

    `combine` replaces how the run combined the ranks' times.

    Raises:
        RunFolderError: if the folder is none of a suite run, or not as this rankrun writes it.
    """
    folder = RunFolder(path)
    if not folder.suite.exists():
        raise RunFolderError(
            f"{path} is no run folder of rankrun suite: it has no {folder.suite.name}"
        )
    request = read_document(folder, folder.suite, StoredRequest, schema=REQUEST_SCHEMA)
    plan = read_document(folder, folder.plan, _StoredPlan, schema=PLAN_SCHEMA)
    _check_known(folder.suite, request.steps)
    topology = Topology(
        world_size=len(plan.ranks),
        node_leaders=tuple(row.rank for row in plan.ranks if row.local_rank == 0),
    )
    chosen = combine or request.combine
    assembly = Assembly(request.steps, topology, combine=chosen)
    for record in read_records(folder.measurements) if folder.measurements.exists() else ():
        assembly.add(record)
    return SuiteResult(
        facts=SuiteFacts(
            run_id=plan.run_id,
            run_folder=str(path),
            target=plan.target,
            world_size=topology.world_size,
            combine=chosen,
            exit_code=_exit_code(folder),
            joined=assembly.first_joined,
        ),
        spec=request.spec,
        steps=request.steps,
        measurements=tuple(assembly.measurements),
        findings=_findings(folder),
        shown=assembly.shown_lines,
    )


def _check_known(path: Path, steps: Sequence[Step]) -> None:
    """Without its row of the table an operation has no bus factor and no size."""
    known = {(row.name, row.form) for row in OPERATIONS}
    for case in (step.case for step in steps):
        if (case.operation, case.form) not in known and case.form is not Form.SCENE:
            raise RunFolderError(
                f"{path}: this rankrun has no operation {case.operation} ({case.form}); read the "
                "folder with the version that made it"
            )


def _exit_code(folder: RunFolder) -> int | None:
    """The summary is written last."""
    if not folder.summary.exists():
        return None
    summary = read_document(folder, folder.summary, _StoredSummary, schema=SUMMARY_SCHEMA)
    return summary.exit_code


def _findings(folder: RunFolder) -> tuple[Finding, ...]:
    if not folder.findings.exists():
        return ()
    found = read_document(folder, folder.findings, _StoredFindings, schema=FINDINGS_SCHEMA)
    return found.findings


def _casualties(folder: RunFolder) -> tuple[Casualty, ...]:
    if not folder.casualties.exists():
        return ()
    path = folder.casualties
    return read_document(folder, path, StoredCasualties, schema=CASUALTIES_SCHEMA).casualties
