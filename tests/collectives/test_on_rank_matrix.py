"""Real ranks: what gloo does with each dtype and operator, in its own words where it refuses."""

import os
from pathlib import Path

import pytest

from rankrun.collectives.spec import Dtype, Mode, Redop

from .ranks import NO_NUMPY, SuiteRun, run_suite

REAL_FLOATS = {Dtype.FLOAT16, Dtype.BFLOAT16, Dtype.FLOAT32, Dtype.FLOAT64}
FLOAT8 = {Dtype.FLOAT8_E4M3FN, Dtype.FLOAT8_E5M2}
INTEGERS = {Dtype.INT8, Dtype.UINT8, Dtype.INT32, Dtype.INT64}
BITWISE = {Redop.BAND, Redop.BOR, Redop.BXOR}
POINT_TO_POINT = {"send_recv", "batch_isend_irecv"}


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> SuiteRun:
    return run_suite(tmp_path_factory.mktemp("matrix"), ranks=3, mode=Mode.MATRIX)


def words(dtype: Dtype, redop: Redop) -> str | None:
    """What gloo of torch 2.13 says of a reduction; None where it does it."""
    if dtype is Dtype.INT16 or dtype in FLOAT8:
        return "Invalid scalar type"
    if redop is Redop.PREMUL_SUM:
        return "Cannot use ReduceOp.PREMUL_SUM with Gloo"
    if dtype is Dtype.COMPLEX64:
        return None if redop in (Redop.SUM, Redop.AVG) else "complex tensors"
    if dtype in REAL_FLOATS and redop in BITWISE:
        return f"Cannot use ReduceOp.{redop.upper()} with non-integral dtype"
    if redop is Redop.AVG and (dtype in INTEGERS or dtype is Dtype.BOOL):
        return "result type Float can't be cast to the desired output type"
    return None


def test_all_that_gloo_does_is_right(matrix: SuiteRun) -> None:
    assert matrix.run.result.exit_code == 0
    assert matrix.wrong == []
    assert all(record.times_ns == () for record in matrix.measured)


@pytest.mark.parametrize("operation", ["all_reduce", "reduce", "reduce_scatter"])
def test_reductions_agree_with_what_gloo_says(matrix: SuiteRun, operation: str) -> None:
    refused = {
        (record.case.dtype, record.case.redop): record.reason
        for record in matrix.unsupported
        if record.case.operation == operation and record.rank == 0
    }
    done = {
        (record.case.dtype, record.case.redop)
        for record in matrix.measured
        if record.case.operation == operation and record.rank == 0
    }
    for dtype in Dtype:
        for redop in Redop:
            expected = words(dtype, redop)
            if expected is None:
                assert (dtype, redop) in done
            else:
                assert expected in refused[dtype, redop]


def test_copies_agree_with_what_gloo_says(matrix: SuiteRun) -> None:
    refused = {
        (record.case.operation, record.case.dtype)
        for record in matrix.unsupported
        if record.case.redop is None and record.case.dtype is not Dtype.UINT8
    }
    copies = ("broadcast", "all_gather", "gather", "scatter", "all_to_all")
    expected = {(operation, dtype) for operation in copies for dtype in (Dtype.INT16, *FLOAT8)} | {
        ("gather", Dtype.COMPLEX64)
    }
    assert refused == expected
    sent = {r.case.dtype for r in matrix.measured if r.case.operation in POINT_TO_POINT}
    assert sent == set(Dtype)


def test_one_rank_is_refused_and_no_other_goes_on_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without numpy only those that receive an object are refused; the root has sent it."""
    hidden = tmp_path / "hidden" / "numpy.py"
    hidden.parent.mkdir()
    hidden.write_text("raise ModuleNotFoundError('hidden by a test')\n")
    before = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", f"{hidden.parent}:{before}".rstrip(":"))
    operations = ("broadcast_object_list", "all_reduce")
    done = run_suite(tmp_path, ranks=3, mode=Mode.MATRIX, operations=operations)
    words = {
        record.rank: record.reason
        for record in done.unsupported
        if record.case.operation == "broadcast_object_list"
    }
    assert words == {0: "", 1: NO_NUMPY, 2: NO_NUMPY}
    assert any(record.case.operation == "all_reduce" for record in done.measured)


def test_a_refusal_does_not_poison_the_barrier(matrix: SuiteRun) -> None:
    barriers = [record for record in matrix.measured if record.case.operation == "barrier"]
    assert len(barriers) == 3
