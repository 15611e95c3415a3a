"""Who looks on while a job runs: the log gatherer, the suite's collector, the hang detector."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..cluster.diagnosis.findings import Finding
from .events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    """An observer's wish to end the run; with `want_stacks` every rank's stacks are taken first."""

    reason: str
    exit_code: int
    want_stacks: bool = False


class Observer(Protocol):
    """Sees every event in order of arrival, on the supervising thread."""

    def on_event(self, event: Event) -> Iterable[Event]:
        """May give further events, which are then handled as if they had come from the ranks."""

    def on_tick(self, now_s: float) -> StopRequest | None:
        """Called a few times a second with the monotonic clock, events or not."""

    def findings(self) -> Sequence[Finding]:
        """What was found wrong; asked once, after the last event."""
