"""First failure first: which rank failed, why, what followed from it, and what to do. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..cluster.diagnosis.findings import (
    Confidence,
    Evidence,
    Finding,
    Severity,
    Subject,
    SubjectKind,
)
from ..cluster.errors import ExitCode
from .events import CANNOT_BE_ENDED, LEFTOVER_ENDED, OUT_OF_MEMORY, HostEvent
from .observers import StopRequest
from .outcomes import End, RankOutcome, RunResult
from .wording import describe_end, format_ranks, key_line, signal_of

# What a rank says when a peer went away: then it is a victim, if another rank failed at the
# same time and says something else. Words of gloo, NCCL, TCPStore and the C library.
_VICTIM_WORDS = re.compile(
    r"connection (?:closed|reset|refused|aborted) ?by (?:remote )?peer|connection reset|broken pipe"
    r"|connection was likely closed|remote process exited|socket (?:closed|timeout)"
    r"|failed to recv|recvvalue failed|sendbytes failed|recv.*got 0 bytes|ncclremoteerror",
    re.IGNORECASE,
)

# A culprit may leave later than its victims: Python closes its sockets, then cleans up.
VICTIM_WINDOW_S = 5.0

_SHOWN_WORDS = 6
_SHOWN_FINDINGS = 5
_SHOWN_CONSEQUENCES = 6
_SHOWN_PROCESSES = 8

_REMEDY_OF_SIGNAL = {
    "SIGKILL": (
        "if nobody killed it, the kernel's out-of-memory killer may have: on {host} look at "
        "`dmesg -T | grep -i 'killed process'` and at the memory limit of the container or job"
    ),
    "SIGBUS": "shared memory may be full: on {host} look at `df -h /dev/shm`",
    "SIGSEGV": "a crash in native code: its stacks stand at the end of {log}",
    "SIGABRT": "the program aborted itself: the reason stands at the end of {log}",
    "SIGTERM": "somebody, or a scheduler, asked it to end: look at who did on {host}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What a run left behind.

    `stop` is why it was ended, other than by a rank's failure; `observed` what observers found.
    """

    outcomes: tuple[RankOutcome, ...]
    stop: StopRequest | None = None
    notes: tuple[HostEvent, ...] = ()
    observed: tuple[Finding, ...] = ()


def judge(facts: RunFacts) -> RunResult:
    """The exit code, the culprit and everything that was found, worst first."""
    culprit = first_failure(facts.outcomes) if facts.stop is None else None
    missing = [o for o in facts.outcomes if o.end is End.NEVER_REPORTED]
    findings: list[Finding] = list(facts.observed)
    if culprit is not None:
        findings.insert(0, _culprit_finding(culprit, facts))
    elif missing and facts.stop is None:
        findings.insert(0, _missing_finding(missing))
    findings += _leftover_findings(facts.notes)
    findings.sort(key=lambda finding: list(Severity).index(finding.severity))
    return RunResult(
        exit_code=_exit_code(facts, culprit, missing),
        outcomes=facts.outcomes,
        findings=tuple(findings),
        first_failure=culprit,
    )


def first_failure(outcomes: Iterable[RankOutcome]) -> RankOutcome | None:
    """The rank that failed first.

    Unless its words say that it only lost its peer, and another that says something else failed
    at about the same time. Ranks that were stopped are never the culprit.
    """
    failed = [o for o in outcomes if o.end in (End.FAILED, End.KILLED)]
    failed.sort(key=lambda outcome: outcome.ended_s or 0.0)
    if not failed:
        return None
    first = failed[0]
    near = [o for o in failed if (o.ended_s or 0.0) - (first.ended_s or 0.0) <= VICTIM_WINDOW_S]
    return next((o for o in near if not is_victim(o.last_words)), first)


def is_victim(last_words: Sequence[str]) -> bool:
    """Whether a rank's last words are those of one that lost its peer.

    >>> is_victim(["RuntimeError: [...] Connection closed by peer [127.0.0.1]:22573"])
    True
    """
    return any(_VICTIM_WORDS.search(line) for line in last_words)


def _exit_code(facts: RunFacts, culprit: RankOutcome | None, missing: list[RankOutcome]) -> int:
    if facts.stop is not None:
        return facts.stop.exit_code
    if culprit is not None:
        code = culprit.code or ExitCode.CHECK_FAILED
        return code if code > 0 else 128 - code
    return ExitCode.COULD_NOT_RUN if missing else ExitCode.OK


def _culprit_finding(culprit: RankOutcome, facts: RunFacts) -> Finding:
    others = [o for o in facts.outcomes if o.rank != culprit.rank and o.end is not End.COMPLETED]
    log = f"ranks/{culprit.rank}.stderr.log"
    words = culprit.last_words[-_SHOWN_WORDS:]
    why = key_line(culprit)
    cause, remedy = _cause_and_remedy(culprit, log)
    out_of_memory = _met_oom_killer(culprit, facts.notes)
    return Finding(
        cause=cause,
        severity=Severity.ERROR,
        subject=Subject(kind=SubjectKind.RANK, name=str(culprit.rank)),
        message=f"rank {culprit.rank} on {culprit.host} {describe_end(culprit)}"
        + (", as the kernel's out-of-memory killer was at work there" if out_of_memory else "")
        + _colon(why),
        remedy=remedy,
        confidence=(
            Confidence.LIKELY
            if out_of_memory or is_victim(culprit.last_words)
            else Confidence.CERTAIN
        ),
        evidence=() if words == (why,) else tuple(Evidence(text=w, file=log) for w in words),
        consequences=_consequences(others, culprit),
    )


def _met_oom_killer(culprit: RankOutcome, notes: Iterable[HostEvent]) -> bool:
    """Whether its agent saw a kill at its end. The kernel's count does not say who was killed."""
    return any(
        note.what == OUT_OF_MEMORY
        and note.host == culprit.host
        and note.detail.startswith(f"rank {culprit.rank} ")
        for note in notes
    )


def _cause_and_remedy(culprit: RankOutcome, log: str) -> tuple[str, str]:
    if culprit.pid is None:
        missing = culprit.code == 127
        cause = "command-not-found" if missing else "command-not-executable"
        return cause, "check the command, PATH and --workdir; `rankrun launch --dry-run` shows them"
    name = signal_of(culprit)
    if name is None:
        return "rank-failed", f"its whole output: {log}"
    remedy = _REMEDY_OF_SIGNAL.get(name, "its whole output: {log}")
    return "rank-killed", remedy.format(host=culprit.host, log=log)


def _consequences(others: list[RankOutcome], culprit: RankOutcome) -> tuple[str, ...]:
    """The other ranks, those that ended alike folded into one line."""
    alike: dict[tuple[str, str | None], list[RankOutcome]] = {}
    for other in others:
        alike.setdefault(_likeness(other), []).append(other)
    return tuple(
        f"{format_ranks(o.rank for o in same)} "
        + (
            "ended the same way"
            if likeness == _likeness(culprit)
            else describe_end(same[0], plural=len(same) > 1) + _colon(likeness[1])
        )
        for likeness, same in alike.items()
    )


def _likeness(outcome: RankOutcome) -> tuple[str, str | None]:
    stopped = outcome.end is End.STOPPED
    return describe_end(outcome), None if stopped else key_line(outcome)


def _colon(text: str | None) -> str:
    return f": {text}" if text else ""


def _missing_finding(missing: list[RankOutcome]) -> Finding:
    ranks = format_ranks(outcome.rank for outcome in missing)
    hosts = ", ".join(sorted({outcome.host for outcome in missing}))
    return Finding(
        cause="rank-never-reported",
        severity=Severity.ERROR,
        subject=Subject(kind=SubjectKind.RANK, name=str(missing[0].rank)),
        message=f"{ranks} on {hosts} never reported",
        remedy="what the agents of these hosts said stands in agents/",
    )


def _leftover_findings(notes: Sequence[HostEvent]) -> list[Finding]:
    findings = []
    for what, severity, cause, remedy in (
        (LEFTOVER_ENDED, Severity.WARNING, "leftovers-ended",
         "let the command wait for what it starts; nothing of the run is left now"),
        (CANNOT_BE_ENDED, Severity.ERROR, "leftovers-remain",
         "they hang in the kernel; see their state with ps, a restart of the host may be needed"),
    ):  # fmt: skip
        named = [note for note in notes if note.what == what]
        for host in sorted({note.host for note in named}):
            processes = _listed([note.detail for note in named if note.host == host])
            verb = "had to be ended" if severity is Severity.WARNING else "cannot be ended"
            findings.append(
                Finding(
                    cause=cause,
                    severity=severity,
                    subject=Subject(kind=SubjectKind.HOST, name=host),
                    message=f"processes outlived their ranks on {host} and {verb}: {processes}",
                    remedy=remedy,
                )
            )
    return findings


def _listed(processes: list[str]) -> str:
    """All of a few; of hundreds the first ones (events.jsonl has every one)."""
    rest = len(processes) - _SHOWN_PROCESSES
    shown = ", ".join(processes[:_SHOWN_PROCESSES])
    return f"{shown} and {rest} more" if rest > 0 else shown


def verdict_sentence(result: RunResult) -> str:
    """The run in one line."""
    if result.findings and (result.exit_code or result.findings[0].severity is Severity.ERROR):
        return result.findings[0].message
    if result.achieved and not result.exit_code:
        return result.achieved
    completed = sum(outcome.end is End.COMPLETED for outcome in result.outcomes)
    if completed == len(result.outcomes):
        return f"all {completed} ranks completed" if completed > 1 else "the rank completed"
    return f"{completed} of {len(result.outcomes)} ranks completed"


def render_verdict(result: RunResult) -> str:
    """The few lines a run ends with on the terminal, each ending in a newline."""
    if not result.findings:
        return f"{verdict_sentence(result)}\n"
    lines = [] if result.exit_code else [verdict_sentence(result)]
    for finding in result.findings[:_SHOWN_FINDINGS]:
        lines.append(f"{finding.severity}: {finding.message}")
        lines += [f"    | {evidence.text}" for evidence in finding.evidence]
        lines += [f"    then {text}" for text in finding.consequences[:_SHOWN_CONSEQUENCES]]
        lines.append(f"    next: {finding.remedy}")
    if len(result.findings) > _SHOWN_FINDINGS:
        lines.append(f"and {len(result.findings) - _SHOWN_FINDINGS} more in findings.json")
    return "\n".join(lines) + "\n"
