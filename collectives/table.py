"""The table, as users of nccl-tests know it: comment lines begin with #, columns in their order.

    #                                                        out-of-place            in-place
    #       size         count      type   redop    root     time   algbw   busbw #wrong ...
    #        (B)    (elements)                               (us)  (GB/s)  (GB/s)

Column order, widths and precision follow nccl-tests (src/common.cu). A row has both placements
of one case at one size; "-" stands where torch has no such form or a value is not defined.
Pure: lines in, lines out.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from . import operations
from .bandwidth import why_no_busbw
from .cases import Case, GroupKind
from .layouts import Counting
from .measurement import Measurement, Status
from .spec import Dtype, Redop
from .steps import Step
from .suite_findings import mismatch_line

RowKey: TypeAlias = tuple[Case, int]

_CELL_WIDTH = 30
_NOTHING = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Widths of the columns that a name can outgrow."""

    dtype: int = 8
    redop: int = 6

    @classmethod
    def fitting(cls, cases: Iterable[Case]) -> "Columns":
        """As wide as these cases need, at least as wide as nccl-tests'."""
        dtypes: set[Dtype] = set()
        redops: set[Redop] = set()
        for case in cases:
            dtypes.add(case.dtype)
            redops |= {case.redop} if case.redop else set()
        return cls(
            dtype=max([cls().dtype, *map(len, dtypes)]), redop=max([cls().redop, *map(len, redops)])
        )


def section_of(case: Case) -> Case:
    """What the rows of one section share: everything but where the output goes."""
    return replace(case, in_place=False)


def section_title(case: Case, group_size: int) -> str:
    """The comment line that a section begins with."""
    row = operations.find(case.operation, case.form)
    traits = [str(case.form)]
    if case.group is not GroupKind.WORLD:
        traits.append(f"groups {case.group}")
    if case.asynchronous:
        traits.append("async")
    ranks = "1 rank" if group_size == 1 else f"{group_size} ranks"
    size = "" if row.counting is Counting.NOTHING else f"; size is {row.size_means}"
    return f"# {case.operation} ({', '.join(traits)}), {ranks}{size}"


def column_heads(columns: Columns) -> list[str]:
    """The three lines above the columns."""
    lead = _lead(("", "", "", "", ""), columns)
    placements = f"{'out-of-place':^{_CELL_WIDTH}}  {'in-place':^{_CELL_WIDTH}}"
    names = _lead(("size", "count", "type", "redop", "root"), columns)
    units = _lead(("(B)", "(elements)", "", "", ""), columns)
    named, unit = _cell("time", "algbw", "busbw", "#wrong"), _cell("(us)", "(GB/s)", "(GB/s)", "")
    return [
        _comment(f"{lead}  {placements}"),
        _comment(f"{names}  {named}  {named}"),
        _comment(f"{units}  {unit}  {unit}"),
    ]


def row_lines(placements: Sequence[Measurement], columns: Columns) -> list[str]:
    """A row of one or two placements, and comment lines for what is wrong with it."""
    first = placements[0]
    case = first.case
    redop = "none" if case.redop is None else str(case.redop)
    root = "-1" if case.root is None else str(case.root)
    lead = _lead((str(first.size_bytes), str(first.count), str(case.dtype), redop, root), columns)
    cells = [_cell_of([m for m in placements if m.case.in_place is side]) for side in (False, True)]
    lines = [f"{lead}  {'  '.join(cells)}".rstrip()]
    for measured in placements:
        lines += _wrong_lines(measured)
    return lines


def _lead(texts: tuple[str, str, str, str, str], columns: Columns) -> str:
    size, count, dtype, redop, root = texts
    widths = f"{dtype:>{columns.dtype}}  {redop:>{columns.redop}}"
    return f"{size:>12}  {count:>12}  {widths}  {root:>6}"


def _comment(line: str) -> str:
    """The same line with # in its first column."""
    return f"#{line[1:]}".rstrip()


def _cell_of(measured: Sequence[Measurement]) -> str:
    if not measured:
        return _cell(*[_NOTHING] * 4)
    only = measured[0]
    if only.status is Status.UNSUPPORTED:
        return f"{only.status:>{_CELL_WIDTH}}"
    wrong = "N/A" if only.status is Status.NOT_CHECKED else str(only.num_wrong)
    return _cell(_time(only), _rate(only.algbw_gbps), _rate(only.busbw_gbps), wrong)


def _cell(time: str, algorithm: str, bus: str, wrong: str) -> str:
    return f"{time:>7}  {algorithm:>6}  {bus:>6} {wrong:>6}"


def _time(measured: Measurement) -> str:
    """Microseconds with as many digits as fit, as nccl-tests' getFloatStr has them."""
    time = measured.time
    if time is None:
        return _NOTHING
    time_us = time.median_s * 1e6
    decimals = 2 if time_us < 1e4 - 0.005 else 1 if time_us < 1e5 - 0.05 else 0
    return f"{time_us:.{decimals}f}"


def _rate(value_gbps: float | None) -> str:
    if value_gbps is None:
        return _NOTHING
    return f"{value_gbps:.2f}" if value_gbps < 1000 else f"{value_gbps:.1f}"


def _wrong_lines(measured: Measurement) -> Iterator[str]:
    if not measured.mismatches:
        return
    yield f"#   WRONG: {mismatch_line(measured.mismatches[0], measured.size_bytes)}"
    if len(measured.mismatches) > 1:
        yield f"#          and on {len(measured.mismatches) - 1} more rank(s)"


class LiveTable:
    """Turns measurements, in the order they finish, into lines.

    A row comes once both its placements are there, its section's head before its first.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        """`steps` tell which placements a row will have."""
        self._columns = Columns.fitting(step.case for step in steps)
        self._expected: dict[RowKey, set[int]] = defaultdict(set)
        self._key_of: dict[int, RowKey] = {}
        for step in steps:
            key = (section_of(step.case), step.size_bytes)
            self._expected[key].add(step.number)
            self._key_of[step.number] = key
        self._waiting: dict[RowKey, list[Measurement]] = defaultdict(list)
        self._section: Case | None = None
        self._refusals: set[tuple[Case, str | None]] = set()
        self._explained: set[str] = set()

    def add(self, measured: Measurement) -> list[str]:
        """The lines that a measurement completes."""
        key = self._key_of[measured.step]
        self._waiting[key].append(measured)
        if len(self._waiting[key]) < len(self._expected[key]):
            return []
        return self._row(self._waiting.pop(key))

    def flush(self) -> list[str]:
        """The rows of a run that broke off, with what they have."""
        lines = [line for waiting in self._waiting.values() for line in self._row(waiting)]
        self._waiting.clear()
        return lines

    def _row(self, placements: Sequence[Measurement]) -> list[str]:
        section = section_of(placements[0].case)
        refusals = [
            (section, measured.reason)
            for measured in placements
            if measured.status is Status.UNSUPPORTED
        ]
        if len(refusals) == len(placements) and self._refusals.issuperset(refusals):
            return []  # it was said at the first size, and no other was tried
        lines: list[str] = []
        if section != self._section:
            lines += self._begin(section, placements[0].group_size)
        lines += row_lines(placements, self._columns)
        for refusal in dict.fromkeys(refusals):
            if refusal not in self._refusals:
                self._refusals.add(refusal)
                words = refusal[1] or "the backend gave no reason"
                lines.append(f"#   unsupported, at every size: {words}")
        return lines

    def _begin(self, section: Case, group_size: int) -> list[str]:
        """Its title; the columns are named again unless one short section follows another."""
        before, self._section = self._section, section
        lines = ["#", section_title(section, group_size)]
        why = why_no_busbw(section, group_size)
        if why and why not in self._explained:
            self._explained.add(why)
            lines.append(f"#   no busbw: {why}")
        if before is None or is_swept(before) or is_swept(section):
            lines += column_heads(self._columns)
        return lines


def is_swept(case: Case) -> bool:
    """Whether it is timed at every size, on all ranks, rather than proved at two (see `steps`)."""
    swept = operations.find(case.operation, case.form).swept
    return swept and case.group is GroupKind.WORLD and not case.asynchronous


def table_lines(steps: Sequence[Step], measurements: Iterable[Measurement]) -> list[str]:
    """All rows of a run, as they were printed while it went on."""
    table = LiveTable(steps)
    lines = [line for measured in measurements for line in table.add(measured)]
    return lines + table.flush()
