"""The files a run ends with, and its resolved environment."""

from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

from ..cluster.diagnosis.findings import Finding, Severity, Subject, SubjectKind
from ..cluster.errors import ExitCode, RunFolderError
from ..cluster.secrets import mask_argv, mask_environment
from .environment import MASTER_PORT
from .gather import RUN_FOLDER_FULL
from .outcomes import RunResult
from .plan import LaunchPlan
from .run_folder import RunFolder
from .verdict import verdict_sentence

ENVIRONMENT_SCHEMA = "rankrun.environment/1"
OUTCOMES_SCHEMA = "rankrun.outcomes/1"
FINDINGS_SCHEMA = "rankrun.findings/1"
SUMMARY_SCHEMA = "rankrun.summary/1"


def environment_document(plan: LaunchPlan, *, port: int) -> dict[str, Any]:
    """environment.json: what all ranks have alike, then each rank's own; secrets masked."""
    ranks = {
        planned.rank.global_rank: mask_environment(
            {**plan.inherited, MASTER_PORT: str(port), **planned.environment}
        )
        for planned in plan.ranks
    }
    first, *others = ranks.values()
    common = {
        name: value
        for name, value in sorted(first.items())
        if all(other.get(name) == value for other in others)
    }
    return {
        "schema": ENVIRONMENT_SCHEMA,
        "common": common,
        "ranks": {
            str(rank): {k: v for k, v in sorted(environment.items()) if k not in common}
            for rank, environment in ranks.items()
        },
    }


def write_results(
    plan: LaunchPlan, folder: RunFolder, result: RunResult, *, started_s: float
) -> RunResult:
    """Write outcomes, findings and, last, the summary. The result says so if that failed."""
    outcomes = [asdict(outcome) for outcome in result.outcomes]
    findings = [asdict(finding) for finding in result.findings]
    try:
        folder.write_json(folder.outcomes, {"schema": OUTCOMES_SCHEMA, "outcomes": outcomes})
        folder.write_json(folder.findings, {"schema": FINDINGS_SCHEMA, "findings": findings})
        folder.write_json(folder.summary, summary_document(plan, result, started_s=started_s))
    except RunFolderError as error:
        return _not_written(result, error)
    return result


def summary_document(plan: LaunchPlan, result: RunResult, *, started_s: float) -> dict[str, Any]:
    """summary.json of a run that ends now."""
    first = result.first_failure
    return {
        "schema": SUMMARY_SCHEMA,
        "run_id": plan.run_id,
        "command": mask_argv(plan.argv),
        "target": plan.target,
        "world_size": len(plan.ranks),
        "verdict": verdict_sentence(result),
        "exit_code": result.exit_code,
        "started": _iso(started_s),
        "ended": _iso(datetime.now(tz=timezone.utc).timestamp()),
        "first_failure": None if first is None else asdict(first),
    }


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
    return RunResult(
        exit_code=result.exit_code or ExitCode.COULD_NOT_RUN,
        outcomes=result.outcomes,
        findings=(*result.findings, finding),
        first_failure=result.first_failure,
    )
