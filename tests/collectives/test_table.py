from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankrun.collectives.cases import Case, Form, GroupKind
from rankrun.collectives.documents import SuiteFacts
from rankrun.collectives.fit import fit_cases
from rankrun.collectives.measurement import Combine, Measurement, Status
from rankrun.collectives.spec import Dtype, Redop, SuiteSpec
from rankrun.collectives.steps import Step
from rankrun.collectives.table import Columns, LiveTable, column_heads, row_lines, table_lines
from rankrun.collectives.table_ends import footer, preamble

from .samples import BROADCAST, CASE, GATHER, JOINED, measurement, plain_step

GOLDEN = Path(__file__).parent.parent / "golden"

GATHER_IN_PLACE = replace(GATHER, in_place=True)
UNEVEN = replace(GATHER, operation="all_to_all", form=Form.UNEVEN)
PREMUL = replace(CASE, redop=Redop.PREMUL_SUM)
BARRIER = replace(CASE, operation="barrier", form=Form.PLAIN, dtype=Dtype.UINT8, redop=None,
                  in_place=False)  # fmt: skip
SIZES = (8, 1024, 1 << 20)


def swept(case: Case) -> list[tuple[Case, int]]:
    return [(case, size) for size in SIZES]


ROWS: list[tuple[Case, int]] = [
    *swept(CASE),
    *swept(GATHER),
    *swept(GATHER_IN_PLACE),
    *swept(PREMUL),
    *swept(BROADCAST),
    (BARRIER, 0),
    (replace(CASE, asynchronous=True), 8),
    (replace(CASE, group=GroupKind.HALVES), 8),
    (UNEVEN, 8),
]
STEPS = [plain_step(number, case, size) for number, (case, size) in enumerate(ROWS, start=1)]


def result_of(step: Step, *, group_size: int) -> Measurement:
    unsupported = step.case.redop is Redop.PREMUL_SUM
    wrong = step.case.operation == "broadcast" and step.size_bytes > 8
    size = 2 if step.case.group is GroupKind.HALVES else group_size
    return measurement(
        step.case,
        step.size_bytes,
        step=step.number,
        group_size=min(size, group_size),
        time_us=None if unsupported else 12.3456 + step.size_bytes / 250,
        status=Status.UNSUPPORTED if unsupported else Status.RIGHT,
        reason="Cannot use ReduceOp.PREMUL_SUM with Gloo" if unsupported else None,
        wrong_on=(1, 3) if wrong else (),
    )


def whole_table(steps: list[Step], *, group_size: int = 4) -> str:
    spec = SuiteSpec(operations=(), sizes_bytes=SIZES)
    facts = SuiteFacts(
        run_id="run",
        run_folder="/runs/run",
        target=f"local:{group_size}",
        world_size=group_size,
        combine=Combine.AVG,
        exit_code=0,
        joined=None,
    )
    joined = replace(JOINED, world_size=group_size)
    measurements = [result_of(step, group_size=group_size) for step in steps]
    lines = [
        *preamble(spec, joined, facts),
        *table_lines(steps, measurements),
        *footer(measurements, fit_cases(measurements)),
    ]
    return "\n".join(lines) + "\n"


def test_golden() -> None:
    assert whole_table(STEPS) == (GOLDEN / "table.txt").read_text()


def test_golden_of_one_rank() -> None:
    one = [step for step in STEPS if step.case in (CASE, GATHER, BARRIER)]
    assert whole_table(one, group_size=1) == (GOLDEN / "table_one_rank.txt").read_text()


def test_columns_stand_where_nccl_tests_has_them() -> None:
    # From nccl-tests' README: the names of the columns, in order and right-aligned.
    names = (
        "#       size         count      type   redop    root     time   algbw   busbw #wrong"
        "     time   algbw   busbw #wrong"
    )
    assert column_heads(Columns())[1].split() == names.split()
    assert column_heads(Columns())[1].startswith(names[:70])


def data_rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_every_line_but_rows_is_a_comment_and_rows_align() -> None:
    rows = data_rows(whole_table(STEPS))
    assert len(rows) == 3 + 3 + 1 + 3 + 1 + 3
    assert {len(row) for row in rows} == {len(rows[0])}


def test_both_placements_share_a_row() -> None:
    row = data_rows(whole_table(STEPS))[3]
    assert row.split()[:5] == ["8", "2", "float32", "none", "-1"]
    assert len(row.split()) == 13


def test_placements_meet_in_whatever_order_they_finish() -> None:
    steps = [plain_step(1, GATHER), plain_step(2, GATHER_IN_PLACE)]
    results = [result_of(step, group_size=4) for step in steps]
    forward, backward = LiveTable(steps), LiveTable(steps)
    assert forward.add(results[0]) == []
    assert backward.add(results[1]) == []
    assert forward.add(results[1]) == backward.add(results[0])


def test_a_run_that_broke_off_shows_half_a_row() -> None:
    steps = [plain_step(1, GATHER), plain_step(2, GATHER_IN_PLACE)]
    table = LiveTable(steps)
    table.add(result_of(steps[0], group_size=4))
    assert data_rows("\n".join(table.flush()))[0].split()[-4:] == ["-"] * 4
    assert table.flush() == []


def test_a_refusal_is_said_once_in_the_backends_words() -> None:
    text = whole_table(STEPS)
    assert text.count("Cannot use ReduceOp.PREMUL_SUM with Gloo") == 1
    assert text.count("unsupported\n") + text.count(" unsupported ") >= 1


def test_wrong_rows_say_what_is_wrong() -> None:
    text = whole_table(STEPS)
    assert "WRONG: rank 1, 1K: 5 of 8 elements wrong, first at offset 3" in text
    assert "and on 1 more rank(s)" in text
    assert "# Out of bounds values : 20 FAILED" in text


def test_unchecked_rows_say_so() -> None:
    unchecked = measurement(status=Status.NOT_CHECKED)
    assert row_lines([unchecked], Columns())[0].split()[-1] == "N/A"
    assert footer([unchecked], [])[1] == "# Out of bounds values : not checked"


def test_long_names_widen_their_columns() -> None:
    long = replace(CASE, dtype=Dtype.FLOAT8_E4M3FN, redop=Redop.PREMUL_SUM)
    columns = Columns.fitting([CASE, long])
    assert (columns.dtype, columns.redop) == (13, 10)
    short_row, long_row = (row_lines([measurement(case)], columns)[0] for case in (CASE, long))
    assert len(short_row) == len(long_row)
    assert len(column_heads(columns)[1]) == len(long_row)


def test_the_average_is_one_operations_over_its_sizes_and_placements() -> None:
    rows = [
        measurement(GATHER, 1000, time_us=1.0),  # 1 GB/s, times 3/4
        measurement(GATHER_IN_PLACE, 1000, time_us=0.5),
        measurement(GATHER, 3000, time_us=1.0),
        measurement(CASE, 1000, time_us=1.0),
        measurement(replace(CASE, group=GroupKind.HALVES), 1000, time_us=1e-3, group_size=2),
        measurement(replace(CASE, asynchronous=True), 1000, time_us=1e-3),
        measurement(UNEVEN, 1000, time_us=1e-3),
    ]
    averages = [line for line in footer(rows, []) if "Avg bus bandwidth" in line]
    assert averages == [
        "# Avg bus bandwidth    : 1.5        all_gather (tensor)",
        "# Avg bus bandwidth    : 1.5        all_reduce (tensor)",
    ]


@given(st.floats(1e-3, 1e9))
def test_times_fit_their_column(time_us: float) -> None:
    row = row_lines([measurement(time_us=time_us)], Columns())[0]
    shown = row.split()[-4]
    assert float(shown) == pytest.approx(time_us, rel=1e-2, abs=0.0051)
    assert len(shown) <= max(7, len(str(int(time_us)) + ".5"))
