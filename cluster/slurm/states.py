"""Job states and what they mean for who waits. Source: squeue(1), "JOB STATE CODES"."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..compat import StrEnum


class Phase(StrEnum):
    """Where a job is in its life."""

    WAITING = "waiting"
    RUNNING = "running"
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMeaning:
    """`cause` is None for an end that is no trouble."""

    phase: Phase
    sentence: str
    cause: str | None = None
    remedy: str = ""


_WAITS = StateMeaning(phase=Phase.WAITING, sentence="waits for resources")
_RUNS = StateMeaning(phase=Phase.RUNNING, sentence="runs")

STATES: Mapping[str, StateMeaning] = {
    "PENDING": _WAITS,
    "CONFIGURING": StateMeaning(phase=Phase.WAITING, sentence="its nodes are being made ready"),
    "REQUEUED": StateMeaning(phase=Phase.WAITING, sentence="was put back into the queue"),
    "REQUEUE_FED": StateMeaning(phase=Phase.WAITING, sentence="is requeued by a federation"),
    "REQUEUE_HOLD": StateMeaning(
        phase=Phase.WAITING,
        sentence="was put back into the queue and is held there",
        cause="slurm-held",
        remedy="scontrol release {job} lets it go",
    ),
    "RESV_DEL_HOLD": StateMeaning(
        phase=Phase.WAITING,
        sentence="is held: its reservation was deleted",
        cause="slurm-held",
        remedy="name another reservation, or none",
    ),
    "SPECIAL_EXIT": StateMeaning(
        phase=Phase.WAITING,
        sentence="was requeued in a special state and is held",
        cause="slurm-held",
        remedy="scontrol release {job} lets it go",
    ),
    "RUNNING": _RUNS,
    "COMPLETING": StateMeaning(phase=Phase.RUNNING, sentence="is ending"),
    "SIGNALING": _RUNS,
    "STAGE_OUT": StateMeaning(phase=Phase.RUNNING, sentence="is staging files out"),
    "RESIZING": _RUNS,
    "SUSPENDED": StateMeaning(
        phase=Phase.RUNNING,
        sentence="is suspended",
        cause="slurm-suspended",
        remedy="scontrol resume {job}, or ask who suspended it",
    ),
    "STOPPED": StateMeaning(
        phase=Phase.RUNNING,
        sentence="is stopped",
        cause="slurm-suspended",
        remedy="scontrol resume {job}, or ask who stopped it",
    ),
    "COMPLETED": StateMeaning(phase=Phase.OVER, sentence="completed"),
    "FAILED": StateMeaning(
        phase=Phase.OVER,
        sentence="failed: a task ended with a code that is not zero",
        cause="slurm-failed",
        remedy="see what its tasks said in agents/N.log",
    ),
    "TIMEOUT": StateMeaning(
        phase=Phase.OVER,
        sentence="reached its time limit",
        cause="slurm-timeout",
        remedy="ask for more with --time, at most what the partition and the QOS allow",
    ),
    "PREEMPTED": StateMeaning(
        phase=Phase.OVER,
        sentence="was preempted by a job of higher priority",
        cause="slurm-preempted",
        remedy="submit again, with --requeue to go on by itself, or with another QOS",
    ),
    "CANCELLED": StateMeaning(
        phase=Phase.OVER,
        sentence="was cancelled",
        cause="slurm-cancelled",
        remedy="by whom, sacct -j {job} -o state%30 tells where there is accounting",
    ),
    "NODE_FAIL": StateMeaning(
        phase=Phase.OVER,
        sentence="lost a node",
        cause="slurm-node-failed",
        remedy="scontrol show node {nodes} has the reason; leave it out with --exclude",
    ),
    "OUT_OF_MEMORY": StateMeaning(
        phase=Phase.OVER,
        sentence="used more memory than it was given",
        cause="slurm-out-of-memory",
        remedy="ask for more with --mem",
    ),
    "BOOT_FAIL": StateMeaning(
        phase=Phase.OVER,
        sentence="ended: a node did not boot",
        cause="slurm-node-failed",
        remedy="submit again; leave the node out with --exclude",
    ),
    "DEADLINE": StateMeaning(
        phase=Phase.OVER,
        sentence="ended at its deadline",
        cause="slurm-timeout",
        remedy="submit earlier, or with a later --deadline of sbatch",
    ),
    "REVOKED": StateMeaning(
        phase=Phase.OVER,
        sentence="was taken over by another cluster of the federation",
        cause="slurm-cancelled",
        remedy="look for it there",
    ),
}

UNKNOWN = StateMeaning(phase=Phase.RUNNING, sentence="is in a state that is not known")


def meaning_of(state: str) -> StateMeaning:
    """The meaning of a state as Slurm's programs print it, `CANCELLED by 0` and `RUNNING+` too.

    >>> meaning_of("CANCELLED by 1000").sentence, meaning_of("OUT_OF_ME+").cause
    ('was cancelled', 'slurm-out-of-memory')
    """
    name = state.split(" ", maxsplit=1)[0].rstrip("+")
    found = STATES.get(name)
    if found is None and state.endswith("+"):
        cut = [known for known in STATES if known.startswith(name)]
        found = STATES[cut[0]] if len(cut) == 1 else None
    return found or UNKNOWN
