"""One question to Slurm for any number of jobs: squeue first, what it has forgotten from sacct.

Sites without accounting have no sacct; then a job that squeue no longer lists is just gone.
"""

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass

from ..errors import LaunchError
from .states import Phase, StateMeaning, meaning_of

_ANSWER_S = 20.0
_FORMAT = "%i|%T|%r|%S|%N"
_SACCT = (
    "sacct", "--noheader", "--allocations", "--parsable2",
    "--format=JobID,State,Reason,Start,NodeList",
)  # fmt: skip
_SEPARATOR = "|"

FORGOTTEN = "FORGOTTEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """What Slurm knows of a job. `start` is when it began or may begin, None: not known."""

    job_id: str
    state: str
    reason: str = ""
    start: str | None = None
    nodes: str = ""

    @property
    def meaning(self) -> StateMeaning:
        """Of its state."""
        if self.state == FORGOTTEN:
            return StateMeaning(phase=Phase.OVER, sentence="is no longer known to Slurm")
        return meaning_of(self.state)


def ask(job_ids: Iterable[str]) -> dict[str, JobReport] | None:
    """A report for each; None if slurmctld does not answer now (it may be restarting)."""
    wanted = list(job_ids)
    listing = _run(["squeue", "--noheader", "--states=all", f"--jobs={','.join(wanted)}",
                    f"--format={_FORMAT}"])  # fmt: skip
    if listing is None:
        return None
    found = {report.job_id: report for report in parse_squeue(listing)}
    missing = [job for job in wanted if job not in found]
    if missing:
        rest = _run([*_SACCT, f"--jobs={','.join(missing)}"])
        found.update({report.job_id: report for report in parse_squeue(rest or "")})
    for job in wanted:
        found.setdefault(job, JobReport(job_id=job, state=FORGOTTEN))
    return found


def parse_squeue(listing: str) -> list[JobReport]:
    r"""Of `squeue -o "%i|%T|%r|%S|%N"`, and of sacct with the same columns.

    >>> parse_squeue("17|PENDING|Resources|2026-12-01T10:00:00|\n")[0].start
    '2026-12-01T10:00:00'
    """
    reports = []
    for line in listing.splitlines():
        cells = line.strip().split(_SEPARATOR)
        if len(cells) == 5:
            job_id, state, reason, start, nodes = cells
            reports.append(
                JobReport(
                    job_id=job_id,
                    state=state,
                    reason="" if reason == "None" else reason,
                    start=None if start in ("N/A", "Unknown", "") else start,
                    nodes=nodes,
                )
            )
    return reports


def cancel(job_id: str) -> None:
    """End a job; nothing if it has ended.

    Raises:
        LaunchError: with scancel's words.
    """
    done = subprocess.run(
        ["scancel", job_id], capture_output=True, text=True, timeout=_ANSWER_S, check=False
    )
    if done.returncode and not _NO_SUCH_JOB.search(done.stderr):
        raise LaunchError(f"job {job_id} cannot be cancelled: {done.stderr.strip()}")


_NO_SUCH_JOB = re.compile(r"invalid job id|already complet", re.IGNORECASE)


def _run(argv: list[str]) -> str | None:
    """What the program prints; None if it cannot answer. Unknown jobs are an answer: nothing."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode and not _NO_SUCH_JOB.search(done.stderr):
        return None
    return done.stdout
