"""Faults on request: a self-test of the alarms (`rankrun suite --fault hang:rank=2`).

Read by the command line and by the ranks; `on_rank.misbehaviour` is what commits them.
"""

from dataclasses import dataclass

from ..cluster.compat import StrEnum
from ..cluster.errors import UsageError, valid_values
from . import operations
from .steps import Step

LATE_S = 2.0


class FaultKind(StrEnum):
    """What one rank does wrong. The first five happen once, at the first step that fits."""

    HANG = "hang"  # it never makes the call
    EXIT = "exit"  # it exits instead of making the call
    LATE = "late"  # it makes the call late; no alarm may ring
    WRONG_OP = "wrong-op"  # it calls another collective
    WRONG_SIZE = "wrong-size"  # it calls with twice the size
    MISSING = "missing"  # a contribution is missing from its result
    DOUBLED = "doubled"  # a contribution is in its result twice
    SWAPPED = "swapped"  # two blocks of its result are exchanged
    STALE = "stale"  # its output is what it was before the call
    ELEMENT = "element"  # one bit of its result is flipped
    OPERATOR = "operator"  # its result is that of another operator


ONCE = frozenset(
    {
        FaultKind.HANG,
        FaultKind.EXIT,
        FaultKind.LATE,
        FaultKind.WRONG_OP,
        FaultKind.WRONG_SIZE,
    }
)
EXIT_CODE = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong, on which rank, in which operation (None: the first that it applies to)."""

    kind: FaultKind
    rank: int
    operation: str | None = None

    def fits(self, step: Step) -> bool:
        """Whether it happens in steps of this kind."""
        return self.operation in (None, step.case.operation)


def parse_fault(text: str) -> Fault:
    """The fault of `hang:rank=2,op=all_reduce`; rank is 1 and op the first one unless given.

    Raises:
        UsageError: for an unknown kind, setting, rank or operation; lists the valid ones.

    >>> parse_fault("exit:rank=3").rank
    3
    """
    name, _, rest = text.partition(":")
    try:
        kind = FaultKind(name)
    except ValueError:
        raise UsageError(
            f"fault {text!r}: {name!r} is unknown; valid: {valid_values(FaultKind)}; "
            "for example hang:rank=2,op=all_reduce"
        ) from None
    settings = dict(_setting(text, part) for part in rest.split(",") if part)
    operation = settings.get("op")
    if operation is not None:
        operations.forms_of(operation)
    rank = settings.get("rank", "1")
    if not (rank.isascii() and rank.isdigit()):
        raise UsageError(f"fault {text!r}: rank {rank!r} is not a number")
    return Fault(kind=kind, rank=int(rank), operation=operation)


def _setting(text: str, part: str) -> tuple[str, str]:
    name, equals, value = part.partition("=")
    if name not in ("rank", "op") or not equals:
        raise UsageError(f"fault {text!r}: {part!r} is unknown; valid: rank=N, op=NAME")
    return name, value


def fault_step(fault: Fault, steps: list[Step]) -> int | None:
    """The number of the step at which a fault that happens once does.

    Counted over all steps, so that a run that goes on after a crash does not meet it again.
    """
    return next((step.number for step in steps if fault.fits(step)), None)
