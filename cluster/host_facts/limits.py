"""Limits that break or slow collectives."""

from __future__ import annotations

import resource
from typing import Any

from .reading import read_int

_LIMITS = {
    "limit.memlock_bytes": resource.RLIMIT_MEMLOCK,
    "limit.open_files": resource.RLIMIT_NOFILE,
    "limit.stack_bytes": resource.RLIMIT_STACK,
    "limit.processes": resource.RLIMIT_NPROC,
}

UNLIMITED = "unlimited"


def collect() -> dict[str, Any]:
    """Soft limits of this process, which those of ranks start from, and pids of the system."""
    facts: dict[str, Any] = {}
    for name, number in _LIMITS.items():
        soft, hard = resource.getrlimit(number)
        facts[name] = UNLIMITED if soft == resource.RLIM_INFINITY else soft
        if hard != soft:
            facts[f"{name}_hard"] = UNLIMITED if hard == resource.RLIM_INFINITY else hard
    pid_max = read_int("/proc/sys/kernel/pid_max")
    if pid_max is not None:
        facts["limit.pid_max"] = pid_max
    return facts
