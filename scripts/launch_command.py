"""`rankrun launch`."""

from pathlib import Path
from typing import Annotated

import typer

from ..cluster.targets import parse_target
from ..jobs.launchers import opened
from ..jobs.plan import (
    DEFAULT_GRACE_S,
    Limits,
    PlanRequest,
    build_plan,
    checked_command,
    render_plan,
)
from ..jobs.run_folder import new_run_id, runs_directory
from . import options
from .outputs import print_text

EXAMPLES = """
Examples:

  rankrun launch -- python train.py --lr 0.1

  rankrun launch -t local:2 --nccl DEBUG=INFO -- python train.py

  rankrun launch -t local:8 --deadline 600 -- ./benchmark

  rankrun launch --dry-run -- python train.py
"""


def launch(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- COMMAND [ARGS]...", help="The command of every rank."),
    ] = None,
    target: options.TargetOption = None,
    env: options.EnvOption = None,
    nccl: options.NcclOption = None,
    workdir: Annotated[
        Path | None,
        typer.Option("--workdir", metavar="DIR", help="Where the ranks start. Default: here."),
    ] = None,
    deadline: options.DeadlineOption = None,
    grace: options.GraceOption = DEFAULT_GRACE_S,
    quiet: options.QuietOption = False,
    runs: options.RunsOption = None,
    detach: options.DetachOption = False,
    dry_run: options.DryRunOption = False,
) -> None:
    """Run a command on every rank, with torchrun's environment; keep every line of every rank.

    The exit code is that of the rank that failed first; 124 after the deadline, 130 after
    Ctrl-C.
    """
    argv = checked_command(command or ())
    settings = options.settings_of(env, nccl)
    if detach and not dry_run:
        options.detached("launch", runs, "--quiet")
        return
    run_id = new_run_id("launch")
    with opened(parse_target(target)) as (launcher, resolved):
        plan = build_plan(
            PlanRequest(
                run_id=run_id,
                argv=argv,
                target=resolved,
                run_folder=runs_directory(runs) / run_id,
                workdir=(workdir or Path()).absolute(),
                environment=options.inherited_environment(),
                settings=settings,
                limits=Limits(deadline_s=deadline, grace_s=grace),
            )
        )
        if dry_run:
            print_text(render_plan(plan))
            return
        from ..jobs.launch import run_launch  # noqa: PLC0415  # not needed to plan

        result = run_launch(plan, launcher=launcher, quiet=quiet)
    raise typer.Exit(result.exit_code)


def add_to(app: typer.Typer) -> None:
    """Register the command. Options end at the first word of the command."""
    app.command(
        epilog=EXAMPLES, no_args_is_help=True, context_settings={"allow_interspersed_args": False}
    )(launch)
