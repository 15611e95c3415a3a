"""InfiniBand and RoCE ports: state, rate, GIDs and error counters, from /sys/class/infiniband.

Source: Linux, Documentation/ABI/stable/sysfs-class-infiniband.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .reading import names_in, read, read_int

_ROOT = Path("/sys/class/infiniband")

# Counters that stay at zero, or nearly so, on a healthy link.
ERROR_COUNTERS = (
    "symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors",
    "port_xmit_discards", "local_link_integrity_errors", "excessive_buffer_overrun_errors",
)  # fmt: skip
HARDWARE_COUNTERS = (
    "out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err",
)  # fmt: skip
_NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
_MODULES = ("nvidia_peermem", "nv_peer_mem", "nvidia_fs", "gdrdrv")


def collect(root: Path = _ROOT) -> dict[str, Any]:
    """Facts of every port of every device, and of what lets NICs read GPU memory."""
    facts: dict[str, Any] = {}
    for device in names_in(root):
        firmware = read(root / device / "fw_ver")
        if firmware:
            facts[f"ib.{device}.firmware"] = firmware
        for port in names_in(root / device / "ports"):
            facts.update(_port(root / device / "ports" / port, f"ib.{device}:{port}"))
    if facts:
        facts["ib.device_files"] = os.access("/dev/infiniband", os.R_OK)
        loaded = {line.split()[0] for line in read("/proc/modules").splitlines() if line}
        facts["gdr.modules"] = sorted(loaded.intersection(_MODULES))
    return facts


def _port(port: Path, key: str) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for name in ("state", "phys_state", "rate", "link_layer"):
        text = read(port / name)
        if text:
            facts[f"{key}.{name}"] = text.partition(": ")[2] or text
    gids = {index: read(port / "gids" / index) for index in names_in(port / "gids")}
    facts[f"{key}.gids"] = [
        f"{index} {gid}" for index, gid in gids.items() if gid and gid != _NO_GID
    ]
    for folder, counters in (("counters", ERROR_COUNTERS), ("hw_counters", HARDWARE_COUNTERS)):
        for counter in counters:
            value = read_int(port / folder / counter)
            if value:
                facts[f"{key}.{counter}"] = value
    return facts
