"""The border where lines of JSON become records: pydantic checks them against the dataclasses.

pydantic is imported with this module, so the command line must not import it before it runs
something.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from ..cluster.diagnosis.findings import Finding
from ..cluster.errors import RunFolderError
from .records import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A line that is no record, and why."""

    line: bytes
    reason: str


@cache
def _adapter() -> TypeAdapter[Record]:
    return TypeAdapter(Annotated[Record, Field(discriminator="kind")])


def parse_record(line: bytes) -> Record | Unreadable:
    """The record of a line; a line that is none is data too, never an exception."""
    try:
        return _adapter().validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        return Unreadable(line=line, reason=f"{where}: {first['msg']}".removeprefix(": "))


def read_records(path: Path) -> Iterator[Record]:
    """The records of a measurements.jsonl, also of a run that still goes on.

    Unreadable lines are left out: the run said so when it met them, and the last line may be
    half written.
    """
    with path.open("rb") as lines:
        for line in lines:
            record = parse_record(line)
            if not isinstance(record, Unreadable):
                yield record


def read_findings(rows: object) -> tuple[Finding, ...]:
    """The findings of a findings.json.

    Raises:
        RunFolderError: if they are not as this version of rankrun writes them.
    """
    try:
        return TypeAdapter(tuple[Finding, ...]).validate_python(rows)
    except ValidationError as error:
        raise RunFolderError(f"findings.json: not as this rankrun writes it: {error}") from error
