"""Slurm's words, captured, and what they mean."""

import pytest

from rankrun.cluster.slurm.queries import parse_squeue
from rankrun.cluster.slurm.reasons import explain_reason, remedy_of_refusal
from rankrun.cluster.slurm.states import STATES, Phase, meaning_of

# sbatch of Slurm 22.05 and 23.11, as they print it.
REFUSALS = {
    "sbatch: error: invalid partition specified: gpu\n"
    "sbatch: error: Batch job submission failed: Invalid partition name specified": "--partition",
    "sbatch: error: Batch job submission failed: Requested node configuration is not available":
        "sinfo",
    "sbatch: error: Batch job submission failed: Invalid account or account/partition combination "
    "specified": "--account",
    "sbatch: error: Batch job submission failed: Node count specification invalid": "-N",
    "sbatch: error: Batch job submission failed: Requested time limit is invalid (missing or "
    "exceeds some limit)": "--time",
    "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect "
    "failure)": "slurmctld",
    "sbatch: error: something that nobody has seen": "slurm:",
}  # fmt: skip


def test_squeue() -> None:
    listing = (
        "41|RUNNING|None|2026-12-01T10:00:00|node[0-3]\n"
        "42|PENDING|Resources|N/A|\n"
        "43|PENDING|(Nodes required for job are DOWN, DRAINED or reserved)|Unknown|\n"
    )
    running, pending, down = parse_squeue(listing)
    assert (running.nodes, running.reason, running.meaning.phase) == ("node[0-3]", "", "running")
    assert (pending.start, pending.reason) == (None, "Resources")
    assert pending.meaning.phase is Phase.WAITING
    assert down.state == "PENDING"


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        ("CANCELLED by 1000", "slurm-cancelled"),
        ("TIMEOUT", "slurm-timeout"),
        ("NODE_FAIL", "slurm-node-failed"),
        ("OUT_OF_ME+", "slurm-out-of-memory"),
        ("PREEMPTED", "slurm-preempted"),
        ("COMPLETED", None),
    ],
)
def test_ends_are_told_apart(state: str, cause: str | None) -> None:
    assert (meaning_of(state).cause, meaning_of(state).phase) == (cause, Phase.OVER)


def test_an_unknown_state_does_not_end_a_run() -> None:
    assert meaning_of("POWERED_BY_TOMORROW").phase is Phase.RUNNING


def test_every_bad_end_has_a_remedy() -> None:
    for state, meaning in STATES.items():
        assert (meaning.cause is None) == (meaning.remedy == ""), state


@pytest.mark.parametrize("words", REFUSALS)
def test_a_refusal_says_what_to_change(words: str) -> None:
    assert REFUSALS[words] in remedy_of_refusal(words)


def test_an_unknown_reason_is_shown_as_it_is() -> None:
    assert explain_reason("SomethingNew") == "SomethingNew"
    assert "higher priority" in explain_reason("Priority")
