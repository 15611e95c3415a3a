"""What a fault on request does on the rank that it is for."""

import os
import time

import torch
import torch.distributed as dist

from ..cases import Form
from ..steps import Step
from .calls import Prepared
from .corruptions import corrupt
from .evidence import Result
from .faults import EXIT_CODE, LATE_S, ONCE, Fault, FaultKind, fault_step, parse_fault


class Misbehaviour:
    """The fault of a run, if it is this rank's; does nothing on the others."""

    def __init__(self, text: str | None, *, rank: int, steps: list[Step]) -> None:
        """Read the fault of the spec."""
        fault = parse_fault(text) if text else None
        self._fault: Fault | None = fault if fault and fault.rank == rank else None
        self._once_at = fault_step(fault, steps) if fault and fault.kind in ONCE else None

    def wants_larger_call(self, step: Step) -> bool:
        """Whether this rank is to make the call of this step with another size."""
        return self._now(step) is FaultKind.WRONG_SIZE

    def before_call(self, step: Step, prepared: Prepared) -> None:
        """Hang, exit, come late or call something else, if now is the time."""
        match self._now(step):
            case FaultKind.HANG:
                while True:
                    time.sleep(60)
            case FaultKind.EXIT:
                os._exit(EXIT_CODE)
            case FaultKind.LATE:
                time.sleep(LATE_S)
            case FaultKind.WRONG_OP:
                _call_another(step, prepared)
            case _:
                pass

    def after_call(self, step: Step, result: Result) -> None:
        """Corrupt the result, if this rank's are to be."""
        if self._fault and self._fault.kind not in ONCE and self._fault.fits(step):
            corrupt(self._fault.kind, result)

    def _now(self, step: Step) -> FaultKind | None:
        return self._fault.kind if self._fault and step.number == self._once_at else None


def _call_another(step: Step, prepared: Prepared) -> None:
    """A barrier instead; instead of a barrier, an all_reduce."""
    if step.case.form is Form.PLAIN:
        dist.all_reduce(
            torch.zeros(1, device=prepared.call.input.device), group=prepared.call.group
        )
    else:
        dist.barrier(group=prepared.call.group)
