"""Interfaces with their state, and how the host's own name resolves."""

from __future__ import annotations

import fcntl
import re
import socket
import struct
from typing import Any

from .reading import output_of, read

_SIOCGIFFLAGS = 0x8913
_SIOCGIFMTU = 0x8921
_IFF_UP = 0x1
_IFF_RUNNING = 0x40

# ip -br address: NAME@PARENT STATE ADDRESS/LENGTH ... (ip-address(8), -brief).
_BRIEF = re.compile(r"^(?P<name>[^\s@]+)(?:@\S+)?\s+(?P<state>\S+)\s*(?P<addresses>.*)$")


def collect() -> dict[str, Any]:
    """Facts of every interface and of the names of this host."""
    facts: dict[str, Any] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            facts.update(_interface(asked, name))
    for name, addresses in _addresses().items():
        facts[f"interface.{name}.addresses"] = addresses
    facts.update(_own_name())
    return facts


def _interface(asked: socket.socket, name: str) -> dict[str, Any]:
    """By ioctl (netdevice(7)): /sys can show another network namespace than ours."""
    facts: dict[str, Any] = {}
    key = f"interface.{name}"
    flags = _ioctl(asked, _SIOCGIFFLAGS, name, "H")
    mtu = _ioctl(asked, _SIOCGIFMTU, name, "i")
    if flags is not None:
        facts[f"{key}.up"] = bool(flags & _IFF_UP)
        facts[f"{key}.running"] = bool(flags & _IFF_RUNNING)
    if mtu is not None:
        facts[f"{key}.mtu"] = mtu
    speed = read(f"/sys/class/net/{name}/speed")
    if speed.isdigit():
        facts[f"{key}.speed_mbit"] = int(speed)
    return facts


def _ioctl(asked: socket.socket, request: int, name: str, kind: str) -> int | None:
    packed = struct.pack("16s24x", name.encode(errors="surrogateescape"))
    try:
        answer = fcntl.ioctl(asked, request, packed)
    except OSError:
        return None
    return int(struct.unpack_from(kind, answer, 16)[0])


def _addresses() -> dict[str, list[str]]:
    return parse_brief(output_of("ip", "-br", "address") or "")


def parse_brief(text: str) -> dict[str, list[str]]:
    r"""Addresses with prefix lengths by interface, of `ip -br address`.

    >>> parse_brief("lo    UNKNOWN  127.0.0.1/8 ::1/128\neth0@if7 UP 10.77.0.1/24\nib0 DOWN\n")
    {'lo': ['127.0.0.1/8', '::1/128'], 'eth0': ['10.77.0.1/24'], 'ib0': []}
    """
    found = {}
    for line in text.splitlines():
        match = _BRIEF.match(line)
        if match:
            words = match["addresses"].split()
            found[match["name"]] = [word for word in words if "/" in word]
    return found


def _own_name() -> dict[str, Any]:
    """The addresses that the host's own name leads to; gloo and c10d ask for them."""
    name = socket.gethostname()
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError as error:
        return {"name.unresolved": f"{name}: {error.strerror or error}"}
    return {"name.addresses": sorted({str(each[4][0]) for each in found})}
