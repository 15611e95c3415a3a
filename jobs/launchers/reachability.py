"""The address of the master: one that every other host has dialled. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...cluster.hosts import HostEntry
from ..agent.messages import Welcome
from ..agent.reach import Attempt

# Bridges and tunnels of containers and virtual machines: tried last, they rarely lead anywhere.
_VIRTUAL = re.compile(r"docker|br-|veth|virbr|cni|flannel|cali|tun|tap|podman|lxc|kube|vnet|wg")


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Where ranks meet: the master's address, and each host's interface towards it."""

    address: str
    interfaces: Mapping[str, str]


def candidates(master: HostEntry, welcome: Welcome, *, dialled: str | None) -> list[str]:
    """The addresses of the master worth trying, best first.

    What the inventory names is the only one. Else those of its interface, or of all: first the
    one that this controller `dialled`, virtual interfaces last.
    """
    if master.address is not None:
        return [master.address]
    own = [
        (name, address)
        for name, address in welcome.addresses
        if master.interface is None or name == master.interface
    ]
    own.sort(key=lambda pair: (pair[1] != dialled, bool(_VIRTUAL.match(pair[0]))))
    return [address for _, address in own]


def choose(
    master: HostEntry, welcome: Welcome, attempts: Mapping[str, Sequence[Attempt]]
) -> Meeting | None:
    """The first address that answered to all others; None if there is none."""
    tried = next(iter(attempts.values()))
    for index, attempt in enumerate(tried):
        if all(not others[index].failure for others in attempts.values()):
            address = attempt.address
            own = {name: each[index].own_interface for name, each in attempts.items()}
            own[master.name] = _interface_with(welcome, address)
            return Meeting(address=address, interfaces=own)
    return None


def _interface_with(welcome: Welcome, address: str) -> str:
    return next((name for name, own in welcome.addresses if own == address), "")


def explain(master: str, port: int, attempts: Mapping[str, Sequence[Attempt]]) -> list[str]:
    """Why no address will do: one line per address of the master."""
    lines = []
    for index, attempt in enumerate(next(iter(attempts.values()))):
        failures: dict[str, list[str]] = {}
        for name, each in attempts.items():
            if each[index].failure:
                failures.setdefault(each[index].failure, []).append(name)
        said = "; ".join(f"{', '.join(names)}: {why}" for why, names in failures.items())
        lines.append(f"{master} at {attempt.address} port {port}: {said}")
    return lines
