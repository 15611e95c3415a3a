"""Real ranks on this machine: what they get, and what is kept of them."""

import json
import os
import resource
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from rankrun.cluster.secrets import MASK
from rankrun.jobs.outcomes import End
from rankrun.jobs.plan import Limits
from rankrun.jobs.run_folder import RunFolder
from rankrun.jobs.supervise import run_job

from .running import Run, local_plan, python, run_local

DUMP = python("import json, os; print(json.dumps(dict(os.environ)))")


def environments(run: Run) -> list[dict[str, str]]:
    return [json.loads(run.out(rank)) for rank in range(len(run.plan.ranks))]


def test_a_run_that_goes_well(tmp_path: Path) -> None:
    run = run_local(tmp_path / "run", python("print('hello')"), ranks=4)
    assert run.result.exit_code == 0
    assert run.result.findings == ()
    assert [outcome.end for outcome in run.result.outcomes] == [End.COMPLETED] * 4
    assert sorted(run.lines) == [f"[{rank}] hello" for rank in range(4)]
    assert [run.out(rank) for rank in range(4)] == [b"hello\n"] * 4


def test_what_the_run_folder_holds(tmp_path: Path) -> None:
    run = run_local(tmp_path / "run", python("import sys; print('a'); print('b', file=sys.stderr)"))
    names = {str(path.relative_to(run.folder.path)) for path in run.folder.path.rglob("*.*")}
    assert names == {
        "plan.json", "environment.json", "handle.json", "events.jsonl", "outcomes.json",
        "findings.json", "summary.json", "agents/0.log", "ranks/0.stdout.log",
        "ranks/0.stderr.log", "ranks/1.stdout.log", "ranks/1.stderr.log",
    }  # fmt: skip
    assert stat.S_IMODE(run.folder.path.stat().st_mode) == 0o700
    summary = run.folder.read_json(run.folder.summary)
    assert summary["schema"] == "rankrun.summary/1"
    assert summary["verdict"] == "all 2 ranks completed"
    assert summary["exit_code"] == 0
    assert summary["first_failure"] is None
    outcomes = run.folder.read_json(run.folder.outcomes)["outcomes"]
    assert [(row["rank"], row["end"], row["code"]) for row in outcomes] == [
        (0, "completed", 0),
        (1, "completed", 0),
    ]
    assert run.folder.read_json(run.folder.handle)["launcher"] == "local"


def test_events_say_when_who_and_where(tmp_path: Path) -> None:
    run = run_local(tmp_path / "run", python("print('here'); print('x' * 5000)"), ranks=1)
    events = run.events()
    assert all({"time_s", "host", "what"} <= event.keys() for event in events)
    assert next(event["what"] for event in events if "rank" in event) == "started"
    outputs = [event for event in events if event["what"] == "output"]
    kept = b"".join(
        run.out()[event["offset"] : event["offset"] + event["length"]] for event in outputs
    )
    assert kept == run.out()
    assert all("text" in event for event in outputs if event["length"] <= 4096)
    assert not any("text" in event for event in outputs if event["length"] > 4096)


def test_the_whole_contract_reaches_the_ranks(tmp_path: Path) -> None:
    outer = {**os.environ, "MASTER_PORT": "1", "RANK": "9", "RANKRUN_RECORD_FD": "77"}
    run = run_local(tmp_path / "run", DUMP, ranks=3, environment=outer)
    for rank, environment in enumerate(environments(run)):
        planned = run.plan.ranks[rank].environment
        assert {name: environment[name] for name in planned} == dict(planned)
        assert environment["RANK"] == environment["LOCAL_RANK"] == str(rank)
        assert environment["RANKRUN_RECORD_FD"] != "77"
    ports = {environment["MASTER_PORT"] for environment in environments(run)}
    assert len(ports) == 1
    assert 1024 < int(ports.pop()) < 65536


def test_environment_json_is_what_the_ranks_had(tmp_path: Path) -> None:
    run = run_local(tmp_path / "run", DUMP, settings={"MY_API_KEY": "abc", "A": "b,c d"})
    document = run.folder.read_json(run.folder.environment)
    for rank, environment in enumerate(environments(run)):
        own = {k: v for k, v in environment.items() if not k.endswith("_FD")}
        written = {**document["common"], **document["ranks"][str(rank)]}
        assert environment["MY_API_KEY"] == "abc"
        assert written["MY_API_KEY"] == MASK
        # LC_CTYPE is what Python itself sets in a C locale.
        assert written.keys() - {"LC_CTYPE"} == own.keys() - {"LC_CTYPE"}
        assert written["MASTER_PORT"] == environment["MASTER_PORT"]
    for path in run.folder.path.glob("*.json*"):
        assert "abc" not in path.read_text() or path.name == "events.jsonl"


def test_settings_win_over_the_reserved_port(tmp_path: Path) -> None:
    run = run_local(tmp_path / "run", DUMP, settings={"MASTER_PORT": "4711"})
    assert {environment["MASTER_PORT"] for environment in environments(run)} == {"4711"}


HOSTILE = [
    "a'; echo foo", 'say "hi"', "$(touch /tmp/pwned)", "`id`", "two\nlines", " lead and trail ", "",
    "comma,semicolon;pipe|", "-n", "--", "*", "~", "%s%n", "é€😀", os.fsdecode(b"\xff\xfe raw"),
    "\\", "\x01\x1b[31m",
]  # fmt: skip


def test_arguments_arrive_as_they_are(tmp_path: Path) -> None:
    program = python("import os, sys; print([os.fsencode(a) for a in sys.argv[1:]])")
    run = run_local(tmp_path / "run", [*program, *HOSTILE], ranks=1)
    assert run.out().decode().strip() == repr([os.fsencode(word) for word in HOSTILE])


def test_values_arrive_as_they_are(tmp_path: Path) -> None:
    settings = {f"HOSTILE_{index}": value for index, value in enumerate(HOSTILE)}
    program = python("import os; print([os.environb[b'HOSTILE_%d' % i] for i in range(17)])")
    run = run_local(tmp_path / "run", program, ranks=1, settings=settings)
    assert run.out().decode().strip() == repr([os.fsencode(value) for value in HOSTILE])


def test_an_environment_above_one_frame(tmp_path: Path) -> None:
    big = {f"BIG_{index}": chr(0x20AC) * 30_000 for index in range(15)}
    program = python("import os; print(sum(len(v) for k, v in os.environ.items() if 'BIG' in k))")
    run = run_local(tmp_path / "run", program, ranks=1, environment={**os.environ, **big})
    assert run.out() == b"450000\n"


def test_a_folder_cannot_shadow_what_the_agent_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "signal", "rankrun", "selectors"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert run_local(tmp_path / "run", ("true",)).result.exit_code == 0


def test_nothing_secret_on_a_command_line(tmp_path: Path) -> None:
    look = python(
        "import os, pathlib\n"
        "up = os.getppid()\n"
        "print(pathlib.Path(f'/proc/{up}/cmdline').read_bytes())"
    )
    run = run_local(tmp_path / "run", look, ranks=1, settings={"SECRET": "hunter2"})
    assert b"rankrun-agent:" in run.out()
    assert b"hunter2" not in run.out()


def test_standard_input_is_empty(tmp_path: Path) -> None:
    run = run_local(tmp_path / "run", python("import sys; print(repr(sys.stdin.read()))"))
    assert run.out() == b"''\n"


def test_the_usual_signal_and_file_limits(tmp_path: Path) -> None:
    program = python(
        "import resource, signal\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE), signal.getsignal(signal.SIGPIPE))"
    )
    here = subprocess.run(program, capture_output=True, check=True).stdout
    run = run_local(tmp_path / "run", program, ranks=1)
    assert str(resource.getrlimit(resource.RLIMIT_NOFILE)) in run.out().decode()
    assert run.out() == here


def test_records_come_as_lines(tmp_path: Path) -> None:
    program = python(
        "import os\n"
        "fd = int(os.environ['RANKRUN_RECORD_FD'])\n"
        "os.write(fd, b'{\"a\"'); os.write(fd, b': 1}\\n{\"b\": 2}\\n' + b'x' * 300000 + b'\\n')"
    )
    run = run_local(tmp_path / "run", program, ranks=1)
    records = [event for event in run.events() if event["what"] == "record"]
    assert [record.get("text") for record in records] == ['{"a": 1}', '{"b": 2}', None]
    assert records[-1]["length"] == 300000


def test_many_ranks(tmp_path: Path) -> None:
    run = run_local(tmp_path / "run", ("sh", "-c", "echo $RANK"), ranks=80)
    assert run.result.exit_code == 0
    assert [run.out(rank) for rank in range(80)] == [b"%d\n" % rank for rank in range(80)]


def test_an_absolute_deadline_does_not_disturb(tmp_path: Path) -> None:
    run = run_local(tmp_path / "run", ("true",), limits=Limits(deadline_s=60, grace_s=0))
    assert run.result.exit_code == 0


def test_relative_commands_start_in_the_working_directory(tmp_path: Path) -> None:
    script = tmp_path / "tool.sh"
    script.write_text("#!/bin/sh\npwd\n")
    script.chmod(0o755)
    plan = replace(local_plan(tmp_path / "run", ("./tool.sh",), ranks=1), workdir=tmp_path)
    folder = RunFolder.create(tmp_path / "run")
    assert run_job(plan, folder=folder).exit_code == 0
    assert folder.log(0, "stdout").read_text().strip() == str(tmp_path)
