"""`rankrun status`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ..cluster.errors import ExitCode
from ..jobs.run_folder import runs_directory
from . import options
from .outputs import print_text

EXAMPLES = """
Examples:

  rankrun status            # the newest run

  rankrun status 9f3c       # the end of a run's id is enough

  rankrun status rankrun-runs/20261201-120000.000-launch-9f3c --json
"""


def status(
    run: options.RunArgument = "last",
    runs: options.RunsOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Say how a run stands or how it ended.

    The exit code is the run's own; 0 while it goes on, 3 if its controller was killed.
    """
    from ..jobs.runs import RunState, find_run  # noqa: PLC0415  # not needed for help

    found = find_run(run, runs_directory(runs))
    state = found.state
    summary = found.summary
    document = {
        "schema": "rankrun.status/1",
        "run": found.run_id,
        "state": str(state),
        "folder": str(found.folder.path),
        "target": found.plan["target"],
        "world_size": found.plan["world_size"],
        "verdict": None if summary is None else summary["verdict"],
        "exit_code": None if summary is None else summary["exit_code"],
        "controller": None if found.controller is None else found.controller.pid,
    }
    if as_json:
        print_text(json.dumps(document, indent=1) + "\n")
    else:
        print_text(_sentence(document, found.folder.path))
    if summary is not None:
        raise typer.Exit(summary["exit_code"])
    raise typer.Exit(ExitCode.COULD_NOT_RUN if state is RunState.LOST else ExitCode.OK)


_SENTENCES = {
    "running": "goes on, led by process {controller}; follow it with `rankrun attach {run}`",
    "lost": "its controller was killed before the run ended; all ranks ended with it, "
    "`rankrun logs {run}` has what was gathered",
    "unknown": "is led from another host; look there",
    "ended": "{verdict}",
}


def _sentence(document: dict[str, object], folder: Path) -> str:
    said = _SENTENCES[str(document["state"])].format(**document)
    return (
        f"{document['run']} on {document['target']}, {document['world_size']} ranks: "
        f"{said.rstrip()}\nrun folder: {folder}\n"
    )


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(epilog=EXAMPLES)(status)
