"""A parent that only waits: if the agent itself is killed, it ends what the agent started.

A rank dies with its agent (PR_SET_PDEATHSIG), but what the rank started does not, and a
shell as the rank's command is common. The guardian inherits all of that as the next
subreaper above the agent. Killed itself, the agent notices by its own PDEATHSIG.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

from .ending import end_everything_below
from .kernel import become_subreaper, die_with_parent, load_prctl, send

_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def guard() -> None:
    """Fork: return in the child, which is the agent; the parent leaves with its exit code."""
    prctl = load_prctl()
    become_subreaper(prctl)
    guardian = os.getpid()
    agent = os.fork()
    if agent == 0:
        die_with_parent(prctl, guardian, signal.SIGTERM)
        return

    def forward(number: int, _: FrameType | None) -> None:
        send(agent, number)

    for number in _FORWARDED:
        signal.signal(number, forward)
    code = _wait_for(agent)
    end_everything_below(guardian)
    os._exit(code if code >= 0 else 128 - code)


def _wait_for(agent: int) -> int:
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == agent:
            return os.waitstatus_to_exitcode(status)
