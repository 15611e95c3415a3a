"""`rankrun results`: any suite run, read from its folder, shown as it was."""

from pathlib import Path

from .matrix import MatrixResult, matrix_of
from .measurement import Combine
from .run_suite import SuiteResult, load_suite
from .spec import Mode


def load_run(path: Path, *, combine: Combine | None = None) -> SuiteResult | MatrixResult:
    """A sweep, a show or a matrix; both kinds of result give lines and a document.

    Raises:
        RunFolderError: if the folder is none of a suite run.
    """
    result = load_suite(path, combine=combine)
    return matrix_of(result) if result.spec.mode is Mode.MATRIX else result
