"""The table of collectives: one row per operation and form.

A new collective is one row here and its test. torch is not imported: a row's `bind` gets
torch.distributed in its Call, so that the controller can read the table without torch.

Bandwidths follow nccl-tests' doc/PERFORMANCE.md: algbw = S / t for every row, with S the size
that `counting` describes, and busbw = algbw * bus_factor(n).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from ..cluster.errors import UsageError
from . import layouts
from .cases import Form
from .layouts import Counting, LayoutRule, Overlap

if TYPE_CHECKING:
    from torch import Tensor

Bound: TypeAlias = Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What one call of a collective is given on one rank.

    `input` and `output` are flat tensors, `inputs` and `outputs` their parts in order of peers
    (empty where this rank has none). `peers` are the group's ranks as the whole run numbers
    them, which is what torch wants as source and destination; `root` is one of them.
    """

    dist: ModuleType
    group: Any
    peers: tuple[int, ...]
    rank: int
    root: int
    redop: Any
    asynchronous: bool
    input: "Tensor"
    output: "Tensor"
    inputs: "list[Tensor]" = field(default_factory=list)
    outputs: "list[Tensor]" = field(default_factory=list)
    objects_in: list[Any] = field(default_factory=list)
    objects_out: list[Any] = field(default_factory=list)

    @property
    def is_root(self) -> bool:
        """Whether this rank is the root."""
        return self.peers[self.rank] == self.root

    def neighbour(self, distance: int) -> int:
        """The rank so many places further round the ring."""
        return self.peers[(self.rank + distance) % len(self.peers)]

    def either(self, *names: str) -> Callable[..., Any]:
        """The first of these functions that this torch has: names change between versions."""
        function: Callable[..., Any] = next(
            getattr(self.dist, name) for name in names if hasattr(self.dist, name)
        )
        return function


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


class _Handles(tuple[Any, ...]):
    """Several handles waited for as one."""

    __slots__ = ()

    def wait(self) -> None:
        for handle in self:
            handle.wait()


def _common(c: Call) -> dict[str, Any]:
    return {"group": c.group, "async_op": c.asynchronous}


def _broadcast(c: Call) -> Bound:
    return partial(c.dist.broadcast, c.output, src=c.root, **_common(c))


def _reduce(c: Call) -> Bound:
    return partial(c.dist.reduce, c.output, dst=c.root, op=c.redop, **_common(c))


def _all_reduce(c: Call) -> Bound:
    return partial(c.dist.all_reduce, c.output, op=c.redop, **_common(c))


def _reduce_scatter(c: Call) -> Bound:
    function = c.either("reduce_scatter_single", "reduce_scatter_tensor")
    return partial(function, c.output, c.input, op=c.redop, **_common(c))


def _reduce_scatter_list(c: Call) -> Bound:
    return partial(c.dist.reduce_scatter, c.output, c.inputs, op=c.redop, **_common(c))


def _all_gather(c: Call) -> Bound:
    function = c.either("all_gather_single", "all_gather_into_tensor")
    return partial(function, c.output, c.input, **_common(c))


def _all_gather_list(c: Call) -> Bound:
    return partial(c.dist.all_gather, c.outputs, c.input, **_common(c))


def _gather_list(c: Call) -> Bound:
    outputs = c.outputs if c.is_root else None
    return partial(c.dist.gather, c.input, outputs, dst=c.root, **_common(c))


def _scatter_list(c: Call) -> Bound:
    inputs = c.inputs if c.is_root else None
    return partial(c.dist.scatter, c.output, inputs, src=c.root, **_common(c))


def _all_to_all(c: Call) -> Bound:
    return partial(c.dist.all_to_all_single, c.output, c.input, **_common(c))


def _all_to_all_uneven(c: Call) -> Bound:
    splits = [part.numel() for part in c.outputs], [part.numel() for part in c.inputs]
    return partial(c.dist.all_to_all_single, c.output, c.input, *splits, **_common(c))


def _all_to_all_list(c: Call) -> Bound:
    return partial(c.dist.all_to_all, c.outputs, c.inputs, **_common(c))


def _send_recv(c: Call) -> Bound:
    """Even ranks send first, odd ranks receive first: a blocking send may wait for its receiver.

    So the ring takes two rounds; nccl-tests' sendrecv_perf, which groups both, compares with
    batch_isend_irecv (ring).
    """
    suffix = "i" if c.asynchronous else ""
    send = partial(getattr(c.dist, f"{suffix}send"), c.input, c.neighbour(1), group=c.group)
    recv = partial(getattr(c.dist, f"{suffix}recv"), c.output, c.neighbour(-1), group=c.group)
    first, second = (send, recv) if c.rank % 2 == 0 else (recv, send)

    def blocking() -> None:
        first()
        second()

    def with_handles() -> _Handles:
        return _Handles((first(), second()))

    return with_handles if c.asynchronous else blocking


def _batch_ring(c: Call) -> Bound:
    p2p = c.dist.P2POp
    return _batch(
        c,
        p2p(c.dist.isend, c.input, c.neighbour(1), c.group),
        p2p(c.dist.irecv, c.output, c.neighbour(-1), c.group),
    )


def _batch_both_ways(c: Call) -> Bound:
    """With two ranks both neighbours are one: its sends and receives then pair up in order."""
    p2p = c.dist.P2POp
    return _batch(
        c,
        p2p(c.dist.isend, c.inputs[0], c.neighbour(1), c.group),
        p2p(c.dist.irecv, c.outputs[0], c.neighbour(-1), c.group),
        p2p(c.dist.isend, c.inputs[1], c.neighbour(-1), c.group),
        p2p(c.dist.irecv, c.outputs[1], c.neighbour(1), c.group),
    )


def _batch(c: Call, *transfers: Any) -> Bound:
    batch, listed = c.dist.batch_isend_irecv, list(transfers)

    def run() -> None:
        for work in batch(listed):
            work.wait()

    return run


def _barrier(c: Call) -> Bound:
    return partial(c.dist.barrier, **_common(c))


def _all_gather_object(c: Call) -> Bound:
    return partial(c.dist.all_gather_object, c.objects_out, c.objects_in[0], group=c.group)


def _broadcast_object_list(c: Call) -> Bound:
    return partial(c.dist.broadcast_object_list, c.objects_out, src=c.root, group=c.group)


def _gather_object(c: Call) -> Bound:
    received = c.objects_out if c.is_root else None
    return partial(c.dist.gather_object, c.objects_in[0], received, dst=c.root, group=c.group)


def _scatter_object_list(c: Call) -> Bound:
    sent = c.objects_in if c.is_root else None
    return partial(c.dist.scatter_object_list, c.objects_out, sent, src=c.root, group=c.group)


def _one(n: int) -> float:  # noqa: ARG001  # a bus factor is a function of the group size
    return 1.0


def _none(n: int) -> float:  # noqa: ARG001
    return 0.0


def _all_but_own(n: int) -> float:
    """(n-1)/n: what a rank keeps to itself crosses no link."""
    return (n - 1) / n


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
        name="broadcast", form=Form.TENSOR, bind=_broadcast, layout=layouts.broadcast,
        counting=Counting.WHOLE, size_means=BUFFER, bus_factor=_one,
        rooted=True, in_place=(True,), overlap=Overlap.SAME,
    ),
    Operation(
        name="reduce", form=Form.TENSOR, bind=_reduce, layout=layouts.reduce,
        counting=Counting.WHOLE, size_means=BUFFER, bus_factor=_one,
        rooted=True, reduces=True, in_place=(True,), overlap=Overlap.SAME,
    ),
    Operation(
        name="all_reduce", form=Form.TENSOR, bind=_all_reduce, layout=layouts.all_reduce,
        counting=Counting.WHOLE, size_means=BUFFER, bus_factor=_twice_all_but_own,
        reduces=True, in_place=(True,), overlap=Overlap.SAME,
    ),
    Operation(
        name="reduce_scatter", form=Form.TENSOR, bind=_reduce_scatter,
        layout=layouts.reduce_scatter,
        counting=Counting.PARTS, size_means=SENT, bus_factor=_all_but_own,
        reduces=True, in_place=(False, True), overlap=Overlap.OUTPUT_IN_INPUT,
    ),
    Operation(
        name="reduce_scatter", form=Form.LIST, bind=_reduce_scatter_list,
        layout=layouts.reduce_scatter,
        counting=Counting.PARTS, size_means=SENT, bus_factor=_all_but_own, reduces=True,
    ),
    Operation(
        name="all_gather", form=Form.TENSOR, bind=_all_gather, layout=layouts.all_gather,
        counting=Counting.PARTS, size_means=RECEIVED, bus_factor=_all_but_own,
        in_place=(False, True), overlap=Overlap.INPUT_IN_OUTPUT,
    ),
    Operation(
        name="all_gather", form=Form.LIST, bind=_all_gather_list, layout=layouts.all_gather,
        counting=Counting.PARTS, size_means=RECEIVED, bus_factor=_all_but_own,
    ),
    Operation(
        name="gather", form=Form.LIST, bind=_gather_list, layout=layouts.gather,
        counting=Counting.PARTS, size_means=ROOT_RECEIVED, bus_factor=_all_but_own, rooted=True,
    ),
    Operation(
        name="scatter", form=Form.LIST, bind=_scatter_list, layout=layouts.scatter,
        counting=Counting.PARTS, size_means=ROOT_SENT, bus_factor=_all_but_own, rooted=True,
    ),
    Operation(
        name="all_to_all", form=Form.TENSOR, bind=_all_to_all, layout=layouts.all_to_all,
        counting=Counting.PARTS, size_means=SENT, bus_factor=_all_but_own,
    ),
    Operation(
        name="all_to_all", form=Form.LIST, bind=_all_to_all_list, layout=layouts.all_to_all,
        counting=Counting.PARTS, size_means=SENT, bus_factor=_all_but_own,
    ),
    Operation(
        name="all_to_all", form=Form.UNEVEN, bind=_all_to_all_uneven,
        layout=layouts.uneven_all_to_all,
        counting=Counting.WHOLE, size_means=SENT, bus_factor=_all_but_own, swept=False,
    ),
    Operation(
        name="all_to_all", form=Form.UNEVEN_LIST, bind=_all_to_all_list,
        layout=layouts.uneven_all_to_all,
        counting=Counting.WHOLE, size_means=SENT, bus_factor=_all_but_own, swept=False,
    ),
    Operation(
        name="send_recv", form=Form.RING, bind=_send_recv, layout=layouts.ring,
        counting=Counting.WHOLE, size_means=BUFFER, bus_factor=_one, needs_peer=True,
    ),
    Operation(
        name="batch_isend_irecv", form=Form.RING, bind=_batch_ring, layout=layouts.ring,
        counting=Counting.WHOLE, size_means=BUFFER, bus_factor=_one,
        async_form=False, needs_peer=True,
    ),
    Operation(
        name="batch_isend_irecv", form=Form.BOTH_WAYS, bind=_batch_both_ways,
        layout=layouts.both_ways,
        counting=Counting.HALVES, size_means="all that a rank sends, both ways", bus_factor=_one,
        async_form=False, needs_peer=True,
    ),
    Operation(
        name="barrier", form=Form.PLAIN, bind=_barrier, layout=layouts.nothing,
        counting=Counting.NOTHING, size_means="no data", bus_factor=_none,
    ),
    Operation(
        name="all_gather_object", form=Form.OBJECT, bind=_all_gather_object,
        layout=layouts.all_gather,
        counting=Counting.PARTS, size_means=RECEIVED, bus_factor=_all_but_own,
        async_form=False, swept=False,
    ),
    Operation(
        name="broadcast_object_list", form=Form.OBJECT, bind=_broadcast_object_list,
        layout=layouts.broadcast,
        counting=Counting.WHOLE, size_means="the root's object", bus_factor=_one, rooted=True,
        async_form=False, swept=False,
    ),
    Operation(
        name="gather_object", form=Form.OBJECT, bind=_gather_object, layout=layouts.gather,
        counting=Counting.PARTS, size_means=ROOT_RECEIVED, bus_factor=_all_but_own, rooted=True,
        async_form=False, swept=False,
    ),
    Operation(
        name="scatter_object_list", form=Form.OBJECT, bind=_scatter_object_list,
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


def busbw_factor(name: str) -> Callable[[int], float]:
    """The ratio busbw / algbw of an operation as a function of the group size; its forms share it.

    With one rank nothing crosses a link, so the factor is 0 where it depends on n: the bus
    bandwidth is then not defined. barrier moves no data and has 0 throughout.

    >>> busbw_factor("all_reduce")(4), busbw_factor("all_gather")(4), busbw_factor("reduce")(4)
    (1.5, 0.75, 1.0)
    """
    return forms_of(name)[0].bus_factor
