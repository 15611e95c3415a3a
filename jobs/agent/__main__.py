"""`python -m rankrun.jobs.agent`: told what to do on standard input, reports on standard output."""

from __future__ import annotations

import sys

from .guardian import guard
from .loop import Agent
from .wires import Wires


def main() -> int:
    """Serve one run."""
    guard()
    return Agent(Wires(0, 1)).run()


if __name__ == "__main__":
    sys.exit(main())
