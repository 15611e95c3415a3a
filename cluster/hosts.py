"""A machine that ranks run on."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One machine and how many ranks it takes.

    `address` is what the other hosts dial; for a run on one machine it is the loopback,
    which works whatever the machine's name resolves to. `interface` carries the
    collectives (None: left to the backend).
    """

    name: str
    address: str
    slots: int
    interface: str | None = None
