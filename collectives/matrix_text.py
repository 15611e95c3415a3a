"""The matrix as text and as JSON. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from ..cluster.diagnosis.findings import Finding
from .cases import Form
from .documents import SuiteFacts
from .matrix_cells import Cell, Outcome

MATRIX_SCHEMA = "rankrun.matrix/1"

_UNTYPED = (Form.OBJECT, Form.PLAIN)
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
    counts: dict[Outcome, int] = {}
    for cell in cells:
        counts[cell.outcome] = counts.get(cell.outcome, 0) + 1
    total = ", ".join(f"{counts[o]} {o}" for o in Outcome if o in counts)
    return ["#", *words.lines(), f"# {total}"]


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


def matrix_document(
    facts: SuiteFacts, cells: Sequence[Cell], findings: Sequence[Finding]
) -> dict[str, Any]:
    """The matrix for programs."""
    joined = facts.joined
    return {
        "schema": MATRIX_SCHEMA,
        "run_id": facts.run_id,
        "run_folder": facts.run_folder,
        "target": facts.target,
        "world_size": facts.world_size,
        "backend": joined.backend if joined else None,
        "device": joined.device if joined else None,
        "torch": joined.torch if joined else None,
        "nccl": joined.nccl if joined else None,
        "cells": [_cell_row(cell) for cell in cells],
        "findings": [asdict(finding) for finding in findings],
        "exit_code": facts.exit_code,
    }


def _cell_row(cell: Cell) -> dict[str, Any]:
    case = cell.case
    return {
        "operation": case.operation,
        "form": str(case.form),
        "dtype": None if case.form in _UNTYPED else str(case.dtype),
        "redop": str(case.redop) if case.redop else None,
        "outcome": str(cell.outcome),
        "words": cell.words or None,
    }
