"""Which backend and device a run uses, and the process groups it works with.

Before torch.distributed starts, the ranks tell each other through its store what they have:
all of them must choose alike.
"""

import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from ...cluster.errors import RankrunError
from ..cases import GroupKind
from ..spec import Backend, Device, SuiteSpec
from ..steps import Topology, members

# How much longer than the controller's alarm a rank waits for the others to join: the alarm, which
# knows who is missing, comes first.
START_UP_MARGIN_S = 30.0


class BackendError(RankrunError):
    """The backend or device that was asked for cannot be used here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFacts:
    """What a rank has. `gpu` names its GPU across the cluster; None where it has none."""

    host: str
    local_rank: int
    num_gpus: int
    gpu: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The backend, and the kind of device."""

    backend: Backend
    device: Device


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group this rank knows of: `handle` is torch's; `slot` None when it is not a member."""

    handle: Any
    members: tuple[int, ...]
    index: int
    slot: int | None


def gpu_index(local_rank: int, num_gpus: int) -> int:
    """Which of the visible GPUs a local rank takes.

    A launcher that shows each rank its own GPU only leaves one to choose from; more ranks than
    GPUs share them in turn (gloo can, NCCL refuses).
    """
    return local_rank % num_gpus


class Gpus(Protocol):
    """The GPUs that a rank sees, as `torch.cuda` tells of them."""

    def is_available(self) -> bool:
        """Whether CUDA works here."""

    def device_count(self) -> int:
        """How many there are."""

    def set_device(self, device: int) -> None:
        """Use this one from now on."""

    def get_device_properties(self, device: int) -> Any:
        """What it is; newer versions of torch give its `uuid`."""


def may_use_gpus(spec: SuiteSpec) -> bool:
    """Whether `choose` may come to a GPU, whatever the ranks have."""
    if spec.device is Device.AUTO:
        return spec.backend is not Backend.GLOO
    return spec.device is Device.CUDA


def own_facts(
    spec: SuiteSpec, gpus: Gpus, environment: Mapping[str, str] = os.environ
) -> RankFacts:
    """What this rank has; no GPU is touched where the run is to do without.

    Its GPU is made the current one before anything else is asked of CUDA: what sets CUDA up does
    so on the current GPU, which for all ranks of a host would be the first.
    """
    host, local_rank = socket.gethostname(), int(environment.get("LOCAL_RANK", "0"))
    num_gpus = gpus.device_count() if may_use_gpus(spec) and gpus.is_available() else 0
    gpu = None
    if num_gpus:
        index = gpu_index(local_rank, num_gpus)
        gpus.set_device(index)
        # Two ranks that are each shown one GPU both call it 0: its UUID tells them apart.
        gpu = f"{host}/{getattr(gpus.get_device_properties(index), 'uuid', index)}"
    return RankFacts(host=host, local_rank=local_rank, num_gpus=num_gpus, gpu=gpu)


def choose(spec: SuiteSpec, everyone: Sequence[RankFacts], *, has_nccl: bool) -> Choice:
    """The backend and device of a run. Pure, so all ranks come to the same.

    Raises:
        BackendError: for nccl or cuda where a rank has no GPU of its own, saying which.
    """
    own_gpus = has_nccl and all_have_own_gpu(everyone)
    backend = spec.backend
    if backend is Backend.AUTO:
        backend = Backend.NCCL if own_gpus and spec.device is not Device.CPU else Backend.GLOO
    device = spec.device
    if device is Device.AUTO:
        device = Device.CUDA if backend is Backend.NCCL else Device.CPU
    without = [rank for rank, facts in enumerate(everyone) if not facts.num_gpus]
    if device is Device.CUDA and without:
        raise BackendError(f"device cuda: {_named(without)} no GPU; use --device cpu")
    if backend is Backend.NCCL:
        _check_nccl(device, everyone, has_nccl=has_nccl)
    return Choice(backend=backend, device=device)


def all_have_own_gpu(everyone: Sequence[RankFacts]) -> bool:
    """Whether every rank has a GPU that no other rank has."""
    gpus = [facts.gpu for facts in everyone]
    return None not in gpus and len(set(gpus)) == len(gpus)


def _check_nccl(device: Device, everyone: Sequence[RankFacts], *, has_nccl: bool) -> None:
    if not has_nccl:
        raise BackendError("backend nccl: this torch was built without it; use --backend gloo")
    if device is not Device.CUDA:
        raise BackendError("backend nccl: works on device cuda only; use --backend gloo")
    if not all_have_own_gpu(everyone):
        seen: dict[str | None, int] = {}
        for rank, facts in enumerate(everyone):
            if facts.gpu in seen:
                raise BackendError(
                    f"backend nccl: ranks {seen[facts.gpu]} and {rank} share GPU {facts.gpu}; "
                    "start one rank per GPU, or use --backend gloo"
                )
            seen[facts.gpu] = rank


def _named(ranks: Sequence[int]) -> str:
    listed = ", ".join(map(str, ranks))
    return f"rank {listed} has" if len(ranks) == 1 else f"ranks {listed} have"


class Session:
    """The process groups of a run on this rank.

    The default group carries the collectives under test. Agreement goes over a gloo group of its
    own (`barrier`, `largest`), so that it works whatever state the tested group is in: in gloo
    a call that failed makes a later barrier on the same group fail too.
    """

    def __init__(self, spec: SuiteSpec) -> None:
        """Join the run.

        Raises:
            BackendError: see `choose`.
        """
        start_up, self._timeout = timeouts(spec)
        self._store, self.rank, self.world_size = next(rendezvous("env://", timeout=start_up))
        self._store.set_timeout(start_up)
        facts = own_facts(spec, torch.cuda)
        everyone = _exchange_facts(self._store, facts, rank=self.rank, world_size=self.world_size)
        self.choice = choose(spec, everyone, has_nccl=dist.is_nccl_available())
        self.topology = Topology(
            world_size=self.world_size,
            node_leaders=tuple(r for r, facts in enumerate(everyone) if facts.local_rank == 0),
        )
        self.device = _device(self.choice, facts)
        dist.init_process_group(
            str(self.choice.backend),
            store=PrefixStore("rankrun/default", self._store),
            rank=self.rank,
            world_size=self.world_size,
            timeout=start_up,
            # NCCL then connects at once, to the right GPU, and its barrier knows its device.
            device_id=self.device if self.choice.backend is Backend.NCCL else None,
        )
        self.store = PrefixStore("rankrun/suite", self._store)
        self._control: Any = dist.new_group(backend="gloo", timeout=start_up)
        self._store.set_timeout(self._timeout)
        for group in (dist.group.WORLD, self._control):
            _set_timeout(group, self._timeout)
        self._groups: dict[GroupKind, list[Group]] = {
            GroupKind.WORLD: [self._described(GroupKind.WORLD, 0, dist.group.WORLD)]
        }

    def group(self, kind: GroupKind) -> Group:
        """The group of this kind that this rank is in, else the first of them.

        Made when first asked for; all ranks must ask alike.
        """
        if kind not in self._groups:
            self.renew(kind)
        groups = self._groups[kind]
        return next((group for group in groups if group.slot is not None), groups[0])

    def renew(self, kind: GroupKind) -> None:
        """Make the groups of this kind anew; all ranks must do so together."""
        self._groups[kind] = [
            self._described(kind, index, dist.new_group(list(ranks), timeout=self._timeout))
            for index, ranks in enumerate(members(kind, self.topology))
        ]

    def _described(self, kind: GroupKind, index: int, handle: Any) -> Group:
        ranks = members(kind, self.topology)[index]
        slot = ranks.index(self.rank) if self.rank in ranks else None
        return Group(handle=handle, members=ranks, index=index, slot=slot)

    def barrier(self) -> None:
        """Wait until every rank is here."""
        dist.barrier(self._control)

    def largest(self, value: int) -> int:
        """The largest of all ranks' values, on every rank."""
        return self.largest_of_each([value])[0]

    def largest_of_each(self, values: Sequence[int]) -> list[int]:
        """The largest of all ranks' values in each place, on every rank."""
        tensor = torch.tensor(list(values))
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=self._control)
        return [int(value) for value in tensor.tolist()]

    def leave(self) -> None:
        """Leave together, the first rank last: it holds the store, which leaving groups use.

        So the others say that they left when they have, over the bare store.
        """
        self.barrier()
        dist.destroy_process_group()
        if self.rank != 0:
            self._store.set(f"rankrun/left/{self.rank}", "")
        elif self.world_size > 1:
            self._store.wait([f"rankrun/left/{rank}" for rank in range(1, self.world_size)])


def timeouts(spec: SuiteSpec) -> tuple[timedelta, timedelta]:
    """How long to wait for the others to join, and then for any call.

    Each is longer than the controller's patience, whose alarms say more than a timeout.
    """
    start_up_s = spec.start_up_s + START_UP_MARGIN_S
    return timedelta(seconds=start_up_s), timedelta(seconds=2 * spec.deadline_s + 30)


def _set_timeout(group: Any, timeout: timedelta) -> None:
    """From now on; torch has no public name for it. Without it the longer wait stays."""
    change = getattr(distributed_c10d, "_set_pg_timeout", None)
    if change:
        change(timeout, group)


def _exchange_facts(
    store: Store, facts: RankFacts, *, rank: int, world_size: int
) -> list[RankFacts]:
    shared = PrefixStore("rankrun/facts", store)
    shared.set(str(rank), json.dumps(asdict(facts)))
    return [RankFacts(**json.loads(shared.get(str(other)))) for other in range(world_size)]


def _device(choice: Choice, facts: RankFacts) -> torch.device:
    if choice.device is not Device.CUDA:
        return torch.device("cpu")
    return torch.device("cuda", gpu_index(facts.local_rank, facts.num_gpus))
