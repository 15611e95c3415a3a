"""What stands above and below the rows of the table. Pure."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from ..cluster.units import format_size
from .cases import Case
from .documents import SuiteFacts
from .fit import CaseFit
from .measurement import Combine, Measurement, Status
from .records import Joined
from .spec import SuiteSpec
from .table import is_swept

_COMBINED = {
    Combine.AVG: "averaged over ranks",
    Combine.MIN: "of the fastest rank",
    Combine.MAX: "of the slowest rank",
}


def preamble(spec: SuiteSpec, joined: Joined, facts: SuiteFacts) -> list[str]:
    """What is measured, on what, and how; printed when all ranks joined."""
    nccl = f", NCCL {joined.nccl}" if joined.nccl else ""
    ranks = "1 rank" if joined.world_size == 1 else f"{joined.world_size} ranks"
    smallest, largest = min(spec.sizes_bytes), max(spec.sizes_bytes)
    checked = "every element of every result checked" if spec.check else "results not checked"
    return [
        (
            f"# rankrun suite: {ranks} on {facts.target}, backend {joined.backend}, "
            f"device {joined.device} ({joined.device_name}), torch {joined.torch}{nccl}"
        ),
        (
            f"# sizes {format_size(smallest)} to {format_size(largest)}, warm-up {spec.warmup}, "
            f"iterations {spec.iterations} (fewer where {spec.budget_s:g} s do not suffice), "
            f"{checked}"
        ),
        (
            f"# time: median over iterations, {_COMBINED[facts.combine]}; "
            "GB/s are 1e9 bytes a second; root -1: none"
        ),
    ]


def footer(measurements: Sequence[Measurement], fits: Sequence[CaseFit]) -> list[str]:
    """Totals as nccl-tests has them, then what each case tends to."""
    return [
        "#",
        _out_of_bounds(measurements),
        *_average(measurements),
        *_unsupported(measurements),
        *_fit_lines(measurements, fits),
    ]


def _out_of_bounds(measurements: Sequence[Measurement]) -> str:
    wrong = sum(measured.num_wrong for measured in measurements)
    failed = any(measured.status is Status.WRONG for measured in measurements)
    if not any(m.status in (Status.RIGHT, Status.WRONG) for m in measurements):
        return "# Out of bounds values : not checked"
    return f"# Out of bounds values : {wrong} {'FAILED' if failed else 'OK'}"


def _average(measurements: Iterable[Measurement]) -> Iterator[str]:
    """nccl-tests' number: one operation's mean over its sizes and both placements.

    So of the swept cases, which are those on all ranks; small sizes pull it down.
    """
    rates: dict[str, list[float]] = defaultdict(list)
    for measured in measurements:
        if measured.busbw_gbps is not None and is_swept(measured.case):
            case = measured.case
            rates[f"{case.operation} ({case.form})"].append(measured.busbw_gbps)
    for name, of_operation in rates.items():
        yield f"# Avg bus bandwidth    : {statistics.fmean(of_operation):<10.6g} {name}"


def _unsupported(measurements: Iterable[Measurement]) -> Iterator[str]:
    cases = {m.case for m in measurements if m.status is Status.UNSUPPORTED}
    if cases:
        yield f"# Unsupported cases    : {len(cases)} (not failures; see the rows)"


def _fit_lines(measurements: Sequence[Measurement], fits: Sequence[CaseFit]) -> Iterator[str]:
    fitted = [fit for fit in fits if fit.fit]
    if not fitted:
        if fits:
            yield f"# No latency-bandwidth fit: {fits[0].reason}"
        return
    width = max([38, *(len(_name(fit.case)) for fit in fitted)])
    yield "#"
    model = "t = latency + size / bandwidth"
    yield f"# {'':{width}}   peak  at size   latency  bandwidth  residual"
    yield f"# {model:{width}}  busbw      (B)      (us)     (GB/s)       (%)"
    for fit in fitted:
        yield _fit_line(fit, _peak(fit.case, measurements), width)


def _fit_line(fit: CaseFit, peak: tuple[float, int] | None, width: int) -> str:
    assert fit.fit is not None
    line = fit.fit
    rate, size = ("-", "-") if peak is None else (f"{peak[0]:.2f}", format_size(peak[1]))
    limit = "-" if line.algbw_gbps is None else f"{line.algbw_gbps:.2f}"
    return (
        f"# {_name(fit.case):{width}} {rate:>6} {size:>8} {line.latency_s * 1e6:>9.1f} "
        f"{limit:>10} {line.residual * 100:>9.1f}"
    )


def _name(case: Case) -> str:
    return case.label


def _peak(case: Case, measurements: Iterable[Measurement]) -> tuple[float, int] | None:
    """The best bus bandwidth of a case and the size that had it."""
    rates = [
        (m.busbw_gbps, m.size_bytes)
        for m in measurements
        if m.case == case and m.busbw_gbps is not None
    ]
    return max(rates, default=None)
