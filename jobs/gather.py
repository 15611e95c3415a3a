"""Every rank's output into its own file, every event into one, lines onto the terminal."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..cluster.diagnosis.findings import Evidence, Finding, Severity, Subject, SubjectKind
from ..cluster.errors import ExitCode
from .events import (
    STREAMS,
    Event,
    HostProgress,
    RankExited,
    RankNotStarted,
    RankOutput,
    RankRecord,
    RankStacks,
    RankStarted,
    Stream,
)
from .folder_writer import FolderWriter
from .lines import LineAssembler, visible_lines
from .observers import StopRequest
from .run_folder import RUNS_VARIABLE

RUN_FOLDER_FULL = "run-folder-full"

# Up to here an event carries what was written, so that grep finds it with time and rank;
# above, it only says where it stands in the rank's file.
MAX_TEXT_BYTES = 4 << 10

_FLUSH_BYTES = 64 << 10

# A finished line, and which of the rank's streams it came from.
Echo = Callable[[str, Stream], None]


@dataclass(slots=True, kw_only=True)
class _OutputEvent:
    """What a rank wrote to a stream since the last tick: one event, however many writes."""

    time_s: float
    host: str
    rank: int
    stream: Stream
    offset: int
    length: int = 0
    start: bytearray = field(default_factory=bytearray)

    def add(self, data: bytes) -> None:
        self.length += len(data)
        self.start += data[: MAX_TEXT_BYTES + 1 - len(self.start)]

    def row(self) -> dict[str, Any]:
        row: dict[str, Any] = {
            "time_s": self.time_s,
            "host": self.host,
            "rank": self.rank,
            "what": "output",
            "stream": self.stream,
            "offset": self.offset,
            "length": self.length,
        }
        if self.length <= MAX_TEXT_BYTES:
            row["text"] = self.start.decode("utf-8", "backslashreplace")
        return row


class Gatherer:
    """An observer that keeps everything. Its memory does not grow with what ranks print."""

    def __init__(
        self, writer: FolderWriter, *, echo: Echo | None, colour: bool, many_hosts: bool
    ) -> None:
        """`echo` gets each finished line; `many_hosts`: its prefix names the host too."""
        self.writer = writer
        self._folder = writer.folder
        self._echo = echo
        self._colour = colour
        self._many_hosts = many_hosts
        self._offsets: dict[tuple[int, Stream], int] = {}
        self._outputs: dict[tuple[int, Stream], _OutputEvent] = {}
        self._lines: dict[tuple[int, Stream], LineAssembler] = {}
        self._rows = bytearray()
        self._hosts: dict[int, str] = {}

    def on_event(self, event: Event) -> Iterable[Event]:
        """Write and show it."""
        if isinstance(event, RankOutput):
            self._on_output(event)
        elif not isinstance(event, HostProgress):
            self._flush_outputs()
            self._add_row(_row(event))
            self._on_other(event)
        return ()

    def on_tick(self, now_s: float) -> StopRequest | None:  # noqa: ARG002  # the protocol's
        """Make what came in visible to who follows the files."""
        self._flush_outputs()
        self._flush_rows()
        if self.writer.failure is None:
            return None
        return StopRequest(reason=self._why_full(), exit_code=ExitCode.COULD_NOT_RUN)

    def findings(self) -> Sequence[Finding]:
        """That the run folder is full, if it is."""
        if self.writer.failure is None:
            return ()
        return [
            Finding(
                cause=RUN_FOLDER_FULL,
                severity=Severity.ERROR,
                subject=Subject(kind=SubjectKind.RUN),
                message=f"{self._why_full()}; the ranks were stopped, their last output is lost",
                remedy=f"free space there, or write elsewhere: --runs DIR or ${RUNS_VARIABLE}",
                evidence=(Evidence(text=str(self.writer.failure)),),
            )
        ]

    def close(self) -> None:
        """Show the lines that were never ended and write what is still held."""
        for rank in sorted({rank for rank, _ in self._lines}):
            self._end_lines(rank)
        self._flush_outputs()
        self._flush_rows()

    def _on_output(self, event: RankOutput) -> None:
        key = (event.rank, event.stream)
        offset = self._offsets.get(key, 0)
        if self.writer.append(self._folder.log(event.rank, event.stream), event.data):
            self._offsets[key] = offset + len(event.data)
            if key not in self._outputs:
                self._outputs[key] = _OutputEvent(
                    time_s=event.time_s,
                    host=event.host,
                    rank=event.rank,
                    stream=event.stream,
                    offset=offset,
                )
            self._outputs[key].add(event.data)
        if self._echo is not None:
            self._hosts[event.rank] = event.host
            lines = self._lines.setdefault(key, LineAssembler())
            self._show(event.rank, event.stream, lines.feed(event.data, event.time_s))

    def _on_other(self, event: Event) -> None:
        if isinstance(event, RankStarted):
            for stream in STREAMS:
                self.writer.append(self._folder.log(event.rank, stream), b"")
        elif isinstance(event, RankNotStarted):
            self.writer.append(
                self._folder.log(event.rank, "stderr"), _bytes(f"rankrun: {event.message}\n")
            )
        elif isinstance(event, RankStacks):
            self.writer.append(self._folder.stacks(event.rank), _bytes(event.text))
        elif isinstance(event, RankExited):
            self._end_lines(event.rank)

    def _end_lines(self, rank: int) -> None:
        for stream in STREAMS:
            lines = self._lines.pop((rank, stream), None)
            if lines is not None:
                self._show(rank, stream, lines.flush())

    def _show(self, rank: int, stream: Stream, lines: list[bytes]) -> None:
        if self._echo is None:
            return
        prefix = f"[{self._hosts[rank]}:{rank}] " if self._many_hosts else f"[{rank}] "
        for line in visible_lines(lines, colour=self._colour):
            self._echo(prefix + line, stream)

    def _flush_outputs(self) -> None:
        for output in self._outputs.values():
            self._add_row(output.row())
        self._outputs.clear()

    def _add_row(self, row: dict[str, Any]) -> None:
        self._rows += _bytes(json.dumps(row, ensure_ascii=False) + "\n")
        if len(self._rows) >= _FLUSH_BYTES:
            self._flush_rows()

    def _flush_rows(self) -> None:
        if self._rows:
            self.writer.append(self._folder.events, bytes(self._rows))
            self._rows.clear()

    def _why_full(self) -> str:
        error, path = self.writer.failure, self.writer.failed_path
        reason = error.strerror if isinstance(error, OSError) else error
        return f"run folder {self._folder.path}: cannot write {path}: {reason}"


_NAMES: dict[type[Event], str] = {
    RankStarted: "started",
    RankNotStarted: "not-started",
    RankRecord: "record",
    RankStacks: "stacks",
    RankExited: "exited",
}


def _row(event: Event) -> dict[str, Any]:
    """The event as a line of events.jsonl has it; large texts stand in their own files."""
    row = asdict(event)
    row.setdefault("what", _NAMES.get(type(event)))
    if isinstance(event, RankStacks):
        row["length"] = len(row.pop("text"))
    elif isinstance(event, RankRecord):
        line = row.pop("line")
        row["length"] = len(line)
        if len(line) <= MAX_TEXT_BYTES:
            row["text"] = line.decode("utf-8", "backslashreplace")
    return row


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
