"""How calls are timed. The CUDA way is held to fakes here; the real one awaits a GPU."""

import functools
import itertools
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rankrun.collectives.on_rank.timing import (
    CudaEvents,
    Pace,
    Stopwatch,
    affordable,
    events_of,
    queued_s,
)
from rankrun.collectives.spec import SuiteSpec

MS = 1_000_000


class Journal:
    """Counter and call in one: notes the order of what happens."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def begin_call(self) -> None:
        self.notes.append("begin")

    def end_call(self) -> None:
        self.notes.append("end")

    def run(self) -> None:
        self.notes.append("call")


class FakeEvents:
    """A device that takes 7 ms for each call: it is at work until it is waited for."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.marked = 0
        self.waited_for = 0

    def mark(self) -> int:
        self.journal.notes.append("mark")
        self.marked += 1
        return self.marked

    def wait(self) -> None:
        self.journal.notes.append("wait")
        self.waited_for = self.marked

    def between_ns(self, first: int, second: int) -> int:
        assert second <= self.waited_for
        return (second - first) * 7 * MS


def ticking(step_ns: int) -> Callable[[], int]:
    return functools.partial(next, itertools.count(0, step_ns))


def test_each_call_is_told_and_timed() -> None:
    journal = Journal()
    stopwatch = Stopwatch(counter=journal, clock=ticking(3))
    assert stopwatch.loop(journal.run, 3, expected_ns=1) == (3, 3, 3)
    assert journal.notes == ["begin", "call", "end"] * 3


def test_the_time_of_the_first_call() -> None:
    journal = Journal()
    assert Stopwatch(counter=journal, clock=ticking(5)).once(journal.run) == 5
    assert journal.notes == ["begin", "call", "end"]
    events = FakeEvents(journal)
    assert Stopwatch(counter=journal, clock=ticking(5), events=events).once(journal.run) == 5
    assert journal.notes[3:] == ["begin", "call", "wait", "end"]


def test_a_call_that_fails_has_ended_all_the_same() -> None:
    journal = Journal()

    def fail() -> None:
        raise RuntimeError

    for make in (Stopwatch(counter=journal).once, Stopwatch(counter=journal).launch):
        with pytest.raises(RuntimeError):
            make(fail)
    assert journal.notes == ["begin", "end"] * 2


def test_what_is_launched_is_waited_for_only_when_asked() -> None:
    journal = Journal()
    stopwatch = Stopwatch(counter=journal, events=FakeEvents(journal))
    stopwatch.launch(journal.run)
    assert journal.notes == ["begin", "call", "end"]
    stopwatch.finish()
    assert journal.notes[3:] == ["begin", "wait", "end"]


@given(st.integers(1, 10**11), st.floats(0.001, 10), st.integers(1, 1000))
def test_iterations_stay_within_the_budget(call_ns: int, budget_s: float, wanted: int) -> None:
    number = affordable(call_ns, budget_s=budget_s, wanted=wanted)
    assert 1 <= number <= wanted
    assert number == 1 or number * call_ns <= budget_s * 1e9
    assert number == wanted or (number + 1) * call_ns > budget_s * 1e9


@pytest.mark.parametrize(
    ("first_ns", "call_ns", "warmup", "expected"),
    [
        (1 * MS, 1 * MS, 5, [5, 20]),  # short: all that was asked for
        (100 * MS, 100 * MS, 5, [1, 5]),  # long: what the budget of 0.5 s pays for
        (2000 * MS, 1 * MS, 5, [1, 20]),  # a slow first call alone shortens the warm-up only
        (2000 * MS, 2000 * MS, 5, [1, 1]),  # never less than one
        (1 * MS, 1 * MS, 0, [20]),  # no warm-up wanted, none made
    ],
)
def test_pace(first_ns: int, call_ns: int, warmup: int, expected: list[int]) -> None:
    made: list[int] = []

    def calls(iterations: int, *, expected_ns: int) -> tuple[int, ...]:
        assert expected_ns == (first_ns if warmup and not made else call_ns)
        made.append(iterations)
        return (call_ns,) * iterations

    spec = SuiteSpec(operations=(), sizes_bytes=(8,), warmup=warmup, budget_s=0.5)
    times = Pace(agree=lambda value: value, spec=spec).run(calls, first_ns=first_ns)
    assert made == expected
    assert len(times) == expected[-1]


def test_the_slowest_rank_decides() -> None:
    made: list[int] = []

    def calls(iterations: int, *, expected_ns: int) -> tuple[int, ...]:
        assert expected_ns == 50 * MS
        made.append(iterations)
        return (1 * MS,) * iterations

    spec = SuiteSpec(operations=(), sizes_bytes=(8,), budget_s=0.5)
    Pace(agree=lambda value: max(value, 50 * MS), spec=spec).run(calls, first_ns=MS)
    assert made == [2, 10]


def test_a_rank_that_makes_no_calls_agrees_as_often_as_the_others() -> None:
    agreed: list[int] = []

    def agree(value: int) -> int:
        agreed.append(value)
        return value

    spec = SuiteSpec(operations=(), sizes_bytes=(8,))
    pace = Pace(agree=agree, spec=spec)
    pace.run(lambda iterations, *, expected_ns: (expected_ns,) * iterations, first_ns=1)
    number = len(agreed)
    pace.stand_by()
    assert len(agreed) == 2 * number


def test_calls_on_a_device_are_timed_by_marks_around_each() -> None:
    """With fakes: awaits a GPU for the real thing."""
    journal = Journal()
    stopwatch = Stopwatch(counter=journal, events=FakeEvents(journal))
    assert stopwatch.loop(journal.run, 2, expected_ns=1 * MS) == (7 * MS, 7 * MS)
    assert journal.notes == [
        "wait", "mark",
        "begin", "call", "mark", "end",
        "begin", "call", "mark", "wait", "end",
    ]  # fmt: skip


@given(
    iterations=st.integers(1, 60),
    expected_ns=st.integers(0, 4 * 10**9),
    deadline_s=st.floats(0.1, 600),
)
def test_a_device_is_waited_for_before_the_queue_looks_like_a_hang(
    iterations: int, expected_ns: int, deadline_s: float
) -> None:
    journal = Journal()
    limit_s = queued_s(deadline_s)
    assert limit_s <= min(1.0, deadline_s / 4)
    stopwatch = Stopwatch(counter=journal, events=FakeEvents(journal), queued_s=limit_s)
    times = stopwatch.loop(journal.run, iterations, expected_ns=expected_ns)
    # No wait lies between two marks that a time is taken from.
    assert times == (7 * MS,) * iterations
    assert journal.notes.count("begin") == journal.notes.count("end") == iterations
    for between in " ".join(journal.notes).split("wait"):
        in_a_row = between.count("call")
        assert in_a_row <= 1 or in_a_row * expected_ns <= limit_s * 1e9


def test_a_cpu_has_no_events() -> None:
    assert events_of(torch.device("cpu")) is None
    assert isinstance(events_of(torch.device("cuda", 0)), CudaEvents)
