import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankrun.collectives.fit import TOO_FEW_SIZES, fit_cases, fit_line

from .samples import CASE, GATHER, measurement

SIZES = [8 * 2**power for power in range(24)]
latencies_s = st.floats(1e-7, 1e-1)
bandwidths = st.floats(1e6, 1e12)  # bytes a second


@given(latencies_s, bandwidths)
def test_recovers_an_exact_line(latency_s: float, bandwidth: float) -> None:
    line = fit_line([(size, latency_s + size / bandwidth) for size in SIZES])
    assert line is not None
    # What no size shows within rounding cannot be recovered: then the term is negligible.
    if latency_s > 1e-6 * SIZES[0] / bandwidth:
        assert line.latency_s == pytest.approx(latency_s, rel=1e-4)
    if SIZES[-1] / bandwidth > 1e-6 * latency_s:
        assert line.seconds_per_byte == pytest.approx(1 / bandwidth, rel=1e-4)
    assert line.residual == pytest.approx(0, abs=1e-9)


@given(st.floats(1e-6, 1e-3), st.floats(1e8, 1e11), st.integers(0, 1 << 32))
def test_recovers_a_line_under_noise(latency_s: float, bandwidth: float, seed: int) -> None:
    rng = random.Random(seed)
    points = [
        (size, (latency_s + size / bandwidth) * rng.uniform(0.95, 1.05))
        for size in [2**power for power in range(3, 34)]
    ]
    line = fit_line(points)
    assert line is not None
    assert line.latency_s == pytest.approx(latency_s, rel=0.15)
    assert line.seconds_per_byte == pytest.approx(1 / bandwidth, rel=0.15)
    assert 0 < line.residual < 0.06


@given(
    st.lists(
        st.tuples(st.integers(1, 1 << 40), st.floats(1e-9, 1e3)),
        min_size=3,
        max_size=30,
        unique_by=lambda point: point[0],
    )
)
def test_neither_term_is_ever_negative(points: list[tuple[int, float]]) -> None:
    line = fit_line(points)
    assert line is not None
    assert line.latency_s >= 0
    assert line.seconds_per_byte >= 0
    assert line.residual >= 0


def test_time_that_falls_with_size_has_no_bandwidth() -> None:
    line = fit_line([(8, 3.0), (80, 2.0), (800, 1.0)])
    assert line is not None
    assert line.algbw_gbps is None
    assert 1.0 <= line.latency_s <= 3.0


def test_relative_error_lets_small_sizes_count() -> None:
    # A latency of 10 us against a second at 1 GiB: least squares of the absolute error loses it.
    points = [(8, 10e-6), (64, 10e-6), (512, 10e-6), (1 << 30, 1.0), (2 << 30, 2.1)]
    line = fit_line(points)
    assert line is not None
    assert line.latency_s == pytest.approx(10e-6, rel=0.05)


@pytest.mark.parametrize("points", [[], [(8, 1.0)], [(8, 1.0), (16, 2.0)], [(8, 1.0)] * 5])
def test_too_few_sizes(points: list[tuple[float, float]]) -> None:
    assert fit_line(points) is None


def test_one_fit_per_case() -> None:
    rows = [
        measurement(case, size, time_us=50 + size / 1000)
        for case in (CASE, GATHER)
        for size in (1 << 10, 1 << 20, 1 << 24)
    ]
    first, second = fit_cases(rows)
    assert (first.case, second.case) == (CASE, GATHER)
    assert first.fit is not None
    assert first.fit.latency_s == pytest.approx(50e-6)
    assert first.fit.algbw_gbps == pytest.approx(1.0)
    assert first.busbw_gbps == pytest.approx(1.5)
    assert second.busbw_gbps == pytest.approx(0.75)


def test_a_case_with_two_sizes_says_why_it_has_none() -> None:
    (only,) = fit_cases([measurement(CASE, 8), measurement(CASE, 16)])
    assert only.fit is None
    assert only.reason == TOO_FEW_SIZES
    assert only.num_sizes == 2


def test_what_moves_no_data_or_was_not_timed_is_left_out() -> None:
    assert fit_cases([measurement(CASE, 0), measurement(CASE, 8, time_us=None)]) == []
