"""When a run is ended before its ranks do so: four observers, each with one reason."""

import time
from collections.abc import Iterable, Sequence
from signal import Signals

from ..cluster.diagnosis.findings import Evidence, Finding, Severity, Subject, SubjectKind
from ..cluster.errors import ExitCode
from .events import AGENT_LOST, CANCELLED, Event
from .observers import StopRequest
from .plan import Limits
from .story import RankStory, Story
from .verdict import is_victim
from .wording import format_ranks

# Those who only lost their peer often leave before the culprit, which still cleans up.
SETTLE_S = 0.4


class Policy:
    """What most of them have in common: nothing to say."""

    def on_event(self, event: Event) -> Iterable[Event]:  # noqa: ARG002  # the protocol's
        """They look at the story instead."""
        return ()

    def on_tick(self, now_s: float) -> StopRequest | None:  # noqa: ARG002
        """Nothing to ask for."""
        return None

    def findings(self) -> Sequence[Finding]:
        """Nothing found."""
        return ()


class FirstFailure(Policy):
    """One rank failed: the others cannot go on. The verdict is not made here."""

    def __init__(self, story: Story) -> None:
        """Watch the ranks of this story."""
        self._story = story
        self._since_s: float | None = None

    def on_tick(self, now_s: float) -> StopRequest | None:
        """Ask for the end; wait a moment first if only victims are seen so far."""
        failed = self._story.failed
        if not failed:
            return None
        if self._since_s is None:
            self._since_s = now_s
        only_victims = all(is_victim(rank.last_words()) for rank in failed)
        if only_victims and now_s - self._since_s < SETTLE_S and self._story.running:
            return None
        return StopRequest(
            reason=f"{format_ranks(rank.number for rank in failed)} failed",
            exit_code=ExitCode.CHECK_FAILED,
        )


class Deadline(Policy):
    """The run may take so long and no longer."""

    def __init__(self, limits: Limits, story: Story) -> None:
        """Count from now, less what is gone already."""
        self._deadline_s = limits.deadline_s
        self._story = story
        self._started_s = time.monotonic() - limits.elapsed_s
        self._late: list[RankStory] | None = None

    def on_tick(self, now_s: float) -> StopRequest | None:
        """Ask for the end, stacks first."""
        if self._deadline_s is None or now_s - self._started_s < self._deadline_s:
            return None
        if self._late is None:
            self._late = self._story.running
        return StopRequest(
            reason=f"the deadline of {self._deadline_s:g} s is over",
            exit_code=ExitCode.DEADLINE,
            want_stacks=True,
        )

    def findings(self) -> Sequence[Finding]:
        """Who was still running, and at what."""
        if self._late is None:
            return ()
        ranks = format_ranks(rank.number for rank in self._late) if self._late else "no rank"
        return [
            Finding(
                cause="deadline-exceeded",
                severity=Severity.ERROR,
                subject=Subject(kind=SubjectKind.RUN),
                message=f"the run did not end within {self._deadline_s:g} s: "
                f"{ranks} of {len(self._story.ranks)} still running",
                remedy="see where they stood in ranks/N.stacks.txt and at the end of "
                "ranks/N.stderr.log; give more time with --deadline if they were only slow",
                evidence=tuple(_where(rank) for rank in self._late[:16]),
            )
        ]


def _where(rank: RankStory) -> Evidence:
    """The line of a rank's stacks that says most: the innermost call, else the process state."""
    lines = (rank.stacks or "").splitlines()
    current = next((i for i, line in enumerate(lines) if line.startswith("Current thread")), 0)
    for number, line in enumerate(lines[current:], start=current + 1):
        if line.startswith(("  File ", "  pid ")):
            text = f"rank {rank.number}: {line.strip()}"
            return Evidence(text=text, file=f"ranks/{rank.number}.stacks.txt", line=number)
    return Evidence(text=f"rank {rank.number}: no stacks came")


class AgentLoss(Policy):
    """A host's agent is gone, and its ranks with it, or was told by others to end them."""

    def __init__(self, story: Story) -> None:
        """Watch what hosts say in this story."""
        self._story = story

    def on_tick(self, now_s: float) -> StopRequest | None:  # noqa: ARG002
        """Ask for the end of what is left elsewhere."""
        for note in self._story.noted(AGENT_LOST):
            reason = f"the agent on {note.host} was lost"
            return StopRequest(reason=reason, exit_code=ExitCode.COULD_NOT_RUN)
        for note in self._story.noted(CANCELLED):
            return StopRequest(reason=note.detail, exit_code=ExitCode.TERMINATED)
        return None

    def findings(self) -> Sequence[Finding]:
        """Which agent, and its last words."""
        last_words = {note.host: note.detail for note in self._story.noted(AGENT_LOST)}
        return [
            Finding(
                cause=AGENT_LOST,
                severity=Severity.ERROR,
                subject=Subject(kind=SubjectKind.HOST, name=host),
                message=f"the agent on {host} was lost: {detail}; its ranks were ended",
                remedy="see agents/ in the run folder; if nobody killed it, look for the "
                "out-of-memory killer in `dmesg -T` there",
            )
            for host, detail in last_words.items()
        ] or [_interrupted(note.detail) for note in self._story.noted(CANCELLED)[:1]]


class Interruption(Policy):
    """Ctrl-C, or a signal from a scheduler or a closed terminal."""

    def __init__(self, received: Sequence[Signals]) -> None:
        """`received` grows as signals come in."""
        self._received = received

    def on_tick(self, now_s: float) -> StopRequest | None:  # noqa: ARG002
        """Ask for the end; a shell's exit code for the signal."""
        if not self._received:
            return None
        first = self._received[0]
        return StopRequest(reason=f"rankrun received {first.name}", exit_code=128 + first)

    def findings(self) -> Sequence[Finding]:
        """Which signal."""
        if not self._received:
            return ()
        name = self._received[0].name
        return [_interrupted("Ctrl-C" if name == "SIGINT" else f"rankrun received {name}")]


def _interrupted(how: str) -> Finding:
    return Finding(
        cause="interrupted",
        severity=Severity.NOTE,
        subject=Subject(kind=SubjectKind.RUN),
        message=f"the run was interrupted: {how}; all ranks were stopped",
        remedy="none needed; the run folder holds what was done so far",
    )
