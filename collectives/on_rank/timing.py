"""How long a call takes: each call of a loop timed on its own, back to back.

On the CPU by the clock around the call; on CUDA by events on the current stream around it, since
there a call returns before it is done.
"""

import time
from array import array
from collections.abc import Callable
from typing import Protocol

import torch

from ..binding import Bound
from ..spec import SuiteSpec

# The share of a step's budget that its warm-up may take.
WARMUP_SHARE = 0.25


class Progress(Protocol):
    """Where a loop says that a call begins and ends, as `RankChannel` does."""

    def begin_call(self) -> None:
        """A call is about to be made."""

    def end_call(self) -> None:
        """The call returned."""


def time_calls(
    run: Bound, *, iterations: int, progress: Progress, device: torch.device
) -> tuple[int, ...]:
    """Nanoseconds of each of so many calls."""
    if device.type == "cuda":
        return _by_events(run, iterations, progress)
    return _by_clock(run, iterations, progress)


def _by_clock(run: Bound, iterations: int, progress: Progress) -> tuple[int, ...]:
    """The clock is read right around the call; telling the progress stays outside of it."""
    times = array("q", bytes(8 * iterations))
    clock, begin, end = time.perf_counter_ns, progress.begin_call, progress.end_call
    for number in range(iterations):
        begin()
        start = clock()
        run()
        times[number] = clock() - start
        end()
    return tuple(times)


def _by_events(run: Bound, iterations: int, progress: Progress) -> tuple[int, ...]:
    """Events between the calls: the end of one is the start of the next.

    The calls overlap with their launches, as they do in training; the device is waited for
    once, at the end, within the last call that the progress knows of, so that a hang shows.
    """
    events = [
        torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        for _ in range(iterations + 1)
    ]
    stream = torch.cuda.current_stream()
    torch.cuda.synchronize()
    events[0].record(stream)
    for number in range(iterations):
        progress.begin_call()
        run()
        events[number + 1].record(stream)
        if number < iterations - 1:
            progress.end_call()
    torch.cuda.synchronize()
    progress.end_call()
    return tuple(
        round(events[number].elapsed_time(events[number + 1]) * 1e6) for number in range(iterations)
    )


def call_once(run: Bound, *, progress: Progress, device: torch.device) -> int:
    """Nanoseconds of one call that is waited for until it is done, or raises."""
    progress.begin_call()
    start = time.perf_counter_ns()
    try:
        run()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter_ns() - start
    finally:
        progress.end_call()


def affordable(call_ns: int, *, budget_s: float, wanted: int, least: int = 1) -> int:
    """How many calls of this length fit in the budget: at most `wanted`, at least `least`.

    >>> [affordable(ns, budget_s=0.5, wanted=20) for ns in (100_000_000, 10)]
    [5, 20]
    """
    fitting = int(budget_s * 1e9 / max(call_ns, 1))
    return max(least, min(wanted, fitting))


class Pace:
    """How many calls all ranks make, within the time that a step may take."""

    def __init__(self, *, agree: Callable[[int], int], spec: SuiteSpec) -> None:
        """`agree` gives all ranks the largest of their values."""
        self._agree = agree
        self._spec = spec

    def run(self, calls: Callable[[int], tuple[int, ...]], *, first_ns: int) -> tuple[int, ...]:
        """Warm up, then time: `calls` makes so many calls and returns the time of each.

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
        warm = calls(num_warmup) if num_warmup else (first_ns,)
        slowest_ns = self._agree(sorted(warm)[len(warm) // 2])
        return calls(affordable(slowest_ns, budget_s=spec.budget_s, wanted=spec.iterations))

    def stand_by(self) -> None:
        """Take part in the agreement of the others, on a rank that makes no calls."""
        self._agree(0)
        self._agree(0)
