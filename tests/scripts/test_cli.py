"""The command line as a person or a script meets it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent.parent / "golden"
RANKRUN = [sys.executable, "-m", "rankrun"]
PLAIN = {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1", "GITHUB_ACTIONS": "", "FORCE_COLOR": ""}


def rankrun(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RANKRUN, *arguments],
        cwd=cwd,
        env={**os.environ, **PLAIN, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


COMMANDS = ["", "suite", "launch", "env", "results", "ls", "status", "logs", "attach", "cancel"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_as_written(command: str, tmp_path: Path) -> None:
    """Run with REWRITE_GOLDEN=1 after a wanted change."""
    done = rankrun(*command.split(), "--help", cwd=tmp_path)
    assert done.returncode == 0
    text = "\n".join(line.rstrip() for line in done.stdout.splitlines()) + "\n"
    golden = GOLDEN / f"help{'-' * bool(command)}{command}.txt"
    if os.environ.get("REWRITE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize("command", ["suite", "launch", "env", "results"])
def test_help_has_examples(command: str, tmp_path: Path) -> None:
    assert f"rankrun {command}" in rankrun(command, "--help", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["suite", "-t", "mars"], "target 'mars': unknown; valid: local"),
        (["suite", "-t", "local:0"], "write local:N"),
        (["suite", "--ops", "all_reduce,foo"], "operation 'foo': unknown; valid: broadcast"),
        (["suite", "--ops", ","], "--ops ','"),
        (["suite", "-b", "1M", "-e", "8"], "the smallest size is above the largest"),
        (["suite", "-b", "x"], "size 'x': not a size"),
        (["suite", "-f", "1"], "the factor is 2 or more"),
        (["suite", "-f", "2", "-i", "8"], "give one of them"),
        (["suite", "--root", "9", "-t", "local:2"], "root 9: the target has ranks 0 to 1"),
        (["suite", "--fault", "foo"], "valid: hang"),
        (["suite", "--fault", "hang:rank=7", "-t", "local:2"], "ranks 0 to 1"),
        (["suite", "--show", "--matrix"], "--show and --matrix: give one"),
        (["suite", "--nccl", "DEBUG"], "--nccl 'DEBUG': write KEY=VALUE"),
        (["suite", "--toggle", "a b"], "--toggle"),
        (["suite", "--toggle", ""], "--toggle"),
        (["suite", "-e", "9999T"], "at most 1024T"),
        (["suite", "-n", "1000001"], "1000000"),
        (["suite", "-w", "1000001"], "1000000"),
        (["suite", "--budget", "inf"], "--budget"),
        (["suite", "--op-deadline", "nan"], "--op-deadline"),
        (["suite", "--start-deadline", "1e300"], "--start-deadline"),
        (["launch", "--deadline", "inf", "--", "true"], "--deadline"),
        (["launch", "--grace", "inf", "--", "true"], "--grace"),
        (["suite", "--json", "no/such/x.json"], "there is no folder no/such"),
        (["suite", "--json", "."], "is a folder"),
        (["suite", "--json", "-", "--csv", "-"], "only one of them"),
        (["suite", "--matrix", "--csv", "x.csv"], "--csv: only for the sweep"),
        (["suite", "--dtype", "float31"], "float32"),
        (["launch", "-t", "local:2", "--"], "no command to run"),
        (["launch", "--env", "1=2", "--", "true"], "--env '1=2': write KEY=VALUE"),
        (["env", "--rank", "4", "-t", "local:4"], "--rank 4: the target has ranks 0 to 3"),
    ],
)
def test_a_mistake_ends_in_one_clear_line(arguments: list[str], says: str, tmp_path: Path) -> None:
    done = rankrun(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == [], "nothing was started or made"


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    done = rankrun("results", str(tmp_path), cwd=tmp_path)
    assert done.returncode == 3
    assert "is no run folder of rankrun suite" in done.stderr
    assert "Traceback" not in done.stderr


PRINTING = [["env", "-t", "local:2"], ["suite", "--dry-run"], ["launch", "--dry-run", "x"], ["-h"]]


def redirected(
    redirection: str, *arguments: str, cwd: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", f'"$@" {redirection}', "sh", *RANKRUN, *arguments],
        cwd=cwd,
        env={**os.environ, **PLAIN, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("arguments", PRINTING)
@pytest.mark.parametrize("redirection", [">/dev/full", ">&-", "<&- >&-"])
def test_what_cannot_be_printed_is_said(
    arguments: list[str], redirection: str, tmp_path: Path
) -> None:
    done = redirected(redirection, *arguments, cwd=tmp_path, PYTHONUNBUFFERED="")
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line.startswith("rankrun: standard output cannot be written: ")


@pytest.mark.parametrize("arguments", PRINTING[:3])
def test_nobody_has_to_read_to_the_end(arguments: list[str], tmp_path: Path) -> None:
    done = redirected("| :; exit 0", *arguments, cwd=tmp_path)
    assert done.stderr == ""


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "<&- >&- 2>&-", ">/dev/full"])
def test_a_rank_s_code_comes_through_closed_and_full_streams(
    redirection: str, tmp_path: Path
) -> None:
    argv = ["launch", "-t", "local:2", "--", "sh", "-c", "echo said; exit 5"]
    done = redirected(redirection, *argv, cwd=tmp_path)
    assert done.returncode == 5
    assert "Traceback" not in done.stderr
    (run,) = (tmp_path / "rankrun-runs").iterdir()
    assert json.loads((run / "summary.json").read_text())["exit_code"] == 5
    assert {log.read_text() for log in run.glob("ranks/*.stdout.log")} <= {"said\n", ""}


@pytest.mark.parametrize("redirection", [">&-", ">/dev/full", "<&- >&- 2>&-", "| :; exit 0"])
def test_a_suite_goes_on_where_nobody_sees_its_table(redirection: str, tmp_path: Path) -> None:
    argv = ["suite", "-t", "local:2", "--ops", "barrier", "-b", "8", "-e", "8", "--json", "a.json"]
    done = redirected(redirection, *argv, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads((tmp_path / "a.json").read_text())["exit_code"] == 0


def test_a_working_directory_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    program = "from rankrun.__main__ import main; main()"  # python -m needs the directory itself
    argv = [
        "sh",
        "-c",
        'cd gone && rmdir ../gone && exec "$@"',
        "sh",
        sys.executable,
        "-c",
        program,
    ]
    done = subprocess.run([*argv, "env"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1].startswith("rankrun: the working directory is gone")
    assert "Traceback" not in done.stderr


def test_ctrl_c_while_the_command_line_still_loads(tmp_path: Path) -> None:
    """A module that is imported on the way stands in for the moment."""
    (tmp_path / "typer.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGINT)\n")
    done = subprocess.run(
        [sys.executable, "-m", "rankrun", "env"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["suite", "-t", "local:2"],
        ["suite", "--matrix"],
        ["suite", "--show"],
        ["suite", "--toggle", "GLOO_X"],
        ["launch", "--", "train.py", "--dry-run-of-its-own"],
        ["env"],
    ],
)
def test_a_dry_run_starts_and_makes_nothing(arguments: list[str], tmp_path: Path) -> None:
    done = rankrun(arguments[0], "--dry-run", *arguments[1:], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "MASTER_ADDR=127.0.0.1" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_options_of_the_command_are_its_own(tmp_path: Path) -> None:
    done = rankrun("launch", "--dry-run", "python", "x.py", "-t", "local:9", cwd=tmp_path)
    assert "command   python x.py -t local:9" in done.stdout


def test_env_as_json_equals_env_as_text(tmp_path: Path) -> None:
    document = json.loads(rankrun("env", "-t", "local:2", "--json", cwd=tmp_path).stdout)
    for row in document["ranks"]:
        rank = str(row["rank"])
        text = rankrun("env", "-t", "local:2", "--rank", rank, cwd=tmp_path).stdout
        assert dict(line.split("=", 1) for line in text.splitlines()) == row["environment"]
        assert row["environment"]["RANK"] == rank


def test_env_shows_what_a_rank_gets(tmp_path: Path) -> None:
    """The very variables, but for the port and the run's name, which are made at the start."""
    planned = rankrun("env", "-t", "local:2", "--rank", "1", cwd=tmp_path).stdout.splitlines()
    program = "import json, os; print(json.dumps(dict(os.environ)))"
    argv = ["launch", "-t", "local:2", "--", sys.executable, "-c", program]
    lines = rankrun(*argv, cwd=tmp_path).stdout.splitlines()
    given = json.loads(next(line for line in lines if line.startswith("[1] "))[4:])
    made = {"MASTER_PORT", "TORCHELASTIC_RUN_ID"}
    for line in planned:
        name, value = line.split("=", 1)
        assert name in given
        assert name in made or given[name] == value
    assert given["MASTER_PORT"].isdigit()


def test_secrets_are_masked_where_they_are_shown(tmp_path: Path) -> None:
    secret = "hunter2-of-the-test"
    argv = ["launch", "-t", "local:1", "--env", f"MY_TOKEN={secret}", "--", "sh", "-c", "true"]
    done = rankrun(*argv, cwd=tmp_path, OTHER_PASSWORD=secret)
    assert done.returncode == 0
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert [path.name for path in files if secret in path.read_text(errors="replace")] == []
    shown = rankrun("env", "--env", f"MY_TOKEN={secret}", cwd=tmp_path).stdout
    assert secret not in shown
    assert "MY_TOKEN=********" in shown


def test_completion_is_offered(tmp_path: Path) -> None:
    done = rankrun(cwd=tmp_path, _RANKRUN_COMPLETE="source_bash")
    words = rankrun(
        cwd=tmp_path,
        _RANKRUN_COMPLETE="complete_bash",
        COMP_WORDS="rankrun su",
        COMP_CWORD="1",
    )
    assert done.returncode == 0, done.stderr
    assert "complete" in done.stdout
    assert "suite" in words.stdout


def test_json_on_standard_output_is_json_alone(tmp_path: Path) -> None:
    argv = ["suite", "-t", "local:2", "--ops", "all_reduce", "-b", "8", "-e", "8", "--json", "-"]
    done = rankrun(*argv, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "rankrun.suite/1"
    assert {row["status"] for row in document["rows"]} == {"right"}
    assert "# all_reduce" in done.stderr


def test_results_prints_the_table_of_the_run_again(tmp_path: Path) -> None:
    argv = ["suite", "-t", "local:2", "--ops", "broadcast", "-b", "8", "-e", "64", "--csv", "a.csv"]
    done = rankrun(*argv, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "rankrun-runs").iterdir()
    again = rankrun("results", str(run), "--csv", "b.csv", cwd=tmp_path)
    assert again.stdout == done.stdout
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()
    slowest = rankrun("results", str(run), "-a", "max", cwd=tmp_path).stdout
    assert "slowest rank" in slowest
