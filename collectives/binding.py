"""How each collective is called: torch.distributed's function, bound to its arguments.

torch is not imported: a Call brings torch.distributed along, so that the controller can read the
table of operations without it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

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


class _Handles(tuple[Any, ...]):
    """Several handles waited for as one."""

    __slots__ = ()

    def wait(self) -> None:
        for handle in self:
            handle.wait()


def _common(c: Call) -> dict[str, Any]:
    return {"group": c.group, "async_op": c.asynchronous}


def broadcast(c: Call) -> Bound:
    return partial(c.dist.broadcast, c.output, src=c.root, **_common(c))


def reduce(c: Call) -> Bound:
    return partial(c.dist.reduce, c.output, dst=c.root, op=c.redop, **_common(c))


def all_reduce(c: Call) -> Bound:
    return partial(c.dist.all_reduce, c.output, op=c.redop, **_common(c))


def reduce_scatter(c: Call) -> Bound:
    function = c.either("reduce_scatter_single", "reduce_scatter_tensor")
    return partial(function, c.output, c.input, op=c.redop, **_common(c))


def reduce_scatter_list(c: Call) -> Bound:
    return partial(c.dist.reduce_scatter, c.output, c.inputs, op=c.redop, **_common(c))


def all_gather(c: Call) -> Bound:
    function = c.either("all_gather_single", "all_gather_into_tensor")
    return partial(function, c.output, c.input, **_common(c))


def all_gather_list(c: Call) -> Bound:
    return partial(c.dist.all_gather, c.outputs, c.input, **_common(c))


def gather_list(c: Call) -> Bound:
    outputs = c.outputs if c.is_root else None
    return partial(c.dist.gather, c.input, outputs, dst=c.root, **_common(c))


def scatter_list(c: Call) -> Bound:
    inputs = c.inputs if c.is_root else None
    return partial(c.dist.scatter, c.output, inputs, src=c.root, **_common(c))


def all_to_all(c: Call) -> Bound:
    return partial(c.dist.all_to_all_single, c.output, c.input, **_common(c))


def all_to_all_uneven(c: Call) -> Bound:
    splits = [part.numel() for part in c.outputs], [part.numel() for part in c.inputs]
    return partial(c.dist.all_to_all_single, c.output, c.input, *splits, **_common(c))


def all_to_all_list(c: Call) -> Bound:
    return partial(c.dist.all_to_all, c.outputs, c.inputs, **_common(c))


def send_recv(c: Call) -> Bound:
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


def batch_ring(c: Call) -> Bound:
    p2p = c.dist.P2POp
    return _batch(
        c,
        p2p(c.dist.isend, c.input, c.neighbour(1), c.group),
        p2p(c.dist.irecv, c.output, c.neighbour(-1), c.group),
    )


def batch_both_ways(c: Call) -> Bound:
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


def barrier(c: Call) -> Bound:
    return partial(c.dist.barrier, **_common(c))


def all_gather_object(c: Call) -> Bound:
    return partial(c.dist.all_gather_object, c.objects_out, c.objects_in[0], group=c.group)


def broadcast_object_list(c: Call) -> Bound:
    return partial(c.dist.broadcast_object_list, c.objects_out, src=c.root, group=c.group)


def gather_object(c: Call) -> Bound:
    received = c.objects_out if c.is_root else None
    return partial(c.dist.gather_object, c.objects_in[0], received, dst=c.root, group=c.group)


def scatter_object_list(c: Call) -> Bound:
    sent = c.objects_in if c.is_root else None
    return partial(c.dist.scatter_object_list, c.objects_out, sent, src=c.root, group=c.group)
