"""The command that starts an agent on a host, whatever its login shell is."""

import sys

from ...cluster.hosts import HostEntry
from .bundle import FIRST_LINE

# The first of these programs that the host has becomes the agent's Python, and that of the
# suite's ranks: ours, for hosts that share it with this one, before the host's own.
_PYTHONS = ("python3", "python")

# $1: setup lines, escaped for printf; $2: what Python executes; then the programs to try. What
# setup prints goes to standard error: standard output belongs to the agent's protocol.
_SCRIPT = (
    'eval "$(printf %b "$1")" 1>&2 || { echo "rankrun: a setup line failed" >&2; exit 126; }; '
    "code=$2; shift 2; "
    'for python in "$@"; do if command -v "$python" >/dev/null 2>&1; then '
    'exec "$python" -I -S -c "$code" rankrun-agent; fi; done; '
    'echo "rankrun: no Python here; tried: $*; name one with python: in the cluster file" >&2; '
    "exit 127"
)


def start_command(entry: HostEntry) -> list[str]:
    """Words for the host's login shell. A login bash where there are setup lines to run."""
    pythons = (entry.python,) if entry.python is not None else (sys.executable, *_PYTHONS)
    shell = ["bash", "-lc"] if entry.setup else ["/bin/sh", "-c"]
    return [*shell, _SCRIPT, "sh", _escaped("\n".join(entry.setup)), FIRST_LINE, *pythons]


def _escaped(text: str) -> str:
    r"""As printf's %b reads it: every byte a number, so that no shell between changes any.

    >>> _escaped("a b")
    '\\0141\\0040\\0142'
    """
    return "".join(f"\\0{byte:03o}" for byte in text.encode(errors="surrogateescape"))
