"""The run folder: the contract between a run and everything that looks at it later.

    plan.json            the plan, secrets masked
    environment.json     the resolved environment per rank, secrets masked
    suite.json           what the suite was asked to do (suite runs)
    handle.json          launcher and job id: enough to watch or cancel from another shell
    controller.log       what the controller of a detached run says
    events.jsonl         everything that happened, in order of arrival, with time, host and rank
    ranks/N.stdout.log   what rank N wrote, byte for byte; likewise N.stderr.log
    ranks/N.stacks.txt   rank N's Python stacks, taken when the run hung
    agents/N.log         what the agent of host N said on its standard error
    measurements.jsonl   one line per rank and step (suite runs)
    casualties.json      the combinations that ended a launch, and how (matrix runs)
    from-step-N/         the launch that went on with step N: a run folder like this (matrix runs)
    outcomes.json        one outcome per rank
    findings.json        what was found wrong
    summary.json         verdict and totals, with a schema version; written last
    .reserve             space kept back while the run goes on, for these last files

Growing files are appended to, so they can be followed; all others appear whole, by rename.
"""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ..cluster.errors import RunFolderError

RUNS_VARIABLE = "RANKRUN_RUNS"
# The run id that a detached process has to use, so that who started it knows where to look.
RUN_ID_VARIABLE = "RANKRUN_DETACHED_RUN_ID"
DEFAULT_RUNS = "rankrun-runs"


def new_run_id(kind: str, *, now_s: float | None = None) -> str:
    """A run id that sorts by time, in UTC: `20261201-031541.123-suite-9f3c`.

    A detached run has the one that its shell was told.
    """
    chosen = os.environ.pop(RUN_ID_VARIABLE, None)
    if chosen is not None:
        return chosen
    now = datetime.fromtimestamp(time.time() if now_s is None else now_s, tz=timezone.utc)
    stamp = f"{now:%Y%m%d-%H%M%S}.{now.microsecond // 1000:03d}"
    return f"{stamp}-{kind}-{os.urandom(2).hex()}"


def runs_directory(chosen: Path | None, environment: Mapping[str, str] = os.environ) -> Path:
    """Where run folders go: --runs, else $RANKRUN_RUNS, else ./rankrun-runs."""
    return (chosen or Path(environment.get(RUNS_VARIABLE) or DEFAULT_RUNS)).absolute()


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Owns every path of one run."""

    path: Path

    @classmethod
    def create(cls, path: Path) -> "RunFolder":
        """Make the folder, mode 0700, and prove that it can be written to.

        Raises:
            RunFolderError: with the folder and the system's reason.
        """
        folder = cls(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700)
            folder.ranks.mkdir()
            folder.agents.mkdir()
        except OSError as error:
            raise folder.error("make", path, error) from error
        return folder

    @property
    def ranks(self) -> Path:
        """Per-rank files."""
        return self.path / "ranks"

    @property
    def agents(self) -> Path:
        """Per-host agent logs."""
        return self.path / "agents"

    @property
    def plan(self) -> Path:
        """plan.json."""
        return self.path / "plan.json"

    @property
    def environment(self) -> Path:
        """environment.json."""
        return self.path / "environment.json"

    @property
    def suite(self) -> Path:
        """suite.json."""
        return self.path / "suite.json"

    @property
    def handle(self) -> Path:
        """handle.json."""
        return self.path / "handle.json"

    @property
    def controller_log(self) -> Path:
        """controller.log."""
        return self.path / "controller.log"

    @property
    def events(self) -> Path:
        """events.jsonl."""
        return self.path / "events.jsonl"

    @property
    def measurements(self) -> Path:
        """measurements.jsonl."""
        return self.path / "measurements.jsonl"

    @property
    def casualties(self) -> Path:
        """casualties.json."""
        return self.path / "casualties.json"

    @property
    def outcomes(self) -> Path:
        """outcomes.json."""
        return self.path / "outcomes.json"

    @property
    def findings(self) -> Path:
        """findings.json."""
        return self.path / "findings.json"

    @property
    def summary(self) -> Path:
        """summary.json."""
        return self.path / "summary.json"

    def part(self, first_step: int) -> Path:
        """The folder of the launch that went on with a step."""
        return self.path / f"from-step-{first_step}"

    def log(self, rank: int, stream: str) -> Path:
        """What a rank wrote to `stdout` or `stderr`."""
        return self.ranks / f"{rank}.{stream}.log"

    def stacks(self, rank: int) -> Path:
        """A rank's stacks."""
        return self.ranks / f"{rank}.stacks.txt"

    def agent_log(self, group_rank: int) -> Path:
        """What the agent of a host said on its standard error."""
        return self.agents / f"{group_rank}.log"

    def write_json(self, path: Path, document: object) -> None:
        """Write whole: temporary name, then rename.

        Raises:
            RunFolderError: with the file and the system's reason.
        """
        self.write_text(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n")

    def write_text(self, path: Path, text: str) -> None:
        """Write whole: temporary name, then rename.

        Raises:
            RunFolderError: with the file and the system's reason.
        """
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
            temporary.replace(path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise self.error("write", path, error) from error

    def read_json(self, path: Path) -> Any:
        """Parse one of the folder's JSON files.

        Raises:
            RunFolderError: if it is missing or broken.
        """
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise self.error("read", path, error) from error
        except (ValueError, RecursionError) as error:
            raise RunFolderError(f"run folder: {path} is not JSON: {error}") from error

    def error(self, verb: str, path: Path, error: OSError) -> RunFolderError:
        """The border where the system's errors become ours."""
        remedy = (
            "check that it is a run folder and that you may read it"
            if verb == "read"
            else f"free some space or choose another place with --runs DIR or ${RUNS_VARIABLE}"
        )
        return RunFolderError(
            f"run folder: cannot {verb} {error.filename or path}: {error.strerror or error}; "
            + remedy
        )
