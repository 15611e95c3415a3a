"""The bytes to a host: a TCP connection, or the user's ProxyCommand."""

import errno
import os
import select
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress

from ..errors import ConnectError
from .config import SshSettings
from .config_text import expand, make_tokens
from .deadline import Deadline

# Seconds for one TCP connection where the config names none, and until the next address of the
# same host is tried beside it (RFC 8305, Happy Eyeballs, says 250 ms).
CONNECT_S = 10.0
_NEXT_ADDRESS_S = 0.25

_FAMILIES = {"any": socket.AF_UNSPEC, "inet": socket.AF_INET, "inet6": socket.AF_INET6}

Address = tuple[socket.AddressFamily, tuple[str, int]]


def dial(settings: SshSettings, deadline: Deadline) -> socket.socket:
    """A TCP connection to whichever address of the host answers first.

    Raises:
        ConnectError: naming each address and what it said.
    """
    limit = Deadline(deadline.within(settings.connect_timeout_s or CONNECT_S))
    attempts = _Attempts(settings, _addresses(settings))
    try:
        return attempts.first(limit)
    finally:
        attempts.close()


def _addresses(settings: SshSettings) -> list[tuple[socket.AddressFamily, tuple[object, ...]]]:
    family = _FAMILIES.get(settings.family, socket.AF_UNSPEC)
    try:
        found = socket.getaddrinfo(
            settings.address, settings.port, family=family, type=socket.SOCK_STREAM
        )
    except (socket.gaierror, UnicodeError) as error:
        reason = error.strerror if isinstance(error, socket.gaierror) else str(error)
        raise ConnectError(
            f"{_name(settings)}: its name does not resolve ({reason}); add HostName to "
            "its entry in the ssh config, an address to the inventory, or a line to /etc/hosts",
            transient=isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN,
        ) from None
    addresses = [(family, address) for family, _, _, _, address in found]
    first = addresses[0][0]
    # One of each family in turn, so that a dead family costs a quarter of a second.
    same = [each for each in addresses if each[0] == first]
    other = [each for each in addresses if each[0] != first]
    mixed = [each for pair in zip(same, other, strict=False) for each in pair]
    return list(dict.fromkeys(mixed + same + other))


class _Attempts:
    """Connections that are being made side by side."""

    def __init__(
        self,
        settings: SshSettings,
        addresses: Sequence[tuple[socket.AddressFamily, tuple[object, ...]]],
    ) -> None:
        self._settings = settings
        self._waiting = list(addresses)
        self._open: dict[int, tuple[socket.socket, str]] = {}
        self._failures: dict[str, OSError] = {}

    def first(self, limit: Deadline) -> socket.socket:
        while not limit.passed:
            connected = self._start_next() or self._poll(limit)
            if connected is not None:
                return connected
            if not self._open and not self._waiting:
                break
        for _, address in self._open.values():
            self._failures[address] = TimeoutError(errno.ETIMEDOUT, "timed out")
        raise self._failed(limit)

    def close(self) -> None:
        for each, _ in self._open.values():
            each.close()

    def _start_next(self) -> socket.socket | None:
        if not self._waiting:
            return None
        family, address = self._waiting.pop(0)
        shown = str(address[0])
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            self._failures[shown] = error
            return None
        sock.setblocking(False)
        code = sock.connect_ex(address)
        if code == 0:
            return sock
        if code not in {errno.EINPROGRESS, errno.EINTR}:
            sock.close()
            self._failures[shown] = OSError(code, os.strerror(code))
            return None
        self._open[sock.fileno()] = (sock, shown)
        return None

    def _poll(self, limit: Deadline) -> socket.socket | None:
        if not self._open:
            return None
        poll = select.poll()
        for descriptor in self._open:
            poll.register(descriptor, select.POLLOUT)
        wait_s = _NEXT_ADDRESS_S if self._waiting else limit.left_s
        for descriptor, _ in poll.poll(limit.within(wait_s) * 1000):
            sock, shown = self._open.pop(descriptor)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code == 0:
                return sock
            sock.close()
            self._failures[shown] = OSError(code, os.strerror(code))
        return None

    def _failed(self, limit: Deadline) -> ConnectError:
        codes = {error.errno for error in self._failures.values()}
        code = next((code for code in _REMEDIES if code in codes), None)
        tried = ", ".join(
            f"{address}: {(error.strerror or str(error)).lower()}"
            for address, error in self._failures.items()
        )
        return ConnectError(
            f"{_name(self._settings)}: port {self._settings.port} cannot be reached within "
            f"{limit.seconds:.0f} s ({tried}); {_REMEDIES.get(code, _LOOK)}"
        )


_LOOK = "check the address and the network"
_REMEDIES: dict[int | None, str] = {
    errno.ECONNREFUSED: "the host is up but no sshd listens there: check the port",
    errno.ETIMEDOUT: "the host is down, the address wrong, or a firewall drops the packets",
    errno.EHOSTUNREACH: "no route, or the host is down: check the address and the network",
    errno.ENETUNREACH: "this machine has no route there: check the address, or add a jump host",
}


def _name(settings: SshSettings) -> str:
    if settings.address in {settings.host, settings.host.rpartition("@")[2]}:
        return settings.host
    return f"{settings.host} ({settings.address})"


class ProxyProcess:
    """The user's ProxyCommand; it carries our bytes over its standard input and output."""

    def __init__(self, settings: SshSettings, environment: Mapping[str, str]) -> None:
        """Start it as ssh does, through the user's shell.

        Raises:
            ConnectError: if the shell cannot be started.
        """
        assert settings.proxy_command is not None
        options = {
            "hostname": [settings.address],
            "port": [str(settings.port)],
            "user": [settings.user],
        }
        tokens = make_tokens(original=settings.host, options=options)
        command = expand(settings.proxy_command, tokens, {})
        shell = environment.get("SHELL") or "/bin/sh"
        self.command = command
        self.socket, theirs = socket.socketpair()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # closed in close()
        try:
            self._process = subprocess.Popen(
                [shell, "-c", f"exec {command}"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=self._stderr.fileno(),
                env=dict(environment),
                start_new_session=True,
            )
        except OSError as error:
            self.socket.close()
            self._stderr.close()
            raise ConnectError(
                f"{settings.host}: cannot start its ProxyCommand `{command}` with {shell}: {error}"
            ) from error
        finally:
            theirs.close()

    def last_words(self) -> str:
        """The end of what it wrote on its standard error."""
        end = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, end - 2048))
        lines = self._stderr.read().decode(errors="backslashreplace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def close(self) -> None:
        """End it and what it started in its process group."""
        self.socket.close()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._stderr.close()
