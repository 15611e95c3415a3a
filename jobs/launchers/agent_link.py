"""The controller's end of one agent: what to tell it, and its bytes turned into events.

No descriptors here: a launcher carries the bytes (a pipe, an SSH channel, files).
"""

import os
from collections.abc import Callable, Iterator, Mapping

from ..agent import messages
from ..agent.frames import RECORD, STDERR, STDOUT, Chunk, FrameDecoder, ProtocolError
from ..agent.messages import portable
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

MAX_RECORD_BYTES = 16 << 20

_STREAMS: dict[int, Stream] = {STDOUT: "stdout", STDERR: "stderr"}


def opening(plan: LaunchPlan, *, group_rank: int) -> bytes:
    """What an agent is told first: who calls and what to start, but not yet to start it."""
    hello = messages.Hello(messages.PROTOCOL, plan.run_id, plan.limits.lease_s)
    start = messages.Start(
        argv=[_portable(word) for word in plan.argv],
        workdir=_portable(str(plan.workdir)),
        environment=_portable_environment(plan.inherited),
        ranks=[
            (planned.rank.global_rank, _portable_environment(planned.environment))
            for planned in plan.ranks
            if planned.rank.group_rank == group_rank
        ],
        reserve_port=group_rank == 0,
        grace_s=plan.limits.grace_s,
    )
    return messages.encode(hello) + messages.encode(start)


def go(port: int) -> bytes:
    """The word to start the ranks; MASTER_PORT gives way to one that the user set."""
    return messages.encode(messages.Go({MASTER_PORT: str(port)}))


def _portable(text: str) -> str:
    return portable(os.fsencode(text))


def _portable_environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {_portable(name): _portable(value) for name, value in environment.items()}


class AgentLink:
    """Decodes one agent's stream. `port` and `finished` are what the launcher acts upon."""

    def __init__(self, host: str) -> None:
        """`host` is the name that events carry."""
        self._host = host
        self._decoder = FrameDecoder()
        self._records: dict[int, bytearray] = {}
        self.port: int | None = None
        self.finished = False

    def feed(self, data: bytes) -> Iterator[Event]:
        """The events that `data` completes.

        Raises:
            ProtocolError: if the other side is no agent of this version.
        """
        for frame in self._decoder.feed(data):
            if isinstance(frame, Chunk):
                yield from self._chunk(frame)
            else:
                yield self._translate(messages.decode(frame))

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
        if isinstance(message, messages.Port):
            self.port = message.port
            return self._event(message.time_s, MASTER_PORT_RESERVED, str(message.port))
        if isinstance(message, messages.Welcome):
            what = f"pid {message.pid}, Python {message.python}"
            return self._event(message.time_s, "agent", what)
        if isinstance(message, messages.Finished):
            self.finished = True
            return self._event(message.time_s, "finished", "nothing of the run is left here")
        raise ProtocolError(f"an agent does not say {message!r}")


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
