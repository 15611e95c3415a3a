"""What became of each rank, told by the events of a run."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from .events import (
    Event,
    HostEvent,
    RankExited,
    RankNotStarted,
    RankOutput,
    RankStacks,
    RankStarted,
)
from .lines import visible
from .outcomes import End, RankOutcome
from .placement import Rank

_TAIL_BYTES = 16 << 10
_MAX_WORDS = 20
_MAX_WORDS_CHARACTERS = 3000
_MAX_NOTES = 200

# faulthandler's dump (Python/traceback.c, _Py_DumpTracebackThreads): stacks of all threads and
# a long list of modules, after whatever said why. Its top frames are enough here.
_DUMP = re.compile(rb"^Fatal Python error: ", re.MULTILINE)
_DUMP_LINES = 6


@dataclass(slots=True, kw_only=True)
class RankStory:
    """One rank so far. Bounded, whatever it prints."""

    rank: Rank
    pid: int | None = None
    started_s: float | None = None
    exited: RankExited | None = None
    not_started: RankNotStarted | None = None
    stacks: str | None = None
    tails: dict[str, bytes] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """Its global rank."""
        return self.rank.global_rank

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self.pid is not None and self.exited is None

    @property
    def failed(self) -> bool:
        """Whether it ended by itself, and not well."""
        return _end(self) in (End.FAILED, End.KILLED)

    def last_words(self) -> tuple[str, ...]:
        """The last lines of its standard error, else of its standard output."""
        if self.not_started is not None:
            return (self.not_started.message,)
        return _last_lines(self.tails.get("stderr", b"")) or _last_lines(
            self.tails.get("stdout", b"")
        )

    def outcome(self) -> RankOutcome:
        """How it ended."""
        over = self.exited or self.not_started
        return RankOutcome(
            rank=self.number,
            host=self.rank.host.name,
            end=_end(self),
            code=over.code if over else None,
            pid=self.pid,
            started_s=self.started_s,
            ended_s=over.time_s if over else None,
            last_words=() if _end(self) is End.COMPLETED else self.last_words(),
        )


class Story:
    """All ranks of a run, and what their hosts had to say."""

    def __init__(self, ranks: Iterable[Rank]) -> None:
        """Nothing was heard yet."""
        self.ranks = {rank.global_rank: RankStory(rank=rank) for rank in ranks}
        self.notes: list[HostEvent] = []

    def add(self, event: Event) -> None:
        """Take note of an event."""
        if isinstance(event, HostEvent):
            if len(self.notes) < _MAX_NOTES:
                self.notes.append(event)
        elif isinstance(event, RankOutput):
            tails = self.ranks[event.rank].tails
            tail = tails.get(event.stream, b"") + event.data[-_TAIL_BYTES:]
            tails[event.stream] = tail[-_TAIL_BYTES:]
        elif isinstance(event, RankStarted):
            self.ranks[event.rank].pid = event.pid
            self.ranks[event.rank].started_s = event.time_s
        elif isinstance(event, RankNotStarted):
            self.ranks[event.rank].not_started = event
        elif isinstance(event, RankExited):
            self.ranks[event.rank].exited = event
        elif isinstance(event, RankStacks):
            self.ranks[event.rank].stacks = event.text

    @property
    def running(self) -> list[RankStory]:
        """The ranks that were started and have not ended."""
        return [story for story in self.ranks.values() if story.running]

    @property
    def failed(self) -> list[RankStory]:
        """The ranks that ended by themselves, and not well."""
        return [story for story in self.ranks.values() if story.failed]

    def noted(self, what: str) -> list[HostEvent]:
        """What hosts said under this heading."""
        return [note for note in self.notes if note.what == what]


def _end(story: RankStory) -> End:
    if story.not_started is not None:
        return End.FAILED
    if story.pid is None:
        return End.NEVER_REPORTED
    if story.exited is None or story.exited.stopped_by_us:
        return End.STOPPED
    if story.exited.code < 0:
        return End.KILLED
    return End.FAILED if story.exited.code else End.COMPLETED


def _last_lines(tail: bytes) -> tuple[str, ...]:
    lines = [visible(line, colour=False).rstrip() for line in _without_dump(tail)]
    kept: list[str] = []
    room = _MAX_WORDS_CHARACTERS
    for line in reversed([line for line in lines if line][-_MAX_WORDS:]):
        if len(line) > room:
            break
        room -= len(line)
        kept.insert(0, line)
    return tuple(kept) or tuple(line[-_MAX_WORDS_CHARACTERS:] for line in lines[-1:] if line)


def _without_dump(tail: bytes) -> list[bytes]:
    dump = _DUMP.search(tail)
    if dump is None:
        return tail.splitlines()
    return tail[: dump.start()].splitlines() + tail[dump.start() :].splitlines()[:_DUMP_LINES]
