"""Python, torch, NCCL and the CUDA driver, without importing torch: that takes seconds."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import re
import sys
from pathlib import Path
from typing import Any

from .reading import read

# Variables that change how a run behaves and that a shell's start-up files may have left behind.
_LEFTOVER = re.compile(r"(NCCL|GLOO|TORCH_NCCL|UCX|FI)_")
_CONFIGURATIONS = ("/etc/nccl.conf", "~/.nccl.conf")


def collect() -> dict[str, Any]:
    """Facts about what is installed and what is set."""
    facts: dict[str, Any] = {
        "python.version": ".".join(map(str, sys.version_info[:3])),
        "python.executable": sys.executable,
    }
    facts.update(_torch())
    for name, value in sorted(os.environ.items()):
        if _LEFTOVER.match(name):
            facts[f"environment.{name}"] = value
    for path in _CONFIGURATIONS:
        for line in read(Path(path).expanduser()).splitlines():
            name, equals, value = line.strip().partition("=")
            if equals and not name.startswith("#"):
                facts[f"{path}.{name.strip()}"] = value.strip()
    return facts


def _torch() -> dict[str, Any]:
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        return {}
    facts: dict[str, Any] = {"torch.path": str(Path(found.origin).parent)}
    # torch/version.py is generated: __version__ = '2.13.0+cpu', cuda: Optional[str] = None.
    text = read(Path(found.origin).parent / "version.py")
    for name, key in (("__version__", "torch.version"), ("cuda", "torch.cuda")):
        match = re.search(rf"^{name}\b[^=\n]*= *'([^']*)'", text, re.MULTILINE)
        if match:
            facts[key] = match[1]
    nccl = _nccl()
    if nccl:
        facts["nccl.version"] = nccl
    return facts


def _nccl() -> str | None:
    """Of the library that torch brings along, asked of itself (ncclGetVersion, nccl.h)."""
    for package in ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11"):
        try:
            files = importlib.metadata.distribution(package)
        except importlib.metadata.PackageNotFoundError:
            continue
        library = Path(str(files.locate_file("nvidia/nccl/lib/libnccl.so.2")))
        return _ask_nccl(library) or files.version
    return None


def _ask_nccl(library: Path) -> str | None:
    try:
        code = ctypes.c_int()
        if ctypes.CDLL(str(library)).ncclGetVersion(ctypes.byref(code)) != 0:
            return None
    except (OSError, AttributeError):
        return None
    return format_nccl_version(code.value)


def format_nccl_version(code: int) -> str:
    """As NCCL_VERSION_CODE counts: 2.9 and newer with two digits for the minor number.

    >>> format_nccl_version(22803), format_nccl_version(2708)
    ('2.28.3', '2.7.8')
    """
    base = 10000 if code >= 10000 else 1000
    return f"{code // base}.{code % base // 100}.{code % 100}"
