"""Why a job waits, why sbatch refuses one, and what to do.

Source: squeue(1), JOB REASON CODES; slurm/slurm_errno.h and src/common/slurm_errno.c for refusals.
"""

import re
from collections.abc import Mapping

# Reason: what it means and what to do; "" where nothing but patience helps.
REASONS: Mapping[str, str] = {
    "Priority": "jobs of higher priority are before it",
    "Resources": "it is next, as soon as enough nodes are free",
    "Dependency": "a job that it depends on has not ended",
    "BeginTime": "its begin time has not come",
    "Reservation": "its reservation has not begun",
    "ReqNodeNotAvail": "a node that it asked for is down, drained or reserved: sinfo -R says why",
    "PartitionDown": "the partition is down: ask the administrators, or choose another",
    "PartitionInactive": "the partition takes no jobs now: choose another",
    "PartitionNodeLimit": "it asks for more nodes than the partition has",
    "PartitionTimeLimit": "it asks for more time than the partition allows: lower --time",
    "PartitionConfig": "what it asks for does not fit the partition: see scontrol show partition",
    "AssocGrpCpuLimit": "the account uses all processors that it may: wait, or another --account",
    "AssocGrpNodeLimit": "the account uses all nodes that it may: wait, or another --account",
    "AssocMaxJobsLimit": "the account runs as many jobs as it may",
    "QOSMaxCpuPerUserLimit": "you use all processors that the QOS allows: wait, or another --qos",
    "QOSMaxNodePerUserLimit": "you use all nodes that the QOS allows: wait, or another --qos",
    "QOSMaxJobsPerUserLimit": "you run as many jobs as the QOS allows: wait, or another --qos",
    "QOSMaxWallDurationPerJobLimit": "it asks for more time than the QOS allows: lower --time",
    "QOSGrpNodeLimit": "the QOS uses all nodes that it may",
    "JobHeldUser": "you hold it: scontrol release lets it go",
    "JobHeldAdmin": "an administrator holds it: ask why",
    "BadConstraints": "no node has what it asks for: see --constraint and sinfo -o '%N %f %G'",
    "InvalidAccount": "the account is not valid: sacctmgr show assoc user=$USER lists yours",
    "InvalidQOS": "the QOS is not valid for this account",
    "Licenses": "it waits for a licence",
    "NodeDown": "a node that it needs is down",
    "launch failed requeued held": "its start failed on a node: see slurmd's log there",
}

_REFUSALS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), remedy)
    for pattern, remedy in (
        (r"invalid partition", "choose one that `sinfo -s` lists, with --partition"),
        (r"no partition specified|no default partition", "name one with --partition"),
        (r"invalid account|account/partition combination",
         "name yours with --account: sacctmgr show assoc user=$USER lists them"),
        (r"invalid qos", "name a QOS that the account may use, with --qos"),
        (r"requested node configuration is not available",
         "no node has so many GPUs, processors or so much memory: see sinfo -o '%N %c %m %G'"),
        (r"more processors requested than permitted|cpu count per node can not be satisfied",
         "ask for fewer with --cpus-per-task"),
        (r"memory specification can not be satisfied", "ask for less with --mem"),
        (r"time limit", "lower --time below the limit of the partition"),
        (r"node count specification invalid|too many nodes|nodelist",
         "ask for fewer nodes with -N, or others"),
        (r"invalid generic resource|invalid gres", "see `sinfo -o '%N %G'` for what there is"),
        (r"invalid feature|invalid constraint", "see `sinfo -o '%N %f'` for what there is"),
        (r"reservation", "see `scontrol show reservation` for those that you may use"),
        (r"job violates accounting/qos policy|submit limit",
         "the limits of your account or QOS are reached: wait for jobs to end"),
        (r"unable to contact slurm controller|connection refused",
         "slurmctld does not answer: `scontrol ping` says whether it is up"),
        (r"invalid wckey", "the site has its own wckeys: name one with --wckey"),
        (r"munge|credential",
         "munge does not work between here and slurmctld; there, `unmunge` says why"),
    )
)  # fmt: skip


def explain_reason(reason: str) -> str:
    """What a waiting job waits for, in words.

    >>> explain_reason("Resources")
    'Resources: it is next, as soon as enough nodes are free'
    """
    name = reason.partition(",")[0].strip("()")
    meaning = REASONS.get(name)
    return f"{reason}: {meaning}" if meaning else reason


def remedy_of_refusal(words: str) -> str:
    """What to change, from what sbatch said on its standard error.

    >>> remedy_of_refusal("sbatch: error: invalid partition specified: gpu")
    'choose one that `sinfo -s` lists, with --partition'
    """
    for pattern, remedy in _REFUSALS:
        if pattern.search(words):
            return remedy
    return "see the options that begin with --slurm, or the slurm: section of the cluster file"
