"""Which rank runs where. Ranks follow the order of the hosts; uneven hosts work."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..cluster.hosts import Host


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One process of the run.

    `group_rank` is the index of its host (torchrun's GROUP_RANK), `local_rank` its index there.
    """

    host: Host
    global_rank: int
    local_rank: int
    local_world_size: int
    group_rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """All ranks in global order."""

    ranks: tuple[Rank, ...]

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return len(self.ranks)

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The hosts in order of group rank."""
        return tuple(rank.host for rank in self.ranks if rank.local_rank == 0)

    def on_host(self, group_rank: int) -> tuple[Rank, ...]:
        """The ranks of one host, by local rank."""
        return tuple(rank for rank in self.ranks if rank.group_rank == group_rank)


def place(hosts: Sequence[Host]) -> Placement:
    """One rank per slot, numbered by prefix sums over the hosts in their given order."""
    ranks: list[Rank] = []
    for group_rank, host in enumerate(hosts):
        for local_rank in range(host.slots):
            ranks.append(  # the running length is the global rank
                Rank(
                    host=host,
                    global_rank=len(ranks),
                    local_rank=local_rank,
                    local_world_size=host.slots,
                    group_rank=group_rank,
                )
            )
    return Placement(ranks=tuple(ranks))
