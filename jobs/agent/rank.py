"""One rank: its process, the pipes it writes to, its page of counters and its stacks."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import signal
import stat
import subprocess
from typing import NamedTuple

from .channel import PROGRESS_FD, PROGRESS_PAGE, RECORD_FD, STACKS_FD
from .frames import RECORD, STDERR, STDOUT
from .kernel import Prctl, die_with_parent, nameless_file
from .messages import native

READ_BYTES = 1 << 18
_F_SETPIPE_SZ = 1031  # fcntl.F_SETPIPE_SZ of Python 3.10; linux/fcntl.h
_MAX_STACKS_BYTES = 4 << 20

# A shell's codes: the command was not found; it was found and could not be executed.
NOT_FOUND = 127
NOT_EXECUTABLE = 126

_HINTS = {
    errno.ENOEXEC: " (a script needs a first line such as #!/bin/sh)",
    errno.EMFILE: " (the agent holds 5 files for every rank: raise ulimit -n)",
    errno.ENFILE: " (of all processes of this host: see /proc/sys/fs/file-max)",
    errno.EAGAIN: " (as many processes run as may: see ulimit -u and pids.max of the cgroup)",
}


class CannotStartError(Exception):
    """The command of a rank could not be executed; `code` as a shell has it."""

    def __init__(self, code: int, message: str) -> None:
        """Keep both."""
        super().__init__(message)
        self.code = code
        self.message = message


class Surroundings(NamedTuple):
    """What all ranks of the host share."""

    argv: list[str]
    workdir: str
    environment: dict[str, str]
    prctl: Prctl | None
    file_limit: tuple[int, int]
    bundle_fd: int | None


class Counts(NamedTuple):
    """A rank's page of counters, read at one moment."""

    step: int = 0
    started: int = 0
    finished: int = 0
    gives_stacks: int = 0


class RankProcess:
    """A rank that was started. Its pipes are read by the loop, through `pipes`."""

    def __init__(
        self, rank: int, environment: dict[str, str], *, around: Surroundings, now: float
    ) -> None:
        """Start the process.

        Raises:
            CannotStartError: if the command cannot be executed.
        """
        self.rank = rank
        self.exit_code: int | None = None
        self.told_to_end = False
        self.aborted = False
        self._counts = Counts()
        self._changed_at = now
        self.pipes: dict[int, int] = {}
        writers: dict[int, int] = {}
        with contextlib.ExitStack() as if_it_fails, contextlib.ExitStack() as afterwards:
            try:
                self._page_fd = nameless_file("rankrun-progress", resource.getpagesize())
                if_it_fails.callback(os.close, self._page_fd)
                self._stacks_fd = nameless_file("rankrun-stacks", 0)
                if_it_fails.callback(os.close, self._stacks_fd)
                for stream in (STDOUT, STDERR, RECORD):
                    self.pipes[stream], writers[stream] = _pipe()
                    if_it_fails.callback(os.close, self.pipes[stream])
                    afterwards.callback(os.close, writers[stream])
            except OSError as error:
                raise _cannot_start(error, around) from error
            self.process = self._spawn(environment, around, writers)
            if_it_fails.pop_all()

    @property
    def pid(self) -> int:
        """Process id; also of its session and group."""
        return self.process.pid

    @property
    def alive(self) -> bool:
        """Whether it was not yet seen to end."""
        return self.exit_code is None

    def _spawn(
        self, environment: dict[str, str], around: Surroundings, writers: dict[int, int]
    ) -> subprocess.Popen[bytes]:
        handed = {
            RECORD_FD: str(writers[RECORD]),
            PROGRESS_FD: str(self._page_fd),
            STACKS_FD: str(self._stacks_fd),
        }
        variables = {**around.environment, **environment, **handed}
        shared = [writers[RECORD], self._page_fd, self._stacks_fd]
        if around.bundle_fd is not None:
            # A zip can stand on Python's path; the descriptor is the same in the rank.
            bundle = f"/proc/self/fd/{around.bundle_fd}"
            others = variables.get("PYTHONPATH")
            variables["PYTHONPATH"] = f"{bundle}{os.pathsep}{others}" if others else bundle
            shared.append(around.bundle_fd)
        parent = os.getpid()

        def in_child() -> None:
            die_with_parent(around.prctl, parent, signal.SIGKILL)
            resource.setrlimit(resource.RLIMIT_NOFILE, around.file_limit)

        try:
            return subprocess.Popen(
                [native(word) for word in around.argv],
                env={native(name): native(value) for name, value in variables.items()},
                cwd=native(around.workdir),
                stdin=subprocess.DEVNULL,
                stdout=writers[STDOUT],
                stderr=writers[STDERR],
                start_new_session=True,
                pass_fds=shared,
                preexec_fn=in_child,  # noqa: PLW1509  # the agent has one thread
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise _cannot_start(error, around) from error

    def read_counts(self, now: float) -> tuple[Counts, float]:
        """The counters and for how many seconds they have not changed."""
        page = os.pread(self._page_fd, PROGRESS_PAGE.size, 0)
        if len(page) == PROGRESS_PAGE.size:
            counts = Counts(*PROGRESS_PAGE.unpack(page))
            if counts[:3] != self._counts[:3]:
                self._changed_at = now
            self._counts = counts
        return self._counts, now - self._changed_at

    def stacks_size(self) -> int:
        """How many bytes of stacks the rank has ever written."""
        return os.fstat(self._stacks_fd).st_size

    def read_stacks(self, start: int) -> str:
        """The stacks written from `start` on."""
        return os.pread(self._stacks_fd, _MAX_STACKS_BYTES, start).decode(errors="backslashreplace")

    def close_pipe(self, stream: int) -> None:
        """The pipe is at its end."""
        os.close(self.pipes.pop(stream))


def _pipe() -> tuple[int, int]:
    reader, writer = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(reader, False)
    with contextlib.suppress(OSError):  # beyond the user's limit for pipes 64 KiB will do
        fcntl.fcntl(writer, _F_SETPIPE_SZ, READ_BYTES)
    return reader, writer


def _cannot_start(error: Exception, around: Surroundings) -> CannotStartError:
    command = around.argv[0]
    if not isinstance(error, OSError):
        return CannotStartError(NOT_EXECUTABLE, f"cannot start {command!r}: {error}")
    if _wrong_workdir(around.workdir):
        return CannotStartError(
            NOT_EXECUTABLE,
            f"cannot start {command!r}: no usable working directory {around.workdir!r}: "
            f"{_wrong_workdir(around.workdir)}",
        )
    if error.errno == errno.ENOENT:
        path = around.environment.get("PATH", os.defpath)
        where = _why_missing(around) if "/" in command else f"not in PATH ({path})"
        return CannotStartError(NOT_FOUND, f"command not found: {command!r}: {where}")
    reason = os.strerror(error.errno or 0)
    hint = _HINTS.get(error.errno or 0, "")
    return CannotStartError(NOT_EXECUTABLE, f"cannot execute {command!r}: {reason}{hint}")


def _why_missing(around: Surroundings) -> str:
    path = os.path.join(native(around.workdir), native(around.argv[0]))  # noqa: PTH118
    exists = os.path.exists(path)  # noqa: PTH110
    return "the interpreter that its first line names is missing" if exists else "no such file"


def _wrong_workdir(workdir: str) -> str:
    try:
        if not stat.S_ISDIR(os.stat(native(workdir)).st_mode):  # noqa: PTH116
            return os.strerror(errno.ENOTDIR)
        if not os.access(native(workdir), os.X_OK):
            return os.strerror(errno.EACCES)
    except OSError as error:
        return os.strerror(error.errno or 0)
    return ""
