from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankrun.cluster.diagnosis.findings import Finding, Severity
from rankrun.cluster.errors import ExitCode
from rankrun.collectives.assembly import Assembly
from rankrun.collectives.cases import GroupKind
from rankrun.collectives.hangs.arrivals import Picture, read_arrivals
from rankrun.collectives.hangs.detector import HangDetector, Watch
from rankrun.collectives.hangs.stack_reading import read_stacks
from rankrun.collectives.records import Left
from rankrun.collectives.steps import Step
from rankrun.jobs.events import HostProgress, Progress, RankExited, RankStacks, RankStarted
from rankrun.jobs.observers import Observer, StopRequest

from .samples import CASE, FOUR, HOST, JOINED, joined, measured, plain_step

STEPS = [plain_step(1), plain_step(2, size_bytes=1 << 20), plain_step(3)]
DEADLINE_S = 60.0

SITE = "/venv/lib/python3.11/site-packages/torch/distributed"


def stacks(*functions: tuple[str, str]) -> str:
    """What faulthandler writes for a main thread in these functions, and one other thread."""
    frames = "\n".join(f'  File "{file}", line {10 + n} in {function}'
                       for n, (file, function) in enumerate(functions))  # fmt: skip
    return (
        "Thread 0x00007f0000000001 (most recent call first):\n"
        '  File "/usr/lib/python3.11/threading.py", line 320 in wait\n\n'
        f"Current thread 0x00007f0000000002 (most recent call first):\n{frames}\n"
    )


def waiting_in(name: str) -> str:
    return stacks(
        (f"{SITE}/distributed_c10d.py", name),
        (f"{SITE}/c10d_logger.py", "wrapper"),
        ("/app/rankrun/collectives/on_rank/timing.py", "call_once"),
    )


AGREEING = stacks(
    (f"{SITE}/distributed_c10d.py", "all_reduce"),
    (f"{SITE}/c10d_logger.py", "wrapper"),
    ("/app/rankrun/collectives/on_rank/backends.py", "largest"),
)
ASLEEP = stacks(("/app/rankrun/collectives/on_rank/misbehaviour.py", "before_call"))


class Harness:
    """A detector, and four ranks that it watches."""

    def __init__(self, steps: list[Step] | None = None) -> None:
        self.assembly = Assembly(steps or STEPS, FOUR)
        self.detector = HangDetector(
            Watch(deadline_s=DEADLINE_S, start_up_s=120.0),
            assembly=self.assembly,
            steps=steps or STEPS,
            topology=FOUR,
        )
        for rank in range(4):
            self.detector.on_event(RankStarted(time_s=0, host=HOST, rank=rank, pid=100 + rank))

    def progress(self, places: Mapping[int, tuple[int, int, int]], unchanged_s: float) -> None:
        ranks = {
            rank: Progress(step=step, started=started, finished=done, unchanged_s=unchanged_s)
            for rank, (step, started, done) in places.items()
        }
        self.detector.on_event(HostProgress(time_s=1.0, host=HOST, ranks=ranks))

    def hang(
        self, places: Mapping[int, tuple[int, int, int]], texts: Mapping[int, str]
    ) -> tuple[StopRequest, Finding]:
        joined(self.assembly, 4)
        self.progress(places, DEADLINE_S + 1)
        stop = self.detector.on_tick(100.0)
        assert stop is not None
        for rank, text in texts.items():
            self.detector.on_event(RankStacks(time_s=2.0, host=HOST, rank=rank, text=text))
        (finding,) = self.detector.findings()
        return stop, finding


def everyone(place: tuple[int, int, int]) -> dict[int, tuple[int, int, int]]:
    return dict.fromkeys(range(4), place)


def test_it_is_an_observer() -> None:
    observer: Observer = Harness().detector
    assert observer.on_tick(0.0) is None
    assert list(observer.findings()) == []


def test_names_who_has_not_arrived() -> None:
    harness = Harness()
    places = everyone((2, 13, 12)) | {2: (2, 12, 12)}
    texts = dict.fromkeys((0, 1, 3), waiting_in("all_reduce")) | {2: ASLEEP}
    stop, finding = harness.hang(places, texts)
    assert stop.want_stacks
    assert stop.exit_code == ExitCode.CHECK_FAILED
    assert finding.cause == "collective-hang"
    assert finding.severity is Severity.ERROR
    assert str(finding.subject) == "rank 2"
    for words in (
        "all_reduce (tensor, in place) float32 sum, 1 MiB, call 13",
        "ranks 0-1,3 arrived and wait",
        "rank 2 has not arrived after 60 s",
        "rank 2 is in before_call (misbehaviour.py:10)",
    ):
        assert words in finding.message
    first = finding.evidence[0]
    assert (first.file, first.line) == ("ranks/2.stacks.txt", 5)
    assert "before_call" in first.text
    assert [line.file for line in finding.evidence[1:]] == [
        f"ranks/{rank}.stacks.txt" for rank in (0, 1, 3)
    ]


def test_it_rings_once_and_only_after_the_deadline() -> None:
    harness = Harness()
    joined(harness.assembly, 4)
    harness.progress(everyone((1, 3, 2)), DEADLINE_S - 1)
    assert harness.detector.on_tick(1.0) is None
    harness.progress(everyone((1, 3, 2)), DEADLINE_S + 1)
    assert harness.detector.on_tick(2.0) is not None
    assert harness.detector.on_tick(3.0) is None
    assert harness.detector.step == 1


def test_ranks_that_are_not_in_a_step_yet_are_not_overdue() -> None:
    harness = Harness()
    harness.progress(everyone((0, 0, 0)), DEADLINE_S * 9)
    assert harness.detector.on_tick(1.0) is None


def test_a_rank_that_left_or_ended_is_not_overdue() -> None:
    harness = Harness()
    joined(harness.assembly, 4)
    for rank in range(3):
        harness.assembly.add(Left(rank=rank))
    harness.progress(everyone((3, 5, 5)), DEADLINE_S + 1)
    harness.detector.on_event(
        RankExited(time_s=2.0, host=HOST, rank=3, code=0, stopped_by_us=False)
    )
    assert harness.detector.on_tick(1.0) is None


def test_different_collectives_are_a_mismatch() -> None:
    texts = dict.fromkeys((0, 1, 3), waiting_in("all_reduce")) | {2: waiting_in("barrier")}
    _, finding = Harness().hang(everyone((1, 2, 1)), texts)
    assert finding.cause == "collective-mismatch"
    assert str(finding.subject) == "rank 2"
    assert "ranks 0-1,3 in all_reduce; rank 2 in barrier" in finding.message


def test_different_collectives_count_even_outside_a_counted_call() -> None:
    texts = dict.fromkeys((0, 1, 3), waiting_in("all_reduce")) | {2: waiting_in("barrier")}
    _, finding = Harness().hang(everyone((1, 2, 1)) | {2: (1, 1, 1)}, texts)
    assert finding.cause == "collective-mismatch"


def test_senders_and_receivers_of_a_ring_are_no_mismatch() -> None:
    texts = {0: waiting_in("send"), 1: waiting_in("recv"), 2: waiting_in("send")}
    _, finding = Harness().hang(everyone((1, 2, 1)), texts | {3: waiting_in("recv")})
    assert finding.cause == "collective-stuck"


def test_ranks_in_different_steps_are_a_mismatch() -> None:
    _, finding = Harness().hang(everyone((1, 2, 1)) | {3: (2, 1, 0)}, {})
    assert finding.cause == "collective-mismatch"
    assert "rank 3 in a later step" in finding.message


def test_all_arrived_and_nobody_leaves() -> None:
    texts = dict.fromkeys(range(4), waiting_in("all_reduce"))
    _, finding = Harness().hang(everyone((1, 2, 1)), texts)
    assert finding.cause == "collective-stuck"
    assert "all ranks arrived, none left it" in finding.message
    assert "GLOO_SOCKET_IFNAME" in finding.remedy


def test_some_left_the_call_that_others_wait_in() -> None:
    _, finding = Harness().hang(everyone((1, 2, 1)) | {0: (1, 2, 2)}, {})
    assert finding.cause == "collective-stuck"
    assert "ranks 1-3 still wait in it" in finding.message
    assert "rank 0 left it" in finding.message


def test_a_rank_that_gives_no_stacks_is_the_suspect() -> None:
    silent = "no Python stacks from this rank; the kernel says:\n  pid 7 T (stopped): python\n"
    texts = dict.fromkeys((0, 1, 2), waiting_in("all_reduce")) | {3: silent}
    _, finding = Harness().hang(everyone((1, 2, 1)), texts)
    assert str(finding.subject) == "rank 3"
    assert "pid 7 T (stopped)" in finding.message
    assert finding.evidence[0].file == "ranks/3.stacks.txt"


def test_between_calls_the_stacks_tell_who_holds_up_the_others() -> None:
    texts = dict.fromkeys((0, 2, 3), AGREEING) | {1: ASLEEP}
    _, finding = Harness().hang(everyone((1, 5, 5)), texts)
    assert finding.cause == "collective-hang"
    assert str(finding.subject) == "rank 1"
    assert "between calls" in finding.message


def test_between_calls_without_stacks_nobody_is_accused() -> None:
    _, finding = Harness().hang(everyone((1, 5, 5)), {})
    assert finding.cause == "collective-stuck"
    assert str(finding.subject) == "run"


def test_only_the_group_that_stands_still_counts() -> None:
    halves = [plain_step(1, replace(CASE, group=GroupKind.HALVES))]
    places = {0: (1, 4, 4), 1: (1, 4, 4), 2: (1, 1, 0), 3: (1, 0, 0)}
    _, finding = Harness(halves).hang(places, {})
    assert "rank 2 arrived and waits; rank 3 has not arrived" in finding.message


def test_ranks_outside_of_the_group_are_not_missing() -> None:
    leaders = [plain_step(1, replace(CASE, group=GroupKind.NODE_LEADERS))]
    places = everyone((1, 0, 0)) | {0: (1, 2, 1)}
    _, finding = Harness(leaders).hang(places, {})
    assert finding.cause == "collective-stuck"


def test_ranks_that_never_join() -> None:
    harness = Harness()
    for rank in (0, 1, 3):
        harness.assembly.add(replace(JOINED, rank=rank))
    assert harness.detector.on_tick(1000.0) is None
    assert harness.detector.on_tick(1119.0) is None
    stop = harness.detector.on_tick(1121.0)
    assert stop is not None
    assert stop.want_stacks
    harness.detector.on_event(RankStacks(time_s=1, host=HOST, rank=2, text=ASLEEP))
    (finding,) = harness.detector.findings()
    assert finding.cause == "rank-not-joined"
    assert "rank 2 did not join" in finding.message
    assert "ranks 0-1,3 did" in finding.message
    assert finding.evidence[0].file == "ranks/2.stacks.txt"
    assert harness.detector.step is None


def test_when_no_rank_joins_none_is_accused() -> None:
    harness = Harness()
    harness.detector.on_tick(0.0)
    assert harness.detector.on_tick(121.0) is not None
    (finding,) = harness.detector.findings()
    assert str(finding.subject) == "run"
    assert "no rank did" in finding.message


def exited(rank: int, code: int, *, stopped_by_us: bool = False) -> RankExited:
    return RankExited(time_s=9.0, host=HOST, rank=rank, code=code, stopped_by_us=stopped_by_us)


def test_when_a_rank_dies_it_says_who_was_where() -> None:
    harness = Harness()
    joined(harness.assembly, 4)
    harness.progress(everyone((2, 7, 6)), 0.5)
    harness.detector.on_event(exited(2, -9))
    harness.detector.on_event(exited(0, -15, stopped_by_us=True))
    (finding,) = harness.detector.findings()
    assert finding.severity is Severity.NOTE
    assert (
        "rank 2 ended (code -9) in all_reduce (tensor, in place) float32 sum, 1 MiB, call 7; "
        "ranks 0-1,3 waited in it"
    ) in finding.message


def test_a_death_before_the_counters_were_read_is_placed_by_reports() -> None:
    harness = Harness()
    joined(harness.assembly, 4)
    harness.assembly.add(measured(2, STEPS[0]))
    harness.detector.on_event(exited(2, 17))
    (finding,) = harness.detector.findings()
    assert "in all_reduce (tensor, in place) float32 sum, 1 MiB" in finding.message
    assert "call" not in finding.message.replace("called", "")


def test_a_rank_that_ends_well_or_before_it_joined_is_not_commented() -> None:
    harness = Harness()
    harness.detector.on_event(exited(1, 1))
    joined(harness.assembly, 4)
    harness.detector.on_event(exited(2, 0))
    assert list(harness.detector.findings()) == []


places = st.dictionaries(
    st.integers(0, 7),
    st.tuples(st.integers(1, 3), st.integers(0, 3), st.booleans()).map(
        lambda at: Progress(step=at[0], started=at[1] + at[2], finished=at[1], unchanged_s=99)
    ),
    min_size=1,
)


@given(places)
def test_every_picture_is_consistent(ranks: dict[int, Progress]) -> None:
    arrivals = read_arrivals(ranks)
    named = [*arrivals.waiting, *arrivals.missing, *arrivals.beyond]
    assert len(named) == len(set(named))
    assert set(named) <= ranks.keys()
    assert all(ranks[rank].started > ranks[rank].finished for rank in arrivals.waiting)
    assert all(ranks[rank].started == ranks[rank].finished for rank in arrivals.missing)
    furthest_behind = min((at.step, at.finished) for at in ranks.values())
    assert furthest_behind == (arrivals.step, arrivals.call - 1)
    assert (arrivals.picture is Picture.BETWEEN) == (not arrivals.waiting)


@given(st.text())
def test_any_text_can_be_read_as_stacks(text: str) -> None:
    assert read_stacks(text).collective is None or "distributed_c10d" in text


@pytest.mark.parametrize("head", ["Current thread 0x1 (most", "Current thread 0x1 [python] (most"])
def test_heads_of_old_and_new_pythons(head: str) -> None:
    text = f'{head} recent call first):\n  File "/x/y z.py", line 3 in f\n'
    (frame,) = read_stacks(text).frames
    assert (frame.file, frame.line, frame.function, frame.text_line) == ("/x/y z.py", 3, "f", 2)
