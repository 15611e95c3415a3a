"""The table of operations, and how its rows call torch: with a fake that writes down the calls."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankrun.cluster.errors import UsageError
from rankrun.collectives.binding import Call
from rankrun.collectives.cases import Form
from rankrun.collectives.layouts import Counting, Overlap, Position
from rankrun.collectives.operations import (
    OPERATIONS,
    Operation,
    bound,
    find,
    forms_of,
    operation_names,
)


class Recorder:
    """Stands for torch.distributed: every function notes its name and returns a handle."""

    def __init__(self, *absent: str) -> None:
        self.absent = absent
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.num_waits = 0

    def wait(self) -> None:
        self.num_waits += 1

    def __getattr__(self, name: str) -> Any:
        if name in self.absent:
            raise AttributeError(name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append((name, args, kwargs))
            return [self] if name == "batch_isend_irecv" else self

        return call


def make_call(dist: Recorder, *, rank: int = 1, asynchronous: bool = False) -> Call:
    part = SimpleNamespace(numel=lambda: 2)
    return Call(
        dist=cast("Any", dist),
        group="group",
        peers=(4, 5, 6),
        rank=rank,
        root=4,
        redop="redop",
        asynchronous=asynchronous,
        input=cast("Any", "input"),
        output=cast("Any", "output"),
        inputs=cast("Any", [part] * 3),
        outputs=cast("Any", [part] * 3),
        objects_in=[b"a", b"b", b"c"],
        objects_out=[None, None, None],
    )


def test_names_are_those_of_torch() -> None:
    assert operation_names()[:5] == (
        "broadcast", "reduce", "all_reduce", "reduce_scatter", "all_gather",
    )  # fmt: skip
    assert len(operation_names()) == 15


def test_rows_are_unique() -> None:
    keys = [(row.name, row.form) for row in OPERATIONS]
    assert len(set(keys)) == len(keys)


def test_unknown_operation_lists_the_known() -> None:
    with pytest.raises(UsageError, match=r"'allreduce': unknown; valid: broadcast, .*barrier"):
        forms_of("allreduce")


# nccl-tests, doc/PERFORMANCE.md
@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("all_reduce", 2 * 7 / 8),
        ("reduce_scatter", 7 / 8),
        ("all_gather", 7 / 8),
        ("all_to_all", 7 / 8),
        ("gather", 7 / 8),
        ("scatter", 7 / 8),
        ("broadcast", 1),
        ("reduce", 1),
        ("send_recv", 1),
    ],
)
def test_bus_factors_of_nccl_tests(name: str, factor: float) -> None:
    for row in forms_of(name):
        if row.form not in (Form.UNEVEN, Form.UNEVEN_LIST):
            assert row.bus_factor(8) == factor


PARTITIONED = [
    row
    for row in OPERATIONS
    if row.counting is Counting.PARTS or row.form in (Form.UNEVEN, Form.UNEVEN_LIST)
]


@pytest.mark.parametrize("row", PARTITIONED, ids=lambda row: f"{row.name}-{row.form}")
@given(n=st.integers(1, 9), root=st.integers(0, 8))
def test_a_bus_factor_is_the_share_of_the_size_that_crosses_a_link(
    row: Operation, n: int, root: int
) -> None:
    """Of the rank with the most to send or to receive, as the layouts have it."""
    count = n * max(1, n * (n - 1) // 2)  # all parts are whole
    places = [Position(group_size=n, rank=rank, root=root % n) for rank in range(n)]
    sent, received = [0] * n, [0] * n
    for receiver, place in enumerate(places):
        for block in row.layout(place, count).blocks:
            for sender in block.sources:
                if sender != receiver:
                    sent[sender] += block.count
                    received[receiver] += block.count
    assert row.bus_factor(n) == pytest.approx(max(*sent, *received) / count)


def test_in_place_rows_say_how() -> None:
    for row in OPERATIONS:
        assert (row.overlap is not None) == any(row.in_place)
        assert (row.overlap is Overlap.SAME) == (row.in_place == (True,))


@pytest.mark.parametrize("row", OPERATIONS, ids=lambda row: f"{row.name}-{row.form}")
def test_every_row_calls_its_function_in_the_group(row: Operation) -> None:
    dist = Recorder()
    bound(row, make_call(dist))()
    name, args, kwargs = dist.calls[-1]
    assert row.name.split("_")[0] in name or row.name == "send_recv"
    handed = [*args, *kwargs.values()]
    assert "group" in handed or row.name == "batch_isend_irecv"
    assert kwargs.get("async_op") in (None, False)


@pytest.mark.parametrize("row", [row for row in OPERATIONS if row.async_form])
def test_async_rows_wait_for_their_handles(row: Operation) -> None:
    dist = Recorder()
    bound(row, make_call(dist, asynchronous=True))()
    assert dist.num_waits == (2 if row.name == "send_recv" else 1)
    assert row.name == "send_recv" or dist.calls[-1][2]["async_op"] is True


@pytest.mark.parametrize(
    ("operation", "new", "old"),
    [
        ("all_gather", "all_gather_single", "all_gather_into_tensor"),
        ("reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor"),
    ],
)
def test_renamed_functions(operation: str, new: str, old: str) -> None:
    row = find(operation, Form.TENSOR)
    for dist, expected in ((Recorder(), new), (Recorder(new), old)):
        bound(row, make_call(dist))()
        assert dist.calls[-1][0] == expected


@pytest.mark.parametrize(("rank", "first"), [(0, "send"), (1, "recv"), (2, "send")])
def test_a_ring_of_blocking_calls_cannot_lock(rank: int, first: str) -> None:
    dist = Recorder()
    bound(find("send_recv", Form.RING), make_call(dist, rank=rank))()
    assert [name for name, _, _ in dist.calls] == [first, "recv" if first == "send" else "send"]


def test_root_alone_gives_or_gets_the_list() -> None:
    for name, position in (("gather", 1), ("scatter", 1)):
        for rank, is_root in ((0, True), (1, False)):
            dist = Recorder()
            bound(find(name, Form.LIST), make_call(dist, rank=rank))()
            assert (dist.calls[-1][1][position] is not None) == is_root
            assert 4 in dist.calls[-1][2].values()  # the root as the whole run numbers it


def test_neighbours_go_round() -> None:
    call = make_call(Recorder(), rank=2)
    assert (call.neighbour(1), call.neighbour(-1)) == (4, 5)


def test_find_gives_the_row_of_a_form() -> None:
    for row in OPERATIONS:
        assert find(row.name, row.form) is row
