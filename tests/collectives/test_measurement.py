import math
import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankrun.collectives.bandwidth import (
    NO_DATA,
    ONE_RANK,
    ONE_RANK_IN_FACTOR,
    busbw_factor,
    why_no_busbw,
)
from rankrun.collectives.cases import Case, Form
from rankrun.collectives.measurement import Combine, combine_ranks, percentile, summarise
from rankrun.collectives.operations import OPERATIONS, Operation
from rankrun.collectives.spec import Dtype

from .samples import BROADCAST, CASE, GATHER, measurement

times = st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=50)
NANOSECONDS = [[1000, 2000, 3000], [3000, 2000, 1000]]


@pytest.mark.parametrize(
    ("combine", "seconds"),
    [
        (Combine.AVG, (2e-6, 2e-6, 2e-6)),
        (Combine.MIN, (1e-6, 2e-6, 1e-6)),
        (Combine.MAX, (3e-6, 2e-6, 3e-6)),
    ],
)
def test_ranks_are_combined_call_by_call(combine: Combine, seconds: tuple[float, ...]) -> None:
    assert combine_ranks(NANOSECONDS, combine) == pytest.approx(seconds)


def test_iterations_that_a_rank_lacks_are_left_out() -> None:
    assert combine_ranks([[1, 2, 3], [1, 2]]) == pytest.approx((1e-9, 2e-9))
    assert combine_ranks([]) == ()


@given(times)
def test_summary_is_in_order_and_made_of_times_that_occurred(values: list[float]) -> None:
    summary = summarise(values)
    assert summary is not None
    assert summary.min_s <= summary.median_s <= summary.max_s
    assert summary.p95_s in values
    assert summary.median_s == statistics.median(values)
    assert sum(value <= summary.p95_s for value in values) >= 0.95 * len(values)


@given(times, st.integers(1, 100))
def test_percentile_is_the_nearest_rank(values: list[float], percent: int) -> None:
    ordered = sorted(values)
    expected = next(
        value
        for position, value in enumerate(ordered, start=1)
        if position * 100 >= percent * len(ordered)
    )
    assert percentile(ordered, percent) == expected


def test_nothing_timed_has_no_summary() -> None:
    assert summarise([]) is None
    untimed = measurement(time_us=None)
    assert (untimed.time, untimed.algbw_gbps, untimed.busbw_gbps) == (None, None, None)


@pytest.mark.parametrize(
    ("case", "ranks", "factor"),
    [
        (CASE, 4, 1.5),
        (CASE, 2, 1.0),
        (GATHER, 4, 0.75),
        (BROADCAST, 8, 1.0),
        (replace(GATHER, operation="all_to_all"), 4, 0.75),
        (replace(GATHER, operation="send_recv", form=Form.RING), 4, 1.0),
        (replace(GATHER, operation="all_to_all", form=Form.UNEVEN), 4, 5 / 6),
    ],
)
def test_bus_bandwidth_by_the_formulas_of_nccl_tests(case: Case, ranks: int, factor: float) -> None:
    row = measurement(case, 1 << 20, time_us=1000.0, group_size=ranks)
    assert row.algbw_gbps == pytest.approx((1 << 20) / 1e-3 / 1e9)
    assert row.busbw_gbps == pytest.approx((1 << 20) / 1e-3 / 1e9 * factor)


@pytest.mark.parametrize("row", OPERATIONS, ids=lambda row: f"{row.name}-{row.form}")
def test_one_rank_has_no_bus_bandwidth_and_is_told_why(row: Operation) -> None:
    case = replace(CASE, operation=row.name, form=row.form)
    assert busbw_factor(case, 1) is None
    why = {(0, 0): NO_DATA, (0, 1): ONE_RANK_IN_FACTOR, (1, 1): ONE_RANK}
    assert why_no_busbw(case, 1) == why[row.bus_factor(1) > 0, row.bus_factor(2) > 0]
    assert (why_no_busbw(case, 2) is None) == (row.name != "barrier")


def test_a_barrier_has_a_time_and_no_bandwidth() -> None:
    barrier = replace(CASE, operation="barrier", form=Form.PLAIN, dtype=Dtype.UINT8, redop=None)
    row = measurement(barrier, 0)
    assert row.time is not None
    assert (row.algbw_gbps, row.busbw_gbps) == (None, None)
    assert why_no_busbw(barrier, 4) == NO_DATA


def test_bandwidth_is_that_of_the_median() -> None:
    row = replace(measurement(), times_s=(1e-3, 2e-3, 9e-3))
    assert row.algbw_gbps == pytest.approx(1024 / 2e-3 / 1e9)
    assert not math.isclose(row.algbw_gbps or 0, 1024 / 4e-3 / 1e9)
