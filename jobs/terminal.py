"""The terminal: lines on standard output, one progress line on standard error.

The progress line shows only where standard error is a terminal, in the last line of the screen;
lines are written above it. rich is imported when the first progress is shown, not before. It
honours NO_COLOR and TERM=dumb. Elsewhere a plain line now and then says how far a run is.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TextIO

from .echo import LAST_PATIENCE_S, LineWriter
from .streams import abandon, has_no_reader, same_file, write_text

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

REDRAW_S = 0.25
PLAIN_EVERY_S = 30.0

_BAR_WIDTH = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressState:
    """How far a run is. `rest_s` is what it is expected to take still; None: not known yet."""

    what: str
    done: int
    total: int
    elapsed_s: float
    rest_s: float | None

    def text(self) -> str:
        """In one line: `all_reduce float32 sum 1M  step 12 of 96  0:03, 0:21 left`."""
        rest = "" if self.rest_s is None else f", about {format_duration(self.rest_s)} left"
        position = f"step {min(self.done + 1, self.total)} of {self.total}"
        return f"{self.what}  {position}  {format_duration(self.elapsed_s)}{rest}"


class Display(Protocol):
    """Where a run shows itself."""

    def line(self, text: str) -> None:
        """Print a line of the result."""

    def note(self, text: str) -> None:
        """Print a line about the run, apart from the result."""

    def progress(self, state: ProgressState) -> None:
        """Show how far it is; called often."""

    def close(self) -> None:
        """Take the progress line away."""


def format_duration(seconds: float) -> str:
    """Minutes and seconds, with hours when there are any.

    >>> format_duration(3.2), format_duration(75), format_duration(3661)
    ('0:03', '1:15', '1:01:01')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Terminal:
    """Standard output and error as they are: a terminal, a pipe, or a file.

    A run does not end because nobody can see it: of what cannot be shown only the first failure
    is told, and kept in `failure`; a reader that has had enough is none. Nor does it wait for a
    reader that takes nothing (a pager): only `close` does, for the lines of the result.
    """

    def __init__(
        self,
        *,
        out: TextIO | None = None,
        err: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is shown yet. `clock` gives seconds."""
        self._out = sys.stdout if out is None else out
        self._err = sys.stderr if err is None else err
        self._clock = clock
        self._live: Live | None = None
        self._drawn_s: float | None = None
        self.failure: OSError | None = None
        self._out_writer = _background_writer(self._out)
        self._err_writer = (
            self._out_writer if same_file(self._out, self._err) else _background_writer(self._err)
        )

    def line(self, text: str) -> None:
        """Print a line on standard output; the progress line gives way until it is drawn next."""
        self._erase()
        if self._out_writer is None:
            self._tell(write_text(self._out, text + "\n"))
        else:
            self._out_writer(text, keep=True)
            self._tell(self._out_writer.failure)

    def note(self, text: str) -> None:
        """Print a line on standard error."""
        self._erase()
        if self._err_writer is None:
            write_text(self._err, text + "\n")
        else:
            self._err_writer(text)

    def progress(self, state: ProgressState) -> None:
        """Redraw the progress line, at most every REDRAW_S."""
        now_s = self._clock()
        is_tty = self._err.isatty()
        if self._drawn_s is not None and now_s - self._drawn_s < (
            REDRAW_S if is_tty else PLAIN_EVERY_S
        ):
            return
        first, self._drawn_s = self._drawn_s is None, now_s
        if is_tty:
            self._try(lambda: self._draw(state))
        elif not first:  # a short run says nothing in a log
            self.note(f"rankrun: {state.text()}")

    def close(self) -> None:
        """Take the progress line away, and see that all is shown. Can be written to again."""
        self._erase()
        if self._out_writer is not None:
            self._out_writer.wait(LAST_PATIENCE_S)
            self._tell(self._out_writer.failure)
        if self._err_writer is not None:
            self._err_writer.wait()

    def _tell(self, error: OSError | None) -> None:
        if error is not None and self.failure is None and not has_no_reader(error):
            self.failure = error
            self.note(f"rankrun: standard output cannot be written: {error.strerror}")

    def _draw(self, state: ProgressState) -> None:
        from rich.console import Console  # noqa: PLC0415  # only where it shows
        from rich.live import Live  # noqa: PLC0415

        if self._live is None:
            self._live = Live(
                console=Console(file=self._err),
                auto_refresh=False,
                transient=True,
                # Lines go around it on purpose: `line` takes it away first.
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        self._live.update(_renderable(state), refresh=True)

    def _erase(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            self._try(live.stop)

    def _try(self, drawing: Callable[[], object]) -> None:
        """Its library writes by itself, also to a terminal that has vanished."""
        try:
            drawing()
        except OSError:
            abandon(self._err)


def _background_writer(stream: TextIO) -> LineWriter | None:
    """For what may have a reader that is stuck.

    None for a terminal, which Ctrl-C sets going again, and for what is no file at all.
    """
    try:
        if stream.isatty():
            return None
        stream.flush()
        return LineWriter(stream.fileno(), encoding=stream.encoding)
    except (OSError, ValueError):
        return None


def _renderable(state: ProgressState) -> "Table":
    from rich.progress_bar import ProgressBar  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, overflow="ellipsis")
    grid.add_column()
    bar = ProgressBar(total=max(state.total, 1), completed=state.done, width=_BAR_WIDTH)
    grid.add_row(state.text(), bar)
    return grid


class Silent:
    """Shows nothing; for programs that call the suite."""

    def line(self, text: str) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""

    def progress(self, state: ProgressState) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""
