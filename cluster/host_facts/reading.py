"""Small files of /proc and /sys, and programs that may not be there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_PROGRAM_S = 5.0


def read(path: str | Path) -> str:
    """The file without blanks around it; empty if it is not there or not for us."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="backslashreplace").strip()
    except OSError:
        return ""


def read_int(path: str | Path) -> int | None:
    """A file that holds one number; None if it does not."""
    text = read(path)
    return int(text) if text.lstrip("-").isdigit() else None


def names_in(path: str | Path) -> list[str]:
    """The entries of a folder, sorted; none if it is not there."""
    try:
        return sorted(entry.name for entry in Path(path).iterdir())
    except OSError:
        return []


def output_of(*argv: str) -> str | None:
    """What a program prints; None if it is not installed, fails or takes too long."""
    if shutil.which(argv[0]) is None:
        return None
    try:
        done = subprocess.run(
            argv, capture_output=True, timeout=_PROGRAM_S, check=True, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="backslashreplace")
