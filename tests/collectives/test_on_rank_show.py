import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rankrun.collectives.cases import Form
from rankrun.collectives.layouts import Position
from rankrun.collectives.on_rank.inputs import LARGEST_EXACT
from rankrun.collectives.on_rank.readable import Readable
from rankrun.collectives.on_rank.reductions import torch_dtype
from rankrun.collectives.on_rank.show import compared
from rankrun.collectives.operations import find
from rankrun.collectives.spec import Dtype, Mode, Redop
from rankrun.collectives.steps import SHOWN_REDOPS

from .ranks import SuiteRun, run_suite, with_torch


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> SuiteRun:
    return run_suite(tmp_path_factory.mktemp("show"), ranks=3, mode=Mode.SHOW)


def readable(
    dtype: Dtype = Dtype.FLOAT32, redop: Redop | None = None, *, ranks: int = 4, indices: int = 4
) -> Readable:
    return Readable(dtype=dtype, redop=redop, group_size=ranks, num_indices=indices)


def test_rank_r_holds_r0_r1_r2() -> None:
    def held(slot: int, ranks: int) -> list[int]:
        return [readable(ranks=ranks).value(slot, index) for index in range(3)]

    assert held(3, 4) == [30, 31, 32]
    assert held(3, 11) == [300, 301, 302]


def test_where_those_do_not_fit_rank_r_holds_less() -> None:
    sums = readable(Dtype.INT8, Redop.SUM, ranks=11)
    assert [sums.value(10, index) for index in range(4)] == [10, 11, 12, 13]
    many = readable(Dtype.INT8, Redop.SUM, ranks=100)
    assert {many.value(slot, index) for slot in range(100) for index in range(4)} == {0, 1}
    products = readable(Dtype.INT8, Redop.PRODUCT, ranks=11)
    assert [products.value(2, index) for index in range(4)] == [1, 1, 2, 2]


def test_expected_is_worked_out_from_the_layout() -> None:
    layout = find("all_reduce", Form.TENSOR).layout(Position(group_size=3, rank=1), 2)
    largest = readable(redop=Redop.MAX, ranks=3, indices=2)
    assert largest.expected(layout).tolist() == [20, 21]
    products = readable(redop=Redop.PRODUCT, ranks=3, indices=2)
    assert products.expected(layout).tolist() == [6, 24]


@given(
    dtype=st.sampled_from(Dtype),
    redop=st.sampled_from(SHOWN_REDOPS),
    ranks=st.integers(1, 300),
    indices=st.integers(1, 8),
)
def test_what_is_shown_fits_in_the_dtype(
    *, dtype: Dtype, redop: Redop, ranks: int, indices: int
) -> None:
    """Each value, and each partial result in whatever order: no rounding, no overflow."""
    shown = readable(dtype, redop, ranks=ranks, indices=indices)
    largest = 1 if dtype is Dtype.BOOL else LARGEST_EXACT[dtype]
    for index in range(indices):
        values = [shown.value(slot, index) for slot in range(ranks)]
        assert 0 <= min(values) <= max(values) <= largest
        if redop in (Redop.SUM, Redop.AVG) and dtype is not Dtype.BOOL:
            assert sum(values) <= largest
        if redop is Redop.PRODUCT and dtype is not Dtype.BOOL:
            product = math.prod(values)
            assert product <= largest or product in (1, 2, 4, 8, 16)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_lines_of_each_rank(shown: SuiteRun, rank: int) -> None:
    assert shown.run.result.exit_code == 0
    lines = shown.lines(rank)
    expected = {
        "init_process_group": ["backend gloo, device cpu"] * 3,
        "get_rank": ["0", "1", "2"],
        "get_world_size": ["3"] * 3,
        "broadcast from rank 0": [
            "before [0, 1, 2, 3]  after [0, 1, 2, 3]",
            "before [10, 11, 12, 13]  after [0, 1, 2, 3]",
            "before [20, 21, 22, 23]  after [0, 1, 2, 3]",
        ],
        "reduce SUM to rank 0": ["before [0, 1, 2, 3]  after [30, 33, 36, 39]"],
        "all_reduce SUM": [
            f"before [{first}, {first + 1}, {first + 2}, {first + 3}]  after [30, 33, 36, 39]"
            for first in (0, 10, 20)
        ],
        "all_reduce MIN": [
            f"before [{first}, {first + 1}, {first + 2}, {first + 3}]  after [0, 1, 2, 3]"
            for first in (0, 10, 20)
        ],
        "reduce_scatter SUM": [
            "before [[0], [1], [2]]  after [30]",
            "before [[10], [11], [12]]  after [33]",
            "before [[20], [21], [22]]  after [36]",
        ],
        "all_gather": [f"before [{first}]  after [[0], [10], [20]]" for first in (0, 10, 20)],
        "gather to rank 0": [
            "before [0]  after [[0], [10], [20]]",
            "before [10]  after -",
            "before [20]  after -",
        ],
        "scatter from rank 0": [
            "before [[0], [1], [2]]  after [0]",
            "before -  after [1]",
            "before -  after [2]",
        ],
        "all_to_all": [
            "before [[0], [1], [2]]  after [[0], [10], [20]]",
            "before [[10], [11], [12]]  after [[1], [11], [21]]",
            "before [[20], [21], [22]]  after [[2], [12], [22]]",
        ],
    }
    for title, texts in expected.items():
        (line,) = [line for line in lines if line.startswith(f"{title} ")]
        if rank < len(texts):
            assert " ".join(line.split()) == " ".join(f"{title} {texts[rank]}".split())
    assert any(line.startswith("barrier") for line in lines)
    assert not any("WRONG" in line for line in lines)


def test_only_the_root_has_what_is_reduced_to_it(shown: SuiteRun) -> None:
    reduced = [line for line in shown.lines(2) if line.startswith("reduce SUM")]
    assert reduced[0].endswith("(only the root has the result)")


@pytest.mark.parametrize("dtype", Dtype)
def test_an_output_is_compared_in_its_dtype(dtype: Dtype) -> None:
    layout = find("all_gather", Form.TENSOR).layout(Position(group_size=3, rank=1), 3)
    shown = readable(dtype, ranks=3, indices=1)
    right = shown.expected(layout)
    assert right.dtype is torch_dtype(dtype)
    assert compared(right.clone(), right, shown.bound) is None
    wrong = right.clone()
    wrong.view(torch.uint8)[-1] ^= 1
    mismatch = compared(wrong, right, shown.bound)
    assert mismatch is not None
    assert (mismatch.first_offset, mismatch.num_wrong, mismatch.num_checked) == (2, 1, 3)
    assert mismatch.expected != mismatch.got


def test_more_ranks_than_a_narrow_dtype_has_values(tmp_path: Path) -> None:
    suite = run_suite(
        tmp_path, ranks=11, mode=Mode.SHOW, operations=("all_reduce",), dtype=Dtype.INT8
    )
    assert suite.run.result.exit_code == 0
    (line,) = [line for line in suite.lines(10) if line.startswith("all_reduce SUM")]
    assert line.endswith("before [10, 11, 12, 13]  after [55, 66, 77, 88]")
    assert not any("WRONG" in line for rank in range(11) for line in suite.lines(rank))


def test_a_wrong_result_is_shown_and_measured(tmp_path: Path) -> None:
    program = with_torch("""
        if rank == 1:
            right = dist.all_reduce
            def all_reduce(tensor, *args, **kwargs):
                right(tensor, *args, **kwargs)
                if tensor.is_floating_point(): tensor[2] += 1
            dist.all_reduce = all_reduce
    """)
    suite = run_suite(
        tmp_path, ranks=2, mode=Mode.SHOW, operations=("broadcast", "all_reduce"), program=program
    )
    assert suite.run.result.exit_code == 0  # a wrong result is data; the controller judges it
    assert suite.left == {0, 1}
    (line,) = [line for line in suite.lines(1) if line.startswith("all_reduce SUM")]
    assert line.endswith("after [10, 12, 15, 16]  WRONG, expected [10, 12, 14, 16]")
    assert {record.case.operation for record in suite.measured} == {"all_reduce"}
    # All ranks report the step, so that it is complete; one has the mismatch.
    sums = {r.rank: r for r in suite.measured if r.case.redop is Redop.SUM}
    assert set(sums) == {0, 1}
    assert sums[0].mismatch is None
    mismatch = sums[1].mismatch
    assert mismatch is not None
    assert (mismatch.first_offset, mismatch.expected, mismatch.got) == (2, "14", "15")


def test_unsupported_is_shown_in_the_backends_words(tmp_path: Path) -> None:
    suite = run_suite(
        tmp_path, ranks=2, mode=Mode.SHOW, operations=("all_reduce",), dtype=Dtype.INT32
    )
    averages = [line for line in suite.lines(1) if line.startswith("all_reduce AVG")]
    assert "unsupported: result type Float can't be cast" in averages[0]
    sums = [line for line in suite.lines(1) if line.startswith("all_reduce SUM")]
    assert sums[0].endswith("before [10, 11, 12, 13]  after [10, 12, 14, 16]")
