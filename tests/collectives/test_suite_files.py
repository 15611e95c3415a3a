"""Run folders read offline: whole, foreign, broken, and of another version."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rankrun.cluster.errors import RunFolderError
from rankrun.collectives.matrix_cells import Casualty, Outcome
from rankrun.collectives.records import to_line
from rankrun.collectives.spec import Mode, SuiteSpec
from rankrun.collectives.suite_files import load_run, load_suite, write_casualties, write_request
from rankrun.collectives.suite_plan import SuitePlan, SuiteRequest, plan_suite
from rankrun.collectives.suite_result import MatrixResult
from rankrun.jobs.outcomes import RunResult
from rankrun.jobs.plan import plan_document
from rankrun.jobs.results import write_results
from rankrun.jobs.run_folder import RunFolder

from ..targets import local_target
from .samples import measured

Change = Callable[[dict[str, Any]], object]


def stored(tmp_path: Path, mode: Mode = Mode.SWEEP) -> tuple[SuitePlan, RunFolder]:
    """The folder of a run that ended well, with the first step's results."""
    plan = plan_suite(
        SuiteRequest(
            run_id="run",
            spec=SuiteSpec(mode=mode, operations=("all_reduce", "barrier"), sizes_bytes=(8, 64)),
            target=local_target(2),
            runs=tmp_path,
            workdir=tmp_path,
            environment={},
        )
    )
    folder = RunFolder.create(plan.launch.run_folder)
    write_request(folder, plan)
    folder.write_json(folder.plan, plan_document(plan.launch))
    records = [measured(rank, plan.steps[0], group_size=2) for rank in range(2)]
    folder.measurements.write_text("".join(map(to_line, records)))
    result = RunResult(exit_code=0, outcomes=(), findings=(), achieved="2 results: 2 right")
    write_results(plan.launch, folder, result, started_s=0.0)
    return plan, folder


def changed(path: Path, change: Change) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_a_run_is_read_as_it_was(tmp_path: Path) -> None:
    plan, folder = stored(tmp_path)
    result = load_suite(folder.path)
    assert result.spec == plan.request.spec
    assert result.steps == plan.steps
    assert [m.case for m in result.measurements] == [plan.steps[0].case]
    assert result.exit_code == 0
    assert folder.read_json(folder.summary)["verdict"] == "2 results: 2 right"


def test_a_run_that_goes_on_has_no_exit_code_yet(tmp_path: Path) -> None:
    _, folder = stored(tmp_path)
    for path in (folder.summary, folder.findings):
        path.unlink()
    result = load_suite(folder.path)
    assert (result.facts.exit_code, result.findings) == (None, ())


@pytest.mark.parametrize("file", ["suite.json", "plan.json", "findings.json", "summary.json"])
@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "7", "{}", '{"schema": 3}', '{"schema": "other/1"}', "\ud800"],
)
def test_any_other_text_is_refused_in_words(tmp_path: Path, file: str, text: str) -> None:
    _, folder = stored(tmp_path)
    (folder.path / file).write_text(text, errors="surrogatepass")
    with pytest.raises(RunFolderError, match=file):
        load_run(folder.path)


@pytest.mark.parametrize(
    ("file", "change", "says"),
    [
        ("suite.json", lambda d: d.pop("spec"), "spec: Field required"),
        ("suite.json", lambda d: d["spec"].pop("iterations") and d["spec"].update(seed="x"),
         "spec.seed"),
        ("suite.json", lambda d: d.update(combine="sum"), "combine"),
        ("suite.json", lambda d: d["steps"][0]["case"].update(form="cube"), "steps.0.case.form"),
        ("plan.json", lambda d: d.update(ranks=[]), "ranks"),
        ("plan.json", lambda d: d["ranks"][1].pop("local_rank"), "ranks.1.local_rank"),
        ("plan.json", lambda d: d.update(schema="rankrun.plan/2"), "rankrun.plan/2"),
        ("summary.json", lambda d: d.update(exit_code=None), "exit_code"),
        ("findings.json", lambda d: d.update(findings=[{"cause": "x"}]), "findings.0.severity"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(tmp_path: Path, file: str, change: Change, says: str) -> None:
    _, folder = stored(tmp_path)
    changed(folder.path / file, change)
    with pytest.raises(RunFolderError, match=says) as caught:
        load_run(folder.path)
    assert str(folder.path / file) in str(caught.value)


def test_steps_are_those_of_the_run_not_todays(tmp_path: Path) -> None:
    """Another version enumerates otherwise; its numbers then mean other cases."""
    plan, folder = stored(tmp_path)
    changed(folder.suite, lambda d: d.update(steps=d["steps"][:1]))
    result = load_suite(folder.path)
    assert result.steps == plan.steps[:1]
    assert len(result.measurements) == 1


def test_an_operation_that_is_no_more_is_said(tmp_path: Path) -> None:
    _, folder = stored(tmp_path)
    changed(folder.suite, lambda d: d["steps"][0]["case"].update(operation="all_fold"))
    with pytest.raises(RunFolderError, match=r"no operation all_fold .* the version that made it"):
        load_run(folder.path)


def test_casualties_are_kept_with_their_words(tmp_path: Path) -> None:
    plan, folder = stored(tmp_path, Mode.MATRIX)
    hung = Casualty(step=2, outcome=Outcome.HUNG, words="rank 1 has not arrived")
    write_casualties(folder, [hung])
    result = load_run(folder.path)
    assert isinstance(result, MatrixResult)
    assert [cell.outcome for cell in result.cells][:3] == [
        Outcome.OK, Outcome.HUNG, Outcome.NOT_RUN,
    ]  # fmt: skip
    assert result.cells[1].words == "rank 1 has not arrived"
    assert len(result.cells) == len(plan.steps)


def test_without_casualties_a_step_without_a_result_was_not_run(tmp_path: Path) -> None:
    _, folder = stored(tmp_path, Mode.MATRIX)
    result = load_run(folder.path)
    assert isinstance(result, MatrixResult)
    assert {cell.outcome for cell in result.cells[1:]} == {Outcome.NOT_RUN}
