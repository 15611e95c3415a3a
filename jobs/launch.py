"""`rankrun launch`: any command on every rank, from plan to verdict."""

import sys

from .outcomes import RunResult
from .plan import LaunchPlan
from .run_folder import RunFolder
from .supervise import run_job
from .verdict import render_verdict


def run_launch(plan: LaunchPlan, *, quiet: bool = False) -> RunResult:
    """Run the plan, echo the ranks' lines unless `quiet`, say how it ended.

    Raises:
        RunFolderError: if the run folder cannot be made.
        LaunchError: if the agent cannot be started.
    """
    folder = RunFolder.create(plan.run_folder)
    result = run_job(plan, folder=folder, echo=None if quiet else _print_line)
    sys.stderr.write(render_verdict(result) + f"run folder: {folder.path}\n")
    return result


def _print_line(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
