"""The matrix: what became of each combination, as text and as JSON. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypedDict

from ..cluster.compat import StrEnum
from ..cluster.diagnosis.findings import Finding
from ..jobs.results import FindingRow, finding_row
from .cases import Case, Form
from .documents import RunRow, SuiteFacts, run_row
from .measurement import Measurement, Status
from .steps import Step

MATRIX_SCHEMA = "rankrun.matrix/1"

_UNTYPED = (Form.OBJECT, Form.PLAIN)


class Outcome(StrEnum):
    """What became of a combination."""

    OK = "ok"
    UNSUPPORTED = "unsupported"
    WRONG = "wrong"
    CRASHED = "crashed"
    HUNG = "hung"
    NOT_RUN = "not run"


OF_STATUS = {
    Status.RIGHT: Outcome.OK,
    Status.NOT_CHECKED: Outcome.OK,
    Status.WRONG: Outcome.WRONG,
    Status.UNSUPPORTED: Outcome.UNSUPPORTED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One combination. `words` are the backend's own, or what the ranks died of; None: none."""

    case: Case
    outcome: Outcome
    words: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Casualty:
    """The step that a launch ended in, and how."""

    step: int
    outcome: Outcome
    words: str


def cells_of(
    steps: Iterable[Step], measurements: Iterable[Measurement], casualties: Iterable[Casualty]
) -> Iterator[Cell]:
    """One cell per step, in order."""
    done = {measured.step: measured for measured in measurements}
    dead = {casualty.step: casualty for casualty in casualties}
    for step in steps:
        if step.number in dead:
            casualty = dead[step.number]
            yield Cell(case=step.case, outcome=casualty.outcome, words=casualty.words)
        elif step.number in done:
            measured = done[step.number]
            words = measured.reason
            yield Cell(case=step.case, outcome=OF_STATUS[measured.status], words=words)
        else:
            yield Cell(case=step.case, outcome=Outcome.NOT_RUN)


_SHORT = {
    Outcome.OK: "ok",
    Outcome.WRONG: "WRONG",
    Outcome.CRASHED: "CRASH",
    Outcome.HUNG: "HUNG",
    Outcome.NOT_RUN: "?",
    Outcome.UNSUPPORTED: "no",
}


class Words:
    """Footnotes: equal words get one number."""

    def __init__(self) -> None:
        """None yet."""
        self._numbers: dict[str, int] = {}

    def mark(self, cell: Cell) -> str:
        """A cell as the grid has it: `ok`, `no[1]`, `CRASH[2]`."""
        short = _SHORT[cell.outcome]
        if not cell.words:
            return short
        number = self._numbers.setdefault(cell.words, len(self._numbers) + 1)
        return f"{short}[{number}]"

    def lines(self) -> Iterator[str]:
        """The footnotes."""
        for words, number in self._numbers.items():
            yield f"# [{number}] {words}"


def matrix_lines(facts: SuiteFacts, cells: Sequence[Cell]) -> list[str]:
    """A grid of dtype x operator per reducing operation, one of dtype x operation for the rest."""
    joined = facts.joined
    what = f"backend {joined.backend}, torch {joined.torch}" if joined else "no rank joined"
    words = Words()
    reducing = [c for c in cells if c.case.redop]
    typed = [c for c in cells if not c.case.redop and c.case.form not in _UNTYPED]
    untyped = [c for c in cells if c.case.form in _UNTYPED]
    lines = [
        f"# rankrun suite --matrix: {facts.world_size} ranks on {facts.target}, {what}",
        "# ok: proved right; no: the backend does not do it, in its own words below; ?: not run",
    ]
    for operation in dict.fromkeys(c.case.operation for c in reducing):
        own = [c for c in reducing if c.case.operation == operation]
        lines += ["#", f"# {operation}"]
        lines += _grid([(str(c.case.dtype), str(c.case.redop), words.mark(c)) for c in own])
    if typed:
        lines += ["#", "# without an operator"]
        lines += _grid([(str(c.case.dtype), c.case.operation, words.mark(c)) for c in typed])
    if untyped:
        lines += ["#", "# without a dtype"]
        lines += [f"{c.case.operation:<24}{words.mark(c)}" for c in untyped]
    return [*lines, *_tail(cells, words)]


def _tail(cells: Iterable[Cell], words: Words) -> list[str]:
    return ["#", *words.lines(), f"# {totals(cells)}"]


def totals(cells: Iterable[Cell]) -> str:
    """How many came to what: `12 ok, 3 unsupported`."""
    counts = Counter(cell.outcome for cell in cells)
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in Outcome if outcome in counts)


def _grid(entries: Sequence[tuple[str, str, str]]) -> list[str]:
    """Rows, columns and marks as aligned text."""
    rows = list(dict.fromkeys(row for row, _, _ in entries))
    columns = list(dict.fromkeys(column for _, column, _ in entries))
    marks = {(row, column): mark for row, column, mark in entries}
    widths = [
        max(len(column), *(len(marks.get((row, column), "")) for row in rows)) for column in columns
    ]
    first = max(map(len, rows))
    padded = zip(columns, widths, strict=True)
    lines = [f"{'':{first}}" + "".join(f"  {column:>{width}}" for column, width in padded)]
    for row in rows:
        cells = zip((marks.get((row, column), "") for column in columns), widths, strict=True)
        line = f"{row:{first}}" + "".join(f"  {mark:>{width}}" for mark, width in cells)
        lines.append(line.rstrip())
    return lines


class CellRow(TypedDict):
    """One combination. `dtype` is null where there is none."""

    operation: str
    form: str
    dtype: str | None
    redop: str | None
    outcome: str
    words: str | None


class MatrixDocument(RunRow):
    """rankrun.matrix/1."""

    cells: list[CellRow]
    findings: list[FindingRow]
    exit_code: int | None


def matrix_document(
    facts: SuiteFacts, cells: Sequence[Cell], findings: Sequence[Finding]
) -> MatrixDocument:
    """The matrix for programs."""
    return {
        **run_row(facts, schema=MATRIX_SCHEMA),
        "cells": [_cell_row(cell) for cell in cells],
        "findings": [finding_row(finding) for finding in findings],
        "exit_code": facts.exit_code,
    }


def _cell_row(cell: Cell) -> CellRow:
    case = cell.case
    return CellRow(
        operation=case.operation,
        form=case.form,
        dtype=None if case.form in _UNTYPED else case.dtype,
        redop=case.redop,
        outcome=cell.outcome,
        words=cell.words,
    )
