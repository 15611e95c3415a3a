"""Ranks that fail, each in its way: who is blamed, with which code, and what the others do."""

import json
import os
import resource
import signal
from pathlib import Path

import pytest

from rankrun.jobs.outcomes import End
from rankrun.jobs.plan import Limits

from .running import WhenSaid, python, run_local, start_controller, survivors

WAIT = "import time; time.sleep(600)"


def on_rank(rank: int, program: str, others: str = WAIT) -> tuple[str, ...]:
    return python(f"import os\nif os.environ['RANK'] == '{rank}':\n {program}\nelse:\n {others}")


def test_the_first_failure_is_named_and_its_code_kept(tmp_path: Path) -> None:
    run = run_local(tmp_path / "run", on_rank(2, "import sys; sys.exit('boom')"), ranks=4)
    assert run.result.exit_code == 1
    assert run.result.first_failure is not None
    assert run.result.first_failure.rank == 2
    assert run.causes == ["rank-failed"]
    assert "boom" in run.result.findings[0].message
    ends = [outcome.end for outcome in run.result.outcomes]
    assert ends == [End.STOPPED, End.STOPPED, End.FAILED, End.STOPPED]


@pytest.mark.parametrize("code", [1, 17, 77, 255])
def test_exit_codes_are_kept(tmp_path: Path, code: int) -> None:
    assert run_local(tmp_path / "run", ("sh", "-c", f"exit {code}")).result.exit_code == code


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM", "SIGABRT"])
def test_signals_become_a_shells_codes(tmp_path: Path, name: str) -> None:
    number = signal.Signals[name]
    program = on_rank(1, f"os.kill(os.getpid(), {int(number)})")
    run = run_local(tmp_path / "run", program)
    assert run.result.exit_code == 128 + number
    assert run.causes == ["rank-killed"]
    assert name in run.result.findings[0].message
    assert run.result.first_failure is not None
    assert run.result.first_failure.rank == 1


def test_a_killed_rank_may_be_out_of_memory(tmp_path: Path) -> None:
    def kill_rank_1() -> None:
        started = [json.loads(line) for line in events.read_text().splitlines()]
        os.kill(next(e["pid"] for e in started if e.get("rank") == 1), signal.SIGKILL)

    events = tmp_path / "run" / "events.jsonl"
    when = WhenSaid(b"ready", kill_rank_1, count=2)
    run = run_local(
        tmp_path / "run", python("print('ready', flush=True);" + WAIT), observers=[when]
    )
    assert run.result.exit_code == 137
    assert "out-of-memory" in run.finding("rank-killed").remedy


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("no-such-command", 127, "not in PATH"),
        ("./no/such/file", 127, "no such file"),
        ("/etc/passwd", 126, "Permission denied"),
        ("/", 126, "Permission denied"),
        ("a\0b", 126, "null byte"),
    ],
)
def test_commands_that_cannot_be_executed(
    tmp_path: Path, command: str, code: int, message: str
) -> None:
    run = run_local(tmp_path / "run", (command,), ranks=3)
    assert run.result.exit_code == code
    assert run.causes == ["command-not-found" if code == 127 else "command-not-executable"]
    assert message in run.result.findings[0].message
    assert run.result.findings[0].consequences == ("ranks 1-2 ended the same way",)
    assert message in run.err(0).decode()


def test_a_script_whose_interpreter_is_missing(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    run = run_local(tmp_path / "run", (str(script),), ranks=1)
    assert run.result.exit_code == 127
    assert "interpreter" in run.result.findings[0].message


def test_a_script_without_a_first_line(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo hello\n")
    script.chmod(0o755)
    run = run_local(tmp_path / "run", (str(script),), ranks=1)
    assert run.result.exit_code == 126
    assert "#!/bin/sh" in run.result.findings[0].message


def test_victims_are_not_blamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 leaves first, but its words say that it only lost its peer."""
    monkeypatch.setattr("rankrun.jobs.policies.SETTLE_S", 30.0)
    program = python(
        "import os, sys\n"
        "if os.environ['RANK'] == '0':\n"
        "    open(os.environ['FIFO'], 'w').write(str(os.getpid()))\n"
        "    sys.exit('RuntimeError: Connection closed by peer [127.0.0.1]:2000')\n"
        "rank_0 = open(os.environ['FIFO']).read()\n"
        "def ended():\n"
        "    try: return ') Z ' in open(f'/proc/{rank_0}/stat').read()\n"
        "    except OSError: return True\n"
        "while not ended(): pass\n"
        "sys.exit('ValueError: the real cause')\n"
    )
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    run = run_local(tmp_path / "run", program, settings={"FIFO": str(fifo)})
    assert run.result.first_failure is not None
    assert run.result.first_failure.rank == 1
    assert "the real cause" in run.result.findings[0].message
    assert any("Connection closed" in text for text in run.result.findings[0].consequences)


def test_a_rank_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    stubborn = (
        "import signal, time\n"
        " signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        " print('ignoring', flush=True)\n"
        " time.sleep(600)"
    )
    wait = "import sys\n while not os.path.exists(os.environ['FLAG']): pass\n sys.exit(5)"
    flag = tmp_path / "flag"
    run = run_local(
        tmp_path / "run",
        on_rank(0, wait, stubborn),
        observers=[WhenSaid(b"ignoring", flag.touch)],
        settings={"FLAG": str(flag)},
        limits=Limits(deadline_s=60, grace_s=0.2),
    )
    assert run.result.exit_code == 5
    assert run.result.outcomes[1].end is End.STOPPED
    assert run.result.outcomes[1].code == -signal.SIGKILL


def test_last_words_are_kept_and_bounded(tmp_path: Path) -> None:
    program = python(
        "import sys\nfor i in range(100000): print('line', i, file=sys.stderr)\nsys.exit('the end')"
    )
    run = run_local(tmp_path / "run", program, ranks=1)
    words = run.result.outcomes[0].last_words
    assert words[-1] == "the end"
    assert words[-2] == "line 99999"
    assert sum(map(len, words)) < 4000


def test_the_reason_is_found_before_the_dump_of_an_abort(tmp_path: Path) -> None:
    """As gloo aborts a rank that was sent too much; Python then dumps stacks and modules."""
    why = "  what():  [enforce fail at pair.cc:456] op.preamble.length <= op.nbytes. 256 vs 128."
    program = python(f"import os, sys\nprint({why!r}, file=sys.stderr, flush=True)\nos.abort()")
    run = run_local(tmp_path / "run", program, ranks=1)
    finding = run.result.findings[0]
    assert finding.cause == "rank-killed"
    assert why.strip() in finding.message
    assert not any("Extension modules" in word for word in run.result.outcomes[0].last_words)


def test_a_crash_without_words_shows_where(tmp_path: Path) -> None:
    program = python("import ctypes\ndef culprit():\n ctypes.string_at(0)\nculprit()")
    run = run_local(tmp_path / "run", program, ranks=1)
    assert "Fatal Python error: Segmentation fault" in run.result.findings[0].message
    assert any("in culprit" in evidence.text for evidence in run.result.findings[0].evidence)


@pytest.mark.parametrize("limit", range(24, 34))
def test_too_few_files_for_so_many_ranks(tmp_path: Path, limit: int) -> None:
    """Wherever in the start of a rank the agent runs out of them."""
    controller = start_controller(
        tmp_path,
        ("true",),
        ranks=8,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
    )
    code, _, err = controller.end()
    assert code == 126, err
    assert "could not be started: cannot execute 'true': Too many open files" in err
    assert "raise ulimit -n" in err
    assert survivors(controller.run_id) == []
