"""What is said of a run that stood still. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...cluster.diagnosis.findings import (
    Confidence,
    Evidence,
    Finding,
    Severity,
    Subject,
    SubjectKind,
)
from ...cluster.units import format_size
from ...jobs.events import RankExited
from ...jobs.wording import format_ranks
from ..steps import Step
from .arrivals import Arrivals, Picture
from .stack_reading import Doing

COLLECTIVE_HANG = "collective-hang"
COLLECTIVE_STUCK = "collective-stuck"
COLLECTIVE_MISMATCH = "collective-mismatch"
NOT_JOINED = "rank-not-joined"
DIED_IN_STEP = "rank-died-in-step"

_FRAMES_SHOWN = 4

_SAME_PROGRAM = (
    "Every rank must make the same calls in the same order with the same sizes and types: "
    "compare the stacks, and the versions of rankrun and torch on the ranks"
)
_TRANSPORT = (
    "The data does not get through. Look at the links between the hosts of these ranks "
    "(interface, firewall, MTU), choose the interface with --nccl GLOO_SOCKET_IFNAME=... or "
    "--nccl SOCKET_IFNAME=..., and run again with TORCH_DISTRIBUTED_DEBUG=DETAIL"
)


def step_label(step: Step | None) -> str:
    """What messages call a step: `all_reduce (tensor) float32 sum, 1 MiB`."""
    if step is None:
        return "the suite"
    return f"{step.case.label}, {readable_size(step.size_bytes)}"


def readable_size(size_bytes: int) -> str:
    """A size as prose has it.

    >>> readable_size(8), readable_size(1 << 20)
    ('8 B', '1 MiB')
    """
    text = format_size(size_bytes)
    return f"{text[:-1]} {text[-1]}iB" if text[-1].isalpha() else f"{text} B"


def hang(
    arrivals: Arrivals, step: Step | None, *, limit_s: float, doing: Mapping[int, Doing]
) -> Finding:
    """The finding for a step that is overdue, sharpened by what the stacks say."""
    where = f"{step_label(step)}, call {arrivals.call}"
    mismatch = _mismatch(arrivals, where, doing)
    if mismatch:
        return mismatch
    silent = [rank for rank, what in sorted(doing.items()) if what.silent]
    if silent:
        return _silent(silent, where, doing)
    if arrivals.picture is Picture.MISSING:
        return _missing(arrivals.missing, arrivals.waiting, where, limit_s, doing=doing)
    if arrivals.picture is Picture.BETWEEN:
        return _between(arrivals, step, limit_s, doing)
    return _stuck(arrivals, where, limit_s, doing)


def _mismatch(arrivals: Arrivals, where: str, doing: Mapping[int, Doing]) -> Finding | None:
    """Ranks in different calls, by their stacks or by their steps."""
    by_name: dict[str, list[int]] = {}
    concerned = {*arrivals.waiting, *arrivals.beyond, *arrivals.missing}
    for rank in sorted(concerned & doing.keys()):
        name = doing[rank].collective
        if name and not doing[rank].agreeing:
            by_name.setdefault(name, []).append(rank)
    if len(by_name) > 1 and not _point_to_point(by_name):
        calls = "; ".join(f"{format_ranks(r)} in {name}" for name, r in by_name.items())
        confidence = Confidence.CERTAIN
    elif arrivals.picture is Picture.APART:
        calls = (
            f"{format_ranks(arrivals.waiting)} there; "
            f"{format_ranks(arrivals.beyond)} in a later step"
        )
        confidence = Confidence.LIKELY
    else:
        return None
    culprit = min(by_name.values(), key=len, default=[]) if len(by_name) > 1 else []
    return Finding(
        cause=COLLECTIVE_MISMATCH,
        severity=Severity.ERROR,
        subject=_subject(culprit),
        message=f"{where}: the ranks wait in different collectives: {calls}",
        remedy=_SAME_PROGRAM,
        confidence=confidence,
        evidence=tuple(stack_evidence(doing)),
    )


def _point_to_point(names: Iterable[str]) -> bool:
    """In a ring some ranks send while others receive; that is no mismatch."""
    return set(names) <= {"send", "recv", "isend", "irecv", "batch_isend_irecv"}


def _silent(silent: Sequence[int], where: str, doing: Mapping[int, Doing]) -> Finding:
    return Finding(
        cause=COLLECTIVE_HANG,
        severity=Severity.ERROR,
        subject=_subject(silent),
        message=(
            f"{where}: {format_ranks(silent)} did not answer a request for stacks "
            f"({doing[silent[0]].words or 'its host says nothing of it'}); the others wait"
        ),
        remedy=(
            "A stopped process goes on after kill -CONT; one in uninterruptible sleep waits for "
            "a disk, a network file system or a driver: see dmesg on its host"
        ),
        evidence=tuple(stack_evidence(doing, first=silent)),
    )


def _missing(
    missing: Sequence[int],
    waiting: Sequence[int],
    where: str,
    limit_s: float,
    *,
    doing: Mapping[int, Doing],
) -> Finding:
    verb = "has" if len(missing) == 1 else "have"
    wait = "arrived and waits" if len(waiting) == 1 else "arrived and wait"
    return Finding(
        cause=COLLECTIVE_HANG,
        severity=Severity.ERROR,
        subject=_subject(missing),
        message=(
            f"{where}: {format_ranks(waiting)} {wait}; {format_ranks(missing)} {verb} not arrived "
            f"after {limit_s:g} s{_whereabouts(missing, doing)}"
        ),
        remedy=(
            f"Look at what {format_ranks(missing)} did instead (stacks below) and at that host: "
            "load, memory, GPU. If it is only slow, give it longer with --op-deadline"
        ),
        evidence=tuple(stack_evidence(doing, first=missing)),
    )


def _between(
    arrivals: Arrivals, step: Step | None, limit_s: float, doing: Mapping[int, Doing]
) -> Finding:
    """No rank is in a call under test: whoever is not waiting for the others holds them up."""
    waiting = [r for r, what in sorted(doing.items()) if what.agreeing or what.collective]
    busy = [r for r in arrivals.missing if r in doing and r not in waiting]
    where = f"{step_label(step)}, between calls"
    if waiting and busy:
        return _missing(busy, waiting, where, limit_s, doing=doing)
    return Finding(
        cause=COLLECTIVE_STUCK,
        severity=Severity.ERROR,
        subject=Subject(kind=SubjectKind.RUN),
        message=f"{where}: {format_ranks(arrivals.missing)} made no progress for {limit_s:g} s",
        remedy="See the stacks for what they do; give them longer with --op-deadline",
        confidence=Confidence.POSSIBLE,
        evidence=tuple(stack_evidence(doing)),
    )


def _stuck(arrivals: Arrivals, where: str, limit_s: float, doing: Mapping[int, Doing]) -> Finding:
    if arrivals.beyond:
        verb = "waits" if len(arrivals.waiting) == 1 else "wait"
        message = (
            f"{where}: {format_ranks(arrivals.waiting)} still {verb} in it after {limit_s:g} s, "
            f"{format_ranks(arrivals.beyond)} left it"
        )
        remedy = f"Either the calls did not fit together. {_SAME_PROGRAM}. Or: {_TRANSPORT}"
    else:
        message, remedy = f"{where}: all ranks arrived, none left it in {limit_s:g} s", _TRANSPORT
    return Finding(
        cause=COLLECTIVE_STUCK,
        severity=Severity.ERROR,
        subject=Subject(kind=SubjectKind.RUN),
        message=message,
        remedy=remedy,
        confidence=Confidence.LIKELY,
        evidence=tuple(stack_evidence(doing)),
    )


def not_joined(
    absent: Sequence[int], joined: Sequence[int], *, limit_s: float, doing: Mapping[int, Doing]
) -> Finding:
    """Ranks that were started and never met the others."""
    others = f"; {format_ranks(joined)} did" if joined else "; no rank did"
    return Finding(
        cause=NOT_JOINED,
        severity=Severity.ERROR,
        subject=_subject(absent if joined else ()),
        message=(
            f"{format_ranks(absent)} did not join the process group within {limit_s:g} s{others}"
        ),
        remedy=(
            "All ranks must reach MASTER_ADDR:MASTER_PORT and each other: check names, firewall "
            "and interface. The stacks say where they wait; importing torch from a slow file "
            "system takes long too"
        ),
        evidence=tuple(stack_evidence(doing, first=absent)),
    )


def died(event: RankExited, step: Step | None, *, arrivals: Arrivals | None) -> Finding | None:
    """Where the ranks were when one of them ended by itself."""
    if step is None:
        return None
    others = sorted({*arrivals.waiting, *arrivals.beyond} - {event.rank}) if arrivals else []
    call = f", call {arrivals.call}" if arrivals else ""
    waited = f"; {format_ranks(others)} waited in it" if others else ""
    return Finding(
        cause=DIED_IN_STEP,
        severity=Severity.NOTE,
        subject=_subject([event.rank]),
        message=f"rank {event.rank} ended (code {event.code}) in {step_label(step)}{call}{waited}",
        remedy=f"See the last lines of ranks/{event.rank}.stderr.log",
        confidence=Confidence.LIKELY,
    )


def _whereabouts(ranks: Sequence[int], doing: Mapping[int, Doing]) -> str:
    frames = doing[ranks[0]].frames if ranks[0] in doing else ()
    return f"; rank {ranks[0]} is in {frames[0]}" if frames else ""


def stack_evidence(doing: Mapping[int, Doing], first: Sequence[int] = ()) -> Iterator[Evidence]:
    """The innermost frames of every rank's main thread, the ranks that matter first."""
    for rank in (*first, *sorted(doing.keys() - set(first))):
        what = doing.get(rank)
        if what is None:
            continue
        shown = " < ".join(map(str, what.frames[:_FRAMES_SHOWN]))
        yield Evidence(
            text=f"rank {rank}: {shown or what.words or 'no stacks'}",
            file=f"ranks/{rank}.stacks.txt",
            line=what.frames[0].text_line if what.frames else 1,
        )


def _subject(ranks: Sequence[int]) -> Subject:
    if len(ranks) == 1:
        return Subject(kind=SubjectKind.RANK, name=str(ranks[0]))
    return Subject(kind=SubjectKind.RUN)
