"""How long a call takes: each call of a loop timed on its own, back to back.

On the CPU by the clock around the call; on CUDA by events on the current stream around it, since
there a call returns before it is done.
"""

import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from ..binding import Bound
from ..spec import SuiteSpec

# The share of a step's budget that its warm-up may take.
WARMUP_SHARE = 0.25
# Work that may be queued on a device before it is waited for: while it is, no counter moves.
QUEUED_S = 1.0
# The same as a share of the deadline of a call, after which counters that stand are a hang.
QUEUED_SHARE = 0.25


class CallCounter(Protocol):
    """Where a loop says that a call begins and ends, as `RankChannel` does."""

    def begin_call(self) -> None:
        """A call is about to be made."""

    def end_call(self) -> None:
        """The call returned."""


class Events(Protocol):
    """Marks in the work of a device that runs behind the program."""

    def mark(self) -> Any:
        """A mark behind all that was queued so far."""

    def wait(self) -> None:
        """Until all that was queued is done."""

    def between_ns(self, first: Any, second: Any) -> int:
        """Nanoseconds between two marks that were waited for."""


class CudaEvents:
    """Events on the current stream of the current GPU."""

    def mark(self) -> torch.cuda.Event:
        """Recorded now."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def wait(self) -> None:
        """Synchronise."""
        torch.cuda.synchronize()

    def between_ns(self, first: torch.cuda.Event, second: torch.cuda.Event) -> int:
        """Events count milliseconds."""
        return round(float(first.elapsed_time(second)) * 1e6)


def events_of(device: torch.device) -> Events | None:
    """None where a call is done when it returns."""
    return CudaEvents() if device.type == "cuda" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopwatch:
    """Times calls and tells the counter of each. `queued_s`: work that goes without a wait."""

    counter: CallCounter
    events: Events | None = None
    queued_s: float = QUEUED_S
    clock: Callable[[], int] = time.perf_counter_ns

    def once(self, run: Bound) -> int:
        """Nanoseconds of one call that is waited for until it is done, or raises."""
        self.counter.begin_call()
        start = self.clock()
        try:
            run()
            if self.events:
                self.events.wait()
            return self.clock() - start
        finally:
            self.counter.end_call()

    def launch(self, run: Bound) -> None:
        """One call that a device may still be at when this returns; see `finish`."""
        self.counter.begin_call()
        try:
            run()
        finally:
            self.counter.end_call()

    def finish(self) -> None:
        """Wait for what was launched."""
        if self.events:
            self.once(_nothing)

    def loop(self, run: Bound, iterations: int, *, expected_ns: int) -> tuple[int, ...]:
        """Nanoseconds of each of so many calls, of which each is expected to take so long."""
        if self.events is None:
            return self._by_clock(run, iterations)
        in_a_row = affordable(expected_ns, budget_s=self.queued_s, wanted=iterations)
        times: list[int] = []
        self.events.wait()
        while len(times) < iterations:
            times += self._in_a_row(run, min(in_a_row, iterations - len(times)), self.events)
        return tuple(times)

    def _by_clock(self, run: Bound, iterations: int) -> tuple[int, ...]:
        """The clock is read right around the call; telling the counter stays outside of it."""
        times = array("q", bytes(8 * iterations))
        clock, begin, end = self.clock, self.counter.begin_call, self.counter.end_call
        for number in range(iterations):
            begin()
            start = clock()
            run()
            times[number] = clock() - start
            end()
        return tuple(times)

    def _in_a_row(self, run: Bound, number: int, events: Events) -> list[int]:
        """Marks between the calls: the end of one is the start of the next.

        The calls overlap with their launches, as they do in training; the device is waited for
        at the end, within the last call that the counter knows of, so that a hang shows. The
        wait lies between no two marks.
        """
        marks = [events.mark()]
        for left in reversed(range(number)):
            self.counter.begin_call()
            run()
            marks.append(events.mark())
            if left:
                self.counter.end_call()
        events.wait()
        self.counter.end_call()
        return [events.between_ns(marks[n], marks[n + 1]) for n in range(number)]


def _nothing() -> None:
    """No call: what is waited for was launched before."""


def queued_s(deadline_s: float) -> float:
    """How much work may be queued when a call that takes longer than this is a hang.

    >>> queued_s(60.0), queued_s(2.0)
    (1.0, 0.5)
    """
    return min(QUEUED_S, deadline_s * QUEUED_SHARE)


def affordable(call_ns: int, *, budget_s: float, wanted: int, least: int = 1) -> int:
    """How many calls of this length fit in the budget: at most `wanted`, at least `least`.

    >>> [affordable(ns, budget_s=0.5, wanted=20) for ns in (100_000_000, 10)]
    [5, 20]
    """
    fitting = int(budget_s * 1e9 / max(call_ns, 1))
    return max(least, min(wanted, fitting))


class Loop(Protocol):
    """Makes calls and times them, as `Stopwatch.loop` does of one call."""

    def __call__(self, iterations: int, *, expected_ns: int) -> tuple[int, ...]:
        """Nanoseconds of each."""


class Pace:
    """How many calls all ranks make, within the time that a step may take."""

    def __init__(self, *, agree: Callable[[int], int], spec: SuiteSpec) -> None:
        """`agree` gives all ranks the largest of their values."""
        self._agree = agree
        self._spec = spec

    def run(self, loop: Loop, *, first_ns: int) -> tuple[int, ...]:
        """Warm up, then time.

        The first call says how long a warm-up may be, the warm-up how many calls fit.
        """
        spec = self._spec
        slowest_ns = self._agree(first_ns)
        num_warmup = affordable(
            slowest_ns,
            budget_s=spec.budget_s * WARMUP_SHARE,
            wanted=spec.warmup,
            # A first call may be slow for its own reasons; one more says what calls take.
            least=min(1, spec.warmup),
        )
        warm = loop(num_warmup, expected_ns=slowest_ns) if num_warmup else (first_ns,)
        slowest_ns = self._agree(sorted(warm)[len(warm) // 2])
        iterations = affordable(slowest_ns, budget_s=spec.budget_s, wanted=spec.iterations)
        return loop(iterations, expected_ns=slowest_ns)

    def stand_by(self) -> None:
        """Take part in the agreement of the others, on a rank that makes no calls."""
        self._agree(0)
        self._agree(0)
