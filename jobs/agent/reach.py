"""Proving that an address is the master's: its agent answers there, on MASTER_PORT itself.

An address alone proves little: docker0 has the same one on every host, a name may map to
127.0.1.1, a firewall may let one port through and not another. So before any rank starts, the
agent of the master's host listens on the port it holds and says a word that only this run
knows, and every other agent dials all addresses of that host.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import selectors
import socket
import time
from typing import NamedTuple

from .facts import interface_of

_MAX_ANSWER_BYTES = 256
_BACKLOG = 4096


class PortHolder:
    """MASTER_PORT, held for rank 0 until the run is over."""

    def __init__(self, port: int, held: socket.socket) -> None:
        """`held` is bound to the port and does not listen."""
        self.port = port
        self._held = held
        self._listener: socket.socket | None = None
        self._answer = b""
        self._callers: list[socket.socket] = []

    def listen(self, answer: str) -> socket.socket:
        """Answer whoever dials from now on; the socket to wait on for callers.

        A second socket does the listening: one that ever listened could not go back to only
        holding the port.
        """
        listener = socket.socket(self._held.family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if listener.family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(self._held.getsockname()[:2])
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        self._listener, self._answer = listener, answer.encode()
        return listener

    def answer_callers(self) -> None:
        """Say the word to all who wait; they hang up, so that no TIME_WAIT stays on the port."""
        assert self._listener is not None
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            caller.setblocking(False)
            try:
                caller.send(self._answer)
            except OSError:
                caller.close()
                continue
            self._callers.append(caller)

    def stop_listening(self) -> None:
        """Leave the port to rank 0, still held."""
        for caller in self._callers:
            caller.close()
        self._callers.clear()
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def close(self) -> None:
        """The run is over."""
        self.stop_listening()
        self._held.close()


class Attempt(NamedTuple):
    """What came of dialling an address; `failure` is empty where the master answered."""

    address: str
    failure: str
    own_address: str
    own_interface: str


class _Call:
    """One address being dialled."""

    def __init__(self, address: str, port: int) -> None:
        self.address = address
        self.failure = "timed out"
        self.own_address = ""
        self.heard = b""
        self.connected = False
        # Numbers only: a name could keep the resolver, and us, waiting for half a minute.
        version = ipaddress.ip_address(address).version
        self.socket = socket.socket(
            socket.AF_INET6 if version == 6 else socket.AF_INET, socket.SOCK_STREAM
        )
        self.socket.setblocking(False)
        code = self.socket.connect_ex((address, port))
        self.done = code not in (0, errno.EINPROGRESS)
        if self.done:
            self.failure = os.strerror(code)

    def go_on(self, answer: bytes) -> None:
        """The socket has something to say."""
        try:
            if not self.connected:
                code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if code:
                    raise OSError(code, os.strerror(code))
                self.connected = True
                self.own_address = _plain(self.socket.getsockname()[0])
                self.failure = "connected, but nobody answered"
                return
            data = self.socket.recv(_MAX_ANSWER_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self.failure = error.strerror or str(error)
            self.done = True
            return
        self.heard += data
        if self.heard == answer:
            self.failure, self.done = "", True
        elif not data or not answer.startswith(self.heard):
            self.failure, self.done = "another program answered there, not the master", True


def dial(addresses: list[str], port: int, answer: str, timeout_s: float) -> list[Attempt]:
    """Dial all addresses at once; what came of each, in the same order."""
    expected = answer.encode()
    until = time.monotonic() + timeout_s
    calls = [_start(address, port) for address in addresses]
    with selectors.DefaultSelector() as selector:
        for call in calls:
            if isinstance(call, _Call) and not call.done:
                selector.register(call.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, call)
        while selector.get_map() and time.monotonic() < until:
            for key, _ in selector.select(max(0.0, until - time.monotonic())):
                call = key.data
                call.go_on(expected)
                if call.done:
                    selector.unregister(call.socket)
                elif call.connected:
                    selector.modify(call.socket, selectors.EVENT_READ, call)
    return [_attempt(call) for call in calls]


def _start(address: str, port: int) -> _Call | Attempt:
    try:
        return _Call(address, port)
    except (OSError, ValueError) as error:
        return Attempt(address, str(error), "", "")


def _attempt(call: _Call | Attempt) -> Attempt:
    if isinstance(call, Attempt):
        return call
    call.socket.close()
    return Attempt(call.address, call.failure, call.own_address, interface_of(call.own_address))


def _plain(address: str) -> str:
    """An IPv4 address as such, also where a dual-stack socket shows it mapped."""
    return address[7:] if address.startswith("::ffff:") and "." in address else address
