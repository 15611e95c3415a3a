"""An agent that a test talks to, as a controller would."""

import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from rankrun.jobs.agent.frames import Chunk, FrameDecoder
from rankrun.jobs.agent.messages import (
    PROTOCOL,
    Finished,
    Go,
    Hello,
    Message,
    Port,
    Reserve,
    Start,
    decode,
    encode,
)

from .running import PATIENCE_S, SOURCE, survivors

Heard = TypeVar("Heard", bound=Message | Chunk)


class AgentSession:
    """Ends the agent at the end of the context."""

    def __init__(self, run_id: str, *, interpreter: str = sys.executable) -> None:
        self.run_id = run_id
        self.heard: list[Message | Chunk] = []
        self._decoder = FrameDecoder()
        self.process = subprocess.Popen(
            [interpreter, "-W", "error", "-S", "-m", "rankrun.jobs.agent"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd="/",
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE)},
            start_new_session=True,
        )

    def __enter__(self) -> "AgentSession":  # noqa: PYI034  # Self is not in Python 3.10
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        assert self.process.wait(PATIENCE_S) is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdout.close()
        said = self.process.stderr.read()
        self.process.stderr.close()
        assert said == b""
        assert survivors(self.run_id) == []

    def say(self, *commands: Message) -> None:
        self.say_raw(b"".join(map(encode, commands)))

    def say_raw(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def hang_up(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def prepare(
        self,
        argv: Sequence[str],
        *,
        ranks: int = 1,
        lease_s: float | None = None,
        alone_s: float | None = None,
    ) -> None:
        environment = {"PATH": os.environ["PATH"], "TORCHELASTIC_RUN_ID": self.run_id}
        numbers = [(rank, {"RANK": str(rank)}) for rank in range(ranks)]
        self.say(
            Hello(PROTOCOL),
            Reserve(None, ""),
            Start(
                run_id=self.run_id,
                argv=list(argv),
                workdir="/",
                environment=environment,
                own_environment=False,
                with_rankrun=False,
                ranks=numbers,
                grace_s=0.5,
                lease_s=lease_s,
                alone_s=alone_s,
            ),
        )

    def launch(
        self,
        argv: Sequence[str],
        *,
        ranks: int = 1,
        lease_s: float | None = None,
        alone_s: float | None = None,
    ) -> None:
        self.prepare(argv, ranks=ranks, lease_s=lease_s, alone_s=alone_s)
        port = self.hear(Port).port
        self.say(Go({"MASTER_PORT": str(port)}))

    def hear(self, kind: type[Heard], wanted: Callable[[Heard], bool] = lambda _: True) -> Heard:
        """The first such thing that the agent says, or has said."""
        until = time.monotonic() + PATIENCE_S
        while True:
            for thing in self.heard:
                if isinstance(thing, kind) and wanted(thing):
                    return thing
            assert time.monotonic() < until, f"no {kind.__name__} in {self.heard[-20:]}"
            assert self.listen(), f"it ended without {kind.__name__}: {self.heard[-20:]}"

    def hear_out(self) -> list[Message | Chunk]:
        """Everything until its end; Finished comes last."""
        while self.listen():
            pass
        assert isinstance(self.heard[-1], Finished)
        assert self.process.wait(PATIENCE_S) == 0
        return self.heard

    def listen(self) -> bool:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], 1.0)
        if not ready:
            return True
        data = self.process.stdout.read(1 << 20)
        for frame in self._decoder.feed(data or b""):
            self.heard.append(frame if isinstance(frame, Chunk) else decode(frame))
        return bool(data)


def find_python_39() -> str | None:
    """An interpreter of the oldest version that the agent supports."""
    installed = Path.home().glob(".pyenv/versions/3.9.*/bin/python3")
    return next(map(str, installed), shutil.which("python3.9"))
