"""The steps of a sweep or a matrix, done on one rank."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from ...cluster.units import format_size
from ...jobs.agent.channel import RankChannel
from .. import operations
from ..binding import Bound
from ..cases import Case, Form
from ..operations import bound
from ..records import Measured, Mismatch, Pattern, Record, Unsupported
from ..spec import ELEMENT_BYTES, Backend, SuiteSpec
from ..steps import Step, step_count
from .backends import Group, Session
from .calls import Prepared, prepare
from .inputs import scheme_for
from .misbehaviour import Misbehaviour
from .patterns import judge
from .probing import Probe
from .refusals import reason
from .timing import Pace, call_once, time_calls
from .verification import Sources

# The last rank enters a barrier so much later than the others, which must not leave before.
BARRIER_HEAD_START_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The first call of a step: how long it took, and what was wrong with it."""

    taken_ns: int
    num_checked: int = 0
    mismatch: Mismatch | None = None


class StepError(RuntimeError):
    """A call failed, and with it the run; says which call."""

    def __init__(self, step: Step, error: Exception) -> None:
        """`error` is what the backend said."""
        size = format_size(step.size_bytes)
        super().__init__(f"{step.case.label}, size {size}: {reason(error)}")


class Sweep:
    """Does step after step together with the other ranks.

    In every step all ranks agree a few times over the control group, also those that are in
    none of its groups, so no rank goes ahead of the others by more than a step.
    """

    def __init__(
        self,
        session: Session,
        spec: SuiteSpec,
        channel: RankChannel,
        send: Callable[[Record], None],
    ) -> None:
        """Nothing is done yet."""
        self._session = session
        self._spec = spec
        self._channel = channel
        self._send = send
        self._probe = Probe(session)
        self._pace = Pace(agree=session.largest, spec=spec)
        self._sources: Sources | None = None

    def run(self, steps: list[Step]) -> list[str]:
        """Do the steps from `spec.first_step` on.

        Gives back nothing to complain of: wrong results are in the records.
        """
        misbehaviour = Misbehaviour(self._spec.fault, rank=self._session.rank, steps=steps)
        for step in steps:
            if step.number >= self._spec.first_step:
                self._channel.begin_step(step.number)
                try:
                    if self._is_supported(step):
                        self._do(step, misbehaviour)
                except RuntimeError as error:
                    raise StepError(step, error) from error
        return []

    def _is_supported(self, step: Step) -> bool:
        if not self._probe.is_known(step.case):
            words = self._probe.attempt(step.case, lambda: self._try(step))
            is_member = self._session.group(step.case.group).slot is not None
            if words is not None and is_member:
                self._send(
                    Unsupported(
                        rank=self._session.rank,
                        step=step.number,
                        case=step.case,
                        size_bytes=step.size_bytes,
                        reason=words,
                    )
                )
        return self._probe.supports(step.case)

    def _try(self, step: Step) -> None:
        """One call on the smallest tensors there are."""
        group = self._session.group(step.case.group)
        if group.slot is None:
            return
        prepared = self._prepare(replace(step, count=1), group)
        prepared.refill()
        run = bound(prepared.operation, prepared.call)
        call_once(run, progress=self._channel, device=self._session.device)

    def _do(self, step: Step, misbehaviour: Misbehaviour) -> None:
        """Prove one call, then time more of them."""
        group = self._session.group(step.case.group)
        if group.slot is None:
            self._stand_by(step)
            return
        larger = misbehaviour.wants_larger_call(step)
        prepared = self._prepare(replace(step, count=2 * step.count) if larger else step, group)
        prepared.refill()
        run = bound(prepared.operation, prepared.call)
        self._session.barrier()
        misbehaviour.before_call(step, prepared)
        prove = self._prove_barrier if step.case.form is Form.PLAIN else self._prove
        proof = prove(step, prepared, run, misbehaviour)
        times_ns = self._timed(run, proof.taken_ns) if step.time else ()
        self._send(self._measured(step, group, times_ns, proof))

    def _stand_by(self, step: Step) -> None:
        """Take part in what all ranks agree on, and in nothing else."""
        self._session.barrier()
        if step.time:
            self._pace.stand_by()

    def _timed(self, run: Bound, first_ns: int) -> tuple[int, ...]:
        def calls(iterations: int) -> tuple[int, ...]:
            return time_calls(
                run, iterations=iterations, progress=self._channel, device=self._session.device
            )

        return self._pace.run(calls, first_ns=first_ns)

    def _prepare(self, step: Step, group: Group) -> Prepared:
        case = step.case
        operation = operations.find(case.operation, case.form)
        count = step_count(step, len(group.members))
        sources = self._sources_of(case, group, count)
        return prepare(operation, case, group=group, count=count, sources=sources)

    def _sources_of(self, case: Case, group: Group, count: int) -> Sources:
        """Where the last step's serve they are kept, since references are dear to build."""
        is_object = case.form is Form.OBJECT
        wanted = Sources(
            scheme=scheme_for(case.dtype, case.redop, len(group.members)),
            seed=self._spec.seed,
            members=group.members,
            extent=count,
            device=torch.device("cpu") if is_object else self._session.device,
            premultiplied=self._session.choice.backend is Backend.NCCL,
        )
        self._sources = wanted.keeping(self._sources)
        return self._sources

    def _prove(
        self, step: Step, prepared: Prepared, run: Bound, misbehaviour: Misbehaviour
    ) -> Proof:
        taken_ns = call_once(run, progress=self._channel, device=self._session.device)
        if not step.verify:
            return Proof(taken_ns=taken_ns)
        result = prepared.result()
        misbehaviour.after_call(step, result)
        return Proof(taken_ns=taken_ns, num_checked=result.num_checked, mismatch=judge(result))

    def _prove_barrier(
        self, step: Step, prepared: Prepared, run: Bound, misbehaviour: Misbehaviour
    ) -> Proof:
        """Every rank counts itself before it enters; whoever leaves must find all counted.

        The count is kept by the store. The last rank comes late on purpose.
        """
        del misbehaviour
        size = len(prepared.call.peers)
        key = f"barrier/{step.number}/{prepared.call.peers[0]}"
        if prepared.slot == size - 1:
            time.sleep(BARRIER_HEAD_START_S)
        self._session.store.add(key, 1)
        taken_ns = call_once(run, progress=self._channel, device=self._session.device)
        came = self._session.store.add(key, 0)
        mismatch = Mismatch(
            first_offset=0,
            num_wrong=1,
            num_checked=1,
            expected=str(size),
            got=str(came),
            pattern=Pattern.MISSING_CONTRIBUTION,
            detail=f"the barrier let this rank go when {came} of {size} ranks had come",
        )
        return Proof(taken_ns=taken_ns, num_checked=1, mismatch=None if came == size else mismatch)

    def _measured(
        self, step: Step, group: Group, times_ns: tuple[int, ...], proof: Proof
    ) -> Measured:
        count = step_count(step, len(group.members))
        return Measured(
            rank=self._session.rank,
            step=step.number,
            case=step.case,
            size_bytes=count * ELEMENT_BYTES[step.case.dtype],
            count=count,
            group_size=len(group.members),
            group_index=group.index,
            times_ns=times_ns,
            num_wrong=proof.mismatch.num_wrong if proof.mismatch else 0,
            num_checked=proof.num_checked,
            mismatch=proof.mismatch,
        )
