"""The suite's observer: the ranks' records, kept, put together, and judged."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..cluster.diagnosis.findings import Finding
from ..cluster.errors import ExitCode
from ..jobs.events import Event, RankExited, RankOutput, RankRecord
from ..jobs.observers import StopRequest
from . import suite_findings
from .assembly import Assembly, ShownLines
from .measurement import Measurement
from .reading import Unreadable, parse_record
from .records import Joined, Left, Record, Shown


class RecordFile:
    """measurements.jsonl: whole lines or none, also when the disk fills up."""

    def __init__(self, path: Path) -> None:
        """Open for appending.

        Raises:
            OSError: as the system has it.
        """
        self._file = path.open("ab", buffering=0)
        self._size = self._file.seek(0, os.SEEK_END)

    def append(self, line: bytes) -> None:
        """Write one line.

        Raises:
            OSError: if it cannot be written whole; nothing of it is left in the file then.
        """
        data = line if line.endswith(b"\n") else line + b"\n"
        written = 0
        try:
            while written < len(data):
                written += self._file.write(data[written:])
        except OSError:
            self._file.truncate(self._size)
            raise
        self._size += written

    def close(self) -> None:
        """Write no more."""
        self._file.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """Who is told: when all ranks joined, of every finished step at once, and at the end."""

    on_joined: Callable[[Joined], None] = lambda _: None
    on_measurement: Callable[[Measurement], None] = lambda _: None
    on_end: Callable[[], None] = lambda: None


class SuiteCollector:
    """Reads records, appends them to measurements.jsonl and finishes steps.

    When the file cannot be written any more the run is ended: results that nobody can read
    later are not worth the ranks' time.
    """

    def __init__(
        self,
        assembly: Assembly,
        *,
        path: Path,
        ranks: Sequence[int],
        listeners: Listeners | None = None,
    ) -> None:
        """Open the file. `ranks` are all ranks of the run."""
        self._assembly = assembly
        self._path = path
        self._file = RecordFile(path)
        self._failure: OSError | None = None
        self._ranks = frozenset(ranks)
        self._listeners = listeners or Listeners()
        self._shown = ShownLines(self._ranks)
        self._malformed: dict[int, tuple[bytes, str]] = {}
        self._num_malformed: Counter[int] = Counter()

    def end(self) -> None:
        """Nothing more will come: tell of the steps behind those that were never finished."""
        for measured in self._assembly.release_all():
            self._listeners.on_measurement(measured)
        self._listeners.on_end()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def assembly(self) -> Assembly:
        """What was put together so far."""
        return self._assembly

    def on_event(self, event: Event) -> Iterable[Event]:
        """Take in records; lines of --show come back as the ranks' output, in order of ranks."""
        match event:
            case RankRecord():
                return self._on_record(event)
            case RankExited():
                return _as_output(self._shown.ended(event.rank), event)
        return ()

    def on_tick(self, now_s: float) -> StopRequest | None:  # noqa: ARG002  # nothing hangs on time
        """End the run when the file cannot be written."""
        if self._failure is None:
            return None
        return StopRequest(
            reason=f"cannot write {self._path}: {self._failure.strerror or self._failure}",
            exit_code=ExitCode.COULD_NOT_RUN,
        )

    def findings(self) -> Sequence[Finding]:
        """Wrong results, refusals, and records that are none or of another step."""
        measurements = self._assembly.measurements
        backend = next((joined.backend for joined in self._assembly.joined.values()), "the backend")
        malformed = [
            suite_findings.malformed_record(rank, line, reason, self._num_malformed[rank])
            for rank, (line, reason) in sorted(self._malformed.items())
        ]
        steps = {step.number: step for step in self._assembly.steps}
        strays = [
            suite_findings.another_step(record, steps.get(record.step))
            for _, record in sorted(self._assembly.strays.items())
        ]
        failure = [suite_findings.not_written(self._path, self._failure)] if self._failure else []
        return [
            *failure,
            *suite_findings.wrong_results(measurements),
            *malformed,
            *strays,
            *suite_findings.unsupported_notes(measurements, backend),
        ]

    def _on_record(self, event: RankRecord) -> Iterable[Event]:
        if not event.line.strip():
            return ()
        record = parse_record(event.line)
        if isinstance(record, Unreadable):
            self._num_malformed[event.rank] += 1
            self._malformed.setdefault(event.rank, (record.line, record.reason))
            return ()
        self._keep(event.line)
        self._assemble(record)
        return _as_output(self._order(record), event)

    def _keep(self, line: bytes) -> None:
        if self._failure is None:
            try:
                self._file.append(line)
            except OSError as error:
                self._failure = error

    def _assemble(self, record: Record) -> None:
        finished = self._assembly.add(record)
        if isinstance(record, Joined) and self._ranks <= self._assembly.joined.keys():
            self._listeners.on_joined(self._assembly.joined[min(self._ranks)])
        for measured in finished:
            self._listeners.on_measurement(measured)

    def _order(self, record: Record) -> list[Shown]:
        match record:
            case Shown():
                return self._shown.add(record)
            case Left():
                return self._shown.ended(record.rank)
            case Joined():
                return []
        return self._shown.reached(record.rank, record.step)


def _as_output(lines: Iterable[Shown], event: RankRecord | RankExited) -> list[Event]:
    return [
        RankOutput(
            time_s=event.time_s,
            host=event.host,
            rank=shown.rank,
            stream="stdout",
            data=shown.line.encode() + b"\n",
        )
        for shown in lines
    ]
