"""`rankrun logs`."""

import re
from typing import Annotated

import typer

from ..cluster.errors import UsageError
from ..jobs.run_folder import runs_directory
from . import options
from .outputs import print_text

EXAMPLES = """
Examples:

  rankrun logs                       # the newest run, all ranks merged

  rankrun logs 9f3c --rank 3

  rankrun logs -f --host node2 --grep 'NCCL WARN'
"""


def logs(
    run: options.RunArgument = "last",
    runs: options.RunsOption = None,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Wait for more until the run ends.")
    ] = False,
    rank: Annotated[
        int | None, typer.Option("--rank", metavar="N", help="Only this rank's lines.")
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", metavar="NAME", help="Only ranks of this host.")
    ] = None,
    grep: Annotated[
        str | None,
        typer.Option("--grep", metavar="REGEX", help="Only lines in which this is found."),
    ] = None,
) -> None:
    """Print what the ranks wrote, merged in the order in which it came, with host and rank."""
    from ..jobs.follow import Wanted, read_log  # noqa: PLC0415  # not needed for help
    from ..jobs.runs import RunState, find_run, load_run  # noqa: PLC0415

    found = find_run(run, runs_directory(runs))
    hosts = sorted({row["host"] for row in found.plan["ranks"]})
    if rank is not None and not 0 <= rank < found.plan["world_size"]:
        raise UsageError(f"--rank {rank}: the run has ranks 0 to {found.plan['world_size'] - 1}")
    if host is not None and host not in hosts:
        raise UsageError(f"--host {host}: no such host in the run; valid: {', '.join(hosts)}")
    wanted = Wanted(rank=rank, host=host, pattern=None if grep is None else _pattern(grep))

    def goes_on() -> bool:
        return follow and load_run(found.folder.path).state is RunState.RUNNING

    for line in read_log(found.folder, wanted, goes_on=goes_on):
        prefix = f"{line.host}:{line.rank}" if len(hosts) > 1 else f"{line.rank}"
        print_text(f"[{prefix}] {line.text}\n")


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(f"--grep {text!r}: not a regular expression: {error}") from error


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(epilog=EXAMPLES)(logs)
