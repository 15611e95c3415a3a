"""One outcome per expected rank, and the verdict on a run."""

from dataclasses import dataclass

from ..cluster.compat import StrEnum
from ..cluster.diagnosis.findings import Finding


class End(StrEnum):
    """How a rank ended, worst first."""

    NEVER_REPORTED = "never reported"
    FAILED = "failed"
    KILLED = "killed"
    STOPPED = "stopped"  # by rankrun, after another rank's failure, a deadline or Ctrl-C
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankOutcome:
    """How one rank ended. `code` as subprocess has it: negative for a signal; None: unknown.

    `last_words` are the last lines of its standard error, for the verdict.
    """

    rank: int
    host: str
    end: End
    code: int | None = None
    pid: int | None = None
    started_s: float | None = None
    ended_s: float | None = None
    last_words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run came to.

    `first_failure` is the rank whose failure came first. `achieved` is what a run that went
    well says for itself, if it has more to say than that its ranks completed.
    """

    exit_code: int
    outcomes: tuple[RankOutcome, ...]
    findings: tuple[Finding, ...]
    first_failure: RankOutcome | None = None
    achieved: str | None = None
