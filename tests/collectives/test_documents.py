import csv
import io
import json
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter

from rankrun.cluster.diagnosis.findings import Finding, Severity, Subject, SubjectKind
from rankrun.collectives.cases import Form
from rankrun.collectives.documents import (
    SUITE_SCHEMA,
    SuiteFacts,
    measurement_row,
    suite_csv,
    suite_document,
)
from rankrun.collectives.fit import fit_cases
from rankrun.collectives.measurement import Combine, Status

from .samples import BROADCAST, CASE, JOINED, measurement

FACTS = SuiteFacts(
    run_id="20261201-000000.000-suite-0000",
    run_folder="/runs/x",
    target="local:4",
    world_size=4,
    combine=Combine.AVG,
    exit_code=0,
    joined=JOINED,
)
ROWS = [measurement(CASE, size, time_us=10 + size / 1000) for size in (8, 1024, 1 << 20)]
FINDING = Finding(
    cause="wrong-result",
    severity=Severity.ERROR,
    subject=Subject(kind=SubjectKind.RANK, name="3"),
    message="wrong",
    remedy="stop",
)

# The least that the schema promises per row (docs/suite-document.md).
PROMISED = {
    "operation", "form", "group", "in_place", "async", "dtype", "redop", "root", "size_bytes",
    "count", "world_size", "iterations", "time_us", "algbw_gbps", "busbw_gbps", "num_wrong",
    "num_checked", "status", "reason",
}  # fmt: skip


def test_the_document_is_plain_json() -> None:
    document = suite_document(FACTS, measurements=ROWS, fits=fit_cases(ROWS), findings=[FINDING])
    read = json.loads(json.dumps(document, allow_nan=False))
    assert read["schema"] == SUITE_SCHEMA == "rankrun.suite/1"
    assert (read["backend"], read["torch"], read["nccl"]) == ("gloo", "2.13.0", None)
    assert (read["combine"], read["exit_code"], read["world_size"]) == ("avg", 0, 4)
    assert [set(row) for row in read["rows"]] == [PROMISED] * 3
    assert read["fits"][0]["residual"] < 1e-9
    assert TypeAdapter(list[Finding]).validate_python(read["findings"]) == [FINDING]


def test_a_row() -> None:
    row = measurement_row(replace(ROWS[1], times_s=(1e-6, 2e-6, 4e-6)))
    assert row["time_us"] == {"min": 1.0, "median": 2.0, "p95": 4.0, "max": 4.0}
    assert (row["operation"], row["form"], row["redop"], row["root"]) == (
        "all_reduce", "tensor", "sum", None,
    )  # fmt: skip
    assert row["algbw_gbps"] is not None
    assert row["busbw_gbps"] == row["algbw_gbps"] * 1.5
    assert row["status"] == "right"
    assert row["reason"] is None


def test_unknown_is_null_and_never_zero() -> None:
    unsupported = measurement(time_us=None, status=Status.UNSUPPORTED, reason="not here")
    row = measurement_row(unsupported)
    assert (row["time_us"], row["algbw_gbps"], row["busbw_gbps"]) == (None, None, None)
    assert (row["status"], row["reason"]) == ("unsupported", "not here")
    assert measurement_row(measurement(group_size=1))["busbw_gbps"] is None


def test_a_document_without_any_rank() -> None:
    facts = replace(FACTS, joined=None, exit_code=3)
    document = suite_document(facts, measurements=[], fits=[], findings=[])
    assert (document["backend"], document["rows"], document["exit_code"]) == (None, [], 3)


def test_csv_has_the_same_rows() -> None:
    comma = measurement(
        replace(BROADCAST, form=Form.TENSOR), time_us=None, reason='words, with "quotes"'
    )
    rows = list(csv.DictReader(io.StringIO(suite_csv([*ROWS, comma]))))
    assert len(rows) == 4
    assert set(rows[0]) == PROMISED - {"time_us"} | {
        f"time_us_{which}" for which in ("min", "median", "p95", "max")
    }
    times = measurement_row(ROWS[0])["time_us"]
    assert times is not None
    assert float(rows[0]["time_us_median"]) == times["median"]
    assert rows[3]["time_us_median"] == ""
    assert rows[3]["reason"] == 'words, with "quotes"'


def test_csv_of_nothing_is_empty() -> None:
    assert suite_csv([]) == ""


def test_every_field_is_documented() -> None:
    text = (Path(__file__).parent.parent.parent / "docs" / "suite-document.md").read_text()
    document = suite_document(FACTS, measurements=ROWS, fits=fit_cases(ROWS), findings=[])
    names = {*document, *document["rows"][0], *document["fits"][0]} - {"schema"}
    assert {name for name in names if f"`{name}`" not in text} == set()
