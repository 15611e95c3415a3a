"""GPUs of this machine, found without importing torch."""

import os
from collections.abc import Mapping
from pathlib import Path

NVIDIA_PROC = Path("/proc/driver/nvidia/gpus")


def count_visible_gpus(
    environment: Mapping[str, str] = os.environ, *, proc: Path = NVIDIA_PROC
) -> int:
    """GPUs a process started with this environment sees.

    One folder per GPU stands in /proc/driver/nvidia/gpus (NVIDIA driver README, "The
    /proc file system interface"). CUDA_VISIBLE_DEVICES hides all from the first invalid
    index on, and all when empty (CUDA C++ programming guide, "CUDA environment variables").
    """
    present = len(list(proc.iterdir())) if proc.is_dir() else 0
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return present
    count = 0
    for entry in visible.split(","):
        named_by_id = entry.strip().startswith(("GPU-", "MIG-"))
        if not named_by_id and not (entry.strip().isdigit() and int(entry) < present):
            break
        count += 1
    return count if present else 0
