"""Files that a command writes for the user: --json FILE, --csv FILE; `-` is standard output."""

import os
import sys
from pathlib import Path

from ..cluster.errors import OutputError, UsageError
from ..jobs.streams import has_no_reader, write_text
from ..jobs.terminal import Terminal

STANDARD_OUTPUT = Path("-")


def check_outputs(*paths: Path | None) -> None:
    """Refuse at once what could not be written at the end.

    Raises:
        UsageError: for a folder that is not there or may not be written, or two uses of `-`.
    """
    if [path for path in paths if path].count(STANDARD_OUTPUT) > 1:
        raise UsageError("--json and --csv: only one of them can go to standard output (-)")
    for path in paths:
        if path is None or path == STANDARD_OUTPUT:
            continue
        if path.is_dir():
            raise UsageError(f"{path}: is a folder; name a file in it")
        if not path.parent.is_dir():
            raise UsageError(f"{path}: there is no folder {path.parent}; make it first")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise UsageError(f"{path}: may not be written; choose another place")


def write_output(path: Path | None, text: str) -> None:
    """Write one document.

    Raises:
        OutputError: with the file and the system's reason.
    """
    if path is None:
        return
    if path == STANDARD_OUTPUT:
        print_text(text)
        return
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from error


def print_text(text: str) -> None:
    """Print on standard output. That nobody reads it to its end is no failure.

    Raises:
        OutputError: with the system's reason.
    """
    check_printed(write_text(sys.stdout, text))


def check_printed(error: OSError | None) -> None:
    """Refuse to call printed what could not be.

    Raises:
        OutputError: with the system's reason.
    """
    if error is not None and not has_no_reader(error):
        raise OutputError(
            f"standard output cannot be written: {error.strerror}; send it elsewhere"
        ) from error


def print_beside(text: str, *paths: Path | None) -> None:
    """Print; on standard error, where it may be lost, when a document goes to standard output.

    Raises:
        OutputError: with the system's reason.
    """
    if STANDARD_OUTPUT in paths:
        write_text(sys.stderr, text)
    else:
        print_text(text)


def terminal_beside(*paths: Path | None) -> Terminal:
    """A terminal that leaves standard output alone when a document goes there."""
    return Terminal(out=sys.stderr if STANDARD_OUTPUT in paths else sys.stdout)
