"""The files a run ends with, and its resolved environment."""

from dataclasses import replace
from datetime import datetime, timezone
from typing import TypedDict

from ..cluster.diagnosis.findings import Finding, Severity, Subject, SubjectKind
from ..cluster.errors import ExitCode, RunFolderError
from ..cluster.secrets import mask_argv, mask_environment
from .environment import MASTER_PORT, common_variables
from .gather import RUN_FOLDER_FULL
from .outcomes import RankOutcome, RunResult
from .plan import LaunchPlan
from .run_folder import RunFolder
from .verdict import verdict_sentence

ENVIRONMENT_SCHEMA = "rankrun.environment/1"
OUTCOMES_SCHEMA = "rankrun.outcomes/1"
FINDINGS_SCHEMA = "rankrun.findings/1"
SUMMARY_SCHEMA = "rankrun.summary/1"


class EnvironmentDocument(TypedDict):
    """environment.json: what all ranks have alike, then each rank's own; secrets masked."""

    schema: str
    common: dict[str, str]
    ranks: dict[str, dict[str, str]]


class SubjectRow(TypedDict):
    """A culprit."""

    kind: str
    name: str


class EvidenceRow(TypedDict):
    """A line that proves a cause."""

    text: str
    file: str | None
    line: int | None


class FindingRow(TypedDict):
    """A finding as findings.json and every document has it."""

    cause: str
    severity: str
    subject: SubjectRow
    message: str
    remedy: str
    confidence: str
    evidence: list[EvidenceRow]
    consequences: list[str]


class OutcomeRow(TypedDict):
    """A rank's end as outcomes.json has it."""

    rank: int
    host: str
    end: str
    code: int | None
    pid: int | None
    started_s: float | None
    ended_s: float | None
    last_words: list[str]


class SummaryDocument(TypedDict):
    """summary.json."""

    schema: str
    run_id: str
    command: list[str]
    target: str
    world_size: int
    verdict: str
    exit_code: int
    started: str
    ended: str
    first_failure: OutcomeRow | None


def environment_document(plan: LaunchPlan, *, port: int) -> EnvironmentDocument:
    """environment.json."""
    ranks = {
        planned.rank.global_rank: mask_environment(
            {**plan.inherited, MASTER_PORT: str(port), **planned.environment}
        )
        for planned in plan.ranks
    }
    common = common_variables(list(ranks.values()))
    return EnvironmentDocument(
        schema=ENVIRONMENT_SCHEMA,
        common=dict(sorted(common.items())),
        ranks={
            str(rank): {k: v for k, v in sorted(environment.items()) if k not in common}
            for rank, environment in ranks.items()
        },
    )


def finding_row(finding: Finding) -> FindingRow:
    """A finding for programs."""
    return FindingRow(
        cause=finding.cause,
        severity=finding.severity,
        subject=SubjectRow(kind=finding.subject.kind, name=finding.subject.name),
        message=finding.message,
        remedy=finding.remedy,
        confidence=finding.confidence,
        evidence=[EvidenceRow(text=e.text, file=e.file, line=e.line) for e in finding.evidence],
        consequences=list(finding.consequences),
    )


def outcome_row(outcome: RankOutcome) -> OutcomeRow:
    """A rank's end for programs."""
    return OutcomeRow(
        rank=outcome.rank,
        host=outcome.host,
        end=outcome.end,
        code=outcome.code,
        pid=outcome.pid,
        started_s=outcome.started_s,
        ended_s=outcome.ended_s,
        last_words=list(outcome.last_words),
    )


def write_results(
    plan: LaunchPlan, folder: RunFolder, result: RunResult, *, started_s: float
) -> RunResult:
    """Write outcomes, findings and, last, the summary. The result says so if that failed."""
    outcomes = [outcome_row(outcome) for outcome in result.outcomes]
    findings = [finding_row(finding) for finding in result.findings]
    try:
        folder.write_json(folder.outcomes, {"schema": OUTCOMES_SCHEMA, "outcomes": outcomes})
        folder.write_json(folder.findings, {"schema": FINDINGS_SCHEMA, "findings": findings})
        folder.write_json(folder.summary, summary_document(plan, result, started_s=started_s))
    except RunFolderError as error:
        return _not_written(result, error)
    return result


def summary_document(plan: LaunchPlan, result: RunResult, *, started_s: float) -> SummaryDocument:
    """summary.json of a run that ends now."""
    first = result.first_failure
    return SummaryDocument(
        schema=SUMMARY_SCHEMA,
        run_id=plan.run_id,
        command=mask_argv(plan.argv),
        target=plan.target,
        world_size=len(plan.ranks),
        verdict=verdict_sentence(result),
        exit_code=result.exit_code,
        started=_iso(started_s),
        ended=_iso(datetime.now(tz=timezone.utc).timestamp()),
        first_failure=None if first is None else outcome_row(first),
    )


def _iso(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, tz=timezone.utc).isoformat(timespec="milliseconds")


def _not_written(result: RunResult, error: RunFolderError) -> RunResult:
    if any(finding.cause == RUN_FOLDER_FULL for finding in result.findings):
        return result
    finding = Finding(
        cause=RUN_FOLDER_FULL,
        severity=Severity.ERROR,
        subject=Subject(kind=SubjectKind.RUN),
        message=str(error),
        remedy="the ranks had already ended; their output is as complete as the disk allowed",
    )
    return replace(
        result,
        exit_code=result.exit_code or ExitCode.COULD_NOT_RUN,
        findings=(*result.findings, finding),
    )
