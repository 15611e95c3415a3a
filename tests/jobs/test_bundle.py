"""Our code as it travels: any Python of 3.9 or newer runs it from a pipe, with nothing on disk."""

import subprocess
import sys
import zipfile
from io import BytesIO

import pytest

from rankrun.jobs.agent.frames import FrameDecoder
from rankrun.jobs.agent.messages import PROTOCOL, Hello, Welcome, decode, encode
from rankrun.jobs.launchers.bundle import FIRST_LINE, Bundle, make_bundle

from .agent_session import find_python_39
from .running import PATIENCE_S

OLDEST = find_python_39()


def started(
    python: str, bundle: Bundle, *, after: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [python, "-I", "-S", "-c", FIRST_LINE, "rankrun-agent"],
        input=bundle.prologue() + after,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize("python", [sys.executable, *([OLDEST] if OLDEST else [])])
def test_an_agent_starts_from_a_pipe(python: str) -> None:
    done = started(python, make_bundle(), after=encode(Hello(PROTOCOL)))
    frame = next(FrameDecoder().feed(done.stdout))
    assert isinstance(frame, bytes)
    welcome = decode(frame)
    assert isinstance(welcome, Welcome)
    assert (done.returncode, done.stderr) == (0, b"")


def test_damaged_code_is_not_run() -> None:
    bundle = make_bundle()
    done = started(sys.executable, Bundle(bundle.data[:-1] + b"x", bundle.digest))
    assert done.returncode == 1
    assert b"arrived damaged" in done.stderr


@pytest.mark.parametrize("kept", [0, 5, 3000])
def test_a_connection_that_ends_early_leaves_no_process(kept: int) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", FIRST_LINE],
        input=make_bundle().prologue()[:kept],
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 1


def test_ranks_of_the_suite_can_import_all_of_theirs() -> None:
    with zipfile.ZipFile(BytesIO(make_bundle().data)) as bundle:
        names = set(bundle.namelist())
    program = (
        "import sys; import rankrun.collectives.on_rank.__main__, rankrun.collectives.on_rank.show,"
        "rankrun.collectives.on_rank.sweep, rankrun.collectives.steps;"
        "print(*(m for m in sys.modules if m.partition('.')[0] == 'rankrun'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    for module in done.stdout.split():
        path = module.replace(".", "/")
        assert {f"{path}.py", f"{path}/__init__.py"} & names, module
