"""Faults on request, seen through the real path."""

from pathlib import Path

import pytest

from rankrun.cluster.errors import UsageError
from rankrun.collectives.faults import (
    EXIT_CODE,
    Fault,
    FaultKind,
    fault_step,
    parse_fault,
)
from rankrun.collectives.records import Pattern
from rankrun.collectives.spec import SuiteSpec
from rankrun.collectives.steps import Topology, enumerate_steps

from .ranks import run_suite


def test_a_fault_in_words() -> None:
    assert parse_fault("hang:rank=2,op=all_reduce") == Fault(
        kind=FaultKind.HANG, rank=2, operation="all_reduce"
    )
    assert parse_fault("swapped") == Fault(kind=FaultKind.SWAPPED, rank=1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hung:rank=1", "'hung' is unknown; valid: hang, exit, late, wrong-op, wrong-size, mis"),
        ("hang:node=1", "'node=1' is unknown; valid: rank=N, op=NAME"),
        ("hang:rank", "'rank' is unknown; valid: rank=N, op=NAME"),
        ("hang:rank=-1", "rank '-1' is not a number"),
        ("hang:op=sum", "operation 'sum': unknown; valid: broadcast"),
    ],
)
def test_unknown_faults_list_the_known(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_fault(text)
    assert message in str(caught.value)


def test_a_fault_happens_at_the_first_step_of_the_whole_list() -> None:
    """So a run that goes on after the crash does not meet it again."""
    spec = SuiteSpec(operations=("broadcast", "all_reduce"), sizes_bytes=(8, 64), first_step=9)
    steps = enumerate_steps(spec, Topology(world_size=2, node_leaders=(0,)))
    fault = parse_fault("exit:rank=1,op=all_reduce")
    number = fault_step(fault, steps)
    assert number == next(s.number for s in steps if s.case.operation == "all_reduce")
    assert fault_step(parse_fault("exit:rank=1,op=gather"), steps) is None


@pytest.mark.parametrize(
    ("kind", "operation", "pattern", "detail"),
    [
        ("missing", "all_reduce", Pattern.MISSING_CONTRIBUTION, "rank 2's contribution is miss"),
        ("doubled", "reduce_scatter", Pattern.DOUBLED_CONTRIBUTION, "rank 2's contribution came"),
        ("swapped", "all_gather", Pattern.SWAPPED_BLOCKS, "rank 1's data instead of rank 0's, and"),
        ("stale", "all_to_all", Pattern.STALE_OUTPUT, "still hold what was there before"),
        ("element", "broadcast", Pattern.SINGLE_ELEMENT, "bit 0 is flipped"),
        ("operator", "all_reduce", Pattern.WRONG_OPERATOR, "that of max, not of sum"),
    ],
)
def test_a_corrupted_result_is_named(
    *, kind: str, operation: str, pattern: Pattern, detail: str, tmp_path: Path
) -> None:
    suite = run_suite(
        tmp_path, ranks=3, operations=(operation,), sizes_bytes=(4096,), iterations=1,
        fault=f"{kind}:rank=1,op={operation}",
    )  # fmt: skip
    assert suite.run.result.exit_code == 0  # a wrong result is data
    assert suite.left == {0, 1, 2}
    assert {record.rank for record in suite.wrong} == {1}
    mismatch = suite.wrong[0].mismatch
    assert mismatch is not None
    assert mismatch.pattern is pattern
    assert detail in mismatch.detail
    assert suite.wrong[0].num_wrong == mismatch.num_wrong > 0


def test_a_rank_that_exits(tmp_path: Path) -> None:
    suite = run_suite(
        tmp_path, ranks=3, operations=("broadcast", "all_reduce"), sizes_bytes=(4096,),
        fault="exit:rank=1,op=all_reduce",
    )  # fmt: skip
    assert suite.run.result.exit_code == EXIT_CODE
    done = [record for record in suite.measured if record.case.operation == "all_reduce"]
    assert done == []
    # Its neighbours say in one line, last, which call failed and how; if they were not ended.
    for rank in (0, 2):
        if suite.run.err(rank):
            assert "all_reduce (tensor, in place) float32 sum, size 4K: " in suite.last_words(rank)


def test_a_late_rank_rings_no_alarm(tmp_path: Path) -> None:
    suite = run_suite(
        tmp_path, ranks=2, operations=("all_gather",), sizes_bytes=(4096,), fault="late:rank=1"
    )
    assert suite.run.result.exit_code == 0
    assert suite.wrong == []
    # One slow first call does not make the timing short.
    assert {len(record.times_ns) for record in suite.measured} == {2}


def test_a_call_of_another_size_ends_the_run(tmp_path: Path) -> None:
    suite = run_suite(
        tmp_path, ranks=2, operations=("all_reduce",), sizes_bytes=(4096,),
        fault="wrong-size:rank=1",
    )  # fmt: skip
    assert suite.run.result.exit_code != 0
    assert suite.measured == []
    words = b"".join(suite.run.err(rank) for rank in range(2))
    assert b"Received data size doesn't match expected size" in words


@pytest.mark.parametrize("kind", ["hang", "wrong-op"])
def test_a_rank_that_does_not_come_holds_up_the_others(kind: str, tmp_path: Path) -> None:
    """Here the deadline of the run ends it; the controller's watch is tested elsewhere."""
    suite = run_suite(
        tmp_path, ranks=2, operations=("broadcast", "all_reduce"), sizes_bytes=(4096,),
        fault=f"{kind}:rank=1,op=all_reduce", deadline_s=12,
    )  # fmt: skip
    assert suite.run.result.exit_code != 0
    assert {record.case.operation for record in suite.measured} == {"broadcast"}
