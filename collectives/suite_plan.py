"""From what a user asks of the suite to a plan. Pure; `--dry-run` prints what is executed."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..cluster.errors import UsageError
from ..cluster.units import format_size
from ..jobs.placement import Placement
from ..jobs.plan import (
    LaunchPlan,
    Limits,
    PlanRequest,
    ResolvedTarget,
    build_plan,
    render_plan,
)
from .faults import parse_fault
from .measurement import Combine
from .spec import SPEC_VARIABLE, SuiteSpec
from .steps import Step, Topology, enumerate_steps

RANK_PROGRAM = "rankrun.collectives.on_rank"


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteRequest:
    """What a user asks for.

    `runs` is the directory that run folders go to; `environment` is inherited by the ranks and
    `settings` (--nccl, --env) are set on top of it. The deadlines of a call and of joining are
    the spec's.
    """

    run_id: str
    spec: SuiteSpec
    target: ResolvedTarget
    runs: Path
    workdir: Path
    environment: Mapping[str, str]
    settings: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    combine: Combine = Combine.AVG

    @property
    def start_up_s(self) -> float:
        """How long ranks may take to join."""
        return self.spec.start_up_s


@dataclass(frozen=True, slots=True, kw_only=True)
class SuitePlan:
    """A suite run ready to be executed. `steps` are those that it will do."""

    request: SuiteRequest
    launch: LaunchPlan
    topology: Topology
    steps: tuple[Step, ...]


def plan_suite(request: SuiteRequest, *, run_folder: Path | None = None) -> SuitePlan:
    """The plan of a request. `run_folder` is where it goes, if not to its own place in `runs`.

    Raises:
        UsageError: for an unknown operation, a root or a fault on a rank that there is not.
    """
    spec = request.spec
    launch = build_plan(
        PlanRequest(
            run_id=request.run_id,
            argv=(sys.executable, "-m", RANK_PROGRAM),
            target=request.target,
            run_folder=run_folder or request.runs / request.run_id,
            workdir=request.workdir,
            environment=request.environment,
            settings={**request.settings, SPEC_VARIABLE: spec.to_json()},
            limits=request.limits,
            with_rankrun=True,
        )
    )
    topology = topology_of(launch.placement)
    _check(spec, topology)
    steps = [s for s in enumerate_steps(spec, topology) if s.number >= spec.first_step]
    return SuitePlan(request=request, launch=launch, topology=topology, steps=tuple(steps))


def replan(plan: SuitePlan, *, first_step: int, run_folder: Path, elapsed_s: float) -> SuitePlan:
    """The rest of a plan, from a step on, in another folder, so long after the plan's start."""
    spec = replace(plan.request.spec, first_step=first_step)
    request = replace(plan.request, spec=spec, limits=plan.request.limits.after(elapsed_s))
    return plan_suite(request, run_folder=run_folder)


def topology_of(placement: Placement) -> Topology:
    """Who shares a node, as the ranks will find it."""
    return Topology(
        world_size=placement.world_size,
        node_leaders=tuple(r.global_rank for r in placement.ranks if r.local_rank == 0),
    )


def _check(spec: SuiteSpec, topology: Topology) -> None:
    valid = f"the target has ranks 0 to {topology.world_size - 1}"
    if not 0 <= spec.root < topology.world_size:
        raise UsageError(f"root {spec.root}: {valid}")
    if spec.fault is not None and parse_fault(spec.fault).rank >= topology.world_size:
        raise UsageError(f"fault {spec.fault!r}: {valid}; write rank=N")


def render_suite_plan(plan: SuitePlan) -> str:
    """What `--dry-run` prints: the steps, then the plan of the launch."""
    spec = plan.request.spec
    operations = dict.fromkeys(step.case.operation for step in plan.steps)
    sizes = ", ".join(map(format_size, spec.sizes_bytes))
    lines = [
        f"mode      {spec.mode}",
        f"steps     {len(plan.steps)} (a step is one case at one size)",
        f"ops       {', '.join(operations)}",
        f"sizes     {sizes}",
        f"effort    warm-up {spec.warmup}, iterations {spec.iterations}",
        f"time      budget of a size {spec.budget_s:g} s, deadline of a call {spec.deadline_s:g} s",
        f"dtype     {spec.dtype}, redop {spec.redop}, root {spec.root}",
        f"backend   {spec.backend}, device {spec.device}",
    ]
    return "\n".join(lines) + "\n" + render_plan(plan.launch)
