"""Findings from measurements: wrong results, and what the backend does not do.

Folded: however many sizes, forms and ranks saw the same, it is said once.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ..cluster.diagnosis.findings import Evidence, Finding, Severity, Subject, SubjectKind
from ..cluster.units import format_size
from ..jobs.wording import format_ranks
from .cases import Case
from .measurement import Measurement, RankMismatch, Status
from .records import Measured, Mismatch, Unsupported
from .steps import Step

WRONG_RESULT = "wrong-result"
UNSUPPORTED = "unsupported"
MALFORMED_RECORD = "malformed-record"
NOT_WRITTEN = "measurements-not-written"
INCOMPLETE = "suite-incomplete"
ANOTHER_STEP = "another-step"

_MAX_EVIDENCE = 6


def wrong_results(measurements: Iterable[Measurement]) -> list[Finding]:
    """One finding per operation, dtype and operator with wrong results."""
    kinds: dict[str, list[Measurement]] = defaultdict(list)
    for measured in measurements:
        if measured.status is Status.WRONG:
            kinds[_kind(measured.case)].append(measured)
    return [_wrong_result(kind, wrong) for kind, wrong in kinds.items()]


def _kind(case: Case) -> str:
    return " ".join(filter(None, (case.operation, case.dtype, case.redop)))


def _wrong_result(kind: str, wrong: Sequence[Measurement]) -> Finding:
    first = next((m.mismatch for measured in wrong for m in measured.mismatches), None)
    ranks = {m.rank for measured in wrong for m in measured.mismatches}
    one_rank = len(ranks) == 1
    subject = Subject(
        kind=SubjectKind.RANK if one_rank else SubjectKind.RUN,
        name=str(min(ranks)) if one_rank else "",
    )
    return Finding(
        cause=WRONG_RESULT,
        severity=Severity.ERROR,
        subject=subject,
        message=(
            f"{kind} gave wrong results on {format_ranks(ranks)} ({_extent(wrong)})"
            + (f": {pattern(first)}" if first else "")
        ),
        remedy=(
            "Do not train on this. Compare the backend's and the driver's version on the ranks "
            f"named, then look closer: rankrun suite --ops {wrong[0].case.operation}; if one rank "
            "stands out, leave its GPU or host out and run again"
        ),
        evidence=tuple(_evidence(wrong)),
    )


def _extent(wrong: Sequence[Measurement]) -> str:
    """How far it spreads: `7 rows, 8 to 1M; tensor, async`."""
    sizes = sorted({measured.size_bytes for measured in wrong})
    span = format_size(sizes[0])
    if len(sizes) > 1:
        span += f" to {format_size(sizes[-1])}"
    cases = list(dict.fromkeys(measured.case.label for measured in wrong))
    rows = "1 row" if len(wrong) == 1 else f"{len(wrong)} rows"
    more = f" and {len(cases) - 1} more forms" if len(cases) > 1 else ""
    return f"{rows}, {span}, {cases[0]}{more}"


def pattern(what: Mismatch) -> str:
    """What a wrong result looks like."""
    return f"{what.pattern}, {what.detail}" if what.detail else str(what.pattern)


def _evidence(wrong: Sequence[Measurement]) -> Iterator[Evidence]:
    lines = [
        f"{measured.case.label}, {mismatch_line(mismatch, measured.size_bytes)}"
        for measured in wrong
        for mismatch in measured.mismatches
    ]
    for line in lines[:_MAX_EVIDENCE]:
        yield Evidence(text=line, file="measurements.jsonl")
    if len(lines) > _MAX_EVIDENCE:
        yield Evidence(text=f"and {len(lines) - _MAX_EVIDENCE} more like these")


def mismatch_line(wrong: RankMismatch, size_bytes: int) -> str:
    """One rank's wrong result in one line."""
    what = wrong.mismatch
    return (
        f"rank {wrong.rank}, {format_size(size_bytes)}: {what.num_wrong} of {what.num_checked} "
        f"elements wrong, first at offset {what.first_offset}: expected {what.expected}, "
        f"got {what.got}; {pattern(what)}"
    )


def unsupported_notes(measurements: Iterable[Measurement], backend: str) -> list[Finding]:
    """One note per distinct refusal, with the cases it met."""
    by_reason: dict[str | None, dict[str, None]] = defaultdict(dict)
    for measured in measurements:
        if measured.status is Status.UNSUPPORTED:
            by_reason[measured.reason][measured.case.label] = None
    return [_unsupported(reason, list(cases), backend) for reason, cases in by_reason.items()]


def _unsupported(reason: str | None, cases: Sequence[str], backend: str) -> Finding:
    shown = ", ".join(cases[:3]) + (f" and {len(cases) - 3} more" if len(cases) > 3 else "")
    return Finding(
        cause=UNSUPPORTED,
        severity=Severity.NOTE,
        subject=Subject(kind=SubjectKind.RUN),
        message=f"{backend} does not do {shown}: {reason or 'it gave no reason'}",
        remedy="Nothing to do, unless your training needs it: then choose another backend",
        evidence=tuple(Evidence(text=case) for case in cases[3:]),
    )


def malformed_record(rank: int, line: bytes, reason: str, num_lines: int) -> Finding:
    """A rank wrote lines to its record pipe that are no records."""
    shown = line[:120].decode(errors="backslashreplace").rstrip("\n")
    return Finding(
        cause=MALFORMED_RECORD,
        severity=Severity.ERROR,
        subject=Subject(kind=SubjectKind.RANK, name=str(rank)),
        message=f"rank {rank} reported {num_lines} line(s) that are no records ({reason})",
        remedy=(
            "The ranks must run the same rankrun as the controller: compare rankrun --version "
            "on both, and see that nothing else writes to descriptor $RANKRUN_RECORD_FD"
        ),
        evidence=(Evidence(text=shown),),
    )


def another_step(record: Measured | Unsupported, step: Step | None) -> Finding:
    """A rank counts its steps otherwise than the controller."""
    here = f"is {step.case.label}" if step else "does not exist"
    return Finding(
        cause=ANOTHER_STEP,
        severity=Severity.ERROR,
        subject=Subject(kind=SubjectKind.RANK, name=str(record.rank)),
        message=f"rank {record.rank} reported {record.case.label} as step {record.step}, which "
        f"{here} here; what it reported so does not count",
        remedy="The ranks must run the same rankrun as the controller: compare rankrun --version",
    )


def not_written(path: Path, error: OSError) -> Finding:
    """The measurements could not be kept."""
    return Finding(
        cause=NOT_WRITTEN,
        severity=Severity.ERROR,
        subject=Subject(kind=SubjectKind.RUN),
        message=f"cannot write {path}: {error.strerror or error}; what came later is lost",
        remedy="Free some space, or choose another place with --runs DIR",
    )


def incomplete(steps: Sequence[Step]) -> Finding:
    """All ranks ended well and yet not every step was reported."""
    return Finding(
        cause=INCOMPLETE,
        severity=Severity.ERROR,
        subject=Subject(kind=SubjectKind.RUN),
        message=f"{len(steps)} step(s) were not reported by all ranks, first {steps[0].case.label}",
        remedy="See ranks/N.stderr.log; a rank that leaves early or another rankrun does this",
    )


def achieved(measurements: Sequence[Measurement], *, world_size: int) -> str | None:
    """What a run without failures says for itself; None if it measured nothing."""
    counts = Counter(measured.status for measured in measurements)
    if not counts:
        return None
    parts = ", ".join(f"{counts[status]} {status}" for status in Status if counts[status])
    return f"{_amount(len(measurements), 'result')} on {_amount(world_size, 'rank')}: {parts}"


def _amount(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
