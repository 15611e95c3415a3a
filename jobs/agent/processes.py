"""What /proc says of processes: who descends from whom, and what one is doing.

Source of the fields: proc(5), /proc/pid/stat and /proc/pid/status.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

_STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "in uninterruptible sleep, usually a disk, network file system or driver",
    "T": "stopped",
    "t": "stopped by a debugger",
    "Z": "zombie",
    "X": "dead",
}


class Process(NamedTuple):
    """One process. `start_ticks` tells it from a later one with the same number."""

    pid: int
    parent: int
    session: int
    name: str
    state: str
    start_ticks: int


def read_text(path: str) -> str:
    """A small file of /proc; empty if it is gone or not for us."""
    try:
        with open(path, encoding="utf-8", errors="backslashreplace") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return ""


def parse_stat(text: str) -> Process | None:
    """The process of a line of /proc/pid/stat, whose name may hold anything.

    >>> parse_stat("7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 5566 0")
    Process(pid=7, parent=1, session=7, name='a) b', state='S', start_ticks=5566)
    """
    pid, _, rest = text.partition(" (")
    name, _, rest = rest.rpartition(") ")
    fields = rest.split()
    if len(fields) < 20:
        return None
    return Process(int(pid), int(fields[1]), int(fields[3]), name, fields[0], int(fields[19]))


def read_process(pid: int) -> Process | None:
    """The process of this number, if there is one."""
    return parse_stat(read_text(f"/proc/{pid}/stat"))


def all_processes() -> Iterator[Process]:
    """Every process that can be seen, zombies too."""
    for entry in os.listdir("/proc"):  # noqa: PTH208
        process = read_process(int(entry)) if entry.isdigit() else None
        if process is not None:
            yield process


def descendants(root: int) -> list[Process]:
    """Every living process below `root`, parents before children; zombies left out."""
    children: dict[int, list[Process]] = {}
    for process in all_processes():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    frontier = [root]
    while frontier:
        below = children.get(frontier.pop(), [])
        found += below
        frontier += [process.pid for process in below]
    return [process for process in found if process.state not in "ZX"]


def catches(pid: int, signal_number: int) -> bool:
    """Whether the program has a handler for the signal now (it may have exec'ed another)."""
    caught = _status(pid).get("SigCgt", "0")
    return bool(int(caught, 16) >> (signal_number - 1) & 1)


def kernel_account(pid: int) -> str:
    """What the kernel says of a rank and its descendants, for one that gives no stacks."""
    rank = read_process(pid)
    if rank is None:
        return "no such process: it had just ended\n"
    tree = [rank, *descendants(pid)]
    return "no Python stacks from this rank; the kernel says:\n" + "".join(
        _account_line(process) for process in tree
    )


def answers(pid: int) -> bool:
    """Whether a signal handler of the process can run now: not stopped, not stuck in a driver."""
    process = read_process(pid)
    return process is not None and process.state not in "TtDZX"


def _account_line(process: Process) -> str:
    """The name alone, not the arguments: those may hold secrets."""
    state = _status(process.pid).get("State") or process.state
    meaning = _STATES.get(process.state, "")
    place = read_text(f"/proc/{process.pid}/wchan").strip()
    waits = f", waits in {place}" if place not in ("", "0") else ""
    detail = f": {meaning}" if meaning and meaning not in state else ""
    return f"  pid {process.pid} {state}{detail}{waits}: {process.name}\n"


def _status(pid: int) -> dict[str, str]:
    fields = {}
    for line in read_text(f"/proc/{pid}/status").splitlines():
        name, _, value = line.partition(":")
        fields[name] = value.strip()
    return fields


def count_oom_kills() -> int:
    """How many processes the kernel's out-of-memory killer has ended since the host started."""
    for line in read_text("/proc/vmstat").splitlines():
        if line.startswith("oom_kill "):
            return int(line.split()[1])
    return 0
