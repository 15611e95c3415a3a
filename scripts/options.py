"""Options that several commands share."""

import os
from pathlib import Path
from typing import Annotated

import typer

from ..jobs.settings import parse_nccl_settings, parse_settings

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
        help="Where to run: local, local:N. Default: local, one rank per GPU, else 4.",
        show_default=False,
    ),
]
EnvOption = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="KEY=VALUE", help="Set a variable on all ranks. Repeatable."),
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


def settings_of(env: list[str] | None, nccl: list[str] | None) -> dict[str, str]:
    """The variables of --env and --nccl."""
    return parse_settings(env or ()) | parse_nccl_settings(nccl or ())


def inherited_environment() -> dict[str, str]:
    """What the ranks inherit: all of ours."""
    return dict(os.environ)
