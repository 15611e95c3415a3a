"""What tests of real runs share: a plan for this machine, the run, and what it left behind."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankrun.cluster.diagnosis.findings import Finding
from rankrun.cluster.hosts import Host
from rankrun.jobs.events import Event, RankOutput
from rankrun.jobs.observers import Observer, StopRequest
from rankrun.jobs.outcomes import RunResult
from rankrun.jobs.plan import LaunchPlan, Limits, PlanRequest, ResolvedTarget, build_plan
from rankrun.jobs.run_folder import RunFolder, new_run_id
from rankrun.jobs.supervise import run_job

PATIENCE_S = 30.0
LIMITS = Limits(deadline_s=120)


def python(program: str) -> tuple[str, ...]:
    """The command of a Python program; -S as none of them needs packages."""
    return (sys.executable, "-S", "-c", program)


def local_plan(
    run_folder: Path,
    argv: Sequence[str],
    *,
    ranks: int = 2,
    environment: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
    limits: Limits = LIMITS,
) -> LaunchPlan:
    host = Host(name="here", address="127.0.0.1", slots=ranks, interface="lo")
    return build_plan(
        PlanRequest(
            run_id=new_run_id("test"),
            argv=tuple(argv),
            target=ResolvedTarget(text=f"local:{ranks}", launcher="local", hosts=(host,)),
            run_folder=run_folder,
            workdir=Path.cwd(),
            environment=os.environ if environment is None else environment,
            settings=settings or {},
            limits=limits,
        )
    )


@dataclass
class Run:
    """A run that ended."""

    plan: LaunchPlan
    folder: RunFolder
    result: RunResult
    lines: list[str]

    @property
    def causes(self) -> list[str]:
        return [finding.cause for finding in self.result.findings]

    def finding(self, cause: str) -> Finding:
        return next(finding for finding in self.result.findings if finding.cause == cause)

    def out(self, rank: int = 0) -> bytes:
        return self.folder.log(rank, "stdout").read_bytes()

    def err(self, rank: int = 0) -> bytes:
        return self.folder.log(rank, "stderr").read_bytes()

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.folder.events.read_text().splitlines()]


def run_local(
    run_folder: Path, argv: Sequence[str], *, observers: Sequence[Observer] = (), **plan: Any
) -> Run:
    """Run it here and now, and see that nothing of it is left."""
    planned = local_plan(run_folder, argv, **plan)
    folder = RunFolder.create(run_folder)
    lines: list[str] = []
    result = run_job(
        planned,
        folder=folder,
        observers=observers,
        echo=lambda line, stream: lines.append(line),
    )
    assert survivors(planned.run_id) == []
    return Run(plan=planned, folder=folder, result=result, lines=lines)


@dataclass
class WhenSaid:
    """An observer that acts once, when `count` ranks have written `text`."""

    text: bytes
    action: Callable[[], object]
    count: int = 1
    said: dict[int, bytes] = field(default_factory=dict)
    done: bool = False

    def on_event(self, event: Event) -> Iterable[Event]:
        if isinstance(event, RankOutput):
            self.said[event.rank] = self.said.get(event.rank, b"") + event.data
            ready = sum(self.text in said for said in self.said.values()) >= self.count
            if ready and not self.done:
                self.done = True
                self.action()
        return ()

    def on_tick(self, now_s: float) -> StopRequest | None:
        return None

    def findings(self) -> Sequence[Finding]:
        return ()


def survivors(run_id: str) -> list[int]:
    """Processes whose environment says that they belong to the run."""
    marker = f"TORCHELASTIC_RUN_ID={run_id}".encode()
    numbers = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [number for number in numbers if marker in _environment(number)]


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it ended, or is not ours
        return b""


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether it becomes true in good time."""
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


SOURCE = Path(__file__).parents[2] / "src"


@dataclass
class Controller:
    """`controller.py` at work. Its run id is the folder's name."""

    process: "subprocess.Popen[bytes]"
    folder: RunFolder

    @property
    def run_id(self) -> str:
        return self.folder.path.name

    def wait_for_output(self, text: bytes, ranks: int) -> None:
        """Until so many ranks have written this."""

        def said() -> bool:
            logs = list(self.folder.ranks.glob("*.stdout.log"))
            return sum(text in log.read_bytes() for log in logs) >= ranks

        assert eventually(said)

    def end(self) -> tuple[int, str, str]:
        """Its code, output and error output, once it ended by itself."""
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, (out or b"").decode(), (err or b"").decode()


def start_controller(
    tmp_path: Path,
    argv: Sequence[str],
    *,
    ranks: int = 2,
    grace_s: float = 1.5,
    deadline_s: float = 120,
    **popen: Any,
) -> Controller:
    folder = tmp_path / new_run_id("test")
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **popen}
    process = subprocess.Popen(
        [
            sys.executable,
            str(Path(__file__).with_name("controller.py")),
            *(str(folder), str(ranks), str(grace_s), str(deadline_s)),
            *argv,
        ],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        start_new_session=True,
        **options,
    )
    return Controller(process=process, folder=RunFolder(folder))
