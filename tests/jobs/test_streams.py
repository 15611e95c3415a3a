"""Standard streams as a shell can leave them: closed, full, without a reader, in ASCII."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rankrun.jobs.streams import has_no_reader, write_text

PROGRAM = """
import os, sys
from rankrun.jobs.streams import prepare_standard_streams, write_text
prepare_standard_streams()
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
errors = [write_text(stream, "seen: \u00e9\\n") for stream in (sys.stdout, sys.stderr)]
write_text(sys.stdout, "never seen")
os.write(file, repr([file, *(error and error.strerror for error in errors)]).encode())
"""


@pytest.mark.parametrize(
    ("redirection", "expected"),
    [
        (">&-", [3, "Bad file descriptor", None]),
        ("<&- >&- 2>&-", [3, "Bad file descriptor", "Bad file descriptor"]),
        (">/dev/full 2>&1", [3, "No space left on device", "No space left on device"]),
        ("2>&-", [3, None, "Bad file descriptor"]),
    ],
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_cannot_be_written(
    tmp_path: Path, redirection: str, expected: list[object], unbuffered: str
) -> None:
    """The file does not get the number of a closed stream, and Python's end is a quiet one."""
    file = tmp_path / "file"
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-c", PROGRAM, str(file)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered, "PYTHONIOENCODING": "ascii"},
        check=False,
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert file.read_text() == repr(expected)


def test_what_cannot_be_encoded_is_written_out(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "file")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii:strict"},
        check=False,
    )
    assert (done.stdout, done.stderr) == ("seen: \\xe9\nnever seen", "seen: \\xe9\n")


def test_a_pipe_without_a_reader() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as pipe:
        error = write_text(pipe, "x")
        assert error is not None
        assert has_no_reader(error)
        assert write_text(pipe, "y") is None, "it leads nowhere now"


def test_text_in_memory() -> None:
    text = io.StringIO()
    assert write_text(text, "x") is None
    assert text.getvalue() == "x"
