"""The environment contract of a rank: torchrun's, so that any script for torchrun runs unchanged.

Source: PyTorch, "torchrun (Elastic Launch)", section "Environment variables", and
torch/distributed/elastic/agent/server/local_elastic_agent.py for the rest. MASTER_PORT is not
here: the agent on the master's host reserves it when the run starts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .placement import Placement, Rank

MASTER_ADDR = "MASTER_ADDR"
MASTER_PORT = "MASTER_PORT"

# Set by the agent at the start; shown in a plan in place of the number.
PORT_AT_START = "<reserved on the master's host at start>"


@dataclass(frozen=True, slots=True, kw_only=True)
class _At:
    """What the value of a variable can depend on."""

    rank: Rank
    placement: Placement
    run_id: str


CONTRACT: dict[str, Callable[[_At], str]] = {
    "RANK": lambda at: str(at.rank.global_rank),
    "LOCAL_RANK": lambda at: str(at.rank.local_rank),
    "GROUP_RANK": lambda at: str(at.rank.group_rank),
    "ROLE_RANK": lambda at: str(at.rank.global_rank),
    "ROLE_NAME": lambda _: "default",
    "WORLD_SIZE": lambda at: str(at.placement.world_size),
    "LOCAL_WORLD_SIZE": lambda at: str(at.rank.local_world_size),
    "GROUP_WORLD_SIZE": lambda at: str(len(at.placement.hosts)),
    "ROLE_WORLD_SIZE": lambda at: str(at.placement.world_size),
    MASTER_ADDR: lambda at: at.placement.hosts[0].address,
    "TORCHELASTIC_RUN_ID": lambda at: at.run_id,
    "TORCHELASTIC_RESTART_COUNT": lambda _: "0",
    "TORCHELASTIC_MAX_RESTARTS": lambda _: "0",
    # Rank 0 opens the store on the port that the agent reserved for it.
    "TORCHELASTIC_USE_AGENT_STORE": lambda _: "False",
}

# Set only where the user has not.
DEFAULTS: dict[str, Callable[[Rank], str | None]] = {
    # torchrun's own rule: many ranks on a host must not each start a thread per core.
    "OMP_NUM_THREADS": lambda rank: "1" if rank.local_world_size > 1 else None,
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": lambda _: "1",
    # A rank that is killed would lose what it printed and had not yet flushed.
    "PYTHONUNBUFFERED": lambda _: "1",
    # Python then prints the stacks of all threads when a rank is aborted or crashes.
    "PYTHONFAULTHANDLER": lambda _: "1",
    # NCCL takes a name as a prefix unless "=" stands before it (NCCL user guide, the variable).
    "NCCL_SOCKET_IFNAME": lambda rank: rank.host.interface and f"={rank.host.interface}",
    "GLOO_SOCKET_IFNAME": lambda rank: rank.host.interface,
}

# What of an inherited environment shapes a run, for `rankrun env` and --dry-run.
RELEVANT_PREFIXES = (
    "NCCL_", "GLOO_", "TORCH_", "TORCHELASTIC_", "TP_SOCKET_", "UCX_", "FI_", "OMP_", "MKL_",
    "CUDA_", "NVIDIA_", "PYTORCH_", "PYTHON", "SLURM_", "LD_",
)  # fmt: skip


def rank_environment(
    rank: Rank, *, placement: Placement, run_id: str, common: Mapping[str, str]
) -> dict[str, str]:
    """What this rank's process gets on top of `common`, MASTER_PORT excepted."""
    at = _At(rank=rank, placement=placement, run_id=run_id)
    environment = {name: value(at) for name, value in CONTRACT.items()}
    for name, default in DEFAULTS.items():
        value = default(rank)
        if name not in common and value is not None:
            environment[name] = value
    return environment


def common_variables(environments: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The variables that have one value in all of them.

    >>> common_variables([{"A": "1", "RANK": "0"}, {"A": "1", "RANK": "1"}])
    {'A': '1'}
    """
    first, *others = environments
    return {
        name: value
        for name, value in first.items()
        if all(other.get(name) == value for other in others)
    }


def is_relevant(name: str) -> bool:
    """Whether an inherited variable of this name can change how a run behaves."""
    return name.startswith(RELEVANT_PREFIXES)
