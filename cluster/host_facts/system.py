"""Kernel, processors, memory, disks, and what of the PCIe set-up slows GPUs and NICs."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .reading import names_in, output_of, read

_MIB = 1 << 20


def collect() -> dict[str, Any]:
    """Facts about the machine itself."""
    facts: dict[str, Any] = {
        "host_name": socket.gethostname(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpu.count": os.cpu_count() or 0,
        "cpu.usable": len(os.sched_getaffinity(0)),
        "load_1min": round(os.getloadavg()[0], 2),
        "memory.total_mib": _meminfo("MemTotal") // 1024,
        "memory.available_mib": _meminfo("MemAvailable") // 1024,
        "user": _user(),
    }
    governors = {read(path) for path in _cpu_files("cpufreq/scaling_governor")} - {""}
    if governors:
        facts["cpu.governor"] = ",".join(sorted(governors))
    release = read("/etc/os-release")
    name = next((line for line in release.splitlines() if line.startswith("PRETTY_NAME=")), "")
    if name:
        facts["os"] = name.partition("=")[2].strip('"')
    facts.update(_pcie())
    return facts


def free_space(places: Sequence[str]) -> dict[str, Any]:
    """Size and free space, in MiB, of the file systems of these folders."""
    facts: dict[str, Any] = {}
    for place in places:
        try:
            found = os.statvfs(place)
        except OSError as error:
            facts[f"disk.{place}.missing"] = error.strerror or str(error)
            continue
        facts[f"disk.{place}.total_mib"] = found.f_blocks * found.f_frsize // _MIB
        facts[f"disk.{place}.free_mib"] = found.f_bavail * found.f_frsize // _MIB
        facts[f"disk.{place}.writable"] = os.access(place, os.W_OK)
    return facts


def _user() -> str:
    import pwd  # noqa: PLC0415

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _meminfo(name: str) -> int:
    """Of /proc/meminfo, in KiB; 0 where the kernel has no such line."""
    for line in read("/proc/meminfo").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    return 0


def _cpu_files(name: str) -> list[Path]:
    return list(Path("/sys/devices/system/cpu").glob(f"cpu[0-9]*/{name}"))


def _pcie() -> dict[str, Any]:
    """IOMMU groups mean that it is on; ACS redirects traffic between devices through the root."""
    facts: dict[str, Any] = {"pcie.iommu": bool(names_in("/sys/kernel/iommu_groups"))}
    modes = {word for word in read("/proc/cmdline").split() if "iommu" in word}
    if modes:
        facts["pcie.iommu_options"] = " ".join(sorted(modes))
    listing = output_of("lspci", "-vvv")
    if listing is not None and "ACSCtl" in listing:
        facts["pcie.acs_enabled"] = sum("SrcValid+" in line for line in listing.splitlines())
    return facts
