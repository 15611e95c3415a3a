"""What a suite run came to; the same whether it just ran or was read from its folder."""

from dataclasses import dataclass

from ..cluster.diagnosis.findings import Finding
from ..cluster.errors import ExitCode
from .documents import SuiteDocument, SuiteFacts, suite_csv, suite_document
from .fit import CaseFit, fit_cases
from .matrix_cells import Cell, MatrixDocument, matrix_document, matrix_lines
from .measurement import Measurement
from .spec import Mode, SuiteSpec
from .steps import Step
from .table import table_lines
from .table_ends import footer, preamble


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteResult:
    """A sweep, or a show: then `shown` are its lines, each after its rank."""

    facts: SuiteFacts
    spec: SuiteSpec
    steps: tuple[Step, ...]
    measurements: tuple[Measurement, ...]
    findings: tuple[Finding, ...]
    shown: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """Of the command; 0 for a run that still goes on."""
        return self.facts.exit_code or ExitCode.OK

    @property
    def fits(self) -> list[CaseFit]:
        """Latency and bandwidth per case."""
        return fit_cases(self.measurements)

    def document(self) -> SuiteDocument:
        """What --json writes."""
        return suite_document(
            self.facts,
            measurements=self.measurements,
            fits=self.fits,
            findings=self.findings,
        )

    def csv(self) -> str:
        """What --csv writes."""
        return suite_csv(self.measurements)

    def lines(self) -> list[str]:
        """What the run printed: its table, or the lines of --show."""
        return list(self.shown) if self.spec.mode is Mode.SHOW else self.table()

    def table(self) -> list[str]:
        """The whole table, from the first comment to the last; nothing if no rank joined."""
        if self.facts.joined is None:
            return []
        head = preamble(self.spec, self.facts.joined, self.facts)
        rows = table_lines(self.steps, self.measurements)
        return [*head, *rows, *self.footer()]

    def footer(self) -> list[str]:
        """The end of the table; a run without results has none."""
        return footer(self.measurements, self.fits) if self.measurements else []


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixResult:
    """A matrix."""

    facts: SuiteFacts
    cells: tuple[Cell, ...]
    findings: tuple[Finding, ...]

    @property
    def exit_code(self) -> int:
        """Of the command; 0 for a run that still goes on."""
        return self.facts.exit_code or ExitCode.OK

    def lines(self) -> list[str]:
        """The grids."""
        return matrix_lines(self.facts, self.cells)

    def document(self) -> MatrixDocument:
        """What --json writes."""
        return matrix_document(self.facts, self.cells, self.findings)
