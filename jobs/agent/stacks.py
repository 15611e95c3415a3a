"""Taking the stacks of ranks: from Python where it answers, else from the kernel."""

from __future__ import annotations

import signal

from .channel import STACKS_SIGNAL
from .kernel import forbid_core, send
from .processes import answers, catches, descendants, kernel_account
from .rank import RankProcess

POLL_S = 0.05
# A living Python writes its stacks within milliseconds; one that does not will not.
_ANSWER_S = 1.0


class _Question:
    """A rank that was asked for its stacks and has not finished writing them."""

    def __init__(self, rank: RankProcess, *, abort: bool, now: float) -> None:
        self.rank = rank
        self.abort = abort
        self.until = now + _ANSWER_S
        self.start = rank.stacks_size()
        self._seen = self.start

    def settled(self, now: float) -> bool:
        """Whether nothing more is to be expected: the text no longer grows."""
        size = self.rank.stacks_size()
        grows = size > self._seen
        self._seen = size
        return now >= self.until or not self.rank.alive or (size > self.start and not grows)


class StacksTaker:
    """Asks ranks and collects what they say."""

    def __init__(self) -> None:
        """Nobody was asked yet."""
        self._questions: list[_Question] = []

    @property
    def waiting(self) -> bool:
        """Whether `collect` has to be called again, in POLL_S."""
        return bool(self._questions)

    def ask(self, rank: RankProcess, *, abort: bool, now: float) -> str | None:
        """Ask one rank; the text at once where only the kernel can tell."""
        ready = rank.read_counts(now)[0].gives_stacks and catches(rank.pid, STACKS_SIGNAL)
        if not ready or not answers(rank.pid):
            return _last_resort(rank, abort=abort)
        self._questions.append(_Question(rank, abort=abort, now=now))
        send(rank.pid, STACKS_SIGNAL)
        return None

    def collect(self, now: float) -> list[tuple[RankProcess, str]]:
        """The answers that are complete."""
        settled = [question for question in self._questions if question.settled(now)]
        self._questions = [q for q in self._questions if q not in settled]
        return [(question.rank, _answer(question)) for question in settled]


def _answer(question: _Question) -> str:
    text = question.rank.read_stacks(question.start)
    return text or _last_resort(question.rank, abort=question.abort)


def _last_resort(rank: RankProcess, *, abort: bool) -> str:
    if not rank.alive:
        return "the rank ended before it could give its stacks\n"
    account = kernel_account(rank.pid)
    if abort:
        # PYTHONFAULTHANDLER=1 makes Python print all stacks into its stderr on the way out.
        rank.told_to_end = True
        rank.aborted = True
        for pid in _who_prints_stacks(rank.pid):
            forbid_core(pid)
            send(pid, signal.SIGABRT)
    return account


def _who_prints_stacks(pid: int) -> list[int]:
    """The rank, if it handles SIGABRT; else the programs below it that do (a shell starts them)."""
    if catches(pid, signal.SIGABRT):
        return [pid]
    handling: list[int] = []
    below: set[int] = set()
    for process in descendants(pid):
        if process.parent in below:
            below.add(process.pid)  # a worker of one that prints: its stacks would interleave
        elif catches(process.pid, signal.SIGABRT):
            handling.append(process.pid)
            below.add(process.pid)
    return handling or [pid]
