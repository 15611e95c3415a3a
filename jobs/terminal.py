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
    """Standard output and error as they are: a terminal, a pipe, or a file."""

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

    def line(self, text: str) -> None:
        """Print a line on standard output; the progress line gives way until it is drawn next."""
        self._erase()
        self._out.write(text + "\n")
        self._out.flush()

    def note(self, text: str) -> None:
        """Print a line on standard error."""
        self._erase()
        self._err.write(text + "\n")
        self._err.flush()

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
            self._draw(state)
        elif not first:  # a short run says nothing in a log
            self.note(f"rankrun: {state.text()}")

    def close(self) -> None:
        """Take the progress line away."""
        self._erase()

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
        if self._live is not None:
            self._live.stop()
            self._live = None


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
