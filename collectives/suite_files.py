"""What the suite keeps in a run folder, and how a run is rebuilt from there, offline."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from ..cluster.diagnosis.findings import Finding
from ..cluster.errors import RunFolderError
from ..jobs.run_folder import RunFolder
from .assembly import Assembly
from .measurement import Combine
from .reading import read_findings, read_records
from .spec import SuiteSpec
from .steps import Topology, enumerate_steps
from .suite_plan import SuitePlan

REQUEST_SCHEMA = "rankrun.suite-request/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSuite:
    """A suite run as its folder has it. `exit_code` is None while it goes on."""

    run_id: str
    path: Path
    target: str
    spec: SuiteSpec
    combine: Combine
    assembly: Assembly
    findings: tuple[Finding, ...]
    exit_code: int | None


def write_request(folder: RunFolder, plan: SuitePlan) -> None:
    """Write suite.json."""
    request = plan.request
    folder.write_json(
        folder.suite,
        {
            "schema": REQUEST_SCHEMA,
            "combine": str(request.combine),
            "start_up_s": request.start_up_s,
            "spec": asdict(request.spec),
        },
    )


def read_suite(path: Path, *, combine: Combine | None = None) -> StoredSuite:
    """Read a suite's run folder; `combine` replaces how the run combined the ranks' times.

    Raises:
        RunFolderError: if the folder is none of a suite run.
    """
    folder = RunFolder(path)
    if not folder.suite.exists():
        raise RunFolderError(
            f"{path} is no run folder of rankrun suite: it has no {folder.suite.name}"
        )
    request, plan = folder.read_json(folder.suite), folder.read_json(folder.plan)
    spec = SuiteSpec.from_json(json.dumps(request["spec"]))
    topology = Topology(
        world_size=plan["world_size"],
        node_leaders=tuple(row["rank"] for row in plan["ranks"] if row["local_rank"] == 0),
    )
    chosen = combine or Combine(request["combine"])
    assembly = Assembly(enumerate_steps(spec, topology), topology, combine=chosen)
    for record in read_records(folder.measurements) if folder.measurements.exists() else ():
        assembly.add(record)
    return StoredSuite(
        run_id=plan["run_id"],
        path=path,
        target=plan["target"],
        spec=spec,
        combine=chosen,
        assembly=assembly,
        findings=_findings(folder),
        exit_code=_exit_code(folder),
    )


def _exit_code(folder: RunFolder) -> int | None:
    """The summary is written last."""
    if not folder.summary.exists():
        return None
    return int(folder.read_json(folder.summary)["exit_code"])


def _findings(folder: RunFolder) -> tuple[Finding, ...]:
    if not folder.findings.exists():
        return ()
    return read_findings(folder.read_json(folder.findings)["findings"])
