import io
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rankrun.jobs.terminal import (
    PLAIN_EVERY_S,
    REDRAW_S,
    Display,
    ProgressState,
    Silent,
    Terminal,
    format_duration,
)


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def state(done: int = 11, rest_s: float | None = 21.0) -> ProgressState:
    return ProgressState(
        what="all_reduce float32 sum 1M", done=done, total=96, elapsed_s=3.2, rest_s=rest_s
    )


def visible(screen: str) -> list[str]:
    """What a terminal would show: erased lines are gone."""
    lines = [""]
    for piece in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", screen):
        if piece == "\n":
            lines.append("")
        elif piece == "\x1b[2K":
            lines[-1] = ""
        elif piece == "\x1b[1A":
            lines.pop()
        elif not piece.startswith(("\x1b", "\r")):
            lines[-1] += piece
    return lines


@pytest.fixture
def plain_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")


def test_both_are_displays() -> None:
    displays: list[Display] = [Terminal(out=io.StringIO(), err=io.StringIO()), Silent()]
    for display in displays:
        display.line("a")
        display.note("b")
        display.progress(state())
        display.close()


def test_what_a_state_says() -> None:
    assert state().text() == "all_reduce float32 sum 1M  step 12 of 96  0:03, about 0:21 left"
    assert state(rest_s=None).text().endswith("step 12 of 96  0:03")
    assert "step 96 of 96" in state(done=96).text()


def test_durations() -> None:
    assert [format_duration(s) for s in (0, 59.9, 60, 3600)] == ["0:00", "0:59", "1:00", "1:00:00"]


def test_lines_go_to_standard_output_and_notes_to_error() -> None:
    out, err = io.StringIO(), io.StringIO()
    terminal = Terminal(out=out, err=err)
    terminal.line("a row")
    terminal.note("a note")
    assert (out.getvalue(), err.getvalue()) == ("a row\n", "a note\n")


def test_a_pipe_gets_a_plain_line_now_and_then() -> None:
    err, clock = io.StringIO(), Clock()
    terminal = Terminal(out=io.StringIO(), err=err, clock=clock)
    terminal.progress(state())
    assert err.getvalue() == ""
    clock.now_s += PLAIN_EVERY_S - 1
    terminal.progress(state())
    assert err.getvalue() == ""
    clock.now_s += 2
    terminal.progress(state())
    assert err.getvalue() == f"rankrun: {state().text()}\n"


@pytest.mark.usefixtures("plain_colours")
def test_a_terminal_gets_a_progress_line_that_gives_way() -> None:
    screen, clock = Tty(), Clock()
    terminal = Terminal(out=screen, err=screen, clock=clock)
    terminal.progress(state())
    assert "step 12 of 96" in visible(screen.getvalue())[-1]
    terminal.line("a row")
    assert visible(screen.getvalue()) == ["a row", ""]
    clock.now_s += REDRAW_S
    terminal.progress(state(done=12))
    assert visible(screen.getvalue())[0] == "a row"
    assert "step 13 of 96" in visible(screen.getvalue())[-1]
    terminal.close()
    assert visible(screen.getvalue()) == ["a row", ""]
    assert screen.getvalue().count("\x1b[?25l") == screen.getvalue().count("\x1b[?25h")


@pytest.mark.usefixtures("plain_colours")
def test_it_is_not_redrawn_too_often() -> None:
    screen, clock = Tty(), Clock()
    terminal = Terminal(out=screen, err=screen, clock=clock)
    terminal.progress(state())
    drawn = screen.getvalue()
    terminal.progress(state(done=50))
    assert screen.getvalue() == drawn
    terminal.close()


@pytest.mark.usefixtures("plain_colours")
def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    colour = re.compile(r"\x1b\[[0-9;]*m")
    screens = []
    for no_color in (False, True):
        if no_color:
            monkeypatch.setenv("NO_COLOR", "1")
        screens.append(Tty())
        terminal = Terminal(out=screens[-1], err=screens[-1])
        terminal.progress(state())
        terminal.close()
    coloured, plain = (
        [code for code in colour.findall(screen.getvalue()) if "3" in code] for screen in screens
    )
    assert coloured
    assert not plain


def test_a_full_disk_is_told_once_and_ends_nothing() -> None:
    err = io.StringIO()
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        terminal = Terminal(out=full, err=err)
        for _ in range(3):
            terminal.line("a row")
        terminal.close()
        terminal.line("another")
        terminal.close()
    told = "rankrun: standard output cannot be written: No space left on device\n"
    assert err.getvalue() == told
    assert terminal.failure is not None


def test_a_reader_who_has_had_enough_is_no_failure() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    err = io.StringIO()
    with os.fdopen(writer, "w", encoding="utf-8") as pipe:
        terminal = Terminal(out=pipe, err=err)
        terminal.line("a row")
        terminal.close()
    assert (terminal.failure, err.getvalue()) == (None, "")


def test_a_reader_that_takes_nothing_is_waited_for_at_the_end_only() -> None:
    reader, writer = os.pipe()
    row = "x" * 1023
    with os.fdopen(writer, "w", encoding="utf-8") as pipe:
        terminal = Terminal(out=pipe, err=io.StringIO())
        for _ in range(2000):  # more than the pipe and LineWriter's own bound hold
            terminal.line(row)
        received: list[str] = []
        with os.fdopen(reader, encoding="utf-8") as lines:
            thread = threading.Thread(target=lambda: received.extend(lines))
            thread.start()
            terminal.close()
            pipe.close()
            thread.join()
    assert received == [row + "\n"] * 2000


def test_one_pipe_for_both_keeps_their_order() -> None:
    reader, writer = os.pipe()
    with (
        os.fdopen(writer, "w", encoding="utf-8") as out,
        os.fdopen(writer, "w", closefd=False) as err,
    ):
        terminal = Terminal(out=out, err=err)
        for number in range(200):
            terminal.line(f"line {number}")
            terminal.note(f"note {number}")
        terminal.close()
    with os.fdopen(reader, encoding="utf-8") as lines:
        read = lines.read().splitlines()
    assert read == [f"{kind} {n}" for n in range(200) for kind in ("line", "note")]


@pytest.mark.usefixtures("plain_colours")
def test_a_terminal_that_vanishes_ends_nothing() -> None:
    master, slave = os.openpty()
    with os.fdopen(slave, "w", encoding="utf-8") as screen:
        clock = Clock()
        terminal = Terminal(out=screen, err=screen, clock=clock)
        terminal.progress(state())
        os.close(master)
        for done in range(3):
            clock.now_s += REDRAW_S
            terminal.progress(state(done=done))
            terminal.line("a row")
            terminal.note("a note")
        terminal.close()


def test_rich_is_loaded_only_where_it_shows() -> None:
    program = (
        "import sys; from rankrun.jobs.terminal import *; t = Terminal(); t.line('x');"
        "t.progress(ProgressState(what='x', done=0, total=1, elapsed_s=0, rest_s=None)); t.close();"
        "sys.exit('rich' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "x\n", "")
