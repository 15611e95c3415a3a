"""Files that a command writes for the user: --json FILE, --csv FILE; `-` is standard output."""

import os
import sys
from pathlib import Path

from ..cluster.errors import UsageError
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
        UsageError: with the file and the system's reason.
    """
    if path is None:
        return
    if path == STANDARD_OUTPUT:
        sys.stdout.write(text)
        return
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def terminal_beside(*paths: Path | None) -> Terminal:
    """A terminal that leaves standard output alone when a document goes there."""
    return Terminal(out=sys.stderr if STANDARD_OUTPUT in paths else sys.stdout)
