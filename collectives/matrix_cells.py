"""The cells of the matrix: what became of each combination. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..cluster.compat import StrEnum
from .cases import Case
from .measurement import Measurement, Status
from .steps import Step


class Outcome(StrEnum):
    """What became of a combination."""

    OK = "ok"
    UNSUPPORTED = "unsupported"
    WRONG = "wrong"
    CRASHED = "crashed"
    HUNG = "hung"
    NOT_RUN = "not run"


OF_STATUS = {
    Status.RIGHT: Outcome.OK,
    Status.NOT_CHECKED: Outcome.OK,
    Status.WRONG: Outcome.WRONG,
    Status.UNSUPPORTED: Outcome.UNSUPPORTED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One combination. `words` are the backend's own, or what the ranks died of."""

    case: Case
    outcome: Outcome
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Casualty:
    """The step that a launch ended in, and how."""

    step: int
    outcome: Outcome
    words: str


def cells_of(
    steps: Iterable[Step], measurements: Iterable[Measurement], casualties: Iterable[Casualty]
) -> Iterator[Cell]:
    """One cell per step, in order."""
    done = {measured.step: measured for measured in measurements}
    dead = {casualty.step: casualty for casualty in casualties}
    for step in steps:
        if step.number in dead:
            casualty = dead[step.number]
            yield Cell(case=step.case, outcome=casualty.outcome, words=casualty.words)
        elif step.number in done:
            measured = done[step.number]
            words = measured.reason
            yield Cell(case=step.case, outcome=OF_STATUS[measured.status], words=words)
        else:
            yield Cell(case=step.case, outcome=Outcome.NOT_RUN)
