"""Real ranks with gloo: every operation in every form is right, and what gloo refuses is said."""

from pathlib import Path

import pytest

from rankrun.collectives.cases import Form, GroupKind
from rankrun.collectives.records import Pattern
from rankrun.collectives.spec import SuiteSpec
from rankrun.collectives.steps import Topology, enumerate_steps, members

from .ranks import run_suite, with_torch


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
            # Also after the timed loop, where repeating it leaves the same.
            is_repeated = record.case.form is Form.TENSOR and record.case.in_place
            assert record.num_checked == record.count * (1 if is_repeated else 2)


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("raise TypeError(\"all_reduce() got an unexpected keyword argument 'op'\")", "unexpected"),
        ("raise RuntimeError('nobody has ever seen these words')", "nobody has ever seen"),
        ("raise dist.DistBackendError('NCCL error: internal error')", "internal error"),
        # A refusal in known words, of what every backend does.
        ("raise RuntimeError('Invalid scalar type')", "which every backend does: Invalid scalar"),
    ],
)
def test_what_is_no_refusal_ends_the_run(change: str, message: str, tmp_path: Path) -> None:
    program = with_torch(f"""
        def all_reduce(tensor, *args, group=None, **kwargs):
            if tensor.dtype == torch.float32: {change}
            return right(tensor, *args, group=group, **kwargs)
        right, dist.all_reduce = dist.all_reduce, all_reduce
    """)
    suite = run_suite(tmp_path, ranks=2, operations=("broadcast", "all_reduce"), program=program)
    assert suite.run.result.exit_code == 1
    assert suite.unsupported == []
    first = suite.run.result.first_failure
    assert first is not None
    words = suite.last_words(first.rank)
    assert "all_reduce (tensor, in place) float32 sum" in words
    assert message in words


def test_a_refusal_on_one_rank_of_what_all_do_alike_ends_the_run(tmp_path: Path) -> None:
    """Made before the others wait for this rank: gloo's own checks refuse on all ranks alike."""
    program = with_torch("""
        def all_gather(outputs, *args, **kwargs):
            if rank == 1: raise RuntimeError("Invalid scalar type")
        dist.all_gather = all_gather
    """)
    suite = run_suite(tmp_path, ranks=2, operations=("all_gather",), program=program)
    assert suite.run.result.exit_code == 1
    first = suite.run.result.first_failure
    assert first is not None
    assert "was refused on some ranks of a group only" in suite.last_words(first.rank)


def test_a_timed_call_that_goes_wrong_is_seen(tmp_path: Path) -> None:
    """The first call is right; those of the timed loop are not."""
    program = with_torch("""
        calls = 0
        def all_to_all_single(output, *args, **kwargs):
            global calls
            calls += 1
            work = right(output, *args, **kwargs)
            if work: work.wait()
            if rank == 1 and calls > 2 and output.numel() > 4: output[3] += 1
            return work
        right, dist.all_to_all_single = dist.all_to_all_single, all_to_all_single
    """)
    suite = run_suite(
        tmp_path, ranks=2, operations=("all_to_all",), sizes_bytes=(4096,), iterations=3,
        program=program,
    )  # fmt: skip
    assert suite.run.result.exit_code == 0
    assert {record.rank for record in suite.wrong} == {1}
    first = suite.wrong[0]
    assert first.mismatch is not None
    assert first.mismatch.pattern is Pattern.SINGLE_ELEMENT
    assert (first.num_wrong, first.num_checked, len(first.times_ns)) == (1, 2 * first.count, 3)


def test_a_timed_call_that_does_nothing_is_seen(tmp_path: Path) -> None:
    program = with_torch("""
        calls = 0
        def all_to_all_single(output, *args, **kwargs):
            global calls
            calls += 1
            if calls <= 2 or kwargs["async_op"]: return right(output, *args, **kwargs)
        right, dist.all_to_all_single = dist.all_to_all_single, all_to_all_single
    """)
    suite = run_suite(
        tmp_path, ranks=2, operations=("all_to_all",), sizes_bytes=(4096,), program=program
    )
    first = suite.wrong[0]
    assert first.mismatch is not None
    assert first.mismatch.pattern is Pattern.STALE_OUTPUT
    assert first.num_wrong == first.count


@pytest.mark.parametrize("operation", ["gather", "scatter", "all_gather", "reduce_scatter"])
def test_lists_in_place(operation: str, tmp_path: Path) -> None:
    suite = run_suite(tmp_path, ranks=3, operations=(operation,), root=1)
    assert suite.run.result.exit_code == 0
    assert suite.wrong == []
    assert suite.unsupported == []
    lists = [r for r in suite.measured if r.case.form is Form.LIST and r.case.in_place]
    assert {record.rank for record in lists} == {0, 1, 2}
    has_result = {1} if operation == "gather" else {0, 1, 2}
    assert {record.rank for record in lists if record.num_checked} == has_result
