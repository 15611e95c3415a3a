"""What the ranks of a run wrote, merged in the order in which it came, from the run folder.

events.jsonl says which bytes of which rank's file came when; the bytes are read from that file.
So a run that ended, one that goes on and one whose controller was killed are all read the same
way, and following one shows every byte once.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from .events import STREAMS, Stream
from .lines import LineAssembler, visible_lines
from .run_folder import RunFolder

_POLL_S = 0.2
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which lines; None: all."""

    rank: int | None = None
    host: str | None = None
    pattern: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of a rank, made safe to show."""

    time_s: float
    host: str
    rank: int
    stream: Stream
    text: str


def read_log(
    folder: RunFolder, wanted: Wanted, *, goes_on: Callable[[], bool] = lambda: False
) -> Iterator[LogLine]:
    """The wanted lines; waits for more while `goes_on`."""
    reader = _Reader(folder, wanted)
    for row in _rows(folder, goes_on):
        if row.get("what") == "output":
            yield from reader.read(row)
    for row in _untold(folder, reader.ends):
        yield from reader.read(row)
    yield from reader.rest()


class _Reader:
    """Cuts the bytes of every rank and stream into lines."""

    def __init__(self, folder: RunFolder, wanted: Wanted) -> None:
        self._folder = folder
        self._wanted = wanted
        self._assemblers: dict[tuple[int, Stream], LineAssembler] = {}
        self._last: dict[tuple[int, Stream], dict[str, Any]] = {}
        self.ends: dict[tuple[int, Stream], int] = {}

    def read(self, row: dict[str, Any]) -> Iterator[LogLine]:
        """The lines that a row of output completes."""
        self.ends[row["rank"], row["stream"]] = row["offset"] + row["length"]
        if self._wanted.rank not in (None, row["rank"]):
            return
        if self._wanted.host not in (None, row["host"]):
            return
        key = (row["rank"], row["stream"])
        self._last[key] = row
        assembler = self._assemblers.setdefault(key, LineAssembler())
        for data in self._bytes(row):
            yield from self._lines(row, assembler.feed(data, row["time_s"]))

    def rest(self) -> Iterator[LogLine]:
        """The lines that were never ended."""
        for key, assembler in sorted(self._assemblers.items()):
            yield from self._lines(self._last[key], assembler.flush())

    def _bytes(self, row: dict[str, Any]) -> Iterator[bytes]:
        left = row["length"]
        with self._folder.log(row["rank"], row["stream"]).open("rb") as file:
            file.seek(row["offset"])
            while left > 0 and (data := file.read(min(left, _READ_BYTES))):
                left -= len(data)
                yield data

    def _lines(self, row: dict[str, Any], lines: list[bytes]) -> Iterator[LogLine]:
        pattern = self._wanted.pattern
        for text in visible_lines(lines, colour=False):
            if pattern is None or pattern.search(text):
                yield LogLine(
                    time_s=row["time_s"],
                    host=row["host"],
                    rank=row["rank"],
                    stream=row["stream"],
                    text=text,
                )


def _untold(folder: RunFolder, ends: dict[tuple[int, Stream], int]) -> Iterator[dict[str, Any]]:
    """What a controller that was killed had written to ranks' files and not yet to events."""
    for row in folder.read_json(folder.plan)["ranks"]:
        for stream in STREAMS:
            path = folder.log(row["rank"], stream)
            offset = ends.get((row["rank"], stream), 0)
            size = path.stat().st_size if path.exists() else 0
            if size > offset:
                yield {
                    "time_s": path.stat().st_mtime,
                    "host": row["host"],
                    "rank": row["rank"],
                    "stream": stream,
                    "offset": offset,
                    "length": size - offset,
                }


def _rows(folder: RunFolder, goes_on: Callable[[], bool]) -> Iterator[dict[str, Any]]:
    while not folder.events.exists():
        if not goes_on():
            return
        time.sleep(_POLL_S)
    with folder.events.open("rb") as file:
        rest = b""
        while True:
            more = goes_on()  # asked first: what is written before the end is read after it
            while data := file.read(_READ_BYTES):
                *lines, rest = (rest + data).split(b"\n")
                yield from map(json.loads, lines)
            if not more:
                return
            _wait_for_more(file)


def _wait_for_more(file: BinaryIO) -> None:
    time.sleep(_POLL_S)
    file.seek(file.tell())  # forget that the end was reached
