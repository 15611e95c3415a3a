"""The few Linux calls that Python's library lacks, and a file without a name."""

from __future__ import annotations

import os
import resource
import signal
import socket
import tempfile
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

Prctl = Callable[[int, int], int]


def load_prctl() -> Prctl | None:
    """prctl(2); None where this Python has no ctypes (then ends depend on the agent alone)."""
    try:
        import ctypes  # noqa: PLC0415  # some minimal Pythons lack it

        function = ctypes.CDLL(None, use_errno=True).prctl
    except (ImportError, OSError, AttributeError):
        return None

    def prctl(option: int, value: int) -> int:
        return int(function(option, ctypes.c_ulong(value), 0, 0, 0))

    return prctl


def become_subreaper(prctl: Prctl | None) -> bool:
    """Inherit every orphan below this process, however it detached itself."""
    return prctl is not None and prctl(_PR_SET_CHILD_SUBREAPER, 1) == 0


def die_with_parent(prctl: Prctl | None, parent: int, number: int) -> None:
    """In a child: get signal `number` when the parent ends, also if it just did."""
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:
            os.kill(os.getpid(), number)


def nameless_file(name: str, size: int) -> int:
    """A descriptor of a file in memory (on disk where the C library is older than memfd)."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor


def reserve_port(port: int = 0) -> socket.socket:
    """A socket bound to this port, or a free one for 0, on all addresses; it does not listen.

    While it is open the kernel hands the port to nobody who asks for any port, and rank 0,
    which sets SO_REUSEADDR as every server does, can still bind it and listen.

    Raises:
        OSError: if the port is not free.
    """
    failure = OSError("this host has neither IPv4 nor IPv6")
    for family, address in ((socket.AF_INET6, "::"), (socket.AF_INET, "")):
        try:
            bound = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            failure = error
            continue
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            bound.bind((address, port))
        except OSError as error:
            bound.close()
            failure = error
            continue
        return bound
    raise failure


def raise_file_limit() -> tuple[int, int]:
    """Allow as many open files as the hard limit does; gives what was set before."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    except (OSError, ValueError):
        return before
    return before


def forbid_core(pid: int) -> None:
    """No core file of a process that is aborted only for its stacks: it may hold 100 GB."""
    try:
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
    except OSError:
        return


def send(pid: int, number: int, *, group: bool = False) -> bool:
    """Signal a process or its group; False if it is gone or not ours."""
    try:
        if group:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def signal_name(number: int) -> str:
    """SIGKILL for 9; the number where it has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
