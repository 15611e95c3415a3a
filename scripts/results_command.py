"""`rankrun results`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ..cluster.errors import UsageError
from ..collectives.measurement import Combine
from .outputs import check_outputs, print_beside, write_output

EXAMPLES = """
Examples:

  rankrun results rankrun-runs/20261201-120000.000-suite-9f3c

  rankrun results RUN --combine max --json -
"""


def results(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a suite run.")],
    combine: Annotated[
        Combine | None,
        typer.Option("-a", "--combine", help="The ranks' times of a call: mean, fastest, slowest."),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="- is standard output.")
    ] = None,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="- is standard output.")
    ] = None,
) -> None:
    """Print a suite's table again from its run folder, also while it goes on."""
    from ..collectives.suite_files import load_run  # noqa: PLC0415  # loads pydantic
    from ..collectives.suite_result import MatrixResult  # noqa: PLC0415  # not needed to plan

    check_outputs(json_file, csv_file)
    result = load_run(run.absolute(), combine=combine)
    print_beside("".join(f"{line}\n" for line in result.lines()), json_file, csv_file)
    write_output(json_file, json.dumps(result.document(), indent=1) + "\n")
    if csv_file is not None:
        if isinstance(result, MatrixResult):
            raise UsageError("--csv: only for the sweep; a matrix has --json")
        write_output(csv_file, result.csv())
    raise typer.Exit(result.exit_code)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(epilog=EXAMPLES, no_args_is_help=True)(results)
