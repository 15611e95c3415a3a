"""The suite end to end: real torch processes on this machine, with gloo."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rankrun.cluster.errors import ExitCode, RunFolderError, UsageError
from rankrun.collectives.comparison import Toggle, run_toggle
from rankrun.collectives.matrix import run_matrix
from rankrun.collectives.matrix_cells import Outcome
from rankrun.collectives.measurement import Combine, Status
from rankrun.collectives.operations import forms_of
from rankrun.collectives.run_suite import run_suite
from rankrun.collectives.spec import Mode, SuiteSpec
from rankrun.collectives.suite_files import load_run, load_suite
from rankrun.collectives.suite_plan import SuiteRequest, plan_suite, render_suite_plan
from rankrun.collectives.suite_result import MatrixResult, SuiteResult
from rankrun.jobs.plan import Limits
from rankrun.jobs.run_folder import RunFolder, new_run_id

from ..targets import local_target
from .samples import Recorder

SPEC = SuiteSpec(
    operations=("all_reduce", "all_gather"),
    sizes_bytes=(8, 1024, 65536),
    iterations=5,
    warmup=1,
    budget_s=0.05,
    deadline_s=60.0,
)

# Long enough that no call takes it by itself on a busy machine.
HANG_S = 8.0


def request(runs: Path, ranks: int = 2, **changes: Any) -> SuiteRequest:
    return SuiteRequest(
        run_id=new_run_id("suite"),
        spec=replace(SPEC, **changes),
        target=local_target(ranks),
        runs=runs,
        workdir=runs,
        environment=dict(os.environ),
        limits=Limits(deadline_s=120),
    )


def run(asked: SuiteRequest) -> tuple[SuiteResult, Recorder]:
    display = Recorder()
    result = run_suite(plan_suite(asked), display)
    assert display.closed
    return result, display


def causes(result: SuiteResult) -> list[str]:
    return [finding.cause for finding in result.findings]


def test_a_right_run(tmp_path: Path) -> None:
    result, display = run(request(tmp_path))
    assert result.exit_code == ExitCode.OK, display.notes
    assert len(result.measurements) == len(result.steps)
    assert {m.status for m in result.measurements} == {Status.RIGHT}
    assert all(m.num_checked and m.iterations for m in result.measurements)
    assert result.facts.joined is not None
    assert result.facts.joined.backend == "gloo"

    # What was printed live is what the folder gives later, and so are the documents.
    folder = Path(result.facts.run_folder)
    again = load_suite(folder)
    assert again.lines() == display.lines
    assert again.document() == result.document()
    assert again.csv() == result.csv()
    json.dumps(result.document(), allow_nan=False)

    assert display.notes[-1] == f"run folder: {folder}"
    assert json.loads((folder / "summary.json").read_text())["exit_code"] == 0
    assert json.loads((folder / "suite.json").read_text())["spec"]["iterations"] == 5
    assert display.states[-1].total == len(result.steps)

    # Another combination over ranks, offline.
    slowest = load_suite(folder, combine=Combine.MAX)
    assert slowest.facts.combine is Combine.MAX
    assert all(
        slow.times_s[0] >= mean.times_s[0]
        for slow, mean in zip(slowest.measurements, result.measurements, strict=True)
    )
    fitted = [fit for fit in result.fits if fit.fit]
    rows = [row for name in SPEC.operations for row in forms_of(name) if row.swept]
    assert len(fitted) == sum(len(row.in_place) for row in rows)


def test_four_ranks_in_groups(tmp_path: Path) -> None:
    result, display = run(request(tmp_path, 4, operations=("broadcast",), sizes_bytes=(8,)))
    assert result.exit_code == ExitCode.OK, display.notes
    sizes = {str(m.case.group): m.group_size for m in result.measurements}
    assert sizes == {"world": 4, "halves": 2, "odd-even": 2, "one-per-node": 1}


def test_one_rank_says_why_there_is_no_bus_bandwidth(tmp_path: Path) -> None:
    result, display = run(request(tmp_path, 1, operations=("all_reduce",)))
    assert result.exit_code == ExitCode.OK, display.notes
    assert all(m.busbw_gbps is None for m in result.measurements)
    assert sum("no data crosses a link" in line for line in display.lines) == 1


def test_unchecked(tmp_path: Path) -> None:
    result, _ = run(request(tmp_path, operations=("all_reduce",), sizes_bytes=(8,), check=False))
    assert {m.status for m in result.measurements} == {Status.NOT_CHECKED}
    assert result.exit_code == ExitCode.OK


def test_what_the_backend_refuses_is_no_failure(tmp_path: Path) -> None:
    asked = request(tmp_path, operations=("all_reduce",))
    spec = replace(asked.spec, dtype=type(asked.spec.dtype)("int16"))
    result, display = run(replace(asked, spec=spec))
    assert result.exit_code == ExitCode.OK, display.notes
    assert {m.status for m in result.measurements} == {Status.UNSUPPORTED}
    assert any(m.reason for m in result.measurements)
    assert "unsupported" in causes(result)


def test_a_wrong_result(tmp_path: Path) -> None:
    result, display = run(
        request(tmp_path, operations=("all_reduce",), fault="missing:rank=1", sizes_bytes=(1024,))
    )
    assert result.exit_code == ExitCode.CHECK_FAILED
    finding = result.findings[0]
    assert finding.cause == "wrong-result"
    assert str(finding.subject) == "rank 1"
    assert "missing contribution" in finding.message
    assert any("FAILED" in line for line in display.lines)
    assert any("missing contribution" in note for note in display.notes)
    folder = Path(result.facts.run_folder)
    assert json.loads((folder / "summary.json").read_text())["exit_code"] == 1
    assert load_suite(folder).exit_code == 1


def test_a_hang_ends_in_a_finding_with_stacks_and_the_results_so_far(tmp_path: Path) -> None:
    result, display = run(
        request(tmp_path, 3, fault="hang:rank=2,op=all_gather", deadline_s=HANG_S, sizes_bytes=(8,))
    )
    assert result.exit_code == ExitCode.CHECK_FAILED
    finding = next(f for f in result.findings if f.cause == "collective-hang")
    assert str(finding.subject) == "rank 2"
    assert "ranks 0-1 arrived and wait; rank 2 has not arrived" in finding.message
    assert "all_gather" in finding.message
    folder = Path(result.facts.run_folder)
    for line in finding.evidence:
        assert line.file is not None
        assert line.line is not None
        text = (folder / line.file).read_text().splitlines()[line.line - 1]
        assert re.search(r'File ".*", line \d+ in', text)
    assert [m.case.operation for m in result.measurements] == ["all_reduce"]
    assert any("float32" in line and not line.startswith("#") for line in display.lines)


def test_ranks_in_different_collectives(tmp_path: Path) -> None:
    result, _ = run(
        request(tmp_path, fault="wrong-op:rank=1", deadline_s=HANG_S, operations=("all_reduce",))
    )
    assert result.exit_code == ExitCode.CHECK_FAILED
    finding = next(f for f in result.findings if f.cause == "collective-mismatch")
    assert "rank 0 in all_reduce; rank 1 in barrier" in finding.message


def test_a_late_rank_rings_no_alarm(tmp_path: Path) -> None:
    result, display = run(
        request(tmp_path, fault="late:rank=1", operations=("all_reduce",), sizes_bytes=(8,))
    )
    assert result.exit_code == ExitCode.OK, display.notes


def test_a_rank_that_dies(tmp_path: Path) -> None:
    result, display = run(request(tmp_path, fault="exit:rank=1,op=all_gather", sizes_bytes=(8,)))
    assert result.exit_code == ExitCode.CHECK_FAILED
    assert causes(result)[0] == "rank-failed"
    assert "rank-died-in-step" in causes(result)
    assert any("in all_gather" in note for note in display.notes)
    assert result.measurements


def test_if_no_rank_can_join_the_suite_could_not_run(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch on this node')\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    asked = replace(request(tmp_path / "runs"), settings={"PYTHONPATH": path}, workdir=tmp_path)
    result, display = run(asked)
    assert result.exit_code == ExitCode.COULD_NOT_RUN
    assert "no torch on this node" in result.findings[0].message
    assert display.lines == []
    assert load_suite(Path(result.facts.run_folder)).exit_code == ExitCode.COULD_NOT_RUN


def test_a_rank_that_never_joins(tmp_path: Path) -> None:
    # Rank 1 sleeps before it imports anything.
    (tmp_path / "sitecustomize.py").write_text(
        "import os, time\nif os.environ.get('RANK') == '1': time.sleep(600)\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    plain = request(tmp_path / "runs", start_up_s=3.0)
    asked = replace(plain, settings={"PYTHONPATH": path})
    result, _ = run(asked)
    assert result.exit_code == ExitCode.COULD_NOT_RUN
    assert "rank-not-joined" in causes(result)


class Stopper(Recorder):
    """A display that stops rank 1's process when the first row is printed."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def line(self, text: str) -> None:
        super().line(text)
        if not text.startswith("#"):
            for row in map(json.loads, (self.folder / "events.jsonl").read_text().splitlines()):
                if row["what"] == "started" and row["rank"] == 1:
                    os.kill(row["pid"], signal.SIGSTOP)


def test_a_stopped_process_is_named(tmp_path: Path) -> None:
    plan = plan_suite(request(tmp_path, deadline_s=HANG_S, iterations=1000, budget_s=1.0))
    result = run_suite(plan, Stopper(plan.launch.run_folder))
    assert result.exit_code == ExitCode.CHECK_FAILED
    finding = next(f for f in result.findings if f.cause == "collective-hang")
    assert str(finding.subject) == "rank 1"
    assert "stopped" in finding.message


def test_the_deadline_of_the_whole_run(tmp_path: Path) -> None:
    # Whether or not the ranks have joined by then.
    asked = request(tmp_path, iterations=10**6, budget_s=300.0)
    result, display = run(replace(asked, limits=Limits(deadline_s=8.0)))
    assert result.exit_code == ExitCode.DEADLINE
    assert causes(result)[0] == "deadline-exceeded"
    assert any("did not end within 8 s" in note for note in display.notes)


def test_show_is_in_order_of_ranks(tmp_path: Path) -> None:
    result, display = run(request(tmp_path, 3, mode=Mode.SHOW, operations=("all_reduce",)))
    assert result.exit_code == ExitCode.OK, display.notes
    ranks = [int(line[1]) for line in display.lines]
    assert ranks == [0, 1, 2] * (len(ranks) // 3)
    assert any("all_reduce" in line for line in display.lines)
    assert load_run(Path(result.facts.run_folder)).lines() == display.lines
    for rank in range(3):
        log = Path(result.facts.run_folder) / "ranks" / f"{rank}.stdout.log"
        assert log.read_text().count("\n") == len(ranks) // 3


def test_a_matrix_survives_a_crash(tmp_path: Path) -> None:
    asked = request(
        tmp_path, mode=Mode.MATRIX, operations=("broadcast", "barrier"), fault="exit:rank=1"
    )
    display = Recorder()
    result = run_matrix(plan_suite(asked), display)
    assert result.exit_code == ExitCode.CHECK_FAILED
    crashed, *rest = result.cells
    assert crashed.outcome is Outcome.CRASHED
    assert "17" in (crashed.words or "")
    assert {cell.outcome for cell in rest} == {Outcome.OK, Outcome.UNSUPPORTED}
    assert any("CRASH[" in line for line in display.lines)
    json.dumps(result.document(), allow_nan=False)
    stored = load_run(Path(result.facts.run_folder))
    assert isinstance(stored, MatrixResult)
    assert stored.cells == result.cells
    assert stored.lines() == display.lines
    assert stored.document() == result.document()


def test_a_toggle_runs_both_and_compares(tmp_path: Path) -> None:
    display = Recorder()
    asked = request(tmp_path, operations=("all_reduce",), sizes_bytes=(8, 1024))
    toggle = Toggle(name="GLOO_DEVICE_TRANSPORT", value="TCP")
    result = run_toggle(asked, toggle, display)
    assert result.exit_code == ExitCode.OK, display.notes
    assert len(result.pairs) == len(result.without.measurements)
    assert all(pair.time_ratio for pair in result.pairs)
    assert any("ratio is with / without" in line for line in display.lines)
    folders = sorted(path.name for path in tmp_path.iterdir())
    assert folders == [asked.run_id, f"{asked.run_id}-with"]


INTERRUPTED = """
import sys
from pathlib import Path
from tests.collectives.test_run_suite import request
from rankrun.collectives.run_suite import run_suite
from rankrun.collectives.suite_plan import plan_suite
from rankrun.jobs.terminal import Terminal
asked = request(Path(sys.argv[1]), iterations=10**6, budget_s=300.0)
sys.exit(run_suite(plan_suite(asked), Terminal()).exit_code)
"""


def test_an_interrupted_run_leaves_a_readable_folder(tmp_path: Path) -> None:
    root = Path(__file__).parent.parent.parent
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("# rankrun suite")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == ExitCode.INTERRUPTED, err
    (folder,) = tmp_path.iterdir()
    stored = load_suite(folder)
    assert stored.exit_code == ExitCode.INTERRUPTED
    assert stored.facts.joined is not None
    assert stored.lines()


def test_a_reader_that_leaves_does_not_harm_the_run(tmp_path: Path) -> None:
    """As in `rankrun suite | head -1`."""
    argv = ["suite", "-t", "local:2", "--ops", "all_reduce", "-b", "8", "-e", "8"]
    with subprocess.Popen(
        [sys.executable, "-m", "rankrun.scripts.main", *argv, "--runs", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("# rankrun suite")
        process.stdout.close()
        notes = process.stderr.read()
        assert process.wait(timeout=120) == ExitCode.OK, notes
    (path,) = tmp_path.iterdir()
    folder = RunFolder(path)
    assert notes.splitlines()[-1] == f"run folder: {path}"
    assert "right" in folder.read_json(folder.summary)["verdict"]
    assert folder.outcomes.exists()
    assert folder.findings.exists()
    stored = load_suite(path)
    assert len(stored.measurements) == len(stored.steps)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"operations": ("all_reduce", "al_reduce")}, "al_reduce.*valid: broadcast"),
        ({"root": 2}, "root 2.*ranks 0 to 1"),
        ({"fault": "hang:rank=7"}, "ranks 0 to 1"),
        ({"fault": "hum"}, "valid: hang"),
    ],
)
def test_mistakes_are_seen_before_anything_starts(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        plan_suite(request(tmp_path, **changes))
    assert list(tmp_path.iterdir()) == []


def test_dry_run_says_what_would_be_done(tmp_path: Path) -> None:
    text = render_suite_plan(plan_suite(request(tmp_path)))
    # In the order of the table of operations, which is that of the steps.
    assert "ops       all_reduce, all_gather" in text
    assert "-m rankrun.collectives.on_rank" in text
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"no run folder of rankrun suite.*suite\.json"):
        load_suite(tmp_path)
