"""`python -m rankrun.jobs.agent`: told what to do on standard input, reports on standard output."""

from __future__ import annotations

import sys

from .guardian import guard
from .loop import Agent
from .wires import Wires


def main(bundle_fd: int | None = None) -> int:
    """Serve one run. `bundle_fd` holds the zip that this code was loaded from, if it came so."""
    guard()
    return Agent(Wires(0, 1), bundle_fd=bundle_fd).run()


if __name__ == "__main__":
    sys.exit(main())
