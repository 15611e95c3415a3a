"""The border where JSON becomes values: pydantic checks them against the dataclasses.

pydantic is imported with this module, so the command line must not import it before it runs
something.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from ..cluster.errors import RunFolderError
from ..jobs.run_folder import RunFolder
from .records import Record

Kind = TypeVar("Kind")


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
        return Unreadable(line=line, reason=_reason(error))


def read_records(path: Path) -> Iterator[Record]:
    """The records of a measurements.jsonl, also of a run that still goes on.

    Unreadable lines are left out: the run said so when it met them, and the last line may be
    half written.

    Raises:
        RunFolderError: if the file cannot be read.
    """
    try:
        lines = path.open("rb")
    except OSError as error:
        raise RunFolder(path.parent).error("read", path, error) from error
    with lines:
        for line in lines:
            record = parse_record(line)
            if not isinstance(record, Unreadable):
                yield record


def read_document(folder: RunFolder, path: Path, kind: type[Kind], *, schema: str) -> Kind:
    """One of the folder's JSON files as a dataclass, which may leave out fields of the file.

    Raises:
        RunFolderError: if it is missing, broken, of another schema, or lacks something.
    """
    document: object = folder.read_json(path)
    found = document.get("schema") if isinstance(document, dict) else None
    if found != schema:
        raise RunFolderError(
            f"run folder: {path} is not as this rankrun writes it: its schema is {found!r}, not "
            f"{schema!r}; read the folder with the version that made it"
        )
    try:
        return TypeAdapter(kind).validate_python(document)
    except ValidationError as error:
        raise RunFolderError(
            f"run folder: {path} is not as this rankrun writes it: {_reason(error)}; it is "
            "damaged, or another version made it"
        ) from error


def _reason(error: ValidationError) -> str:
    """Where and what, of the first mistake, in one line."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}".removeprefix(": ")
