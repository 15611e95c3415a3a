"""`rankrun launch`: any command on every rank, from plan to verdict."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import UnsupportedOperation

from .echo import LineWriter
from .gather import Echo
from .outcomes import RunResult
from .plan import LaunchPlan
from .run_folder import RunFolder
from .streams import has_no_reader, write_text
from .supervise import run_job
from .verdict import render_verdict


def run_launch(plan: LaunchPlan, *, quiet: bool = False) -> RunResult:
    """Run the plan, echo the ranks' lines unless `quiet`, say how it ended.

    Raises:
        RunFolderError: if the run folder cannot be made.
    """
    folder = RunFolder.create(plan.run_folder)
    with _standard_output(quiet=quiet) as echo:
        result = run_job(plan, folder=folder, echo=echo, colour=_shows_colour())
    verdict = render_verdict(result) + f"run folder: {folder.path}\n"
    write_text(sys.stderr, verdict)
    return result


@contextmanager
def _standard_output(*, quiet: bool) -> Iterator[Echo | None]:
    """Where lines go; None for nowhere. sys.stdout may be closed, or no file at all."""
    if quiet or sys.stdout is None:
        yield None
        return
    try:
        descriptor = sys.stdout.fileno()
    except (UnsupportedOperation, ValueError):
        yield lambda line: print(line, file=sys.stdout)  # noqa: T201
        return
    sys.stdout.flush()
    with LineWriter(descriptor, encoding=sys.stdout.encoding) as echo:
        yield echo
    if echo.failure is not None and not has_no_reader(echo.failure):
        reason = f"standard output cannot be written: {echo.failure.strerror}"
        write_text(sys.stderr, f"rankrun: {reason}; the run folder has all lines\n")


def _shows_colour() -> bool:
    return sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
