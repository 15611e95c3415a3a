"""`rankrun suite`."""

import json
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ..cluster.errors import UsageError
from ..cluster.targets import parse_target
from ..collectives.measurement import Combine
from ..collectives.operations import operation_names
from ..collectives.sizes import sweep_sizes
from ..collectives.spec import START_UP_S, Backend, Device, Dtype, Mode, Redop, SuiteSpec
from ..collectives.suite_plan import SuiteRequest, plan_suite, render_suite_plan
from ..jobs.launchers import Starter, opened
from ..jobs.plan import Limits
from ..jobs.run_folder import new_run_id, runs_directory
from ..jobs.settings import parse_toggle
from . import options
from .outputs import check_outputs, print_text, terminal_beside, write_output

EXAMPLES = """
Examples:

  rankrun suite

  rankrun suite -t local:2 --ops all_reduce,broadcast -b 8 -e 64M -f 2

  rankrun suite --dtype bfloat16 --redop max --json result.json

  rankrun suite --show --ops all_reduce,scatter

  rankrun suite --matrix

  rankrun suite --ops all_reduce --toggle NCCL_P2P_DISABLE

  rankrun suite --fault hang:rank=2,op=all_reduce --op-deadline 5

  rankrun suite --dry-run
"""
SIZES, EFFORT, DATA, OUTPUT, RUN = (
    "Sizes, as nccl-tests has them", "Effort", "Data and backend", "Output", "Run",
)  # fmt: skip
# The time of every call is kept, and a record holds those of one rank and step.
MAX_CALLS = 1_000_000


def suite(
    target: options.TargetOption = None,
    ops: Annotated[
        str | None,
        typer.Option(
            "--ops",
            metavar="NAME,...",
            help=f"Which operations. Default: all of {', '.join(operation_names())}.",
            show_default=False,
        ),
    ] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Show each rank's small tensors before and after.")
    ] = False,
    matrix: Annotated[
        bool, typer.Option("--matrix", help="Try every operation, dtype and operator once.")
    ] = False,
    min_bytes: Annotated[
        str,
        typer.Option(
            "-b", "--min-bytes", metavar="SIZE", rich_help_panel=SIZES, help="Smallest: 8, 4K, 1M."
        ),
    ] = "8",
    max_bytes: Annotated[
        str,
        typer.Option("-e", "--max-bytes", metavar="SIZE", rich_help_panel=SIZES, help="Largest."),
    ] = "64M",
    factor: Annotated[
        int | None,
        typer.Option(
            "-f", "--factor", metavar="N", rich_help_panel=SIZES, help="Each size times N. [2]"
        ),
    ] = None,
    increment: Annotated[
        str | None,
        typer.Option(
            "-i", "--increment", metavar="SIZE", rich_help_panel=SIZES, help="Each size plus SIZE."
        ),
    ] = None,
    iterations: Annotated[
        int,
        typer.Option(
            "-n",
            "--iters",
            min=1,
            max=MAX_CALLS,
            metavar="N",
            rich_help_panel=EFFORT,
            help="Timed calls a size.",
        ),
    ] = 20,
    warmup: Annotated[
        int,
        typer.Option(
            "-w",
            "--warmup",
            min=0,
            max=MAX_CALLS,
            metavar="N",
            rich_help_panel=EFFORT,
            help="Calls before.",
        ),
    ] = 5,
    budget: Annotated[
        float,
        typer.Option(
            "--budget",
            min=0,
            callback=options.at_most_a_year,
            metavar="SECONDS",
            rich_help_panel=EFFORT,
            help="Time per size; large sizes get fewer iterations, at least one.",
        ),
    ] = 0.5,
    check: Annotated[
        bool, typer.Option("--check/--no-check", rich_help_panel=EFFORT, help="Verify exactly.")
    ] = True,
    dtype: Annotated[Dtype, typer.Option("-d", "--dtype", rich_help_panel=DATA)] = Dtype.FLOAT32,
    redop: Annotated[Redop, typer.Option("-o", "--redop", rich_help_panel=DATA)] = Redop.SUM,
    root: Annotated[
        int,
        typer.Option(
            "-r", "--root", metavar="RANK", rich_help_panel=DATA, help="Of what has a root."
        ),
    ] = 0,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", rich_help_panel=DATA, help="Of the inputs.")
    ] = 1,
    backend: Annotated[
        Backend,
        typer.Option(
            "--backend", rich_help_panel=DATA, help="auto: nccl with a GPU per rank, else gloo."
        ),
    ] = Backend.AUTO,
    device: Annotated[
        Device,
        typer.Option("--device", rich_help_panel=DATA, help="auto: cuda with nccl, else cpu."),
    ] = Device.AUTO,
    combine: Annotated[
        Combine,
        typer.Option(
            "-a",
            "--combine",
            rich_help_panel=OUTPUT,
            help="The ranks' times of a call: mean, fastest, slowest.",
        ),
    ] = Combine.AVG,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="FILE", rich_help_panel=OUTPUT, help="- is standard output."
        ),
    ] = None,
    csv_file: Annotated[
        Path | None,
        typer.Option("--csv", metavar="FILE", rich_help_panel=OUTPUT, help="- is standard output."),
    ] = None,
    env: options.EnvOption = None,
    nccl: options.NcclOption = None,
    toggle: Annotated[
        str | None,
        typer.Option(
            "--toggle",
            metavar="VAR[=VALUE]",
            rich_help_panel=RUN,
            help="Run without and with a variable (value 1 unless given); compare.",
        ),
    ] = None,
    fault: Annotated[
        str | None,
        typer.Option(
            "--fault",
            metavar="KIND:rank=N[,op=NAME]",
            rich_help_panel=RUN,
            help="Test the alarms: make one rank hang, exit, or get a wrong result.",
        ),
    ] = None,
    op_deadline: Annotated[
        float,
        typer.Option(
            "--op-deadline",
            min=0.1,
            callback=options.at_most_a_year,
            metavar="SECONDS",
            rich_help_panel=RUN,
            help="A call that takes longer is a hang: stacks are taken and the run ends.",
        ),
    ] = 60.0,
    start_deadline: Annotated[
        float,
        typer.Option(
            "--start-deadline",
            min=0.1,
            callback=options.at_most_a_year,
            metavar="SECONDS",
            rich_help_panel=RUN,
            help="How long ranks may take to join the process group.",
        ),
    ] = START_UP_S,
    deadline: options.DeadlineOption = None,
    runs: options.RunsOption = None,
    detach: options.DetachOption = False,
    dry_run: options.DryRunOption = False,
) -> None:
    """Prove every collective right and time it.

    Exit code 0: all right. 1: a wrong result, a hang or a failed rank. 3: could not run.
    124: the deadline passed. 130: Ctrl-C.
    """
    mode = _mode(show=show, matrix=matrix, toggle=toggle)
    spec = SuiteSpec(
        mode=mode,
        operations=_names(ops),
        sizes_bytes=sweep_sizes(min_bytes, max_bytes, factor=factor, increment=increment),
        iterations=iterations,
        warmup=warmup,
        budget_s=budget,
        deadline_s=op_deadline,
        start_up_s=start_deadline,
        dtype=dtype,
        redop=redop,
        root=root,
        backend=backend,
        device=device,
        check=check,
        seed=seed,
        fault=fault,
    )
    check_outputs(json_file, csv_file)
    if csv_file and (mode is not Mode.SWEEP or toggle is not None):
        raise UsageError("--csv: only for the sweep; --show, --matrix and --toggle have --json")
    compared = None if toggle is None else parse_toggle(toggle)
    settings = options.settings_of(env, nccl)
    if detach and not dry_run:
        options.detached("suite", runs)
        return
    with opened(parse_target(target)) as (launcher, resolved):
        request = SuiteRequest(
            run_id=new_run_id("suite"),
            spec=spec,
            target=resolved,
            runs=runs_directory(runs),
            workdir=Path().absolute(),
            environment=options.inherited_environment(),
            settings=settings,
            limits=Limits(deadline_s=deadline),
            combine=combine,
        )
        outputs = _Outputs(json_file=json_file, csv_file=csv_file)
        if dry_run:
            _print_plans(request, compared)
            return
        exit_code = _execute(request, launcher, compared, outputs)
    raise typer.Exit(exit_code)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outputs:
    """Where documents go, if anywhere."""

    json_file: Path | None
    csv_file: Path | None


def _print_plans(request: SuiteRequest, compared: tuple[str, str] | None) -> None:
    if compared is None:
        print_text(render_suite_plan(plan_suite(request)))
        return
    from ..collectives.comparison import Toggle, plan_toggle  # noqa: PLC0415

    for plan in plan_toggle(request, Toggle(name=compared[0], value=compared[1])):
        print_text(render_suite_plan(plan) + "\n")


def _execute(
    request: SuiteRequest,
    launcher: Starter,
    compared: tuple[str, str] | None,
    outputs: _Outputs,
) -> int:
    """Run what was asked for, write its documents; the exit code."""
    from ..collectives.comparison import Toggle, ToggleResult, run_toggle  # noqa: PLC0415  # not needed to plan
    from ..collectives.matrix import run_matrix  # noqa: PLC0415
    from ..collectives.run_suite import run_suite  # noqa: PLC0415
    from ..collectives.suite_result import MatrixResult, SuiteResult  # noqa: PLC0415

    result: ToggleResult | MatrixResult | SuiteResult
    with closing(terminal_beside(outputs.json_file, outputs.csv_file)) as terminal:
        if compared is not None:
            toggle = Toggle(name=compared[0], value=compared[1])
            result = run_toggle(request, toggle, terminal, launcher=launcher)
        elif request.spec.mode is Mode.MATRIX:
            result = run_matrix(plan_suite(request), terminal, launcher=launcher)
        else:
            result = run_suite(plan_suite(request), terminal, launcher=launcher)
    write_output(outputs.json_file, json.dumps(result.document(), indent=1) + "\n")
    if isinstance(result, SuiteResult):
        write_output(outputs.csv_file, result.csv())
    return result.exit_code


def _mode(*, show: bool, matrix: bool, toggle: str | None) -> Mode:
    chosen = [
        name
        for name, given in (
            ("--show", show),
            ("--matrix", matrix),
            ("--toggle", toggle is not None),
        )
        if given
    ]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)}: give one of them")
    return Mode.SHOW if show else Mode.MATRIX if matrix else Mode.SWEEP


def _names(text: str | None) -> tuple[str, ...]:
    """The operations asked for; all unless given. Unknown ones are refused by the plan."""
    if text is None:
        return operation_names()
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise UsageError(f"--ops {text!r}: names none; valid: {', '.join(operation_names())}")
    return names


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(epilog=EXAMPLES)(suite)
