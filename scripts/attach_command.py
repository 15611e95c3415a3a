"""`rankrun attach`."""

import time

import typer

from ..cluster.errors import ExitCode
from ..jobs.run_folder import runs_directory
from ..jobs.runs import Run
from . import options
from .logs_command import logs
from .outputs import print_text

EXAMPLES = """
Examples:

  rankrun launch --detach -t ssh:node[0-3] -- python train.py

  rankrun attach
"""
_POLL_S = 0.2


def attach(run: options.RunArgument = "last", runs: options.RunsOption = None) -> None:
    """Follow a run to its end, then say how it ended; its exit code is this command's."""
    from ..jobs.runs import find_run, load_run  # noqa: PLC0415  # not needed for help

    found = find_run(run, runs_directory(runs))
    shows_table = found.folder.suite.exists() and found.folder.controller_log.exists()
    if shows_table:
        _follow_table(found)
    else:
        logs(str(found.folder.path), runs, follow=True)
    summary = load_run(found.folder.path).summary
    if summary is None:
        print_text("rankrun: the run's controller is gone and left no verdict\n")
        raise typer.Exit(ExitCode.COULD_NOT_RUN)
    if not shows_table:
        print_text(f"{summary['verdict'].rstrip()}\nrun folder: {found.folder.path}\n")
    raise typer.Exit(summary["exit_code"])


def _follow_table(run: Run) -> None:
    """A suite's table is what its controller says."""
    from ..jobs.runs import RunState, load_run  # noqa: PLC0415

    with run.folder.controller_log.open(encoding="utf-8", errors="backslashreplace") as file:
        while True:
            goes_on = load_run(run.folder.path).state is RunState.RUNNING
            print_text(file.read())
            if not goes_on:
                return
            time.sleep(_POLL_S)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(epilog=EXAMPLES)(attach)
