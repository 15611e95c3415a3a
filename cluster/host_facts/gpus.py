"""NVIDIA GPUs as the driver's own program reports them, and errors that the kernel logged."""

from __future__ import annotations

import re
from typing import Any

from .reading import output_of, read

# nvidia-smi --help-query-gpu
_FIELDS = (
    "index", "name", "uuid", "memory.total", "memory.used", "ecc.mode.current",
    "ecc.errors.uncorrected.volatile.total", "pcie.link.gen.current", "pcie.link.gen.max",
    "pcie.link.width.current", "pcie.link.width.max", "clocks_throttle_reasons.active",
)  # fmt: skip
_XID = re.compile(r"NVRM: Xid \((?P<where>[^)]*)\): (?P<code>\d+)")
_MAX_XIDS = 20


def collect() -> dict[str, Any]:
    """Facts of the driver and of every GPU; nothing where there is no driver."""
    facts: dict[str, Any] = {}
    version = re.search(
        r"Kernel Module\s+(?:for \S+\s+)?([\d.]+)", read("/proc/driver/nvidia/version")
    )
    if version:
        facts["gpu.driver"] = version[1]
    listing = output_of(
        "nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits"
    )
    if listing is not None:
        facts.update(parse_gpus(listing))
        matrix = output_of("nvidia-smi", "topo", "-m")
        if matrix:
            facts["gpu.topology"] = [line.rstrip() for line in matrix.splitlines() if line.strip()]
    facts.update(parse_xids(output_of("dmesg") or ""))
    return facts


def parse_gpus(listing: str) -> dict[str, Any]:
    """Of `nvidia-smi --query-gpu=... --format=csv,noheader,nounits`, one line for each GPU."""
    facts: dict[str, Any] = {}
    rows = [
        [cell.strip() for cell in line.split(",")] for line in listing.splitlines() if line.strip()
    ]
    rows = [row for row in rows if len(row) == len(_FIELDS)]
    facts["gpu.count"] = len(rows)
    if rows:
        facts["gpu.models"] = sorted({row[1] for row in rows})
    for row in rows:
        for field, cell in zip(_FIELDS[1:], row[1:]):  # noqa: B905  # Python 3.9
            if cell not in ("", "[N/A]", "N/A", "[Not Supported]"):
                facts[f"gpu.{row[0]}.{field}"] = int(cell) if cell.isdigit() else cell
    return facts


def parse_xids(log: str) -> dict[str, Any]:
    """Xid errors of the kernel log, the newest last.

    >>> parse_xids("[  7.1] NVRM: Xid (PCI:0000:3b:00): 79, pid=12, GPU has fallen off the bus.")
    {'gpu.xids': ['79 at PCI:0000:3b:00']}
    """
    found = [f"{match['code']} at {match['where']}" for match in _XID.finditer(log)]
    return {"gpu.xids": found[-_MAX_XIDS:]} if found else {}
