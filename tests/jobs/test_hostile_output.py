"""Ranks that write too much, too long, too strange, to a reader that is slow or gone."""

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from rankrun.jobs.gather import MAX_TEXT_BYTES
from rankrun.jobs.lines import MAX_LINE_BYTES
from rankrun.jobs.plan import Limits
from rankrun.jobs.run_folder import RunFolder

from .running import PATIENCE_S, eventually, python, run_local, start_controller, survivors

MIB = 1 << 20

FLOOD = python(
    "import os\n"
    "block = bytes(range(97, 123)) * 2500 + b'\\n'\n"
    "for _ in range(1024): os.write(1, block)\n"
)
FLOOD_BYTES = 1024 * 65001


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_flood_is_kept_byte_for_byte_in_flat_memory(tmp_path: Path) -> None:
    """In a process of its own, whose peak memory is then known."""
    controller = start_controller(tmp_path, FLOOD, ranks=2, stdout=subprocess.DEVNULL)
    assert controller.end()[0] == 0
    expected = hashlib.sha256((bytes(range(97, 123)) * 2500 + b"\n") * 1024).hexdigest()
    for rank in (0, 1):
        log = controller.folder.log(rank, "stdout")
        assert log.stat().st_size == FLOOD_BYTES
        assert digest(log) == expected
    peaks_kib = (controller.folder.path / "peak").read_text().split()
    assert max(map(int, peaks_kib)) < 100 * 1024
    # Its share of the disk is small: what was written stands in one file only.
    assert controller.folder.events.stat().st_size < FLOOD_BYTES / 20


def test_small_writes_do_not_blow_up_the_events(tmp_path: Path) -> None:
    program = python("import os\nfor _ in range(50_000): os.write(1, b'x')")
    run = run_local(tmp_path / "run", program, ranks=1)
    assert run.out() == b"x" * 50_000
    outputs = [event for event in run.events() if event["what"] == "output"]
    assert sum(event["length"] for event in outputs) == 50_000
    assert len(outputs) < 5_000
    assert all(len(event.get("text", "")) <= MAX_TEXT_BYTES for event in outputs)


def test_a_long_line_without_end(tmp_path: Path) -> None:
    program = python("import os\nfor _ in range(160): os.write(1, b'y' * 65536)")
    run = run_local(tmp_path / "run", program, ranks=1)
    assert run.out() == b"y" * 10 * MIB
    assert len(run.lines) == 160
    assert max(map(len, run.lines)) == MAX_LINE_BYTES + len("[0] ")


def test_binary_bytes(tmp_path: Path) -> None:
    program = python("import os\nfor _ in range(100): os.write(2, bytes(range(256)))")
    run = run_local(tmp_path / "run", program, ranks=1)
    assert run.err() == bytes(range(256)) * 100
    assert all(line.isprintable() or "\t" in line for line in run.lines)


def test_the_last_line_needs_no_end(tmp_path: Path) -> None:
    program = python("import os; os.write(1, b'out'); os.write(2, b'err')")
    assert run_local(tmp_path / "run", program, ranks=1).lines == ["[0] out", "[0] err"]


def test_output_of_a_crash_is_complete(tmp_path: Path) -> None:
    program = python("import os\nos.write(1, b'z' * 200_000)\nos.kill(os.getpid(), 9)")
    run = run_local(tmp_path / "run", program, ranks=1)
    assert run.out() == b"z" * 200_000


def test_nobody_reads_our_output(tmp_path: Path) -> None:
    """The pipe fills up; the run ends all the same, its files are complete, and nothing is lost
    to a reader that comes late."""
    program = python("import sys\nfor i in range(200_000): print('line', i)")
    controller = start_controller(tmp_path, program, ranks=1)
    assert eventually(controller.folder.summary.exists)
    assert controller.folder.log(0, "stdout").read_bytes().count(b"\n") == 200_000
    assert controller.process.stdout is not None
    lines = controller.process.stdout.read().splitlines()
    assert [line for line in lines if line.startswith(b"[0] line")] == [
        b"[0] line %d" % number for number in range(200_000)
    ]
    assert controller.process.wait(PATIENCE_S) == 0
    controller.end()


def test_the_reader_of_our_output_leaves(tmp_path: Path) -> None:
    program = python("import sys\nfor i in range(200_000): print('line', i)")
    controller = start_controller(tmp_path, program, ranks=1)
    assert controller.process.stdout is not None
    controller.process.stdout.readline()
    controller.process.stdout.close()
    assert controller.process.wait(PATIENCE_S) == 0
    assert controller.folder.log(0, "stdout").read_bytes().count(b"\n") == 200_000
    assert controller.process.stderr is not None
    assert b"Traceback" not in controller.process.stderr.read()
    controller.process.stderr.close()


def test_our_output_is_closed(tmp_path: Path) -> None:
    command = [
        sys.executable, str(Path(__file__).with_name("controller.py")), str(tmp_path / "run"),
        "1", "1", "60", "echo", "hello",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    shell = ("sh", "-c", 'exec "$@" >&-', "sh")
    done = subprocess.run([*shell, *command], env=environment, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0
    assert RunFolder(tmp_path / "run").log(0, "stdout").read_bytes() == b"hello\n"


def test_a_stopped_controller_slows_its_ranks_down_and_loses_nothing(tmp_path: Path) -> None:
    """Back-pressure: while nobody takes the output, the agent's memory does not grow."""
    program = python(
        "import os\nos.write(1, b'ready')\nfor _ in range(512): os.write(1, b'w' * 65536)"
    )
    controller = start_controller(tmp_path, program, ranks=1, stdout=subprocess.DEVNULL)
    controller.wait_for_output(b"ready", 1)
    controller.process.send_signal(signal.SIGSTOP)
    sizes: list[int] = []

    def settled() -> bool:
        sizes.append(controller.folder.log(0, "stdout").stat().st_size)
        return len(sizes) > 50

    assert eventually(settled)
    controller.process.send_signal(signal.SIGCONT)
    assert controller.process.wait(PATIENCE_S) == 0
    assert controller.folder.log(0, "stdout").stat().st_size == 5 + 512 * 65536
    controller.end()
    assert survivors(controller.run_id) == []


def test_a_rank_cannot_flood_past_the_deadline(tmp_path: Path) -> None:
    program = python("import os\nwhile True: os.write(1, b'v' * 4096)")
    run = run_local(tmp_path / "run", program, ranks=1, limits=Limits(deadline_s=1, grace_s=0.5))
    assert run.result.exit_code == 124
