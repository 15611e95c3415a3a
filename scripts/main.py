"""The command line. Each command turns its options into a value and hands it down."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from .. import __version__
from ..cluster.errors import ExitCode, RankrunError
from ..jobs.streams import abandon, prepare_standard_streams, write_text
from . import environment_command, launch_command, results_command, suite_command
from .outputs import check_printed

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
    version: Annotated[  # noqa: ARG001  # handled by the callback
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Launch, prove, measure and diagnose multi-node PyTorch runs."""
    try:
        Path.cwd()
    except OSError as error:
        raise RankrunError(f"the working directory is gone: {error.strerror}; cd to one") from error


def main() -> None:
    """The border where errors become one line."""
    prepare_standard_streams()
    try:
        _run()
    except RankrunError as error:
        write_text(sys.stderr, f"rankrun: {error}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)


def _run() -> None:
    try:
        app(prog_name="rankrun")
    except OSError as error:
        if error.filename is not None:
            raise
        # What typer prints by itself, its help, could not be written.
        abandon(sys.stdout)
        check_printed(error)


if __name__ == "__main__":
    main()
