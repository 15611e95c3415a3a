"""`rankrun launch`: any command on every rank, from plan to verdict."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import UnsupportedOperation
from typing import TextIO, TypeAlias

from .echo import LineWriter
from .events import Stream
from .launchers import Starter
from .outcomes import RunResult
from .plan import LaunchPlan
from .run_folder import RunFolder
from .streams import has_no_reader, same_file, write_text
from .supervise import run_job
from .verdict import render_verdict

Show: TypeAlias = Callable[[str], None]


def run_launch(
    plan: LaunchPlan, *, launcher: Starter | None = None, quiet: bool = False
) -> RunResult:
    """Run the plan, echo the ranks' lines unless `quiet`, say how it ended.

    What ranks write on their standard error goes to ours, all else to our standard output.

    Raises:
        RunFolderError: if the run folder cannot be made.
    """
    folder = RunFolder.create(plan.run_folder)
    if quiet:
        result = run_job(plan, folder=folder, launcher=launcher)
    else:
        result = _run_shown(plan, folder, launcher)
    verdict = render_verdict(result) + f"run folder: {folder.path}\n"
    write_text(sys.stderr, verdict)
    return result


def _run_shown(plan: LaunchPlan, folder: RunFolder, launcher: Starter | None) -> RunResult:
    with _shown_on(sys.stdout) as out, _shown_on(sys.stderr) as err:
        # One writer for both where they are one place, so that lines keep their order.
        shows = {"stdout": out, "stderr": out if same_file(sys.stdout, sys.stderr) else err}

        def echo(line: str, stream: Stream) -> None:
            shows[stream](line)

        return run_job(plan, folder=folder, echo=echo, colour=_shows_colour(), launcher=launcher)


@contextmanager
def _shown_on(stream: TextIO | None) -> Iterator[Show]:
    """Where lines go: to the file behind the stream, or to the stream if there is none."""
    if stream is None:  # Python's, where the descriptor was closed
        yield lambda _: None
        return
    try:
        descriptor = stream.fileno()
    except (UnsupportedOperation, ValueError):
        yield lambda line: print(line, file=stream)
        return
    stream.flush()
    with LineWriter(descriptor, encoding=stream.encoding) as writer:
        yield writer
    if writer.num_skipped:
        note = f"{writer.num_skipped} lines were not shown to a reader that took nothing"
        write_text(sys.stderr, f"rankrun: {note}; the run folder has them\n")
    if writer.failure is not None and not has_no_reader(writer.failure):
        reason = f"standard output cannot be written: {writer.failure.strerror}"
        write_text(sys.stderr, f"rankrun: {reason}; the run folder has all lines\n")


def _shows_colour() -> bool:
    return sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
