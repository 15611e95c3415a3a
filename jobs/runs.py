"""The runs of a folder, and what became of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..cluster.compat import StrEnum
from ..cluster.errors import RunFolderError, UsageError
from .controllers import Controller
from .run_folder import RunFolder

LAST = "last"
_MAX_NAMED = 8


class RunState(StrEnum):
    """Of a run, as its folder and its controller say."""

    RUNNING = "running"
    ENDED = "ended"
    LOST = "lost"  # its controller was killed before it could write how the run ended
    UNKNOWN = "unknown"  # led from another host


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run: its folder and the documents in it that were written so far."""

    folder: RunFolder
    plan: dict[str, Any]
    controller: Controller | None
    summary: dict[str, Any] | None

    @property
    def run_id(self) -> str:
        """As its folder is called."""
        return self.folder.path.name

    @property
    def state(self) -> RunState:
        """Read again each time for a run that goes on."""
        if self.summary is not None:
            return RunState.ENDED
        alive = self.controller.alive if self.controller is not None else None
        if alive is None:
            return RunState.UNKNOWN
        return RunState.RUNNING if alive else RunState.LOST


def load_run(path: Path) -> Run:
    """The run of a folder.

    Raises:
        RunFolderError: if it is none.
    """
    folder = RunFolder(path)
    plan = folder.read_json(folder.plan)
    controller = summary = None
    if folder.handle.exists():
        controller = Controller(**folder.read_json(folder.handle)["controller"])
    if folder.summary.exists():
        summary = folder.read_json(folder.summary)
    return Run(folder=folder, plan=plan, controller=controller, summary=summary)


def list_runs(runs: Path) -> Iterator[Run]:
    """The runs in a folder of runs, oldest first; what is no run is passed over."""
    for path in sorted(runs.iterdir()) if runs.is_dir() else ():
        run = _run_of(path)
        if run is not None:
            yield run


def _run_of(path: Path) -> Run | None:
    try:
        return load_run(path)
    except (RunFolderError, TypeError, KeyError):
        return None


def find_run(text: str, runs: Path) -> Run:
    """A run by its path, its id, the start of its id, or `last` for the newest.

    Raises:
        UsageError: if none or more than one is meant.
    """
    if "/" in text or Path(text).is_dir():
        return load_run(Path(text).absolute())
    names = [path.name for path in sorted(runs.iterdir()) if path.is_dir()] if runs.is_dir() else []
    if not names:
        raise UsageError(f"there are no runs in {runs}; choose another place with --runs DIR")
    if text == LAST:
        return load_run(runs / names[-1])
    meant = [name for name in names if name.startswith(text) or name.endswith(f"-{text}")]
    if len(meant) == 1:
        return load_run(runs / meant[0])
    if not meant:
        raise UsageError(f"no run {text!r} in {runs}; `rankrun ls` shows those that there are")
    listed = ", ".join(meant[:_MAX_NAMED])
    raise UsageError(f"{text!r} may mean {len(meant)} runs: {listed}; write more of the id")
