"""`-t/--target`: where a run goes. One row per scheme."""

import os
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .errors import UsageError
from .gpus import count_visible_gpus
from .hosts import HostEntry
from .inventory.ranges import expand_hosts, split_outside_brackets

RANKS_WITHOUT_GPU = 4
MAX_LOCAL_RANKS = 4096

# One machine needs no network: its loopback works whatever its name resolves to.
LOOPBACK_ADDRESS = "127.0.0.1"
LOOPBACK_INTERFACE = "lo"

_SLOTS = re.compile(r"(.*?)(?:\*([1-9][0-9]{0,3}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A parsed target: which launcher, and the hosts in rank order.

    `settings` are variables for all ranks.
    """

    text: str
    launcher: str
    hosts: tuple[HostEntry, ...]
    settings: Mapping[str, str] = field(default_factory=dict)


def parse_target(text: str | None, *, environment: Mapping[str, str] = os.environ) -> Target:
    """The target of `local`, `local:N` or `ssh:node[0-3],gpu7*8`; None means `local`.

    Raises:
        UsageError: for an unknown scheme, a count that is not a positive number, or what is no
            list of hosts.
    """
    text = text or "local"
    scheme, _, rest = text.partition(":")
    if scheme not in SCHEMES:
        raise UsageError(f"target {text!r}: unknown; valid: {', '.join(_FORMS)}")
    return SCHEMES[scheme](text, rest, environment)


def _local(text: str, rest: str, environment: Mapping[str, str]) -> Target:
    if ":" in text:
        if not (rest.isascii() and rest.isdigit() and 0 < int(rest) <= MAX_LOCAL_RANKS):
            raise UsageError(
                f"target {text!r}: {rest!r} is not a number of ranks; "
                f"write local:N with N from 1 to {MAX_LOCAL_RANKS}"
            )
        slots = int(rest)
    else:
        slots = count_visible_gpus(environment) or RANKS_WITHOUT_GPU
    host = HostEntry(
        name=socket.gethostname(),
        address=LOOPBACK_ADDRESS,
        slots=slots,
        interface=LOOPBACK_INTERFACE,
    )
    return Target(text=text, launcher="local", hosts=(host,))


def _ssh(text: str, rest: str, _environment: Mapping[str, str]) -> Target:
    if not rest:
        raise UsageError(f"target {text!r}: no hosts; write ssh:node[0-3] or ssh:alice@gpu1,gpu2*8")
    slots = _slots_by_host(rest)
    hosts = tuple(HostEntry(name=name, slots=slots[name]) for name in slots)
    return Target(text=text, launcher="ssh", hosts=hosts)


def _slots_by_host(expression: str) -> dict[str, int | None]:
    """Names in the order written; None where no number of ranks is said."""
    parts = []
    slots: list[int | None] = []
    for part in split_outside_brackets(expression):
        match = _SLOTS.fullmatch(part)
        assert match is not None
        count = int(match[2]) if match[2] else None
        slots += [count] * len(expand_hosts(match[1]))
        parts.append(match[1])
    return dict(zip(expand_hosts(",".join(parts)), slots, strict=True))


SCHEMES: dict[str, Callable[[str, str, Mapping[str, str]], Target]] = {
    "local": _local,
    "ssh": _ssh,
}
_FORMS = ("local[:N]", "ssh:HOSTS")
