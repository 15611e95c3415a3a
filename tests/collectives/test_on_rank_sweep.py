"""Real ranks with gloo: every operation in every form is right, and what gloo refuses is said."""

from pathlib import Path

import pytest

from rankrun.collectives.cases import Form, GroupKind
from rankrun.collectives.spec import SuiteSpec
from rankrun.collectives.steps import Topology, enumerate_steps, members

from .ranks import run_suite


def topology(ranks: int) -> Topology:
    return Topology(world_size=ranks, node_leaders=(0,))


def expected_refusal(operation: str, form: Form, *, ranks: int) -> str | None:
    """gloo's own words (torch 2.13) for what it does not do."""
    if form is Form.UNEVEN_LIST and ranks > 1:
        return "ProcessGroupGloo::alltoall: invalid tensor size"
    if ranks == 1 and operation == "send_recv":
        return "Invalid destination rank|Pair is not connected"
    if ranks == 1 and operation == "batch_isend_irecv":
        return "Pair is not connected"
    return None


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_everything_is_right_on(ranks: int, tmp_path: Path) -> None:
    suite = run_suite(tmp_path, ranks=ranks)
    assert suite.run.result.exit_code == 0
    assert suite.left == set(range(ranks))
    assert suite.wrong == []
    spec = SuiteSpec(operations=(), sizes_bytes=(8, 4096))
    steps = enumerate_steps(spec, topology(ranks))
    assert [joined.num_steps for joined in suite.joined] == [len(steps)] * ranks

    refused = {(u.case, u.rank): u.reason for u in suite.unsupported}
    done = {(m.step, m.rank): m for m in suite.measured}
    for step in steps:
        case = step.case
        words = [reason for (what, _), reason in refused.items() if what == case]
        for group in members(case.group, topology(ranks)):
            for rank in group:
                record = done.get((step.number, rank))
                if words:
                    assert record is None
                    assert (case, rank) in refused
                else:
                    assert record is not None, (case.label, rank)
                    assert record.group_size == len(group)
                    assert 1 <= len(record.times_ns) <= 2
        if words:
            whole = expected_refusal(case.operation, case.form, ranks=ranks)
            assert whole, (case.label, words)
            assert any(part in word for word in words for part in whole.split("|")), words
    for rank in range(ranks):
        assert suite.run.err(rank) == b""
        assert suite.run.out(rank) == b""


def test_every_specified_element_is_checked(tmp_path: Path) -> None:
    suite = run_suite(tmp_path, ranks=3, operations=("all_reduce", "reduce", "gather"))
    for record in suite.measured:
        is_root = record.case.root is None or record.case.group is not GroupKind.WORLD
        if record.case.group is GroupKind.WORLD and record.case.root is not None:
            assert (record.num_checked > 0) == (record.rank == record.case.root)
        elif is_root and record.case.root is None:
            assert record.num_checked == record.count


@pytest.mark.parametrize("root", [1, 2])
def test_any_rank_can_be_the_root(root: int, tmp_path: Path) -> None:
    rooted = ("broadcast", "reduce", "gather", "scatter")
    suite = run_suite(tmp_path, ranks=3, operations=rooted, root=root)
    assert suite.run.result.exit_code == 0
    assert suite.wrong == []
    assert len(suite.measured) > 0


def test_a_run_goes_on_from_a_step(tmp_path: Path) -> None:
    whole = enumerate_steps(
        SuiteSpec(operations=("all_reduce",), sizes_bytes=(8, 4096)), topology(2)
    )
    suite = run_suite(tmp_path, ranks=2, operations=("all_reduce",), first_step=3)
    assert {m.step for m in suite.measured} == {s.number for s in whole if s.number >= 3}
    assert suite.joined[0].num_steps == len(whole)


def test_large_sizes_are_repeated_less(tmp_path: Path) -> None:
    suite = run_suite(
        tmp_path, ranks=2, operations=("all_reduce",), sizes_bytes=(8, 4 << 20),
        iterations=500, budget_s=0.05,
    )  # fmt: skip
    by_size: dict[int, set[int]] = {}
    for record in suite.measured:
        if record.case.group is GroupKind.WORLD and not record.case.asynchronous:
            by_size.setdefault(record.size_bytes, set()).add(len(record.times_ns))
    # All ranks agree on one number, and the large size gets fewer.
    assert all(len(lengths) == 1 for lengths in by_size.values())
    assert by_size[4 << 20].pop() < by_size[8].pop()


def test_without_checks(tmp_path: Path) -> None:
    suite = run_suite(tmp_path, ranks=2, operations=("all_gather",), check=False)
    assert {record.num_checked for record in suite.measured} == {0}
    assert all(record.times_ns for record in suite.measured)


def test_a_size_beyond_one_period_of_the_inputs(tmp_path: Path) -> None:
    suite = run_suite(
        tmp_path, ranks=3, dtype="int8", sizes_bytes=(300_000,), iterations=1, warmup=0,
        operations=("all_reduce", "all_to_all", "reduce_scatter", "all_gather"),
    )  # fmt: skip
    assert suite.run.result.exit_code == 0
    assert suite.wrong == []
    assert max(record.num_checked for record in suite.measured) > 4 * 65521
