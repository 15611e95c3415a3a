"""`--toggle VAR[=VALUE]`: the same suite without a variable and with it, side by side."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from ..cluster.errors import ExitCode
from ..cluster.units import format_size
from ..jobs.launchers import Starter
from ..jobs.terminal import Display
from .cases import Case
from .documents import CaseRow, SuiteDocument, case_row
from .measurement import Measurement
from .run_suite import print_lines, run_suite
from .suite_plan import SuitePlan, SuiteRequest, plan_suite
from .suite_result import SuiteResult

TOGGLE_SCHEMA = "rankrun.toggle/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Toggle:
    """A variable and the value it has in the second run; in the first it is not set."""

    name: str
    value: str

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One case at one size, in both runs. Ratios are with / without; None: not both timed."""

    without: Measurement
    toggled: Measurement

    @property
    def time_ratio(self) -> float | None:
        """Of the median times; below 1: faster with the variable."""
        before, after = self.without.time, self.toggled.time
        return after.median_s / before.median_s if before and after and before.median_s else None

    @property
    def busbw_ratio(self) -> float | None:
        """Of the bus bandwidths."""
        before, after = self.without.busbw_gbps, self.toggled.busbw_gbps
        return after / before if before and after is not None else None


# Not classes: one of their names is a keyword of Python.
NumbersRow = TypedDict(
    "NumbersRow", {"without": float | None, "with": float | None, "ratio": float | None}
)

StatusRow = TypedDict("StatusRow", {"without": str, "with": str})


class PairRow(CaseRow):
    """One case at one size, in both runs."""

    size_bytes: int
    time_us: NumbersRow
    busbw_gbps: NumbersRow
    status: StatusRow


ToggleDocument = TypedDict(
    "ToggleDocument",
    {
        "schema": str,
        "variable": str,
        "value": str,
        "value_without": str | None,
        "without": SuiteDocument,
        "with": SuiteDocument | None,
        "rows": list[PairRow],
        "exit_code": int,
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToggleResult:
    """Both runs; `toggled` is None if the first gave no reason to go on.

    `value_without` is what rankrun itself gives the variable where a user does not, as it does
    for the network interface; None: it was not set.
    """

    toggle: Toggle
    value_without: str | None
    without: SuiteResult
    toggled: SuiteResult | None

    @property
    def exit_code(self) -> int:
        """That of the first run that was not all right."""
        return self.without.exit_code or (self.toggled.exit_code if self.toggled else ExitCode.OK)

    @property
    def pairs(self) -> list[Pair]:
        """What both runs measured."""
        return join(self.without.measurements, self.toggled.measurements if self.toggled else ())

    def document(self) -> ToggleDocument:
        """What --json writes: both documents and the joined rows."""
        return {
            "schema": TOGGLE_SCHEMA,
            "variable": self.toggle.name,
            "value": self.toggle.value,
            "value_without": self.value_without,
            "without": self.without.document(),
            "with": self.toggled.document() if self.toggled else None,
            "rows": [_pair_row(pair) for pair in self.pairs],
            "exit_code": self.exit_code,
        }


def plan_toggle(request: SuiteRequest, toggle: Toggle) -> tuple[SuitePlan, SuitePlan]:
    """The plans of both runs; the second has a run id of its own that sorts after the first."""
    settings = _without(request.settings, toggle.name)
    without = replace(
        request, settings=settings, environment=_without(request.environment, toggle.name)
    )
    return plan_suite(without), plan_suite(_toggled(without, toggle))


def _toggled(without: SuiteRequest, toggle: Toggle) -> SuiteRequest:
    return replace(
        without,
        run_id=f"{without.run_id}-with",
        settings={**without.settings, toggle.name: toggle.value},
    )


def _without(variables: Mapping[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in variables.items() if key != name}


def run_toggle(
    request: SuiteRequest, toggle: Toggle, display: Display, *, launcher: Starter | None = None
) -> ToggleResult:
    """Run both, one after the other, and print them side by side.

    An interrupted first run, or one that could not run, is not followed by a second.

    Raises:
        RunFolderError: if a run folder cannot be made.
        LaunchError: if the agent cannot be started.
    """
    began_s = time.monotonic()
    first, second = plan_toggle(request, toggle)
    value_without = first.launch.ranks[0].environment.get(toggle.name)
    try:
        display.line(f"# {_without_words(toggle, value_without)}")
        without = run_suite(first, display, launcher=launcher)
        toggled = None
        if without.exit_code in (ExitCode.OK, ExitCode.CHECK_FAILED):
            display.line(f"# with {toggle}")
            limits = second.request.limits.after(time.monotonic() - began_s)
            second = plan_suite(replace(second.request, limits=limits))
            toggled = run_suite(second, display, launcher=launcher)
        result = ToggleResult(
            toggle=toggle, value_without=value_without, without=without, toggled=toggled
        )
        print_lines(display, comparison_lines(result))
    finally:
        display.close()
    return result


def _without_words(toggle: Toggle, value_without: str | None) -> str:
    if value_without is None:
        return f"without {toggle.name}"
    return f"without {toggle.name} (rankrun then takes {value_without})"


def join(without: Sequence[Measurement], toggled: Sequence[Measurement]) -> list[Pair]:
    """Rows of the same case and size, in the order of the first run."""
    second: dict[tuple[Case, int], Measurement] = {(m.case, m.size_bytes): m for m in toggled}
    return [
        Pair(without=measured, toggled=second[measured.case, measured.size_bytes])
        for measured in without
        if (measured.case, measured.size_bytes) in second
    ]


def comparison_lines(result: ToggleResult) -> list[str]:
    """Time and bus bandwidth of both runs, with ratios."""
    pairs = [pair for pair in result.pairs if pair.time_ratio is not None]
    width = max([24, *(len(pair.without.case.label) for pair in pairs)])
    without = _without_words(result.toggle, result.value_without)
    times = f"{'without':>10} {'with':>10} {'ratio':>7}"
    rates = f"{'without':>8} {'with':>8} {'ratio':>7}"
    lines = [
        "#",
        f"# {without} and with {result.toggle}; ratio is with / without",
        f"# {'':{width}}  {'':>8}  {'time (us)':^29}  {'busbw (GB/s)':^25}".rstrip(),
        f"# {'':{width}}  {'size':>8}  {times}  {rates}",
    ]
    lines += [_pair_line(pair, width) for pair in pairs]
    if result.toggled is None:
        lines.append(f"# there was no run with {result.toggle}: the one without ended early")
    elif not pairs:
        lines.append("# nothing was measured in both runs")
    return lines


def _pair_line(pair: Pair, width: int) -> str:
    before, after = pair.without.time, pair.toggled.time
    assert before is not None
    assert after is not None
    times = f"{before.median_s * 1e6:>10.2f} {after.median_s * 1e6:>10.2f}"
    rates = f"{_rate(pair.without.busbw_gbps):>8} {_rate(pair.toggled.busbw_gbps):>8}"
    return (
        f"  {pair.without.case.label:{width}}  {format_size(pair.without.size_bytes):>8}  "
        f"{times} {_rate(pair.time_ratio):>7}  {rates} {_rate(pair.busbw_ratio):>7}"
    )


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _pair_row(pair: Pair) -> PairRow:
    before, after = pair.without.time, pair.toggled.time
    return {
        **case_row(pair.without.case),
        "size_bytes": pair.without.size_bytes,
        "time_us": {
            "without": before.median_s * 1e6 if before else None,
            "with": after.median_s * 1e6 if after else None,
            "ratio": pair.time_ratio,
        },
        "busbw_gbps": {
            "without": pair.without.busbw_gbps,
            "with": pair.toggled.busbw_gbps,
            "ratio": pair.busbw_ratio,
        },
        "status": {"without": pair.without.status, "with": pair.toggled.status},
    }
