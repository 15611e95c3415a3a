import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankrun.cluster.diagnosis.findings import Severity
from rankrun.cluster.errors import ExitCode
from rankrun.collectives.assembly import Assembly, ShownLines
from rankrun.collectives.cases import GroupKind
from rankrun.collectives.collector import Listeners, RecordFile, SuiteCollector
from rankrun.collectives.measurement import Combine, Measurement, Status
from rankrun.collectives.reading import Unreadable, parse_record, read_records
from rankrun.collectives.records import Joined, Left, Record, Shown, to_line
from rankrun.collectives.steps import Step
from rankrun.jobs.events import Event, RankExited, RankOutput, RankRecord
from rankrun.jobs.observers import Observer

from .samples import (
    CASE,
    FOUR,
    GATHER,
    HOST,
    JOINED,
    MISMATCH,
    event,
    measured,
    plain_step,
    refused,
)

STEPS = [plain_step(1), plain_step(2, size_bytes=2048), plain_step(3, GATHER)]


class Harness:
    """A collector on a file, and what it told its listeners."""

    def __init__(self, path: Path, steps: list[Step]) -> None:
        self.path = path / "measurements.jsonl"
        self.told: list[Measurement] = []
        self.joined: list[Joined] = []
        self.assembly = Assembly(steps, FOUR)
        self.collector = SuiteCollector(
            self.assembly,
            path=self.path,
            ranks=range(4),
            listeners=Listeners(on_joined=self.joined.append, on_measurement=self.told.append),
        )

    def send(self, *records: Record) -> list[Event]:
        return [derived for record in records for derived in self.collector.on_event(event(record))]

    def everyone(self, step: Step) -> None:
        self.send(*(measured(rank, step) for rank in range(4)))


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    made = Harness(tmp_path, STEPS)
    yield made
    made.collector.close()


def test_it_is_an_observer(harness: Harness) -> None:
    observer: Observer = harness.collector
    assert observer.on_tick(0.0) is None


records: list[Record] = [
    JOINED,
    measured(1, STEPS[0]),
    measured(1, STEPS[0], mismatch=MISMATCH),
    refused(2, STEPS[0], "not on this backend"),
    Shown(rank=3, step=1, line="[0, 1] -> [1, 2]"),
    Left(rank=0),
]


@pytest.mark.parametrize("record", records, ids=lambda record: record.kind)
def test_a_record_survives_the_line(record: Record) -> None:
    assert parse_record(to_line(record).encode()) == record


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"not json",
        b"[]",
        b"{}",
        b'{"kind":"other"}',
        b'{"kind":"left"}',
        b'{"kind":"left","rank":"x"}',
        b"\xff\xfe",
        to_line(measured(0, STEPS[0])).encode()[:-9],
        b'{"kind":"joined","rank":1' + b"0" * 100_000,
    ],
)
def test_any_other_line_is_data_too(line: bytes) -> None:
    record = parse_record(line)
    assert isinstance(record, Unreadable)
    assert record.reason


@given(st.binary(max_size=200))
def test_no_line_crashes_the_reader(line: bytes) -> None:
    assert parse_record(line) is not None


def test_a_step_is_finished_when_all_ranks_reported_it(harness: Harness) -> None:
    harness.send(*(measured(rank, STEPS[0]) for rank in (2, 0, 3)))
    assert harness.told == []
    harness.send(measured(1, STEPS[0], times_us=[500, 600, 700]))
    (told,) = harness.told
    assert told.times_s == pytest.approx((200e-6, 300e-6, 400e-6))
    assert told.status is Status.RIGHT


def test_steps_come_out_in_order_whatever_order_ranks_report_in(harness: Harness) -> None:
    for rank in range(4):
        harness.send(*(measured(rank, step) for step in STEPS))
    assert [told.step for told in harness.told] == [1, 2, 3]


@given(st.permutations([(rank, step) for rank in range(4) for step in STEPS]))
def test_any_interleaving_gives_the_same(order: list[tuple[int, Step]]) -> None:
    assembly = Assembly(STEPS, FOUR)
    out = [done for rank, step in order for done in assembly.add(measured(rank, step))]
    assert [done.step for done in out] == [1, 2, 3]
    assert assembly.unfinished() == []


def test_a_rank_that_reports_twice_counts_once(harness: Harness) -> None:
    harness.send(*[measured(0, STEPS[0])] * 4)
    assert harness.told == []


def test_steps_behind_a_gap_are_told_at_the_end(harness: Harness) -> None:
    harness.everyone(STEPS[1])
    assert list(harness.collector.findings()) == []
    assert harness.told == [], "to ask what was found tells nobody anything"
    harness.collector.end()
    assert [told.step for told in harness.told] == [2]


def test_a_rank_that_counts_its_steps_otherwise_is_named(harness: Harness) -> None:
    """Its numbers must not stand in another operation's row."""
    harness.send(*(measured(rank, STEPS[0]) for rank in range(3)))
    harness.send(replace(measured(3, STEPS[2]), step=1), replace(measured(3, STEPS[2]), step=99))
    assert harness.told == []
    (finding,) = harness.collector.findings()
    assert (finding.cause, str(finding.subject)) == ("another-step", "rank 3")
    assert "reported all_gather (tensor) float32 as step 1, which is all_reduce" in finding.message
    harness.send(measured(3, STEPS[0]))
    assert [told.case for told in harness.told] == [CASE]


def test_ranks_outside_of_a_group_are_not_waited_for(tmp_path: Path) -> None:
    leaders = plain_step(1, replace(CASE, group=GroupKind.NODE_LEADERS))
    harness = Harness(tmp_path, [leaders])
    harness.send(measured(0, leaders, group_size=1))
    assert [told.group_size for told in harness.told] == [1]
    harness.collector.close()


def test_groups_of_different_sizes_are_not_mixed(tmp_path: Path) -> None:
    halves = plain_step(1, replace(CASE, group=GroupKind.HALVES))
    harness = Harness(tmp_path, [halves])
    harness.send(
        measured(0, halves, group_size=3, times_us=[300]),
        measured(1, halves, group_size=3, times_us=[500]),
        measured(2, halves, group_size=3, times_us=[400]),
        measured(3, halves, group_size=1, times_us=[1], mismatch=MISMATCH),
    )
    (told,) = harness.told
    assert told.times_s == pytest.approx((400e-6,))
    assert told.group_size == 3
    assert told.num_wrong == MISMATCH.num_wrong
    harness.collector.close()


@pytest.mark.parametrize(("combine", "time_us"), [(Combine.MIN, 100), (Combine.MAX, 400)])
def test_combination_over_ranks_is_selectable(combine: Combine, time_us: int) -> None:
    assembly = Assembly(STEPS, FOUR, combine=combine)
    for rank in range(4):
        assembly.add(measured(rank, STEPS[0], times_us=[100 * (rank + 1)]))
    assert assembly.measurements[0].times_s == pytest.approx((time_us * 1e-6,))


def test_what_is_unsupported_is_so_at_every_size_in_the_backends_words(harness: Harness) -> None:
    harness.send(
        refused(0, STEPS[0], ""),
        refused(1, STEPS[0], "gloo does not do this"),
        *(refused(rank, STEPS[0], "") for rank in (2, 3)),
    )
    assert [(t.step, t.status, t.reason) for t in harness.told] == [
        (1, Status.UNSUPPORTED, "gloo does not do this"),
        (2, Status.UNSUPPORTED, "gloo does not do this"),
    ]
    (note,) = harness.collector.findings()
    assert note.severity is Severity.NOTE
    assert "gloo does not do this" in note.message


def test_listeners_hear_once_when_all_have_joined(harness: Harness) -> None:
    for rank in (3, 2, 1):
        harness.send(replace(JOINED, rank=rank))
    assert harness.joined == []
    harness.send(JOINED)
    assert harness.joined == [JOINED]


def test_lines_are_kept_whole_and_read_again(harness: Harness) -> None:
    harness.send(JOINED, measured(0, STEPS[0]))
    harness.collector.on_event(RankRecord(time_s=0, host=HOST, rank=0, line=b"no record\n"))
    harness.collector.on_event(
        RankRecord(time_s=0, host=HOST, rank=0, line=to_line(Left(rank=0)).encode().rstrip())
    )
    assert list(read_records(harness.path)) == [JOINED, measured(0, STEPS[0]), Left(rank=0)]


def test_a_half_written_last_line_is_left_out(harness: Harness) -> None:
    harness.send(JOINED)
    with harness.path.open("ab") as file:
        file.write(to_line(Left(rank=0)).encode()[:8])
    assert list(read_records(harness.path)) == [JOINED]


def test_a_malformed_line_is_a_finding(harness: Harness) -> None:
    for _ in range(3):
        harness.collector.on_event(RankRecord(time_s=0, host=HOST, rank=2, line=b"rubbish\n"))
    (finding,) = harness.collector.findings()
    assert (finding.cause, finding.subject.name) == ("malformed-record", "2")
    assert "3 line(s)" in finding.message
    assert finding.evidence[0].text == "rubbish"


def test_a_wrong_result_is_one_finding_however_many_saw_it(harness: Harness) -> None:
    for step in STEPS[:2]:
        harness.send(
            *(measured(rank, step, mismatch=MISMATCH if rank else None) for rank in range(4))
        )
    (finding,) = harness.collector.findings()
    assert finding.cause == "wrong-result"
    assert finding.severity is Severity.ERROR
    for word in ("all_reduce float32 sum", "ranks 1-3", "missing contribution", "rank 2's"):
        assert word in finding.message
    first = finding.evidence[0].text
    for word in ("rank 1", "5 of 8", "offset 3", "expected 10", "got 7"):
        assert word in first


def test_a_wrong_result_of_one_rank_names_it(harness: Harness) -> None:
    mismatches = {3: MISMATCH}
    harness.send(*(measured(r, STEPS[0], mismatch=mismatches.get(r)) for r in range(4)))
    (finding,) = harness.collector.findings()
    assert str(finding.subject) == "rank 3"


class FullDisk:
    """A raw file with room for so many bytes more."""

    def __init__(self, file: object, room: int) -> None:
        self.file, self.room = file, room

    def write(self, data: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = data[: self.room]
        self.room -= len(taken)
        return self.file.write(taken)  # type: ignore[attr-defined, no-any-return]

    def truncate(self, size: int) -> int:
        return self.file.truncate(size)  # type: ignore[attr-defined, no-any-return]

    def close(self) -> None:
        self.file.close()  # type: ignore[attr-defined]


def test_a_full_disk_leaves_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    file = RecordFile(path)
    file.append(b"first\n")
    file._file = FullDisk(file._file, room=3)  # type: ignore[assignment]
    with pytest.raises(OSError, match="No space"):
        file.append(b"second\n")
    file.close()
    assert path.read_bytes() == b"first\n"


def test_a_full_disk_ends_the_run(harness: Harness) -> None:
    file = harness.collector._file
    file._file = FullDisk(file._file, room=3)  # type: ignore[assignment]
    harness.send(JOINED)
    stop = harness.collector.on_tick(0.0)
    assert stop is not None
    assert stop.exit_code == ExitCode.COULD_NOT_RUN
    assert "No space left" in stop.reason
    (finding,) = harness.collector.findings()
    assert finding.cause == "measurements-not-written"


def outputs(events: list[Event]) -> list[tuple[int, bytes]]:
    assert all(isinstance(out, RankOutput) for out in events)
    return [(out.rank, out.data) for out in events if isinstance(out, RankOutput)]


def test_shown_lines_come_as_output_in_order_of_ranks(harness: Harness) -> None:
    early = harness.send(*(Shown(rank=rank, step=1, line=f"one {rank}") for rank in (3, 1, 0, 2)))
    assert early == []
    late = harness.send(*(Shown(rank=rank, step=2, line=f"two {rank}") for rank in (2, 0, 1, 3)))
    assert outputs(late) == [(rank, f"one {rank}\n".encode()) for rank in range(4)]
    left = harness.send(*(Left(rank=rank) for rank in (1, 0, 2, 3)))
    assert outputs(left) == [(rank, f"two {rank}\n".encode()) for rank in range(4)]
    assert harness.assembly.unfinished() == STEPS[2:]


def test_a_rank_that_dies_does_not_hold_lines_back(harness: Harness) -> None:
    harness.send(*(Shown(rank=rank, step=1, line=str(rank)) for rank in (0, 1, 2)))
    out: list[Event] = []
    for rank in range(4):
        out += harness.collector.on_event(
            RankExited(time_s=2.0, host=HOST, rank=rank, code=-9, stopped_by_us=False)
        )
    assert outputs(out) == [(0, b"0\n"), (1, b"1\n"), (2, b"2\n")]


shown_by_rank = st.lists(st.lists(st.integers(1, 5), max_size=6), min_size=1, max_size=4)


@given(shown_by_rank, st.randoms(use_true_random=False))
def test_no_line_is_lost_and_all_are_in_order(by_rank: list[list[int]], random: object) -> None:
    queues = {rank: [(step, rank) for step in sorted(steps)] for rank, steps in enumerate(by_rank)}
    total = sorted(at for queue in queues.values() for at in queue)
    lines = ShownLines(queues)
    out: list[Shown] = []
    while queues:
        rank = random.choice(sorted(queues))  # type: ignore[attr-defined]
        if queues[rank]:
            step, _ = queues[rank].pop(0)
            out += lines.add(Shown(rank=rank, step=step, line="x"))
        else:
            del queues[rank]
            out += lines.ended(rank)
    assert [(shown.step, shown.rank) for shown in out] == total
