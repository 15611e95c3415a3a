import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rankrun.collectives.cases import Case, Form
from rankrun.collectives.documents import SuiteFacts
from rankrun.collectives.matrix_cells import (
    Casualty,
    Cell,
    Outcome,
    cells_of,
    matrix_document,
    matrix_lines,
)
from rankrun.collectives.measurement import Combine, Status
from rankrun.collectives.spec import Dtype, Redop

from .samples import BROADCAST, CASE, JOINED, measurement, plain_step

GOLDEN = Path(__file__).parent.parent / "golden"

FACTS = SuiteFacts(
    run_id="run",
    run_folder="/runs/run",
    target="local:4",
    world_size=4,
    combine=Combine.AVG,
    exit_code=1,
    joined=JOINED,
)
DTYPES = (Dtype.FLOAT32, Dtype.INT16)
WORDS = {Redop.BAND: "Cannot use ReduceOp.BAND with non-integral dtype"}
BARRIER = replace(CASE, operation="barrier", form=Form.PLAIN, redop=None, dtype=Dtype.UINT8)


def cell(case: Case, outcome: Outcome = Outcome.OK, words: str | None = None) -> Cell:
    return Cell(case=case, outcome=outcome, words=words)


def grid() -> Sequence[Cell]:
    cells = []
    for dtype in DTYPES:
        for redop in (Redop.SUM, Redop.BAND, Redop.PREMUL_SUM):
            words = WORDS.get(redop) if dtype is Dtype.FLOAT32 else "Invalid scalar type"
            outcome = Outcome.UNSUPPORTED if words else Outcome.OK
            cells.append(cell(replace(CASE, dtype=dtype, redop=redop), outcome, words))
    cells.append(cell(BROADCAST, Outcome.WRONG))
    cells.append(cell(replace(BROADCAST, dtype=Dtype.INT16), Outcome.CRASHED, "rank 1 was killed"))
    cells.append(cell(replace(BROADCAST, operation="scatter"), Outcome.HUNG, "rank 2 waits"))
    cells.append(cell(BARRIER, Outcome.NOT_RUN))
    return cells


def test_golden() -> None:
    text = "\n".join(matrix_lines(FACTS, grid())) + "\n"
    assert text == (GOLDEN / "matrix.txt").read_text()


def test_equal_words_are_said_once() -> None:
    text = "\n".join(matrix_lines(FACTS, grid()))
    assert text.count("Invalid scalar type") == 1


def test_document() -> None:
    document = json.loads(json.dumps(matrix_document(FACTS, grid(), [])))
    assert document["schema"] == "rankrun.matrix/1"
    assert document["cells"][1] == {
        "operation": "all_reduce",
        "form": "tensor",
        "dtype": "float32",
        "redop": "band",
        "outcome": "unsupported",
        "words": WORDS[Redop.BAND],
    }
    assert document["cells"][-1]["dtype"] is None


def test_a_cell_per_step() -> None:
    steps = [plain_step(number) for number in range(1, 6)]
    measurements = [
        measurement(step=1),
        measurement(step=2, status=Status.UNSUPPORTED, reason="no"),
        measurement(step=3, wrong_on=[1]),
    ]
    died = [Casualty(step=4, outcome=Outcome.CRASHED, words="rank 1 died")]
    cells = list(cells_of(steps, measurements, died))
    assert [cell.outcome for cell in cells] == [
        Outcome.OK, Outcome.UNSUPPORTED, Outcome.WRONG, Outcome.CRASHED, Outcome.NOT_RUN,
    ]  # fmt: skip
    assert [cell.words for cell in cells] == [None, "no", None, "rank 1 died", None]
