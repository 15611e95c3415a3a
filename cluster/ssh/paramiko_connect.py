"""How paramiko reaches a host: directly, through jump hosts, or through a proxy command."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass

import paramiko

from ..errors import ConnectError, UsageError
from ..hosts import Login
from .config import SshSettings, resolve_ssh
from .connections import Connections
from .deadline import Deadline
from .dial import CONNECT_S, ProxyProcess, dial
from .host_keys import HostKeys
from .login import log_in
from .paramiko_transport import ParamikoTransport

_HOP = re.compile(r"(?:(?P<user>.+)@)?(?P<host>\[[^\]]+\]|[^:@\[\]]+)(?::(?P<port>\d+))?")
_UNSERVED = "only the ssh program serves {} of its ssh config: set client: openssh for this host"


def connect_with_paramiko(
    name: str, login: Login, connections: Connections, deadline: Deadline
) -> ParamikoTransport:
    """See `connect`."""
    if login.key is not None and not login.key.expanduser().is_file():
        raise ConnectError(f"{name}: there is no key file {login.key}; check key: or -i")
    settings = resolve_ssh(name, login, environment=connections.environment)
    unserved = [option for option in settings.special if option != "knownhostscommand"]
    if unserved:
        raise ConnectError(f"{name}: {_UNSERVED.format(' and '.join(unserved))}")
    return connections.pacer.retry(
        lambda: _attempt(settings, login, connections, deadline), deadline
    )


def parse_hop(text: str) -> tuple[str, str | None, int | None]:
    """Host, user and port of one hop of ProxyJump, as ssh_config(5) has it.

    >>> parse_hop("ann@gate:2222"), parse_hop("ssh://[fe80::1]:22"), parse_hop("gate")
    (('gate', 'ann', 2222), ('fe80::1', None, 22), ('gate', None, None))
    """
    match = _HOP.fullmatch(text.strip().removeprefix("ssh://").rstrip("/"))
    if match is None:
        raise UsageError(f"jump host {text!r}: write [user@]host[:port]")
    port = match["port"]
    return match["host"].strip("[]"), match["user"], int(port) if port else None


def hop_login(chain: str, login: Login) -> tuple[str, Login]:
    """The last hop of a chain, and how to log in to it: through the hops before it.

    >>> hop_login("gate,ann@inner:2200", Login(user="bob"))[0]
    'inner'
    """
    before, _, last = chain.rpartition(",")
    host, user, port = parse_hop(last)
    return host, Login(user=user, port=port, jump=before or None, config=login.config)


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """The bytes to a host, and what lets go of them. `explain` adds what the carrier knows."""

    sock: socket.socket | paramiko.Channel
    peer_address: str
    local_address: str | None
    close: Callable[[], None]
    explain: Callable[[ConnectError], ConnectError] = lambda error: error


def _attempt(
    settings: SshSettings, login: Login, connections: Connections, deadline: Deadline
) -> ParamikoTransport:
    """One try."""
    host_keys = HostKeys(settings, connections.known_hosts.of(settings))
    with connections.pacer.slot(_server(settings), settings.host, deadline):
        carried = _carry(settings, login, connections, deadline)
        try:
            session, notes = log_in(
                carried.sock, settings, host_keys, ring=connections.ring, deadline=deadline
            )
        except ConnectError as error:
            explained = carried.explain(error)
            carried.close()
            raise explained from error
        except BaseException:
            carried.close()
            raise
    return ParamikoTransport(
        settings.host,
        session,
        peer_address=carried.peer_address,
        local_address=carried.local_address,
        notes=notes,
        release=carried.close,
    )


def _server(settings: SshSettings) -> Hashable:
    """What counts our log-ins: the server, or the proxy command, which has one behind it."""
    if settings.proxy_command is not None:
        return settings.proxy_command
    return settings.proxy_jump, settings.address, settings.port


def _carry(
    settings: SshSettings, login: Login, connections: Connections, deadline: Deadline
) -> Carried:
    if settings.proxy_jump is not None:
        return _through_jump(settings, login, connections, deadline)
    if settings.proxy_command is not None:
        return _through_command(settings, connections)
    sock = dial(settings, deadline)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Carried(
        sock=sock,
        peer_address=_address(sock.getpeername()),
        local_address=_address(sock.getsockname()),
        close=sock.close,
    )


def _through_jump(
    settings: SshSettings, login: Login, connections: Connections, deadline: Deadline
) -> Carried:
    assert settings.proxy_jump is not None
    hop, hop_login_ = hop_login(settings.proxy_jump, login)
    lease = connections.jump_hosts.lease(
        (hop, hop_login_),
        lambda: connect_with_paramiko(hop, hop_login_, connections, deadline),
        host=settings.host,
        deadline=deadline,
    )
    try:
        sock = _forward(lease.carrier, settings, deadline)
    except BaseException:
        lease.release()
        raise

    def close() -> None:
        with suppress(OSError, EOFError, paramiko.SSHException):
            sock.close()
        lease.release()

    return Carried(sock=sock, peer_address=settings.address, local_address=None, close=close)


# RFC 4254, 5.1: the reasons a server gives for not opening a channel.
_NOT_OPENED = {
    1: ("the jump host {} does not forward (AllowTcpForwarding, PermitOpen in its sshd_config)", 0),
    2: ("the jump host {} cannot connect to {}:{}: check the address as that host sees it", 0),
    4: ("the jump host {} has no room for another connection", 1),
}


def _forward(
    jump: ParamikoTransport, settings: SshSettings, deadline: Deadline
) -> paramiko.Channel:
    limit_s = deadline.within(settings.connect_timeout_s or CONNECT_S)
    target = (settings.address, settings.port)
    try:
        return jump.session.open_channel("direct-tcpip", target, ("127.0.0.1", 0), timeout=limit_s)
    except paramiko.ChannelException as error:
        text, transient = _NOT_OPENED.get(error.code, ("the jump host {} refuses {}:{}", 0))
        why = f"{text.format(jump.host, *target)} ({error.text})"
        raise ConnectError(f"{settings.host}: {why}", transient=bool(transient)) from error
    except (paramiko.SSHException, EOFError, OSError) as error:
        if jump.alive:
            raise ConnectError(
                f"{settings.host}: its jump host {jump.host} cannot connect to "
                f"{settings.address}:{settings.port} within {limit_s:.0f} s: the host is down, the "
                "address wrong, or a firewall drops the packets"
            ) from error
        raise ConnectError(
            f"{settings.host}: the connection to its jump host {jump.host} broke", transient=True
        ) from error


def _through_command(settings: SshSettings, connections: Connections) -> Carried:
    proxy = ProxyProcess(settings, connections.environment)
    return Carried(
        sock=proxy.socket,
        peer_address=settings.address,
        local_address=None,
        close=proxy.close,
        explain=lambda error: _proxied(error, settings, proxy),
    )


# What OpenSSH's client says, as somebody's proxy, when the server behind it was only busy.
_BUSY_BEHIND = re.compile(r"closed by|reset by|kex_exchange|banner exchange|MaxStartups")


def _proxied(error: ConnectError, settings: SshSettings, proxy: ProxyProcess) -> ConnectError:
    said = proxy.last_words()
    if not said:
        return error
    if not error.transient:
        return ConnectError(f"{error} (its ProxyCommand says: {said})")
    return ConnectError(
        f"{settings.host}: its ProxyCommand `{proxy.command}` gives no connection: {said}",
        transient=bool(_BUSY_BEHIND.search(said)),
    )


def _address(name: object) -> str:
    assert isinstance(name, tuple)
    return str(name[0])
