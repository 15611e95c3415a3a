"""The controller's end of one agent: what to tell it, and its bytes turned into events.

No descriptors here: a launcher carries the bytes (a pipe, an SSH channel, files).
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping

from ..agent import messages
from ..agent.frames import RECORD, STDERR, STDOUT, Chunk, FrameDecoder, ProtocolError
from ..agent.messages import portable
from ..agent.reach import Attempt
from ..environment import MASTER_PORT
from ..events import (
    MASTER_PORT_RESERVED,
    Event,
    HostEvent,
    HostProgress,
    Progress,
    RankExited,
    RankNotStarted,
    RankOutput,
    RankRecord,
    RankStacks,
    RankStarted,
    Stream,
)
from ..plan import LaunchPlan
from .host_clock import HostClock

MAX_RECORD_BYTES = 16 << 20

_STREAMS: dict[int, Stream] = {STDOUT: "stdout", STDERR: "stderr"}


def start(plan: LaunchPlan, *, group_rank: int) -> bytes:
    """What the agent of a host has to start, but not yet to start it."""
    own = [planned for planned in plan.ranks if planned.rank.group_rank == group_rank]
    host = own[0].rank.host
    argv = list(plan.argv)
    if plan.with_rankrun and host.python is not None:
        argv[0] = host.python
    return messages.encode(
        messages.Start(
            run_id=plan.run_id,
            argv=[_portable(word) for word in argv],
            workdir=_portable(host.workdir or str(plan.workdir)),
            environment=_portable_environment(plan.inherited),
            own_environment=plan.remote,
            with_rankrun=plan.with_rankrun,
            ranks=[
                (planned.rank.global_rank, _portable_environment(planned.environment))
                for planned in own
            ],
            grace_s=plan.limits.grace_s,
            lease_s=plan.limits.lease_s,
            alone_s=plan.limits.alone_s,
        )
    )


def go(port: int) -> bytes:
    """The word to start the ranks; MASTER_PORT gives way to one that the user set."""
    return messages.encode(messages.Go({MASTER_PORT: str(port)}))


def _portable(text: str) -> str:
    return portable(os.fsencode(text))


def _portable_environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {_portable(name): _portable(value) for name, value in environment.items()}


class AgentLink:
    """Decodes one agent's stream. Its attributes are what a launcher acts upon."""

    def __init__(self, host: str) -> None:
        """`host` is the name that events carry."""
        self._host = host
        self._decoder = FrameDecoder()
        self._records: dict[int, bytearray] = {}
        self.clock = HostClock()
        self.welcome: messages.Welcome | None = None
        self.port: int | None = None
        self.port_refused: str | None = None
        self.attempts: list[Attempt] | None = None
        self.finished = False

    def feed(self, data: bytes) -> Iterator[Event]:
        """The events that `data` completes, in the controller's time.

        Raises:
            ProtocolError: if the other side is no agent of this version.
        """
        for frame in self._decoder.feed(data):
            if isinstance(frame, Chunk):
                yield from self._chunk(frame._replace(time_s=self.clock.here(frame.time_s)))
                continue
            message = messages.decode(frame)
            if isinstance(message, messages.Pong):
                self.clock.add(sent_s=message.sent_s, host_s=message.time_s, received_s=time.time())
                continue
            yield self._translate(self._timed_here(message))

    def _timed_here(self, message: messages.Message) -> messages.Message:
        if isinstance(message, messages.COMMANDS):
            return message  # no agent says these
        return message._replace(time_s=self.clock.here(message.time_s))

    def _chunk(self, chunk: Chunk) -> Iterator[Event]:
        if chunk.stream != RECORD:
            yield RankOutput(
                time_s=chunk.time_s,
                host=self._host,
                rank=chunk.rank,
                stream=_STREAMS[chunk.stream],
                data=chunk.data,
            )
            return
        pending = self._records.setdefault(chunk.rank, bytearray())
        *lines, rest = (pending + chunk.data).split(b"\n")
        for line in lines:
            yield RankRecord(
                time_s=chunk.time_s, host=self._host, rank=chunk.rank, line=bytes(line)
            )
        if len(rest) > MAX_RECORD_BYTES:
            yield self._event(chunk.time_s, "record-dropped", f"rank {chunk.rank}: {len(rest)} B")
            rest = bytearray()
        self._records[chunk.rank] = rest

    def _event(self, time_s: float, what: str, detail: str) -> HostEvent:
        return HostEvent(time_s=time_s, host=self._host, what=what, detail=detail)

    def _translate(self, message: messages.Message) -> Event:
        if type(message) in _ALIKE:
            return _ALIKE[type(message)](host=self._host, **message._asdict())
        if isinstance(message, messages.Counters):
            return HostProgress(time_s=message.time_s, host=self._host, ranks=_progress(message))
        return self._notice(message)

    def _notice(self, message: messages.Message) -> Event:
        """Keep what a launcher acts upon; what happened, in words."""
        if isinstance(message, messages.Welcome):
            self.welcome = message
            what, detail = "agent", f"pid {message.pid}, Python {message.python}"
        elif isinstance(message, messages.Port):
            self.port = message.port
            what, detail = MASTER_PORT_RESERVED, str(message.port)
        elif isinstance(message, messages.PortRefused):
            self.port_refused = message.reason
            what, detail = "port-refused", message.reason
        elif isinstance(message, messages.Dialled):
            self.attempts = [Attempt(*attempt) for attempt in message.attempts]
            failures = [f"{each.address}: {each.failure}" for each in self.attempts if each.failure]
            what, detail = "dialled", "; ".join(failures) or "all addresses answered"
        elif isinstance(message, messages.Finished):
            self.finished = True
            what, detail = "finished", "nothing of the run is left here"
        else:
            raise ProtocolError(f"an agent does not say {message!r}")
        return self._event(message.time_s, what, detail)


# Messages whose fields are those of their event, the host excepted.
_ALIKE: dict[type[messages.Message], Callable[..., Event]] = {
    messages.Started: RankStarted,
    messages.NotStarted: RankNotStarted,
    messages.Exited: RankExited,
    messages.StacksTaken: RankStacks,
    messages.Note: HostEvent,
}


def _progress(message: messages.Counters) -> dict[int, Progress]:
    return {
        rank: Progress(step=step, started=started, finished=finished, unchanged_s=unchanged_s)
        for rank, step, started, finished, unchanged_s in message.ranks
    }
