"""`suite --json` and `--csv`: the same rows, for programs.

The schema is rankrun.suite/1; docs/suite-document.md describes every field. Bandwidths are those of
the median time; null (empty in CSV) is unknown or undefined, never 0.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from ..cluster.diagnosis.findings import Finding
from ..jobs.results import FindingRow, finding_row
from .cases import Case
from .fit import CaseFit
from .measurement import Combine, Measurement
from .records import Joined

SUITE_SCHEMA = "rankrun.suite/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteFacts:
    """What a document says of the run as a whole. `exit_code` is None while it goes on."""

    run_id: str
    run_folder: str
    target: str
    world_size: int
    combine: Combine
    exit_code: int | None
    joined: Joined | None


class RunRow(TypedDict):
    """What every document of a suite run begins with."""

    schema: str
    run_id: str
    run_folder: str
    target: str
    world_size: int
    backend: str | None
    device: str | None
    device_name: str | None
    torch: str | None
    nccl: str | None
    python: str | None


# Not a class: one of its names is a keyword of Python.
CaseRow = TypedDict(
    "CaseRow",
    {
        "operation": str,
        "form": str,
        "group": str,
        "in_place": bool,
        "async": bool,
        "dtype": str,
        "redop": str | None,
        "root": int | None,
    },
)


class TimeRow(TypedDict):
    """Microseconds of one call, over the iterations."""

    min: float
    median: float
    p95: float
    max: float


class MeasurementRow(CaseRow):
    """One case at one size. `world_size` counts the ranks of the group that did it."""

    size_bytes: int
    count: int
    world_size: int
    iterations: int
    time_us: TimeRow | None
    algbw_gbps: float | None
    busbw_gbps: float | None
    num_wrong: int
    num_checked: int
    status: str
    reason: str | None


class FitRow(CaseRow):
    """One case's latency and bandwidth, or why there are none."""

    world_size: int
    num_sizes: int
    latency_us: float | None
    algbw_gbps: float | None
    busbw_gbps: float | None
    residual: float | None
    reason: str | None


class SuiteDocument(RunRow):
    """rankrun.suite/1."""

    combine: str
    rows: list[MeasurementRow]
    fits: list[FitRow]
    findings: list[FindingRow]
    exit_code: int | None


def suite_document(
    facts: SuiteFacts,
    *,
    measurements: Sequence[Measurement],
    fits: Sequence[CaseFit],
    findings: Sequence[Finding],
) -> SuiteDocument:
    """The whole document."""
    return {
        **run_row(facts, schema=SUITE_SCHEMA),
        "combine": facts.combine,
        "rows": [measurement_row(measured) for measured in measurements],
        "fits": [fit_row(fit) for fit in fits],
        "findings": [finding_row(finding) for finding in findings],
        "exit_code": facts.exit_code,
    }


def run_row(facts: SuiteFacts, *, schema: str) -> RunRow:
    """The run, and what it ran on as far as a rank said so."""
    joined = facts.joined
    return RunRow(
        schema=schema,
        run_id=facts.run_id,
        run_folder=facts.run_folder,
        target=facts.target,
        world_size=facts.world_size,
        backend=joined.backend if joined else None,
        device=joined.device if joined else None,
        device_name=joined.device_name if joined else None,
        torch=joined.torch if joined else None,
        nccl=joined.nccl if joined else None,
        python=joined.python if joined else None,
    )


def case_row(case: Case) -> CaseRow:
    """What was called, how, and on which ranks."""
    return {
        "operation": case.operation,
        "form": case.form,
        "group": case.group,
        "in_place": case.in_place,
        "async": case.asynchronous,
        "dtype": case.dtype,
        "redop": case.redop,
        "root": case.root,
    }


def measurement_row(measured: Measurement) -> MeasurementRow:
    """One row of the table."""
    return {
        **case_row(measured.case),
        "size_bytes": measured.size_bytes,
        "count": measured.count,
        "world_size": measured.group_size,
        "iterations": measured.iterations,
        "time_us": _time_row(measured),
        "algbw_gbps": measured.algbw_gbps,
        "busbw_gbps": measured.busbw_gbps,
        "num_wrong": measured.num_wrong,
        "num_checked": measured.num_checked,
        "status": measured.status,
        "reason": measured.reason,
    }


def _time_row(measured: Measurement) -> TimeRow | None:
    time = measured.time
    if time is None:
        return None
    return TimeRow(
        min=_microseconds(time.min_s),
        median=_microseconds(time.median_s),
        p95=_microseconds(time.p95_s),
        max=_microseconds(time.max_s),
    )


def _microseconds(seconds: float) -> float:
    """Clocks count nanoseconds; a digit more for means over ranks."""
    return round(seconds * 1e6, 4)


def fit_row(fit: CaseFit) -> FitRow:
    """One fit, or why there is none."""
    line = fit.fit
    return {
        **case_row(fit.case),
        "world_size": fit.group_size,
        "num_sizes": fit.num_sizes,
        "latency_us": _microseconds(line.latency_s) if line else None,
        "algbw_gbps": line.algbw_gbps if line else None,
        "busbw_gbps": fit.busbw_gbps,
        "residual": line.residual if line else None,
        "reason": fit.reason,
    }


def suite_csv(measurements: Sequence[Measurement]) -> str:
    """The rows as CSV (RFC 4180), the times in columns of their own."""
    text = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for row in map(_csv_row, measurements):
        if writer is None:
            writer = csv.DictWriter(text, fieldnames=list(row))
            writer.writeheader()
        writer.writerow(row)
    return text.getvalue()


def _csv_row(measured: Measurement) -> dict[str, object]:
    row: dict[str, object] = {}
    for name, value in measurement_row(measured).items():
        if name == "time_us":
            times = _time_row(measured) or dict.fromkeys(TimeRow.__annotations__)
            row |= {f"time_us_{which}": time for which, time in times.items()}
        else:
            row[name] = value
    return row
