"""What tests of the rank program share: real ranks with gloo on this machine, and their records."""

import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankrun.cluster.diagnosis.findings import Finding
from rankrun.collectives.reading import Unreadable, parse_record
from rankrun.collectives.records import Joined, Left, Measured, Record, Shown, Unsupported
from rankrun.collectives.spec import SPEC_VARIABLE, SuiteSpec
from rankrun.jobs.events import Event, RankRecord
from rankrun.jobs.observers import StopRequest
from rankrun.jobs.plan import Limits

from ..jobs.running import Run, run_local

ON_RANK = (sys.executable, "-m", "rankrun.collectives.on_rank")
NO_NUMPY = "Numpy is not available"


class Records:
    """An observer that keeps the ranks' records."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def on_event(self, event: Event) -> Iterable[Event]:
        if isinstance(event, RankRecord):
            record = parse_record(event.line)
            assert not isinstance(record, Unreadable), record
            self.records.append(record)
        return ()

    def on_tick(self, now_s: float) -> StopRequest | None:
        return None

    def findings(self) -> Sequence[Finding]:
        return ()


@dataclass
class SuiteRun:
    """What the ranks of a suite reported, and the run itself."""

    run: Run
    records: list[Record]

    @property
    def joined(self) -> list[Joined]:
        return [record for record in self.records if isinstance(record, Joined)]

    @property
    def measured(self) -> list[Measured]:
        return [record for record in self.records if isinstance(record, Measured)]

    @property
    def unsupported(self) -> list[Unsupported]:
        return [record for record in self.records if isinstance(record, Unsupported)]

    @property
    def wrong(self) -> list[Measured]:
        return [record for record in self.measured if record.mismatch]

    @property
    def left(self) -> set[int]:
        return {record.rank for record in self.records if isinstance(record, Left)}

    def lines(self, rank: int) -> list[str]:
        return [r.line for r in self.records if isinstance(r, Shown) and r.rank == rank]

    def last_words(self, rank: int) -> str:
        return self.run.err(rank).decode().strip().splitlines()[-1]


def with_torch(changes: str) -> tuple[str, ...]:
    """The rank program after some lines of Python that change `dist`, torch.distributed."""
    program = f"""
import os, sys, warnings
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
import torch
import torch.distributed as dist
rank = int(os.environ["RANK"])
{textwrap.dedent(changes)}
from rankrun.collectives.on_rank.__main__ import main
sys.exit(main())
"""
    return (sys.executable, "-c", program)


def run_suite(
    folder: Path,
    *,
    ranks: int,
    deadline_s: float = 150,
    program: Sequence[str] = ON_RANK,
    **spec: Any,
) -> SuiteRun:
    """Start the rank program with this spec on so many ranks, and wait for their end."""
    defaults: dict[str, Any] = {
        "operations": (),
        "sizes_bytes": (8, 4096),
        "iterations": 2,
        "warmup": 1,
        "deadline_s": 20.0,
    }
    keeper = Records()
    run = run_local(
        folder / "run",
        program,
        ranks=ranks,
        settings={SPEC_VARIABLE: SuiteSpec(**(defaults | spec)).to_json()},
        limits=Limits(deadline_s=deadline_s),
        observers=[keeper],
    )
    return SuiteRun(run=run, records=keeper.records)
