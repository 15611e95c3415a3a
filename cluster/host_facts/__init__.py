"""What a host says of itself before a run: a flat dictionary of facts, one key for each.

    facts = collect(scratch=["/tmp"])
    facts["torch.version"], facts["limit.memlock_bytes"], facts["interface.eth0.mtu"]

Standard library only, Python 3.9: it runs on hosts as it stands. A fact that cannot be had is
left out; one that could not be read although it should be stands under `unread.`, with the reason.
Values are what JSON has: text, numbers, booleans, lists of text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Union

from . import gpus, infiniband, limits, network, software, system

Value = Union[str, int, float, bool, list[str]]  # noqa: UP007  # Python 3.9
Facts = dict[str, Value]

COLLECTORS: dict[str, Callable[[], Facts]] = {
    "system": system.collect,
    "software": software.collect,
    "limits": limits.collect,
    "network": network.collect,
    "infiniband": infiniband.collect,
    "gpus": gpus.collect,
}


# Where programs put what they share and what they spill.
PLACES = ("/tmp", "/dev/shm")  # noqa: S108  # looked at, not written to


def collect(*, places: Sequence[str] = PLACES) -> Facts:
    """All facts of this host. `places` are folders whose free space matters."""
    facts: Facts = {"time_s": time.time()}
    for name, collector in COLLECTORS.items():
        facts.update(_guarded(name, collector))
    facts.update(system.free_space(places))
    return facts


def _guarded(name: str, collector: Callable[[], Facts]) -> Facts:
    try:
        return collector()
    except Exception as error:  # noqa: BLE001  # one broken corner must not hide the others
        return {f"unread.{name}": f"{type(error).__name__}: {error}"}
