"""What connections to many hosts share, and how they are made."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from ..errors import ConnectError, UsageError
from ..hosts import HostEntry, Login, SshClient
from .deadline import Deadline
from .fan_out import THREADS, fan_out
from .host_keys import KnownHostsFiles
from .jump_hosts import JumpHosts
from .key_ring import Ask, KeyRing
from .pacing import Pacer
from .transport import Transport

if TYPE_CHECKING:
    import paramiko

    from .paramiko_transport import ParamikoTransport

OnProgress = Callable[[str, "Transport | ConnectError"], None]


class Connections:
    """Jump hosts, pacing and what was read from files; close it once all hosts are connected."""

    def __init__(
        self, *, ask: Ask | None = None, environment: Mapping[str, str] = os.environ
    ) -> None:
        """`ask` is for passphrases; None: keys that need one are passed over."""
        self.environment = environment
        self.ask = ask
        self.known_hosts = KnownHostsFiles()
        self.pacer = Pacer()
        self.jump_hosts: JumpHosts[ParamikoTransport] = JumpHosts()
        self.ring: KeyRing[paramiko.PKey] = KeyRing(ask)
        self.terminal = threading.Lock()

    def close(self) -> None:
        """Let go of the jump hosts that nobody is connected through."""
        self.jump_hosts.close()


class Connect(Protocol):
    """Makes a transport; one for each client."""

    def __call__(
        self, name: str, login: Login, connections: Connections, deadline: Deadline
    ) -> Transport:
        """A connection that is logged in."""


def connect(name: str, login: Login, *, connections: Connections, deadline: Deadline) -> Transport:
    """A connection to a host, logged in, to the very host that the known hosts say it is.

    Raises:
        ConnectError: one line: the host, why not, and what to do.
        UsageError: for a name that can be no host.
    """
    return _CLIENTS[login.client]()(name, login, connections, deadline)


def connect_all(
    hosts: Sequence[HostEntry],
    *,
    timeout_s: float,
    ask: Ask | None = None,
    on_progress: OnProgress | None = None,
) -> dict[str, Transport | ConnectError]:
    """Each host's connection, or why there is none, in the order of `hosts`.

    `timeout_s` is for each host from its turn; 32 are under way at once. Raises nothing for a
    host: one that fails is data.
    """
    connections = Connections(ask=ask)

    def one(host: HostEntry) -> Transport | ConnectError:
        return _connect_or_why(host, connections, timeout_s)

    def report(host: HostEntry, result: Transport | ConnectError) -> None:
        found[host.name] = result
        if on_progress is not None:
            on_progress(host.name, result)

    found: dict[str, Transport | ConnectError] = {}
    try:
        fan_out(hosts, one, threads=THREADS, on_result=report)
    except BaseException:
        connections.pacer.cancelled.set()
        for result in found.values():
            if not isinstance(result, ConnectError):
                result.close()
        raise
    finally:
        connections.close()
    return {host.name: found[host.name] for host in hosts}


def _connect_or_why(
    host: HostEntry, connections: Connections, timeout_s: float
) -> Transport | ConnectError:
    cancelled = connections.pacer.cancelled
    if cancelled.is_set():
        return ConnectError(f"{host.name}: given up")
    try:
        transport = connect(
            host.name, host.login, connections=connections, deadline=Deadline(timeout_s)
        )
    except ConnectError as error:
        return error
    except UsageError as error:
        return ConnectError(str(error))
    if cancelled.is_set():
        transport.close()
        return ConnectError(f"{host.name}: given up")
    return transport


def _paramiko() -> Connect:
    from .paramiko_connect import connect_with_paramiko  # noqa: PLC0415  # imports paramiko

    return connect_with_paramiko


def _openssh() -> Connect:
    from .openssh import connect_with_openssh  # noqa: PLC0415  # only where it is asked for

    return connect_with_openssh


_CLIENTS: dict[SshClient, Callable[[], Connect]] = {
    SshClient.PARAMIKO: _paramiko,
    SshClient.OPENSSH: _openssh,
}
