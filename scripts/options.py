"""Options that several commands share."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..jobs.run_folder import new_run_id, runs_directory
from ..jobs.settings import forward_settings, parse_nccl_settings, parse_settings
from .outputs import print_text

# Infinity, which JSON cannot hold, is above it, and so is what the system's clocks cannot count.
MAX_S = 365 * 86_400


def at_most_a_year(value: float | None) -> float | None:
    """Check a time in seconds.

    Raises:
        BadParameter: which typer shows with the name of the option.
    """
    if value is not None and value > MAX_S:
        raise typer.BadParameter(f"{value:g} s are more than a year; at most {MAX_S}")
    return value


TargetOption = Annotated[
    str | None,
    typer.Option(
        "-t",
        "--target",
        metavar="TARGET",
        help="Where to run: local, local:N, ssh:HOSTS. Default: local, one rank per GPU, else 4.",
        show_default=False,
    ),
]
EnvOption = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        metavar="KEY[=VALUE]",
        help="Set a variable on all ranks; KEY alone: as it is here. Repeatable.",
    ),
]
NcclOption = Annotated[
    list[str] | None,
    typer.Option(
        "--nccl",
        metavar="KEY=VALUE",
        help="Set an NCCL variable; NCCL_ may be left out. GLOO_... too. Repeatable.",
    ),
]
RunsOption = Annotated[
    Path | None,
    typer.Option(
        "--runs",
        metavar="DIR",
        help="Where run folders go. Default: $RANKRUN_RUNS, else ./rankrun-runs.",
        show_default=False,
    ),
]
RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="[RUN]",
        help="Its folder, its id, the end of its id, or last: the newest.",
        show_default=False,
    ),
]
DetachOption = Annotated[
    bool,
    typer.Option(
        "--detach",
        help="Return once the ranks were submitted; see ls, status, logs, attach, cancel.",
    ),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Print the plan that would be executed; start nothing.")
]
DeadlineOption = Annotated[
    float | None,
    typer.Option(
        "--deadline",
        metavar="SECONDS",
        min=0.001,
        callback=at_most_a_year,
        help="End the whole run after this long, with every rank's stacks; exit code 124.",
    ),
]
GraceOption = Annotated[
    float,
    typer.Option(
        "--grace",
        metavar="SECONDS",
        min=0,
        callback=at_most_a_year,
        help="Between asking ranks to end (SIGTERM) and killing them.",
    ),
]
QuietOption = Annotated[
    bool, typer.Option("-q", "--quiet", help="Do not echo the ranks' output; the files have it.")
]


# For connections, queues and the start of agents.
DETACH_S = 600.0


def detached(kind: str, runs: Path | None, *extra: str) -> None:
    """This very command line again, in the background, with `extra` options, without --detach."""
    from ..jobs.detach import detach  # noqa: PLC0415  # rarely needed

    run_folder = runs_directory(runs) / new_run_id(kind)
    command, *words = sys.argv[1:]
    words.remove("--detach")  # the first: what may follow is the command of the ranks
    detach([command, *extra, *words], run_folder=run_folder, timeout_s=DETACH_S)
    print_text(f"{run_folder.name}\nrun folder: {run_folder}\n")


def settings_of(env: list[str] | None, nccl: list[str] | None) -> dict[str, str]:
    """The variables of --env and --nccl."""
    return parse_settings(forward_settings(env or (), os.environ)) | parse_nccl_settings(nccl or ())


def inherited_environment() -> dict[str, str]:
    """What the ranks inherit: all of ours."""
    return dict(os.environ)
