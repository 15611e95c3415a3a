"""`suite --json` and `--csv`: the same rows, for programs.

The schema is rankrun.suite/1; docs/suite-document.md describes every field. Bandwidths are those of
the median time; null (empty in CSV) is unknown or undefined, never 0.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypedDict

from ..cluster.diagnosis.findings import Finding
from .fit import CaseFit
from .measurement import Combine, Measurement
from .records import Joined

SUITE_SCHEMA = "rankrun.suite/1"


class TimeUs(TypedDict):
    """Microseconds of one call, over the iterations."""

    min: float
    median: float
    p95: float
    max: float


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


def suite_document(
    facts: SuiteFacts,
    *,
    measurements: Sequence[Measurement],
    fits: Sequence[CaseFit],
    findings: Sequence[Finding],
) -> dict[str, Any]:
    """The whole document."""
    joined = facts.joined
    return {
        "schema": SUITE_SCHEMA,
        "run_id": facts.run_id,
        "run_folder": facts.run_folder,
        "target": facts.target,
        "world_size": facts.world_size,
        "backend": joined.backend if joined else None,
        "device": joined.device if joined else None,
        "device_name": joined.device_name if joined else None,
        "torch": joined.torch if joined else None,
        "nccl": joined.nccl if joined else None,
        "python": joined.python if joined else None,
        "combine": str(facts.combine),
        "rows": [measurement_row(measured) for measured in measurements],
        "fits": [fit_row(fit) for fit in fits],
        "findings": [asdict(finding) for finding in findings],
        "exit_code": facts.exit_code,
    }


def measurement_row(measured: Measurement) -> dict[str, Any]:
    """One row; `world_size` counts the ranks of the group that did it."""
    return {
        **_case_fields(measured),
        "size_bytes": measured.size_bytes,
        "count": measured.count,
        "world_size": measured.group_size,
        "iterations": measured.iterations,
        "time_us": _time_us(measured),
        "algbw_gbps": measured.algbw_gbps,
        "busbw_gbps": measured.busbw_gbps,
        "num_wrong": measured.num_wrong,
        "num_checked": measured.num_checked,
        "status": str(measured.status),
        "reason": measured.reason or None,
    }


def _case_fields(of: Measurement | CaseFit) -> dict[str, Any]:
    case = of.case
    return {
        "operation": case.operation,
        "form": str(case.form),
        "group": str(case.group),
        "in_place": case.in_place,
        "async": case.asynchronous,
        "dtype": str(case.dtype),
        "redop": str(case.redop) if case.redop else None,
        "root": case.root,
    }


def _time_us(measured: Measurement) -> TimeUs | None:
    time = measured.time
    if time is None:
        return None
    return TimeUs(
        min=_microseconds(time.min_s),
        median=_microseconds(time.median_s),
        p95=_microseconds(time.p95_s),
        max=_microseconds(time.max_s),
    )


def _microseconds(seconds: float) -> float:
    """Clocks count nanoseconds; a digit more for means over ranks."""
    return round(seconds * 1e6, 4)


def fit_row(fit: CaseFit) -> dict[str, Any]:
    """One fit, or why there is none."""
    line = fit.fit
    return {
        **_case_fields(fit),
        "world_size": fit.group_size,
        "num_sizes": fit.num_sizes,
        "latency_us": _microseconds(line.latency_s) if line else None,
        "algbw_gbps": line.algbw_gbps if line else None,
        "busbw_gbps": fit.busbw_gbps,
        "residual": line.residual if line else None,
        "reason": fit.reason or None,
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


def _csv_row(measured: Measurement) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, value in measurement_row(measured).items():
        if name == "time_us":
            times = value or dict.fromkeys(TimeUs.__annotations__)
            row |= {f"time_us_{which}": time for which, time in times.items()}
        else:
            row[name] = value
    return row
