import errno
import os
import subprocess
import sys
import threading

import pytest

from rankrun.jobs.echo import MAX_WAITING, LineWriter

from .running import eventually

IMPORTS = "from rankrun.cluster.errors import LaunchError; from rankrun.jobs.echo import LineWriter"


def read_all(descriptor: int) -> bytes:
    data = b""
    while piece := os.read(descriptor, 1 << 16):
        data += piece
    return data


def test_lines_come_in_order() -> None:
    reader, writer = os.pipe()
    received: list[bytes] = []
    thread = threading.Thread(target=lambda: received.append(read_all(reader)))
    thread.start()
    with LineWriter(writer) as echo:
        for number in range(50_000):
            echo(f"line {number}")
    os.close(writer)
    thread.join()
    os.close(reader)
    assert received[0].decode().split("\n") == [*(f"line {n}" for n in range(50_000)), ""]


def test_a_reader_that_takes_nothing_is_told_how_much_it_missed() -> None:
    reader, writer = os.pipe()
    received: list[bytes] = []
    thread = threading.Thread(target=lambda: received.append(read_all(reader)))
    line = "x" * 1023
    with LineWriter(writer) as echo:
        for _ in range(2 * MAX_WAITING // len(line)):
            echo(line)
        thread.start()
        assert eventually(lambda: echo._waiting_bytes == 0)
        echo("the last one")
    os.close(writer)
    thread.join()
    os.close(reader)
    lines = received[0].decode().splitlines()
    shown = lines.count(line)
    assert lines[-2:] == [
        f"rankrun: {2 * MAX_WAITING // 1023 - shown} lines not shown; the run folder has them",
        "the last one",
    ]
    assert shown * len(line) >= MAX_WAITING


def test_a_line_to_keep_waits_for_its_reader() -> None:
    reader, writer = os.pipe()
    received: list[bytes] = []
    thread = threading.Thread(target=lambda: received.append(read_all(reader)))
    line = "x" * 1023
    with LineWriter(writer) as echo:
        for _ in range(3 * MAX_WAITING // 1024):
            echo(line, keep=True)
        thread.start()
        echo.wait(60)
    os.close(writer)
    thread.join()
    os.close(reader)
    assert received[0].decode().splitlines() == [line] * (3 * MAX_WAITING // 1024)


def test_a_reader_that_is_gone_costs_nothing() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with LineWriter(writer) as echo:
        for _ in range(10_000):
            echo("x" * 1000)
    os.close(writer)
    assert echo.failure is not None
    assert echo.failure.errno == errno.EPIPE


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes a user who has other processes")
def test_a_process_that_may_have_no_thread() -> None:
    program = (
        "import resource, os; os.setuid(65534); resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))\n"
        "try: LineWriter(1)\n"
        "except LaunchError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{IMPORTS}\n{program}"], capture_output=True, text=True, check=False
    )
    assert done.stdout == "can't start new thread: see ulimit -u and pids.max of the cgroup\n"


def test_what_the_encoding_lacks_is_written_out() -> None:
    reader, writer = os.pipe()
    with LineWriter(writer, encoding="ascii") as echo:
        echo("é")
    os.close(writer)
    assert read_all(reader) == b"\\xe9\n"
    os.close(reader)
