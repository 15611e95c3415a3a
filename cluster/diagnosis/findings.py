"""A finding: one cause, its culprit, the evidence and the remedy."""

from dataclasses import dataclass

from ..compat import StrEnum


class Severity(StrEnum):
    """How bad, worst first."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Confidence(StrEnum):
    """How sure the evidence makes the cause."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


class SubjectKind(StrEnum):
    """What a finding is about."""

    RUN = "run"
    HOST = "host"
    RANK = "rank"
    LINK = "link"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The culprit: `rank 3`, `host node2`, `link node1-node2`, or the run as a whole."""

    kind: SubjectKind
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A line that proves the cause; `file` is relative to the run folder, `line` counts from 1."""

    text: str
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One cause. `cause` is a stable id; `message` says it in a sentence; `remedy` what to do."""

    cause: str
    severity: Severity
    subject: Subject
    message: str
    remedy: str
    confidence: Confidence = Confidence.CERTAIN
    evidence: tuple[Evidence, ...] = ()
    consequences: tuple[str, ...] = ()
