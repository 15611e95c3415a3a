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


# Of these, what goes along to other hosts: how the libraries are to behave, wherever they run.
FORWARDED_PREFIXES = (
    "NCCL_", "GLOO_", "TORCH_", "TP_SOCKET_", "UCX_", "FI_", "OMP_", "MKL_", "CUDA_",
    "PYTORCH_", "PYTHON",
)  # fmt: skip
NOT_FORWARDED = ("CUDA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_PATH", "PYTHONHOME")


def rank_environment(
    rank: Rank, *, placement: Placement, run_id: str, common: Mapping[str, str]
) -> dict[str, str]:
    """What this rank's process gets on top of `common`, MASTER_PORT excepted."""
    at = _At(rank=rank, placement=placement, run_id=run_id)
    contract = {name: value(at) for name, value in CONTRACT.items()}
    own = rank.host.environment
    defaults = {
        name: value
        for name, default in DEFAULTS.items()
        if name not in common and name not in own and (value := default(rank)) is not None
    }
    return {**defaults, **own, **contract}


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


def is_forwarded(name: str) -> bool:
    """Whether a variable of the controller's is also for ranks on other hosts.

    Those begin with their host's own environment. What the controller's shell says of its own
    machine (which GPUs are visible, which libraries to load) would be wrong there.
    """
    return name.startswith(FORWARDED_PREFIXES) and name not in NOT_FORWARDED


def is_relevant(name: str) -> bool:
    """Whether an inherited variable of this name can change how a run behaves."""
    return name.startswith(RELEVANT_PREFIXES)
