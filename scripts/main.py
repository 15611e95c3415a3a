"""The command line. Each command turns its options into a value and hands it down."""

import sys
from typing import Annotated

import typer

from .. import __version__
from ..cluster.errors import ExitCode, RankrunError
from . import environment_command, launch_command, results_command, suite_command

app = typer.Typer(
    name="rankrun",
    help="Launch, prove, measure and diagnose multi-node PyTorch runs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
suite_command.add_to(app)
launch_command.add_to(app)
environment_command.add_to(app)
results_command.add_to(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rankrun {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[  # handled by the callback
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Launch, prove, measure and diagnose multi-node PyTorch runs."""


def main() -> None:
    """Entry point of the `rankrun` command: the border where errors become one line."""
    try:
        app(prog_name="rankrun")
    except RankrunError as error:
        sys.stderr.write(f"rankrun: {error}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)


if __name__ == "__main__":
    main()
