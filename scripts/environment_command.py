"""`rankrun env`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ..cluster.errors import UsageError
from ..cluster.targets import parse_target
from ..jobs.launchers import opened
from ..jobs.plan import PlanRequest, build_plan, plan_document, render_environment
from ..jobs.run_folder import runs_directory
from . import options
from .outputs import print_text

EXAMPLES = """
Examples:

  rankrun env -t local:4

  rankrun env -t local:4 --rank 3

  rankrun env --nccl DEBUG=INFO --json
"""


def env(
    target: options.TargetOption = None,
    env: options.EnvOption = None,
    nccl: options.NcclOption = None,
    rank: Annotated[
        int | None,
        typer.Option("--rank", metavar="N", help="Only this rank's, as KEY=VALUE lines."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, per rank.")] = False,
    dry_run: options.DryRunOption = False,  # noqa: ARG001  # nothing is started anyway
) -> None:
    """Print each rank's environment as a run would set it; nothing is started."""
    settings = options.settings_of(env, nccl)
    with opened(parse_target(target)) as (_, resolved):
        plan = build_plan(
            PlanRequest(
                run_id="RUN-ID",
                argv=("COMMAND",),
                target=resolved,
                run_folder=runs_directory(None) / "RUN-ID",
                workdir=Path().absolute(),
                environment=options.inherited_environment(),
                settings=settings,
            )
        )
    rows = plan_document(plan)["ranks"]
    if rank is not None and not 0 <= rank < len(rows):
        raise UsageError(f"--rank {rank}: the target has ranks 0 to {len(rows) - 1}")
    if as_json:
        chosen = rows if rank is None else rows[rank : rank + 1]
        print_text(json.dumps({"schema": "rankrun.env/1", "ranks": chosen}, indent=1) + "\n")
    elif rank is None:
        print_text(render_environment(plan))
    else:
        print_text("".join(f"{k}={v}\n" for k, v in rows[rank]["environment"].items()))


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(epilog=EXAMPLES)(env)
