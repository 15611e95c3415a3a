"""`--detach`: the same command again, led by a process of its own that outlives this shell."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ..cluster.errors import LaunchError
from .run_folder import RUN_ID_VARIABLE, RunFolder

_POLL_S = 0.05
_SHOWN_BYTES = 4000


def detach(argv: Sequence[str], *, run_folder: Path, timeout_s: float) -> None:
    """Start `rankrun` with these words in the background; return once its ranks were submitted.

    What it says goes to controller.log in the run folder.

    Raises:
        LaunchError: with its words, if it ends before, or is not ready within `timeout_s`.
    """
    run_folder.parent.mkdir(parents=True, exist_ok=True)
    early_log = run_folder.parent / f".{run_folder.name}.log"
    with early_log.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__.partition(".")[0], *argv],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, RUN_ID_VARIABLE: run_folder.name},
        )
    folder = RunFolder(run_folder)
    until = time.monotonic() + timeout_s
    while not folder.handle.exists():
        if process.poll() is not None or time.monotonic() > until:
            process.terminate()
            said = early_log.read_bytes()[-_SHOWN_BYTES:].decode(errors="backslashreplace")
            early_log.unlink()
            raise LaunchError(f"the detached run did not start:\n{said.rstrip()}")
        time.sleep(_POLL_S)
    early_log.rename(folder.controller_log)
