"""How far a suite run is, and what the rest is expected to take."""

from collections.abc import Iterable, Sequence

from ..cluster.diagnosis.findings import Finding
from ..cluster.units import format_size
from ..jobs.events import Event
from ..jobs.observers import StopRequest
from ..jobs.terminal import Display, ProgressState
from .assembly import Assembly
from .steps import Step

# A step costs a little whatever its size, and more the larger it is, until its time budget
# caps it. In units of a small step; only proportions matter.
_BYTES_PER_UNIT = 4 << 20
_MOST_UNITS = 10.0

# The first steps pay for connections and tell little about the rest.
_TOO_EARLY = 3


class ProgressReporter:
    """An observer that keeps a display up to date."""

    def __init__(self, assembly: Assembly, steps: Sequence[Step], display: Display) -> None:
        """Nothing is done yet; `steps` are those that this run will do."""
        self._assembly = assembly
        self._steps = list(steps)
        self._display = display
        self._began_s: float | None = None
        self._joined_s: float | None = None

    def on_event(self, event: Event) -> Iterable[Event]:  # noqa: ARG002  # the assembly knows
        """Nothing: what matters is in the assembly."""
        return ()

    def on_tick(self, now_s: float) -> StopRequest | None:
        """Show the state."""
        self._began_s = now_s if self._began_s is None else self._began_s
        if self._joined_s is None and self._assembly.joined:
            self._joined_s = now_s
        self._display.progress(self._state(now_s, self._began_s))
        return None

    def findings(self) -> Sequence[Finding]:
        """None."""
        return ()

    def _state(self, now_s: float, began_s: float) -> ProgressState:
        open_steps = self._assembly.unfinished()
        done = len(self._steps) - len(open_steps)
        rest_s = None
        if open_steps and self._joined_s is not None and done >= _TOO_EARLY:
            total = sum(map(weight, self._steps))
            left = sum(map(weight, open_steps))
            rest_s = (now_s - self._joined_s) * left / max(total - left, 1.0)
        return ProgressState(
            what=self._what(open_steps),
            done=done,
            total=len(self._steps),
            elapsed_s=now_s - began_s,
            rest_s=rest_s,
        )

    def _what(self, open_steps: Sequence[Step]) -> str:
        if not self._assembly.joined:
            return "starting the ranks"
        if not open_steps:
            return "ending"
        return f"{open_steps[0].case.label} {format_size(open_steps[0].size_bytes)}"


def weight(step: Step) -> float:
    """What a step is expected to cost, in small steps."""
    return 1.0 + min(step.size_bytes / _BYTES_PER_UNIT, _MOST_UNITS)
