"""What a suite run writes and says, on ranks that are a script."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rankrun.cluster.errors import ExitCode
from rankrun.collectives.comparison import Toggle, run_toggle
from rankrun.collectives.matrix import run_matrix
from rankrun.collectives.matrix_cells import Outcome
from rankrun.collectives.run_suite import run_suite
from rankrun.collectives.spec import Mode, SuiteSpec
from rankrun.collectives.suite_files import load_run, load_suite
from rankrun.collectives.suite_plan import SuitePlan, SuiteRequest, plan_suite
from rankrun.jobs.events import Event
from rankrun.jobs.plan import Limits
from rankrun.jobs.run_folder import RunFolder

from ..targets import local_target
from .samples import MISMATCH, Recorder, measured
from .scripted import RANKS, ScriptedLauncher, began, crashed, ended, reported, right


def request(runs: Path, **spec: Any) -> SuiteRequest:
    return SuiteRequest(
        run_id="run",
        spec=SuiteSpec(operations=("barrier",), sizes_bytes=(8,), **spec),
        target=local_target(RANKS),
        runs=runs,
        workdir=runs,
        environment={},
        limits=Limits(deadline_s=3600, grace_s=0.0),
    )


def all_right(plan: SuitePlan) -> list[Event]:
    return [*began(), *(event for step in plan.steps for event in right(step)), *ended()]


class Watcher(Recorder):
    """A display that looks at the summary whenever something is shown."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.summary = RunFolder(folder).summary
        self.seen: list[int] = []

    def line(self, text: str) -> None:
        super().line(text)
        if self.summary.exists():
            self.seen.append(json.loads(self.summary.read_text())["exit_code"])


def summary(plan: SuitePlan) -> Any:
    return json.loads(RunFolder(plan.launch.run_folder).summary.read_text())


def test_the_verdict_is_the_suites(tmp_path: Path) -> None:
    plan, display = plan_suite(request(tmp_path)), Recorder()
    result = run_suite(plan, display, launcher=ScriptedLauncher([all_right(plan)]))
    num = len(plan.steps)
    assert (result.exit_code, len(result.measurements)) == (ExitCode.OK, num)
    assert summary(plan)["verdict"] == f"{num} results on 2 ranks: {num} right"
    assert summary(plan)["verdict"] in display.notes


def test_the_summary_never_calls_a_wrong_run_right(tmp_path: Path) -> None:
    """All ranks end with code 0; that their results are wrong is known to the suite alone."""
    plan = plan_suite(request(tmp_path))
    first, *others = plan.steps
    wrong = (measured(r, first, group_size=RANKS, mismatch=MISMATCH) for r in range(RANKS))
    script = [*began(), *reported(*wrong), *(e for step in others for e in right(step)), *ended()]
    display = Watcher(plan.launch.run_folder)
    assert run_suite(plan, display, launcher=ScriptedLauncher([script])).exit_code == 1
    assert set(display.seen) == {1}, "it was there before the end of the table, and right"
    assert "barrier uint8 gave wrong results" in summary(plan)["verdict"]


def test_a_display_that_fails_does_not_take_the_results_with_it(tmp_path: Path) -> None:
    class Broken(Recorder):
        def line(self, text: str) -> None:
            if not text.startswith("#"):
                raise ZeroDivisionError

    plan = plan_suite(request(tmp_path))
    result = run_suite(plan, Broken(), launcher=ScriptedLauncher([all_right(plan)]))
    assert result.exit_code == ExitCode.COULD_NOT_RUN
    assert result.findings[0].cause == "internal-error"
    folder = RunFolder(plan.launch.run_folder)
    assert folder.outcomes.exists()
    assert load_suite(folder.path).findings == result.findings
    assert summary(plan)["exit_code"] == ExitCode.COULD_NOT_RUN


def test_rows_behind_a_gap_are_printed_at_the_end(tmp_path: Path) -> None:
    plan, display = plan_suite(request(tmp_path)), Recorder()
    script = [*began(), *(e for step in plan.steps[1:] for e in right(step)), *ended()]
    result = run_suite(plan, display, launcher=ScriptedLauncher([script]))
    assert [finding.cause for finding in result.findings] == ["suite-incomplete"]
    assert display.lines == load_suite(plan.launch.run_folder).lines()
    assert len([line for line in display.lines if not line.startswith("#")]) > 0


def matrix_scripts(plan: SuitePlan) -> Iterable[list[Event]]:
    """The first step kills rank 1; the rest is right."""
    yield [*began(), *crashed(1)]
    yield [*began(), *(event for step in plan.steps[1:] for event in right(step)), *ended()]


def test_a_matrix_has_no_summary_before_all_of_it_is_done(tmp_path: Path) -> None:
    asked = SuiteRequest(
        run_id="run",
        spec=SuiteSpec(mode=Mode.MATRIX, operations=("barrier", "broadcast"), sizes_bytes=(8,)),
        target=local_target(RANKS),
        runs=tmp_path,
        workdir=tmp_path,
        environment={},
        limits=Limits(deadline_s=3600, grace_s=0.0),
    )
    plan, display = plan_suite(asked), Recorder()
    folder = RunFolder(plan.launch.run_folder)
    summaries: list[bool] = []
    launcher = ScriptedLauncher(
        list(matrix_scripts(plan)), before=lambda: summaries.append(folder.summary.exists())
    )
    result = run_matrix(plan, display, launcher=launcher)
    assert summaries == [False, False]
    assert result.cells[0].outcome is Outcome.CRASHED
    assert {cell.outcome for cell in result.cells[1:]} == {Outcome.OK}
    assert summary(plan)["exit_code"] == ExitCode.CHECK_FAILED

    # The second launch is a run folder of its own, and has less time left.
    first, second = launcher.plans
    assert second.run_folder == folder.part(2)
    assert RunFolder(second.run_folder).summary.exists()
    assert (first.limits.deadline_s, first.limits.elapsed_s) == (3600, 0)
    assert (second.limits.deadline_s, second.limits.elapsed_s > 0) == (3600, True)

    # What is read later is what was printed.
    assert load_run(folder.path).lines() == display.lines
    assert load_run(folder.path).document() == result.document()


def test_a_toggle_has_one_deadline(tmp_path: Path) -> None:
    asked = request(tmp_path)
    scripts = [all_right(plan_suite(asked)), all_right(plan_suite(asked))]
    launcher, display = ScriptedLauncher(scripts), Recorder()
    toggle = Toggle(name="GLOO_SOCKET_IFNAME", value="eth1")
    result = run_toggle(asked, toggle, display, launcher=launcher)
    assert result.toggled is not None
    assert result.toggled.facts.run_id == "run-with"
    assert result.value_without == "lo"
    assert [plan.limits.deadline_s for plan in launcher.plans] == [3600, 3600]
    assert launcher.plans[1].limits.elapsed_s > launcher.plans[0].limits.elapsed_s == 0
    assert display.lines[0] == "# without GLOO_SOCKET_IFNAME (rankrun then takes lo)"
    assert display.closed


def test_a_first_run_that_could_not_run_is_not_followed_by_a_second(tmp_path: Path) -> None:
    launcher = ScriptedLauncher([[]])
    toggle = Toggle(name="GLOO_X", value="1")
    result = run_toggle(request(tmp_path), toggle, Recorder(), launcher=launcher)
    assert (result.exit_code, result.toggled) == (ExitCode.COULD_NOT_RUN, None)
    assert len(launcher.plans) == 1
