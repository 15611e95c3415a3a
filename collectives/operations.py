"""The table of collectives: one row per operation and form.

A new collective is one row here (and, if it is called in a new way, a function in `binding`) and
its test.

Bandwidths follow nccl-tests' doc/PERFORMANCE.md: algbw = S / t for every row, with S the size
that `size_means` describes, and busbw = algbw * bus_factor(n).
"""

from collections.abc import Callable
from dataclasses import dataclass

from ..cluster.errors import UsageError
from . import binding, layouts
from .binding import Bound, Call
from .cases import Form
from .layouts import Counting, LayoutRule, Overlap


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One row: an operation in one form.

    `size_means` says what S is. `in_place` lists the ways to run it (False: separate buffers),
    `overlap` how the buffers are shared when in place. `async_form`: it can return a handle.
    `swept`: it is timed at every size; the others are proved and timed at two.
    """

    name: str
    form: Form
    bind: Callable[[Call], Bound]
    layout: LayoutRule
    counting: Counting
    size_means: str
    bus_factor: Callable[[int], float]
    rooted: bool = False
    reduces: bool = False
    in_place: tuple[bool, ...] = (False,)
    overlap: Overlap | None = None
    async_form: bool = True
    swept: bool = True
    needs_peer: bool = False


def bound(operation: Operation, call: Call) -> Bound:
    """The call as a function of no arguments, complete when it returns.

    (On CUDA: complete on the current stream.) Built once, so that a timed loop pays for
    nothing but the call.
    """
    run = operation.bind(call)
    if not (call.asynchronous and operation.async_form):
        return run
    return lambda: run().wait()


def _one(n: int) -> float:  # noqa: ARG001  # a bus factor is a function of the group size
    return 1.0


def _none(n: int) -> float:  # noqa: ARG001
    return 0.0


def _all_but_own(n: int) -> float:
    """(n-1)/n: what a rank keeps to itself crosses no link."""
    return (n - 1) / n


def _all_but_own_uneven(n: int) -> float:
    """1 - 2/(n(n-1)): as `layouts.uneven_parts` cuts, a rank keeps 1 of 1 + 2 + ... + n-1 parts.

    Of two ranks each sends all it has to the other.
    """
    if n <= 2:
        return float(n - 1)
    return 1 - 2 / (n * (n - 1))


def _twice_all_but_own(n: int) -> float:
    """2(n-1)/n: an all_reduce is a reduce_scatter and an all_gather."""
    return 2 * (n - 1) / n


BUFFER = "the buffer"
RECEIVED = "all that a rank receives"
SENT = "all that a rank sends, its own part included"
ROOT_SENT = "all that the root sends, its own part included"
ROOT_RECEIVED = "all that the root receives"

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="broadcast", form=Form.TENSOR, bind=binding.broadcast, layout=layouts.broadcast,
        counting=Counting.WHOLE, size_means=BUFFER, bus_factor=_one,
        rooted=True, in_place=(True,), overlap=Overlap.SAME,
    ),
    Operation(
        name="reduce", form=Form.TENSOR, bind=binding.reduce, layout=layouts.reduce,
        counting=Counting.WHOLE, size_means=BUFFER, bus_factor=_one,
        rooted=True, reduces=True, in_place=(True,), overlap=Overlap.SAME,
    ),
    Operation(
        name="all_reduce", form=Form.TENSOR, bind=binding.all_reduce, layout=layouts.all_reduce,
        counting=Counting.WHOLE, size_means=BUFFER, bus_factor=_twice_all_but_own,
        reduces=True, in_place=(True,), overlap=Overlap.SAME,
    ),
    Operation(
        name="reduce_scatter", form=Form.TENSOR, bind=binding.reduce_scatter,
        layout=layouts.reduce_scatter,
        counting=Counting.PARTS, size_means=SENT, bus_factor=_all_but_own,
        reduces=True, in_place=(False, True), overlap=Overlap.OUTPUT_IN_INPUT,
    ),
    Operation(
        name="reduce_scatter", form=Form.LIST, bind=binding.reduce_scatter_list,
        layout=layouts.reduce_scatter,
        counting=Counting.PARTS, size_means=SENT, bus_factor=_all_but_own, reduces=True,
        in_place=(False, True), overlap=Overlap.OUTPUT_IN_INPUT,
    ),
    Operation(
        name="all_gather", form=Form.TENSOR, bind=binding.all_gather, layout=layouts.all_gather,
        counting=Counting.PARTS, size_means=RECEIVED, bus_factor=_all_but_own,
        in_place=(False, True), overlap=Overlap.INPUT_IN_OUTPUT,
    ),
    Operation(
        name="all_gather", form=Form.LIST, bind=binding.all_gather_list, layout=layouts.all_gather,
        counting=Counting.PARTS, size_means=RECEIVED, bus_factor=_all_but_own,
        in_place=(False, True), overlap=Overlap.INPUT_IN_OUTPUT,
    ),
    Operation(
        name="gather", form=Form.LIST, bind=binding.gather_list, layout=layouts.gather,
        counting=Counting.PARTS, size_means=ROOT_RECEIVED, bus_factor=_all_but_own, rooted=True,
        in_place=(False, True), overlap=Overlap.INPUT_IN_OUTPUT,
    ),
    Operation(
        name="scatter", form=Form.LIST, bind=binding.scatter_list, layout=layouts.scatter,
        counting=Counting.PARTS, size_means=ROOT_SENT, bus_factor=_all_but_own, rooted=True,
        in_place=(False, True), overlap=Overlap.OUTPUT_IN_INPUT,
    ),
    Operation(
        name="all_to_all", form=Form.TENSOR, bind=binding.all_to_all, layout=layouts.all_to_all,
        counting=Counting.PARTS, size_means=SENT, bus_factor=_all_but_own,
    ),
    Operation(
        name="all_to_all", form=Form.LIST, bind=binding.all_to_all_list, layout=layouts.all_to_all,
        counting=Counting.PARTS, size_means=SENT, bus_factor=_all_but_own,
    ),
    Operation(
        name="all_to_all", form=Form.UNEVEN, bind=binding.all_to_all_uneven,
        layout=layouts.uneven_all_to_all,
        counting=Counting.WHOLE, size_means=SENT, bus_factor=_all_but_own_uneven,
        swept=False,
    ),
    Operation(
        name="all_to_all", form=Form.UNEVEN_LIST, bind=binding.all_to_all_list,
        layout=layouts.uneven_all_to_all,
        counting=Counting.WHOLE, size_means=SENT, bus_factor=_all_but_own_uneven,
        swept=False,
    ),
    Operation(
        name="send_recv", form=Form.RING, bind=binding.send_recv, layout=layouts.ring,
        counting=Counting.WHOLE, size_means=BUFFER, bus_factor=_one, needs_peer=True,
    ),
    Operation(
        name="batch_isend_irecv", form=Form.RING, bind=binding.batch_ring, layout=layouts.ring,
        counting=Counting.WHOLE, size_means=BUFFER, bus_factor=_one,
        async_form=False, needs_peer=True,
    ),
    Operation(
        name="batch_isend_irecv", form=Form.BOTH_WAYS, bind=binding.batch_both_ways,
        layout=layouts.both_ways,
        counting=Counting.HALVES, size_means="all that a rank sends, both ways", bus_factor=_one,
        async_form=False, needs_peer=True,
    ),
    Operation(
        name="barrier", form=Form.PLAIN, bind=binding.barrier, layout=layouts.nothing,
        counting=Counting.NOTHING, size_means="no data", bus_factor=_none,
    ),
    Operation(
        name="all_gather_object", form=Form.OBJECT, bind=binding.all_gather_object,
        layout=layouts.all_gather,
        counting=Counting.PARTS, size_means=RECEIVED, bus_factor=_all_but_own,
        async_form=False, swept=False,
    ),
    Operation(
        name="broadcast_object_list", form=Form.OBJECT, bind=binding.broadcast_object_list,
        layout=layouts.broadcast,
        counting=Counting.WHOLE, size_means="the root's object", bus_factor=_one, rooted=True,
        async_form=False, swept=False,
    ),
    Operation(
        name="gather_object", form=Form.OBJECT, bind=binding.gather_object, layout=layouts.gather,
        counting=Counting.PARTS, size_means=ROOT_RECEIVED, bus_factor=_all_but_own, rooted=True,
        async_form=False, swept=False,
    ),
    Operation(
        name="scatter_object_list", form=Form.OBJECT, bind=binding.scatter_object_list,
        layout=layouts.scatter,
        counting=Counting.PARTS, size_means=ROOT_SENT, bus_factor=_all_but_own, rooted=True,
        async_form=False, swept=False,
    ),
)  # fmt: skip


def operation_names() -> tuple[str, ...]:
    """The names that `--ops` takes, in the order of the table."""
    return tuple(dict.fromkeys(operation.name for operation in OPERATIONS))


def forms_of(name: str) -> tuple[Operation, ...]:
    """The rows of an operation, its main form first.

    Raises:
        UsageError: for a name that is not in the table; lists those that are.
    """
    rows = tuple(operation for operation in OPERATIONS if operation.name == name)
    if not rows:
        raise UsageError(f"operation {name!r}: unknown; valid: {', '.join(operation_names())}")
    return rows


def find(name: str, form: Form) -> Operation:
    """The row of an operation and form."""
    return next(row for row in forms_of(name) if row.form is form)
