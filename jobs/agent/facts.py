"""What a host knows of itself: its name, its GPUs, its addresses and their interfaces."""

from __future__ import annotations

import array
import contextlib
import fcntl
import re
import socket
import struct
from pathlib import Path

_SIOCGIFCONF = 0x8912
_SIOCGIFFLAGS = 0x8913
_IFF_UP = 0x1
_IFF_LOOPBACK = 0x8
# struct ifreq of 64-bit Linux (netdevice(7)): a name of 16 bytes, then a union of 24.
_IFREQ_BYTES = 40
_MAX_INTERFACES = 512

_GLOBAL_SCOPE = "00"


def count_gpus() -> int:
    """NVIDIA GPUs, by the device files that the driver makes for each."""
    return sum(1 for path in Path("/dev").glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name))


def list_addresses() -> list[tuple[str, str]]:
    """(interface, address) of every interface that is up, IPv4 first; no loopback, no link-local.

    Asked of the kernel and not of /sys, which can show another network namespace than ours.
    """
    return _list_ipv4() + _list_ipv6()


def interface_of(address: str) -> str:
    """The interface that has this address; empty where none has."""
    return next((name for name, own in list_addresses() if own == address), "")


def _list_ipv4() -> list[tuple[str, str]]:
    buffer = array.array("B", bytes(_IFREQ_BYTES * _MAX_INTERFACES))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        # struct ifconf: the length of the buffer, then where it is.
        request = struct.pack("iP", len(buffer), buffer.buffer_info()[0])
        try:
            answer = fcntl.ioctl(asked, _SIOCGIFCONF, request)
        except OSError:
            return []
        used, _ = struct.unpack("iP", answer)
        data = buffer.tobytes()[:used]
        found = []
        for at in range(0, used, _IFREQ_BYTES):
            label = data[at : at + 16].partition(b"\0")[0].decode(errors="surrogateescape")
            name = label.partition(":")[0]  # eth0:1 is an alias of eth0
            if _is_usable(asked, name):
                found.append((name, socket.inet_ntoa(data[at + 20 : at + 24])))
    return found


def _is_usable(asked: socket.socket, name: str) -> bool:
    request = struct.pack("16s24x", name.encode(errors="surrogateescape"))
    try:
        answer = fcntl.ioctl(asked, _SIOCGIFFLAGS, request)
    except OSError:
        return False
    (flags,) = struct.unpack_from("H", answer, 16)
    return bool(flags & _IFF_UP) and not flags & _IFF_LOOPBACK


def _list_ipv6() -> list[tuple[str, str]]:
    """From /proc/net/if_inet6: address, index, prefix length, scope, flags, name (proc(5))."""
    found = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/net/if_inet6").read_text().splitlines():
            digits, _, _, scope, _, name = line.split()
            if scope == _GLOBAL_SCOPE:
                found.append((name, socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))))
    return found
