"""What differs between hosts that should be alike, folded: most hosts first. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from . import Facts, Value

# Facts that are a host's own by nature, or that change from one moment to the next.
_OWN = re.compile(
    r"time_s|host_name|load_1min|memory\.available_mib|name\..*|unread\..*|user"
    r"|interface\.(lo|veth.*)\..*|interface\..*\.addresses|disk\..*\.(free_mib|total_mib)"
    r"|gpu\..*\.(uuid|memory\.used|clocks_throttle_reasons\.active)|gpu\.xids|ib\..*\.gids"
)
_COUNTER = re.compile(r"ib\.[^.]*:\d+\.(?!state|phys_state|rate|link_layer)\w+$")


@dataclass(frozen=True)
class Difference:
    """One fact and its values, each with the hosts that have it; None: they lack the fact."""

    key: str
    values: tuple[tuple[Value | None, tuple[str, ...]], ...]


def differences(facts: Mapping[str, Facts]) -> list[Difference]:
    """The facts in which hosts differ, by key.

    >>> old, new = {"kernel": "6.1"}, {"kernel": "6.2"}
    >>> differences({"a": old, "b": old, "c": new})[0].values
    (('6.1', ('a', 'b')), ('6.2', ('c',)))
    """
    keys = sorted({key for each in facts.values() for key in each if not is_own(key)})
    found = []
    for key in keys:
        hosts: dict[str, list[str]] = {}
        values: dict[str, Value | None] = {}
        for host, own in facts.items():
            value = own.get(key)
            spelled = json.dumps(value)
            hosts.setdefault(spelled, []).append(host)
            values[spelled] = value
        if len(hosts) > 1:
            by_number = sorted(hosts, key=lambda spelled: -len(hosts[spelled]))
            pairs = tuple((values[spelled], tuple(hosts[spelled])) for spelled in by_number)
            found.append(Difference(key, pairs))
    return found


def is_own(key: str) -> bool:
    """Whether hosts may differ in this fact without any meaning."""
    return bool(_OWN.fullmatch(key) or _COUNTER.fullmatch(key))
