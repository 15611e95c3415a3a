from rankrun.collectives.assembly import Assembly
from rankrun.collectives.progress import ProgressReporter, weight
from rankrun.jobs.observers import Observer

from .samples import FOUR, Recorder, joined, measured, plain_step

STEPS = [plain_step(number, size_bytes=1024) for number in range(1, 11)]


class Harness:
    def __init__(self) -> None:
        self.display = Recorder()
        self.assembly = Assembly(STEPS, FOUR)
        self.reporter = ProgressReporter(self.assembly, STEPS, self.display)

    def finish(self, *numbers: int) -> None:
        for number in numbers:
            for rank in range(4):
                self.assembly.add(measured(rank, STEPS[number - 1]))

    def texts(self) -> list[str]:
        return [state.text() for state in self.display.states]


def test_it_is_an_observer() -> None:
    observer: Observer = Harness().reporter
    assert observer.on_tick(0.0) is None
    assert list(observer.findings()) == []


def test_before_anybody_joined() -> None:
    harness = Harness()
    harness.reporter.on_tick(100.0)
    harness.reporter.on_tick(102.0)
    assert harness.texts()[-1] == "starting the ranks  step 1 of 10  0:02"


def test_says_what_goes_on_and_what_is_left() -> None:
    harness = Harness()
    harness.reporter.on_tick(100.0)
    joined(harness.assembly, 4)
    harness.reporter.on_tick(110.0)
    harness.finish(1, 2)
    harness.reporter.on_tick(112.0)
    assert harness.display.states[-1].rest_s is None  # too early to tell
    harness.finish(3, 4, 5)
    harness.reporter.on_tick(120.0)
    # Half of the steps took 10 s from when the ranks had joined.
    assert harness.texts()[-1] == (
        "all_reduce (tensor, in place) float32 sum 1K  step 6 of 10  0:20, about 0:10 left"
    )


def test_at_the_end_nothing_is_left() -> None:
    harness = Harness()
    joined(harness.assembly, 4)
    harness.reporter.on_tick(0.0)
    harness.finish(*range(1, 11))
    harness.reporter.on_tick(5.0)
    assert harness.texts()[-1] == "ending  step 10 of 10  0:05"


def test_large_steps_weigh_more_up_to_their_budget() -> None:
    small, middle, large, huge = (
        weight(plain_step(1, size_bytes=size)) for size in (8, 8 << 20, 64 << 20, 8 << 30)
    )
    assert 1 <= small < middle < large <= huge == 11
