"""MASTER_PORT: rank 0 can really serve on it, and no two runs share one."""

import sys
import threading
from pathlib import Path

import pytest

from .running import Run, WhenSaid, python, run_local

STORE = """
import os, sys
from datetime import timedelta
from torch.distributed import TCPStore
rank = int(os.environ["RANK"])
store = TCPStore(
    os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), 2, rank == 0,
    timeout=timedelta(seconds=60), use_libuv={use_libuv},
)
store.set(str(rank), "here")
store.wait(["0", "1"])
store.add("done", 1)
while rank == 0 and store.add("done", 0) < 2: pass
"""


@pytest.mark.parametrize("use_libuv", [True, False])
def test_rank_0_opens_a_store_there(tmp_path: Path, use_libuv: bool) -> None:
    pytest.importorskip("torch")
    program = (sys.executable, "-W", "ignore", "-c", STORE.format(use_libuv=use_libuv))
    run = run_local(tmp_path / "run", program)
    assert run.result.exit_code == 0, run.err()


def test_an_initialised_process_group(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    program = (
        "import torch.distributed as d; d.init_process_group('gloo'); d.barrier();"
        "print(d.get_rank(), d.get_world_size()); d.barrier(); d.destroy_process_group()"
    )
    run = run_local(tmp_path / "run", (sys.executable, "-W", "ignore", "-c", program))
    assert run.result.exit_code == 0, run.err()
    assert [run.out(rank) for rank in (0, 1)] == [b"0 2\n", b"1 2\n"]


def test_two_runs_at_once(tmp_path: Path) -> None:
    """The second starts and ends while the first one runs."""
    program = python("import os, sys, time\nprint('port', os.environ['MASTER_PORT'], flush=True)\n"
                     "while not os.path.exists(sys.argv[1]): time.sleep(0.01)")  # fmt: skip
    flag = tmp_path / "flag"
    inner: list[Run] = []

    def second() -> None:
        inner.append(run_local(tmp_path / "second", [*program, "/"], ranks=1))
        flag.touch()

    when = WhenSaid(b"port", second)
    outer = run_local(tmp_path / "first", [*program, str(flag)], ranks=1, observers=[when])
    assert outer.result.exit_code == inner[0].result.exit_code == 0
    assert outer.out().startswith(b"port ")
    assert outer.out() != inner[0].out()


def test_a_run_off_the_main_thread(tmp_path: Path) -> None:
    runs: list[Run] = []
    thread = threading.Thread(target=lambda: runs.append(run_local(tmp_path / "run", ("true",))))
    thread.start()
    thread.join(60)
    assert runs[0].result.exit_code == 0
