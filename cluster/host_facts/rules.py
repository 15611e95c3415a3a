"""What is wrong with a host, from its facts: a table, one row for each thing that goes wrong. Pure.

A rule looks at one host and says in words what it found, or nothing. What hosts do not have in
common is the business of comparison.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..diagnosis.findings import Finding, Severity, Subject, SubjectKind
from . import PLACES, Facts
from .infiniband import ERROR_COUNTERS, HARDWARE_COUNTERS
from .limits import UNLIMITED

_TMP, _SHM = PLACES
_MIN_SHM_MIB = 1024
_MIN_TMP_MIB = 512
_MIN_FILES = 4096
_USED_GPU_MIB = 600
_BUSY = 2.0


@dataclass(frozen=True)
class Rule:
    """`find` gives what is wrong, in words, or None."""

    cause: str
    severity: Severity
    find: Callable[[Facts], str | None]
    remedy: str


def judge_host(host: str, facts: Facts) -> list[Finding]:
    """What is wrong with a host."""
    return [
        Finding(
            cause=rule.cause,
            severity=rule.severity,
            subject=Subject(kind=SubjectKind.HOST, name=host),
            message=f"{host}: {said}",
            remedy=rule.remedy,
        )
        for rule in RULES
        if (said := rule.find(facts)) is not None
    ]


def _number(facts: Facts, key: str) -> float | None:
    value = facts.get(key)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _texts(facts: Facts, key: str) -> list[str]:
    value = facts.get(key)
    return value if isinstance(value, list) else []


def _with_prefix(facts: Facts, prefix: str, suffix: str) -> Mapping[str, object]:
    """By what stands between the two."""
    return {
        key[len(prefix) : len(key) - len(suffix)]: value
        for key, value in facts.items()
        if key.startswith(prefix) and key.endswith(suffix)
    }


def _has_infiniband(facts: Facts) -> bool:
    return "ib.device_files" in facts


def _has_gpus(facts: Facts) -> bool:
    return bool(_number(facts, "gpu.count"))


def _no_torch(facts: Facts) -> str | None:
    if "torch.path" in facts:
        return None
    return f"{facts.get('python.executable')} has no torch"


def _memlock(facts: Facts) -> str | None:
    limit = facts.get("limit.memlock_bytes")
    if not _has_infiniband(facts) or limit == UNLIMITED:
        return None
    return f"locked memory is limited to {limit} bytes; InfiniBand registers far more"


def _few_files(facts: Facts) -> str | None:
    limit = _number(facts, "limit.open_files")
    if limit is None or limit >= _MIN_FILES:
        return None
    return f"only {limit:.0f} files can be open at once"


def _small_shm(facts: Facts) -> str | None:
    free = _number(facts, f"disk.{_SHM}.free_mib")
    if free is None:
        return f"there is no {_SHM}"
    return None if free >= _MIN_SHM_MIB else f"{_SHM} has {free:.0f} MiB free"


def _small_tmp(facts: Facts) -> str | None:
    free = _number(facts, f"disk.{_TMP}.free_mib")
    if facts.get(f"disk.{_TMP}.writable") is False:
        return f"{_TMP} cannot be written to"
    return None if free is None or free >= _MIN_TMP_MIB else f"{_TMP} has {free:.0f} MiB free"


def _unresolved_name(facts: Facts) -> str | None:
    said = facts.get("name.unresolved")
    return None if said is None else f"its own name does not resolve ({said})"


def _loopback_name(facts: Facts) -> str | None:
    addresses = _texts(facts, "name.addresses")
    if not addresses or not all(a.startswith("127.") or a == "::1" for a in addresses):
        return None
    return f"its own name leads to {', '.join(addresses)}, where no other host can reach it"


def _inactive_port(facts: Facts) -> str | None:
    states = _with_prefix(facts, "ib.", ".state")
    down = [f"{port} is {state}" for port, state in states.items() if state != "ACTIVE"]
    return f"InfiniBand port {'; '.join(down)}" if down else None


def _port_errors(facts: Facts) -> str | None:
    counted = [
        f"{port} {counter} {number}"
        for counter in (*ERROR_COUNTERS, *HARDWARE_COUNTERS)
        for port, number in _with_prefix(facts, "ib.", f".{counter}").items()
    ]
    return f"error counters above zero: {', '.join(counted)}" if counted else None


def _no_device_files(facts: Facts) -> str | None:
    if facts.get("ib.device_files") is not False:
        return None
    return "InfiniBand devices are there, /dev/infiniband is not"


def _no_gpu_direct(facts: Facts) -> str | None:
    if not _has_gpus(facts) or not _has_infiniband(facts) or _texts(facts, "gdr.modules"):
        return None
    return "nvidia_peermem is not loaded: NICs may have to go through host memory"


def _acs(facts: Facts) -> str | None:
    enabled = _number(facts, "pcie.acs_enabled")
    if not _has_gpus(facts) or not enabled:
        return None
    return f"PCIe ACS is on for {enabled:.0f} devices"


def _governor(facts: Facts) -> str | None:
    governor = facts.get("cpu.governor")
    if not _has_gpus(facts) or governor in (None, "performance"):
        return None
    return f"the CPU frequency governor is {governor}"


def _xids(facts: Facts) -> str | None:
    xids = _texts(facts, "gpu.xids")
    return f"the kernel logged Xid {', '.join(xids)}" if xids else None


def _ecc(facts: Facts) -> str | None:
    counted = _with_prefix(facts, "gpu.", ".ecc.errors.uncorrected.volatile.total")
    bad = [f"GPU {gpu}: {number}" for gpu, number in counted.items() if number]
    return f"uncorrected memory errors: {', '.join(bad)}" if bad else None


def _gpu_in_use(facts: Facts) -> str | None:
    used = _with_prefix(facts, "gpu.", ".memory.used")
    busy = [
        f"GPU {gpu}: {number} MiB"
        for gpu, number in used.items()
        if isinstance(number, int) and number > _USED_GPU_MIB
    ]
    return f"GPU memory is in use before the start: {', '.join(busy)}" if busy else None


def _narrow_pcie(facts: Facts) -> str | None:
    narrow = []
    for gpu, width in _with_prefix(facts, "gpu.", ".pcie.link.width.current").items():
        most = facts.get(f"gpu.{gpu}.pcie.link.width.max")
        if isinstance(width, int) and isinstance(most, int) and width < most:
            narrow.append(f"GPU {gpu} x{width} of x{most}")
    return f"PCIe links are narrower than they can be: {', '.join(narrow)}" if narrow else None


def _busy(facts: Facts) -> str | None:
    load, usable = _number(facts, "load_1min"), _number(facts, "cpu.usable")
    if load is None or not usable or load <= _BUSY * usable:
        return None
    return f"busy already: load {load:g} on {usable:.0f} processors"


def _set_variables(facts: Facts) -> str | None:
    names = [
        key.rpartition(".")[2]
        for key in facts
        if key.startswith(("environment.", "/etc/nccl.conf.", "~/.nccl.conf."))
    ]
    return f"set on the host already: {', '.join(sorted(names))}" if names else None


def _unread(facts: Facts) -> str | None:
    unread = [f"{key[7:]}: {value}" for key, value in facts.items() if key.startswith("unread.")]
    return f"could not be looked at: {'; '.join(unread)}" if unread else None


_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
RULES: tuple[Rule, ...] = (
    Rule("torch-missing", _ERROR, _no_torch, "install torch there, or name the right interpreter "
         "with python: in the cluster file; `launch` of other programs needs none"),
    Rule("xid", _ERROR, _xids, "look up the number in NVIDIA's Xid catalogue; 48, 63, 64, 74, 79, "
         "94 and 95 mean hardware: drain the node"),
    Rule("gpu-ecc", _ERROR, _ecc, "drain the node, reset the GPU; replace it if they come back"),
    Rule("ib-port-inactive", _ERROR, _inactive_port, "see ibstat there: Polling is a cable, "
         "Initializing a missing subnet manager"),
    Rule("ib-device-files-missing", _ERROR, _no_device_files,
         "start the container with --device=/dev/infiniband"),
    Rule("memlock", _ERROR, _memlock, "set memlock unlimited in /etc/security/limits.conf, and in "
         "the units of sshd and slurmd"),
    Rule("tmp-full", _ERROR, _small_tmp, "free some space there"),
    Rule("shm-small", _WARNING, _small_shm, "give containers --shm-size=8g or --ipc=host"),
    Rule("ib-errors", _WARNING, _port_errors, "watch whether they grow; clean or replace cables"),
    Rule("gpu-direct-off", _WARNING, _no_gpu_direct, "modprobe nvidia-peermem"),
    Rule("acs-enabled", _WARNING, _acs, "disable ACS in the BIOS or with setpci: it can hang, slow "
         "or corrupt peer-to-peer traffic"),
    Rule("gpu-in-use", _WARNING, _gpu_in_use, "see nvidia-smi there: leftovers of another run?"),
    Rule("pcie-narrow", _WARNING, _narrow_pcie, "reseat the GPU; links also narrow when idle: look "
         "again under load"),
    Rule("host-name-unresolved", _WARNING, _unresolved_name, "add the name to /etc/hosts there, "
         "with the address of the interface that the collectives use"),
    Rule("host-name-loopback", _WARNING, _loopback_name, "gloo would listen there where no other "
         "host can reach it: correct /etc/hosts; rankrun sets GLOO_SOCKET_IFNAME meanwhile"),
    Rule("open-files", _WARNING, _few_files, "raise ulimit -n, for sshd and slurmd too"),
    Rule("host-busy", _WARNING, _busy, "see top there: other jobs slow the collectives"),
    Rule("cpu-governor", _NOTE, _governor, "cpupower frequency-set -g performance"),
    Rule("variables-set", _NOTE, _set_variables, "they hold for every run on that host"),
    Rule("facts-unread", _NOTE, _unread, "report it: rankrun should know how to read this"),
)  # fmt: skip
