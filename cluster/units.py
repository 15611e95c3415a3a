"""Sizes and rates. Sizes are binary as in nccl-tests (1K = 1024); 1 GB/s is 1e9 bytes a second."""

import re

from .errors import UsageError

BYTES_PER_GB = 1e9

_SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"([0-9]+)([KMGT]?)(?:I?B)?")


def parse_size_bytes(text: str) -> int:
    """Bytes of a size as nccl-tests writes it.

    >>> parse_size_bytes("64M"), parse_size_bytes("8"), parse_size_bytes("1KiB")
    (67108864, 8, 1024)
    """
    match = _SIZE.fullmatch(text.strip().upper())
    if match is None:
        raise UsageError(f"size {text!r}: not a size; write bytes or K, M, G, T: 8, 64K, 1G")
    return int(match[1]) * _SUFFIXES[match[2]]


def format_size(size_bytes: int) -> str:
    """The shortest exact form of a size.

    >>> [format_size(n) for n in (8, 1024, 1536, 64 << 20)]
    ['8', '1K', '1536', '64M']
    """
    for suffix in ("T", "G", "M", "K"):
        whole, rest = divmod(size_bytes, _SUFFIXES[suffix])
        if whole and not rest:
            return f"{whole}{suffix}"
    return str(size_bytes)


def gbps(size_bytes: float, time_s: float) -> float:
    """GB/s (1e9 bytes a second) of so many bytes in so many seconds."""
    return size_bytes / time_s / BYTES_PER_GB
