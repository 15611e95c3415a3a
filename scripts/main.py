"""The command line. Each command turns its options into a value and hands it down."""

import sys
from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from .. import __version__
from ..cluster.errors import ExitCode, RankrunError
from ..jobs.streams import abandon, prepare_standard_streams, write_text
from .outputs import check_printed

# Each command and its module, which has `add_to(app)`; loaded when it is asked for.
COMMANDS = {
    "suite": "suite_command",
    "launch": "launch_command",
    "env": "environment_command",
    "results": "results_command",
    "ls": "ls_command",
    "status": "status_command",
    "logs": "logs_command",
    "attach": "attach_command",
    "cancel": "cancel_command",
}


class _Commands(Mapping[str, Any]):
    """Commands by name, each made from its module at first use."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            module = import_module(f".{COMMANDS[name]}", __package__)
            alone = typer.Typer(add_completion=False)
            module.add_to(alone)
            self._made[name] = typer.main.get_command(alone)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _LazyGroup(TyperGroup):
    """The group of all commands: a command line loads only the command it names."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = cast("MutableMapping[str, Any]", _Commands())  # typer only reads it


app = typer.Typer(
    name="rankrun",
    cls=_LazyGroup,
    help="Launch, prove, measure and diagnose multi-node PyTorch runs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
