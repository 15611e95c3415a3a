"""`rankrun ls`."""

import json
import shlex
from typing import Annotated

import typer

from ..jobs.lines import visible
from ..jobs.run_folder import runs_directory
from . import options
from .outputs import print_text

EXAMPLES = """
Examples:

  rankrun ls

  rankrun ls --runs /shared/runs --json
"""
_SHOWN = 60


def ls(
    runs: options.RunsOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List runs: what became of each, its target and command."""
    from ..jobs.runs import list_runs  # noqa: PLC0415  # not needed for help

    folder = runs_directory(runs)
    rows = [
        {
            "run": run.run_id,
            "state": str(run.state),
            "exit_code": None if run.summary is None else run.summary["exit_code"],
            "world_size": run.plan["world_size"],
            "target": run.plan["target"],
            "command": run.plan["command"],
        }
        for run in list_runs(folder)
    ]
    if as_json:
        print_text(json.dumps({"schema": "rankrun.runs/1", "runs": rows}, indent=1) + "\n")
        return
    if not rows:
        print_text(f"no runs in {folder}\n")
        return
    print_text(f"{'run':<42} {'state':<8} {'exit':>4} {'ranks':>5}  {'target':<16} command\n")
    for row in rows:
        code = "-" if row["exit_code"] is None else row["exit_code"]
        print_text(
            f"{row['run']:<42} {row['state']:<8} {code:>4} {row['world_size']:>5}  "
            f"{row['target']:<16} {_one_line(row['command'])}\n"
        )


def _one_line(command: list[str]) -> str:
    words = visible(shlex.join(command).encode(), colour=False)
    return words if len(words) <= _SHOWN else words[: _SHOWN - 3] + "..."


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(epilog=EXAMPLES)(ls)
