"""The plan of a run: a value, made purely; `--dry-run` prints the very object that is executed."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypedDict

from ..cluster.errors import UsageError
from ..cluster.hosts import Host
from ..cluster.secrets import mask_argv, mask_environment
from .environment import (
    CONTRACT,
    MASTER_ADDR,
    MASTER_PORT,
    PORT_AT_START,
    common_variables,
    is_forwarded,
    is_relevant,
    rank_environment,
)
from .placement import Placement, Rank, place

PLAN_SCHEMA = "rankrun.plan/1"
DEFAULT_GRACE_S = 1.5  # with it the other ranks are gone within 2 s of the first failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long things may take. None: no limit.

    `deadline_s` bounds the whole run, of which earlier launches took `elapsed_s`. `grace_s`
    passes between asking the ranks to end (SIGTERM) and killing them. `lease_s` is how long an
    agent lives without a word from its controller; an agent that is a child of it needs none,
    it sees the pipe close. `alone_s` is for agents that outlive their controller: so long after
    a rank failed they end the others by themselves.
    """

    deadline_s: float | None = None
    elapsed_s: float = 0.0
    grace_s: float = DEFAULT_GRACE_S
    lease_s: float | None = None
    alone_s: float | None = None

    def after(self, elapsed_s: float) -> "Limits":
        """What is left of them for a launch so much later in the same run."""
        return replace(self, elapsed_s=self.elapsed_s + elapsed_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedTarget:
    """A target whose hosts were asked: nothing about them is open any more.

    `remote`: ranks begin with their own host's environment, not with the controller's.
    `settings` are the target's own variables, for all ranks.
    """

    text: str
    launcher: str
    hosts: tuple[Host, ...]
    remote: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What a user asks for. `environment` is inherited; `settings` are set on top of it.

    `with_rankrun`: the command is our own code in Python, `argv[0]` being the interpreter here.
    """

    run_id: str
    argv: tuple[str, ...]
    target: ResolvedTarget
    run_folder: Path
    workdir: Path
    environment: Mapping[str, str]
    settings: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = Limits()
    with_rankrun: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlan:
    """One rank and what its process gets on top of the common environment."""

    rank: Rank
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """Everything a launcher needs.

    A rank's environment is its host's if `remote`, then what is inherited, then its own, which
    holds `settings`; MASTER_PORT is added by the agent that reserves it, unless it is among the
    settings. `with_rankrun`: other hosts bring their own interpreter for `argv[0]`.
    """

    run_id: str
    argv: tuple[str, ...]
    launcher: str
    target: str
    run_folder: Path
    workdir: Path
    inherited: Mapping[str, str]
    settings: Mapping[str, str]
    ranks: tuple[RankPlan, ...]
    limits: Limits
    remote: bool = False
    with_rankrun: bool = False

    @property
    def placement(self) -> Placement:
        """Who runs where."""
        return Placement(ranks=tuple(planned.rank for planned in self.ranks))

    @property
    def master_addr(self) -> str:
        """The address that all ranks dial."""
        return self.ranks[0].environment[MASTER_ADDR]


def build_plan(request: PlanRequest) -> LaunchPlan:
    """The plan of a request. Pure.

    Raises:
        UsageError: for an empty command, or a setting of what tells the ranks apart.
    """
    checked_command(request.argv)
    settings = {**request.target.settings, **request.settings}
    for variables in (settings, *(host.environment for host in request.target.hosts)):
        _check_settings(variables)
    placement = place(request.target.hosts)
    inherited = _inherited(request)
    common = {**inherited, **settings}
    ranks = tuple(
        RankPlan(
            rank=rank,
            environment=rank_environment(
                rank, placement=placement, run_id=request.run_id, common=common
            )
            | settings,
        )
        for rank in placement.ranks
    )
    return LaunchPlan(
        run_id=request.run_id,
        argv=request.argv,
        launcher=request.target.launcher,
        target=request.target.text,
        run_folder=request.run_folder,
        workdir=request.workdir,
        inherited=inherited,
        settings=settings,
        ranks=ranks,
        limits=request.limits,
        remote=request.target.remote,
        with_rankrun=request.with_rankrun,
    )


def checked_command(argv: Sequence[str]) -> tuple[str, ...]:
    """The command of every rank.

    Raises:
        UsageError: if there is none.
    """
    if not argv:
        raise UsageError(
            "no command to run: write it after --, as in: rankrun launch -- python x.py"
        )
    return tuple(argv)


def _inherited(request: PlanRequest) -> dict[str, str]:
    return {
        name: value
        for name, value in request.environment.items()
        if not request.target.remote or is_forwarded(name)
    }


def _check_settings(settings: Mapping[str, str]) -> None:
    """One value for all ranks would make them all the same rank; the address may be chosen."""
    fixed = [name for name in settings if name in CONTRACT and name != MASTER_ADDR]
    if fixed:
        raise UsageError(
            f"--env {fixed[0]}: each rank gets its own, from the target; choose ranks with -t"
        )


class RankRow(TypedDict):
    """One rank as plan.json and `rankrun env --json` show it."""

    rank: int
    host: str
    address: str
    local_rank: int
    environment: dict[str, str]


class PlanDocument(TypedDict):
    """plan.json: the plan with secrets masked."""

    schema: str
    run_id: str
    target: str
    launcher: str
    command: list[str]
    workdir: str
    run_folder: str
    world_size: int
    deadline_s: float | None
    grace_s: float
    inherited: dict[str, str]
    inherited_not_shown: int
    ranks: list[RankRow]


def plan_document(plan: LaunchPlan) -> PlanDocument:
    """What is stored and shown: of the inherited environment only what shapes a run."""
    relevant = {name: value for name, value in plan.inherited.items() if is_relevant(name)}
    return PlanDocument(
        schema=PLAN_SCHEMA,
        run_id=plan.run_id,
        target=plan.target,
        launcher=plan.launcher,
        command=mask_argv(plan.argv),
        workdir=str(plan.workdir),
        run_folder=str(plan.run_folder),
        world_size=len(plan.ranks),
        deadline_s=plan.limits.deadline_s,
        grace_s=plan.limits.grace_s,
        inherited=dict(sorted(mask_environment(relevant).items())),
        inherited_not_shown=len(plan.inherited) - len(relevant),
        ranks=[_rank_row(planned) for planned in plan.ranks],
    )


def _rank_row(planned: RankPlan) -> RankRow:
    environment = {MASTER_PORT: PORT_AT_START, **planned.environment}
    return RankRow(
        rank=planned.rank.global_rank,
        host=planned.rank.host.name,
        address=planned.rank.host.address,
        local_rank=planned.rank.local_rank,
        environment=dict(sorted(mask_environment(environment).items())),
    )


def render_plan(plan: LaunchPlan) -> str:
    """The plan as `--dry-run` prints it: what all ranks share once, then what differs."""
    document = plan_document(plan)
    lines = [
        f"run       {document['run_id']}",
        f"target    {document['target']} (launcher {document['launcher']})",
        f"command   {shlex.join(document['command'])}",
        f"workdir   {document['workdir']}",
        f"folder    {document['run_folder']}",
        f"ranks     {document['world_size']}",
        f"deadline  {_seconds(document['deadline_s'])}",
        f"grace     {_seconds(document['grace_s'])}",
        "",
    ]
    return "\n".join(lines) + "\n" + render_environment(plan)


def render_environment(plan: LaunchPlan) -> str:
    """Every rank's environment: what is inherited, what all ranks share, what differs."""
    document = plan_document(plan)
    shared = shared_environment(document)
    hidden = document["inherited_not_shown"]
    lines = [
        f"inherited by all ranks, of what shapes a run ({hidden} more not shown)",
        *_settings(document["inherited"]),
        "set for all ranks",
        *_settings(shared),
    ]
    for row in document["ranks"]:
        own = {k: v for k, v in row["environment"].items() if k not in shared}
        lines += [f"rank {row['rank']} on {row['host']} ({row['address']})", *_settings(own)]
    return "\n".join(lines) + "\n"


def shared_environment(document: PlanDocument) -> dict[str, str]:
    """The variables that have one value on all ranks (with one rank: all of them)."""
    return common_variables([row["environment"] for row in document["ranks"]])


def _settings(environment: Mapping[str, str]) -> list[str]:
    return [f"    {name}={value}" for name, value in environment.items()]


def _seconds(value: float | None) -> str:
    return "none" if value is None else f"{value:g} s"
