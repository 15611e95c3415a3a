"""How calls are timed. The CUDA way is held to fakes here; the real one awaits a GPU."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rankrun.collectives.on_rank.timing import Pace, affordable, call_once, time_calls
from rankrun.collectives.spec import SuiteSpec

CPU = torch.device("cpu")
MS = 1_000_000


class Journal:
    """Progress and call in one: notes the order of what happens."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def begin_call(self) -> None:
        self.notes.append("begin")

    def end_call(self) -> None:
        self.notes.append("end")

    def run(self) -> None:
        self.notes.append("call")


def test_each_call_is_told_and_timed() -> None:
    journal = Journal()
    times = time_calls(journal.run, iterations=3, progress=journal, device=CPU)
    assert journal.notes == ["begin", "call", "end"] * 3
    assert len(times) == 3
    assert all(time >= 0 for time in times)


def test_the_time_of_the_first_call() -> None:
    journal = Journal()
    assert call_once(journal.run, progress=journal, device=CPU) >= 0
    assert journal.notes == ["begin", "call", "end"]


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

    def calls(number: int) -> tuple[int, ...]:
        made.append(number)
        return (call_ns,) * number

    spec = SuiteSpec(operations=(), sizes_bytes=(8,), warmup=warmup, budget_s=0.5)
    times = Pace(agree=lambda value: value, spec=spec).run(calls, first_ns=first_ns)
    assert made == expected
    assert len(times) == expected[-1]


def test_the_slowest_rank_decides() -> None:
    made: list[int] = []

    def calls(number: int) -> tuple[int, ...]:
        made.append(number)
        return (1 * MS,) * number

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
    pace.run(lambda number: (1,) * number, first_ns=1)
    number = len(agreed)
    pace.stand_by()
    assert len(agreed) == 2 * number


def test_cuda_calls_are_timed_by_events_around_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """With fakes: awaits a GPU for the real thing."""
    journal = Journal()
    clock = iter(range(0, 1000, 7))

    class FakeEvent:
        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing

        def record(self, stream: str) -> None:
            assert stream == "current stream"
            journal.notes.append("record")
            self.time_ms = next(clock)

        def elapsed_time(self, other: "FakeEvent") -> float:
            assert journal.notes[-2:] == ["synchronize", "end"]
            return other.time_ms - self.time_ms

    fake = SimpleNamespace(
        Event=FakeEvent,
        current_stream=lambda: "current stream",
        synchronize=lambda: journal.notes.append("synchronize"),
    )
    monkeypatch.setattr(torch, "cuda", fake)
    times = time_calls(journal.run, iterations=2, progress=journal, device=torch.device("cuda", 0))
    assert times == (7 * MS, 7 * MS)
    assert journal.notes == [
        "synchronize", "record",
        "begin", "call", "record", "end",
        "begin", "call", "record", "synchronize", "end",
    ]  # fmt: skip
