"""What a run leaves on its host for the next one to find, should its agent and guardian be killed.

While ranks run, a file says which sessions are theirs. An agent that finds such a file of a run
whose agent and guardian are gone looks for what still lives of it, in those sessions or with that
run's id in its environment, and ends it. A file counts only on the host, in the pid namespace and
since the boot that it was written in: /tmp may be shared, and process ids come round again.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import tempfile
import time
from contextlib import suppress
from typing import NamedTuple

from .kernel import send
from .processes import Process, all_processes, read_process, read_text

_GONE_WITHIN_S = 2.0


class Mark(NamedTuple):
    """A process, and when it started in the kernel's ticks."""

    pid: int
    start_ticks: int

    @property
    def lives(self) -> bool:
        """Whether this very process is still there."""
        found = read_process(self.pid)
        return found is not None and found.start_ticks == self.start_ticks and found.state != "Z"


def mark_of(pid: int) -> Mark:
    """The process of this number as it is now."""
    process = read_process(pid)
    return Mark(pid, process.start_ticks if process else 0)


class Trace:
    """The file of one run; without a place to write it there is none, and no harm."""

    def __init__(self, run_id: str, keepers: list[Mark]) -> None:
        """`keepers` end the run when something happens: the agent and its guardian."""
        self._path: str | None = None
        self._run_id = run_id
        self._keepers = keepers

    def write(self, ranks: list[Mark]) -> None:
        """These ranks run, each the leader of its session."""
        folder = _folder()
        if folder is None:
            return
        self._path = os.path.join(folder, f"{self._run_id}.{os.getpid()}.json")  # noqa: PTH118
        document = {
            "here": _here(),
            "run_id": self._run_id,
            "keepers": self._keepers,
            "ranks": ranks,
        }
        with suppress(OSError), open(self._path, "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump(document, file)

    def remove(self) -> None:
        """Nothing of the run is left."""
        if self._path is not None:
            with suppress(OSError):
                os.unlink(self._path)  # noqa: PTH108


def end_earlier_runs() -> list[str]:
    """End what still lives of runs whose keepers are gone; one line for each process."""
    folder = _folder()
    if folder is None:
        return []
    ended = []
    for name in sorted(os.listdir(folder)):  # noqa: PTH208
        path = os.path.join(folder, name)  # noqa: PTH118
        try:
            document = json.loads(read_text(path))
            if document["here"] != _here() or any(Mark(*m).lives for m in document["keepers"]):
                continue
            run_id = str(document["run_id"])
            left = _left_of(run_id, [Mark(*mark) for mark in document["ranks"]])
        except (ValueError, KeyError, TypeError):
            continue
        _end(left)
        ended += [f"pid {process.pid} ({process.name}) of run {run_id}" for process in left]
        with suppress(OSError):
            os.unlink(path)  # noqa: PTH108
    return ended


def _left_of(run_id: str, ranks: list[Mark]) -> list[Process]:
    sessions = {mark.pid for mark in ranks if _is_of_run(mark)}
    marker = f"TORCHELASTIC_RUN_ID={run_id}"
    return [
        process
        for process in all_processes()
        if process.state not in "ZX"
        and (process.session in sessions or marker in _environment(process.pid))
    ]


def _is_of_run(mark: Mark) -> bool:
    """Whether the session is the rank's: its leader is gone or still the one that was started.

    While a session has members the kernel gives its number to no new process.
    """
    leader = read_process(mark.pid)
    return leader is None or leader.start_ticks == mark.start_ticks


def _environment(pid: int) -> list[str]:
    return read_text(f"/proc/{pid}/environ").split("\0")


def _end(processes: list[Process]) -> None:
    for process in processes:
        send(process.pid, signal.SIGKILL)
    until = time.monotonic() + _GONE_WITHIN_S
    marks = [Mark(process.pid, process.start_ticks) for process in processes]
    while any(mark.lives for mark in marks) and time.monotonic() < until:
        time.sleep(0.01)


def _here() -> list[str]:
    with suppress(OSError):
        namespace = str(os.stat("/proc/self/ns/pid").st_ino)  # noqa: PTH116
        boot = read_text("/proc/sys/kernel/random/boot_id").strip()
        return [socket.gethostname(), boot, namespace]
    return []


def _folder() -> str | None:
    """A folder of this user's alone; None where there is none and none can be made."""
    path = os.path.join(tempfile.gettempdir(), f"rankrun-{os.getuid()}")  # noqa: PTH118
    try:
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)  # noqa: PTH102
        found = os.lstat(path)
    except OSError:
        return None
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return path if ours and not found.st_mode & 0o077 else None
