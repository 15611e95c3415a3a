from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankrun.cluster.errors import UsageError
from rankrun.collectives.cases import Form, GroupKind
from rankrun.collectives.operations import OPERATIONS, operation_names
from rankrun.collectives.spec import Dtype, Mode, Redop, SuiteSpec
from rankrun.collectives.steps import Topology, enumerate_steps, members, step_count

SIZES = tuple(8 * 2**power for power in range(15))
FOUR = Topology(world_size=4, node_leaders=(0, 2))


def spec(**changes: object) -> SuiteSpec:
    plain = SuiteSpec(operations=(), sizes_bytes=SIZES)
    return replace(plain, **changes)  # type: ignore[arg-type]


topologies = st.integers(1, 20).flatmap(
    lambda n: st.builds(
        Topology,
        world_size=st.just(n),
        node_leaders=st.sets(st.integers(1, n - 1)).map(lambda more: (0, *sorted(more)))
        if n > 1
        else st.just((0,)),
    )
)


@given(topologies, st.sampled_from(Mode))
def test_steps_are_numbered_from_one_and_alike_everywhere(topology: Topology, mode: Mode) -> None:
    steps = enumerate_steps(spec(mode=mode), topology)
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    assert steps == enumerate_steps(spec(mode=mode), topology)
    # A run that goes on after a crash keeps the numbers.
    assert steps == enumerate_steps(spec(mode=mode, first_step=7), topology)


@given(topologies, st.sampled_from(GroupKind))
def test_groups_of_a_kind_are_disjoint(topology: Topology, kind: GroupKind) -> None:
    groups = members(kind, topology)
    ranks = [rank for group in groups for rank in group]
    assert len(set(ranks)) == len(ranks)
    assert all(groups)
    if kind is not GroupKind.NODE_LEADERS:
        assert sorted(ranks) == list(range(topology.world_size))


def test_groups_of_four_ranks_on_two_nodes() -> None:
    assert members(GroupKind.HALVES, FOUR) == ((0, 1), (2, 3))
    assert members(GroupKind.PARITY, FOUR) == ((0, 2), (1, 3))
    assert members(GroupKind.NODE_LEADERS, FOUR) == ((0, 2),)


def test_main_forms_are_swept_and_variants_proved_at_two_sizes() -> None:
    steps = enumerate_steps(spec(), FOUR)
    per_case: dict[object, list[int]] = {}
    for step in steps:
        per_case.setdefault(step.case, []).append(step.size_bytes)
    for row in OPERATIONS:
        cases = [case for case in per_case if (case.operation, case.form) == (row.name, row.form)]  # type: ignore[attr-defined]
        lengths = {
            (case.group, case.asynchronous): len(per_case[case])  # type: ignore[attr-defined]
            for case in cases
        }
        if row.form is Form.PLAIN:
            assert set(lengths.values()) == {1}
        else:
            swept = lengths[GroupKind.WORLD, False]
            assert (swept >= len(SIZES) - 2) if row.swept else (swept == 2)
        assert ((GroupKind.WORLD, True) in lengths) == row.async_form
        assert {kind for kind, _ in lengths} == set(GroupKind)


def test_every_step_is_checked_and_timed() -> None:
    assert all(step.verify and step.time for step in enumerate_steps(spec(), FOUR))
    assert not any(step.verify for step in enumerate_steps(spec(check=False), FOUR))


def test_sizes_that_come_out_the_same_are_done_once() -> None:
    steps = enumerate_steps(spec(operations=("all_gather",), sizes_bytes=(8, 16, 32)), FOUR)
    sweep = [s for s in steps if s.case.form is Form.TENSOR and not s.case.in_place][:2]
    assert [(step.size_bytes, 4 * step_count(step, 4)) for step in sweep] == [(8, 16), (32, 32)]


def test_one_rank_has_no_subgroups() -> None:
    steps = enumerate_steps(spec(), Topology(world_size=1, node_leaders=(0,)))
    assert {step.case.group for step in steps} == {GroupKind.WORLD}


@given(topologies)
def test_nobody_sends_to_itself_in_a_subgroup(topology: Topology) -> None:
    for step in enumerate_steps(spec(operations=("send_recv", "batch_isend_irecv")), topology):
        if step.case.group is not GroupKind.WORLD:
            assert min(map(len, members(step.case.group, topology))) > 1


@given(topologies, st.integers(0, 100))
def test_roots_are_in_their_groups(topology: Topology, root: int) -> None:
    root %= topology.world_size
    for step in enumerate_steps(spec(root=root, sizes_bytes=(8,)), topology):
        if step.case.root is not None:
            for group in members(step.case.group, topology):
                assert step.case.root < len(group)


def test_matrix_has_every_dtype_and_operator() -> None:
    steps = enumerate_steps(spec(mode=Mode.MATRIX), FOUR)
    reduced = {(s.case.dtype, s.case.redop) for s in steps if s.case.operation == "all_reduce"}
    assert reduced == {(dtype, redop) for dtype in Dtype for redop in Redop}
    gathered = [s.case.dtype for s in steps if s.case.operation == "all_gather"]
    assert gathered == list(Dtype)
    assert {s.case.operation for s in steps} == set(operation_names())
    assert not any(step.time for step in steps)


def test_show_begins_with_what_is_no_collective() -> None:
    steps = enumerate_steps(spec(mode=Mode.SHOW, operations=("barrier", "all_reduce")), FOUR)
    names = [step.case.operation for step in steps]
    assert names[:3] == ["init_process_group", "get_rank", "get_world_size"]
    assert names[-1] == "barrier"
    shown = {step.case.redop for step in steps if step.case.operation == "all_reduce"}
    assert {Redop.SUM, Redop.MIN, Redop.MAX} <= shown


@given(topologies, st.sampled_from(Mode))
def test_what_is_no_row_of_the_table_says_so_in_its_form(topology: Topology, mode: Mode) -> None:
    rows = {(row.name, row.form) for row in OPERATIONS}
    for step in enumerate_steps(spec(mode=mode), topology):
        is_scene = step.case.form is Form.SCENE
        assert is_scene != ((step.case.operation, step.case.form) in rows)
        assert step_count(step, topology.world_size) >= 0
        assert not is_scene or step.case.label == f"{step.case.operation} (scene)"


def test_lists_are_timed_in_place_too() -> None:
    steps = enumerate_steps(spec(), FOUR)
    lists = {s.case.operation for s in steps if s.case.form is Form.LIST and s.case.in_place}
    assert lists == {"reduce_scatter", "all_gather", "gather", "scatter"}


def test_show_reduces_and_scatters_from_a_list() -> None:
    steps = enumerate_steps(spec(mode=Mode.SHOW, operations=("reduce_scatter",)), FOUR)
    assert {step.case.form for step in steps[3:]} == {Form.LIST}


def test_unknown_operations_are_a_usage_error() -> None:
    with pytest.raises(UsageError, match="valid: broadcast"):
        enumerate_steps(spec(operations=("nope",)), FOUR)
