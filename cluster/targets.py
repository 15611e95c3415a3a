"""`-t/--target`: where a run goes. One row per scheme."""

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .errors import UsageError
from .gpus import count_visible_gpus
from .hosts import HostEntry

RANKS_WITHOUT_GPU = 4
MAX_LOCAL_RANKS = 4096

# One machine needs no network: its loopback works whatever its name resolves to.
LOOPBACK_ADDRESS = "127.0.0.1"
LOOPBACK_INTERFACE = "lo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A parsed target: which launcher, and the hosts in rank order."""

    text: str
    launcher: str
    hosts: tuple[HostEntry, ...]


def parse_target(text: str | None, *, environment: Mapping[str, str] = os.environ) -> Target:
    """The target of `local`, `local:N`; None means `local`.

    Raises:
        UsageError: for an unknown scheme or a count that is not a positive number.
    """
    text = text or "local"
    scheme, _, rest = text.partition(":")
    if scheme not in SCHEMES:
        raise UsageError(f"target {text!r}: unknown; valid: {', '.join(SCHEMES)}[:N]")
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


SCHEMES: dict[str, Callable[[str, str, Mapping[str, str]], Target]] = {"local": _local}
