"""Who looks on while a job runs: the log gatherer, the suite's collector, the hang detector."""

import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from ..cluster.diagnosis.findings import Evidence, Finding, Severity, Subject, SubjectKind
from ..cluster.errors import ExitCode
from .events import Event

INTERNAL_ERROR = "internal-error"

_SHOWN_LINES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    """An observer's wish to end the run; with `want_stacks` every rank's stacks are taken first."""

    reason: str
    exit_code: int
    want_stacks: bool = False


class Observer(Protocol):
    """Sees every event in order of arrival, on the supervising thread."""

    def on_event(self, event: Event) -> Iterable[Event]:
        """May give further events: kept and shown as the ranks' own, not observed again."""

    def on_tick(self, now_s: float) -> StopRequest | None:
        """Called a few times a second with the monotonic clock, events or not."""

    def findings(self) -> Sequence[Finding]:
        """What was found wrong; asked once, after the last event. Changes nothing."""


class Guarded:
    """An observer whose own fault ends the run in order and becomes a finding.

    Otherwise a mistake in what only looks on would take the ranks' results with it. After a
    fault it is shown no more events.
    """

    def __init__(self, observer: Observer) -> None:
        """Nothing went wrong yet."""
        self._observer = observer
        self._fault: Exception | None = None

    def on_event(self, event: Event) -> Iterable[Event]:
        """Pass it on."""
        if self._fault is None:
            with self.catching():
                return tuple(self._observer.on_event(event))
        return ()

    def on_tick(self, now_s: float) -> StopRequest | None:
        """Pass it on; ask for the end after a fault."""
        if self._fault is None:
            with self.catching():
                return self._observer.on_tick(now_s)
        return self._stop_after_fault()

    def findings(self) -> Sequence[Finding]:
        """The observer's, and its fault."""
        found: tuple[Finding, ...] = ()
        with self.catching():
            found = tuple(self._observer.findings())
        return found if self._fault is None else (*found, self._internal_error(self._fault))

    def _stop_after_fault(self) -> StopRequest | None:
        if self._fault is None:
            return None
        return StopRequest(
            reason=f"rankrun itself failed: {_words(self._fault)}",
            exit_code=ExitCode.COULD_NOT_RUN,
        )

    @contextmanager
    def catching(self) -> Iterator[None]:
        """Whatever goes wrong inside is noted; the first counts."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  # the ranks' results outlive our mistakes
            self._fault = self._fault or error

    def _internal_error(self, fault: Exception) -> Finding:
        lines = "".join(traceback.format_exception(fault)).splitlines()
        return Finding(
            cause=INTERNAL_ERROR,
            severity=Severity.ERROR,
            subject=Subject(kind=SubjectKind.RUN),
            message=f"rankrun itself failed ({type(self._observer).__name__}): {_words(fault)}",
            remedy="this is a mistake of rankrun, not of your program: report it with these lines; "
            "the run folder holds what was done so far",
            evidence=tuple(Evidence(text=line) for line in lines[-_SHOWN_LINES:]),
        )


def _words(fault: Exception) -> str:
    return "".join(traceback.format_exception_only(fault)).strip()
