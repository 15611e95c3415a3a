"""The steps of a sweep or a matrix, done on one rank."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

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
from .probing import Probe, Trial
from .refusals import KINDS, reason
from .timing import Pace, Stopwatch, events_of, queued_s
from .verification import Sources
from .wrong_block import Result

# The last rank enters a barrier so much later than the others, which must not leave before.
BARRIER_HEAD_START_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The first call of a step: how long it took; and what was wrong with it or a later one.

    Elements are counted as often as they were looked at; `mismatch` is the first.
    """

    taken_ns: int
    num_checked: int = 0
    num_wrong: int = 0
    mismatch: Mismatch | None = None

    def and_again(self, result: Result) -> "Proof":
        """With another result judged."""
        mismatch = judge(result)
        return replace(
            self,
            num_checked=self.num_checked + result.num_checked,
            num_wrong=self.num_wrong + (mismatch.num_wrong if mismatch else 0),
            mismatch=self.mismatch or mismatch,
        )


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
        on_nccl = session.choice.backend is Backend.NCCL
        self._probe = Probe(session, can_renew=not on_nccl)
        self._pace = Pace(agree=session.largest, spec=spec)
        self._stopwatch = Stopwatch(
            counter=channel,
            events=events_of(session.device),
            queued_s=queued_s(spec.deadline_s),
        )
        self._sources: Sources | None = None

    def run(self, steps: list[Step]) -> None:
        """Do the steps from `spec.first_step` on. Wrong results are in the records.

        Raises:
            RefusedError: see `Probe.attempt`.
            StepError: when a call failed.
        """
        misbehaviour = Misbehaviour(self._spec.fault, rank=self._session.rank, steps=steps)
        for step in steps:
            if step.number >= self._spec.first_step:
                self._channel.begin_step(step.number)
                try:
                    if self._is_supported(step):
                        self._do(step, misbehaviour)
                except KINDS as error:
                    raise StepError(step, error) from error

    def _is_supported(self, step: Step) -> bool:
        if not self._probe.is_known(step.case):
            trial = self._trial(step)
            words = self._probe.attempt(step.case, trial)
            if trial and words is not None:
                self._send(
                    Unsupported(
                        rank=self._session.rank,
                        step=step.number,
                        case=step.case,
                        size_bytes=step.size_bytes,
                        reason=words,
                    )
                )
            elif trial:
                self._stopwatch.finish()
        return self._probe.supports(step.case)

    def _trial(self, step: Step) -> Trial | None:
        """One call on the smallest tensors there are; None on a rank that has no part in it."""
        group = self._session.group(step.case.group)
        if group.slot is None:
            return None
        prepared = self._prepare(replace(step, count=1), group)
        prepared.refill()
        run = bound(prepared.operation, prepared.call)
        return Trial(launch=partial(self._stopwatch.launch, run), group_index=group.index)

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
        times_ns: tuple[int, ...] = ()
        if step.time:
            again = step.verify and prepared.is_repeatable
            if again:
                prepared.refill()
            times_ns = self._pace.run(partial(self._stopwatch.loop, run), first_ns=proof.taken_ns)
            proof = proof.and_again(prepared.result()) if again else proof
        self._send(self._measured(step, group, times_ns, proof))

    def _stand_by(self, step: Step) -> None:
        """Take part in what all ranks agree on, and in nothing else."""
        self._session.barrier()
        if step.time:
            self._pace.stand_by()

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
        taken_ns = self._stopwatch.once(run)
        if not step.verify:
            return Proof(taken_ns=taken_ns)
        result = prepared.result()
        misbehaviour.after_call(step, result)
        return Proof(taken_ns=taken_ns).and_again(result)

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
        taken_ns = self._stopwatch.once(run)
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
        if came == size:
            return Proof(taken_ns=taken_ns, num_checked=1)
        return Proof(taken_ns=taken_ns, num_checked=1, num_wrong=1, mismatch=mismatch)

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
            num_wrong=proof.num_wrong,
            num_checked=proof.num_checked,
            mismatch=proof.mismatch,
        )
