"""`rankrun cancel`."""

import time
from typing import Annotated

import typer

from ..cluster.errors import RankrunError
from ..jobs.run_folder import runs_directory
from . import options
from .outputs import print_text

EXAMPLES = """
Examples:

  rankrun cancel 9f3c

  rankrun cancel last
"""
_POLL_S = 0.1


def cancel(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Its folder, id, end of id, or last.")],
    runs: options.RunsOption = None,
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", min=0, help="For its end.")
    ] = 15.0,
) -> None:
    """End a run from any shell: its ranks are asked to end, then killed, as with Ctrl-C."""
    from ..jobs.runs import RunState, find_run, load_run  # noqa: PLC0415  # not needed for help

    found = find_run(run, runs_directory(runs))
    if found.state is RunState.ENDED or found.controller is None:
        print_text(f"{found.run_id} does not run: {found.state}\n")
        return
    found.controller.cancel()
    until = time.monotonic() + wait
    while load_run(found.folder.path).state is RunState.RUNNING:
        if time.monotonic() >= until:
            raise RankrunError(f"{found.run_id} was told to end and still runs after {wait:g} s")
        time.sleep(_POLL_S)
    print_text(f"{found.run_id} has ended\n")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(epilog=EXAMPLES, no_args_is_help=True)(cancel)
