"""What a rank was doing, from the stacks that faulthandler wrote for it.

Format: Python's faulthandler, `dump_traceback`: per thread a head, `Current thread 0x...
(most recent call first):`, then `  File "x.py", line 12 in f`, innermost first. The current
thread is the one that took the signal: Python's main thread.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)$')
_HEAD = re.compile(r"^(?P<current>Current thread|Thread) 0x[0-9a-f]+ .*most recent call first")
# torch's decorator around every public collective; the caller's name is what tells.
_C10D = "torch/distributed/distributed_c10d.py"
_CONTROL = "on_rank/backends.py"
# The agent's words where a process did not answer (jobs/agent/processes.py).
_SILENT = "no Python stacks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One call. `text_line` counts the lines of the stacks from 1."""

    file: str
    line: int
    function: str
    text_line: int

    def __str__(self) -> str:
        return f"{self.function} ({PurePath(self.file).name}:{self.line})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """What a rank was doing.

    `frames` are those of its main thread, innermost first. `collective` is the function of
    torch.distributed that it was in; None outside of any. `agreeing`: that call belongs to the
    suite itself, which agrees with the other ranks between calls under test. `silent`: the
    process did not answer, `words` then has what the kernel says of it; None: nothing.
    """

    frames: tuple[Frame, ...]
    collective: str | None
    agreeing: bool
    silent: bool
    words: str | None = None


def read_stacks(text: str) -> Doing:
    r"""Read one rank's stacks.

    >>> doing = read_stacks('Current thread 0x1 (most recent call first):\n'
    ...     '  File "/site/torch/distributed/distributed_c10d.py", line 9 in all_reduce\n')
    >>> doing.collective, str(doing.frames[0])
    ('all_reduce', 'all_reduce (distributed_c10d.py:9)')
    """
    frames = _main_frames(text.splitlines())
    collective = next((f.function for f in frames if f.file.endswith(_C10D)), None)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return Doing(
        frames=frames,
        collective=collective,
        agreeing=any(frame.file.endswith(_CONTROL) for frame in frames),
        silent=text.startswith(_SILENT),
        words=next(iter(lines[1:] or lines), None),
    )


def _main_frames(lines: Sequence[str]) -> tuple[Frame, ...]:
    """The frames of the current thread, else of the last one, which faulthandler writes last."""
    threads: list[list[Frame]] = []
    current: list[Frame] | None = None
    for number, line in enumerate(lines, start=1):
        head, frame = _HEAD.match(line), _FRAME.match(line)
        if head:
            threads.append([])
            if head["current"] == "Current thread":
                current = threads[-1]
        elif frame and threads:
            threads[-1].append(
                Frame(
                    file=frame["file"],
                    line=int(frame["line"]),
                    function=frame["function"],
                    text_line=number,
                )
            )
    return tuple(current if current is not None else threads[-1] if threads else ())
