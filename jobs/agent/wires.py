"""Everything the agent waits for: its controller, its ranks' pipes, and signals."""

from __future__ import annotations

import array
import fcntl
import os
import select
import selectors
import signal
import socket
import termios
import time
from collections.abc import Callable, Iterable

from .frames import Chunk, FrameDecoder, ProtocolError, encode_chunk
from .messages import Message, decode, encode
from .outbox import HIGH_BYTES, LOW_BYTES, Outbox
from .rank import READ_BYTES, RankProcess

SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Wires:
    """The agent's descriptors. Bytes of ranks pass through here to the controller."""

    def __init__(self, control_fd: int, events_fd: int) -> None:
        """Listen to the controller and to SIGNALS."""
        # poll, as one of the two may be a plain file, which epoll refuses.
        self._selector = selectors.PollSelector()
        self._decoder = FrameDecoder()
        self._outbox = Outbox(events_fd)
        self._events_fd = events_fd
        self._commands: list[Message] = []
        self._signals: set[int] = set()
        self._pipes: dict[int, tuple[RankProcess, int]] = {}
        self._paused = False
        self._listener_fd: int | None = None
        self.lost: str | None = None
        self.heard_at = time.monotonic()
        os.set_blocking(control_fd, False)
        self._listen(control_fd, self._read_control)
        self._listen(_signal_pipe(), self._read_signals)

    def tell(self, message: Message) -> None:
        """Send a message to the controller, in its turn."""
        self._outbox.put(encode(message))
        self._outbox.send()

    def serve(self, listener: socket.socket, callback: Callable[[], None]) -> None:
        """Call back whenever somebody dials this socket."""
        self._listener_fd = listener.fileno()
        self._listen(self._listener_fd, lambda _: callback())

    def stop_serving(self) -> None:
        """No more callers; before the socket is closed. Can be called without `serve`."""
        if self._listener_fd is not None:
            self._selector.unregister(self._listener_fd)
            self._listener_fd = None

    def follow(self, rank: RankProcess) -> None:
        """Relay what a rank writes."""
        for stream, descriptor in rank.pipes.items():
            self._pipes[descriptor] = (rank, stream)
            if not self._paused:
                self._listen(descriptor, self._read_pipe)

    def wait(self, timeout_s: float) -> tuple[list[Message], set[int]]:
        """Relay until something happens: what the controller said, and which signals came."""
        self._balance()
        for key, _ in self._selector.select(timeout_s):
            key.data(key.fd)
        self._balance()
        commands, self._commands = self._commands, []
        signals, self._signals = self._signals, set()
        return commands, signals

    def flush(self) -> None:
        """Give the controller everything that waits, however long it takes, unless it is gone."""
        writable = select.poll()
        writable.register(self._events_fd, select.POLLOUT)
        self._outbox.send()
        while self._outbox:
            writable.poll()
            self._outbox.send()

    def drain(self, rank: RankProcess) -> None:
        """Relay what is in the pipes of a rank that ended, whoever else still holds them."""
        for stream, descriptor in tuple(rank.pipes.items()):
            waiting = array.array("i", [0])
            fcntl.ioctl(descriptor, termios.FIONREAD, waiting)
            left = waiting[0]
            while left > 0 and stream in rank.pipes:
                left -= self._read_pipe(descriptor) or left

    def _listen(self, descriptor: int, callback: Callable[[int], object]) -> None:
        self._selector.register(descriptor, selectors.EVENT_READ, callback)

    def _read_control(self, descriptor: int) -> None:
        try:
            data = os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(descriptor, f"control stream: {error.strerror}")
            return
        if not data:
            self._lose(descriptor, "the controller closed its end or was killed")
            return
        self.heard_at = time.monotonic()
        try:
            for frame in self._decoder.feed(data):
                if isinstance(frame, bytes):
                    self._commands.append(decode(frame))
        except ProtocolError as error:
            self._lose(descriptor, str(error))

    def _lose(self, descriptor: int, reason: str) -> None:
        self.lost = reason
        self._selector.unregister(descriptor)

    def _read_signals(self, descriptor: int) -> None:
        self._signals.update(os.read(descriptor, 4096))

    def _read_pipe(self, descriptor: int) -> int:
        rank, stream = self._pipes[descriptor]
        try:
            data = os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            return 0
        if data:
            self._outbox.put(encode_chunk(Chunk(time.time(), rank.rank, stream, data)))
            return len(data)
        if not self._paused:
            self._selector.unregister(descriptor)
        del self._pipes[descriptor]
        rank.close_pipe(stream)
        return 0

    def _balance(self) -> None:
        self._outbox.send()
        if self._outbox.broken:
            self.lost = self.lost or "nobody reads the events any more"
        self._want_write(wanted=len(self._outbox) > 0)
        if not self._paused and len(self._outbox) > HIGH_BYTES:
            self._paused = True
            self._each_pipe(self._selector.unregister)
        elif self._paused and len(self._outbox) < LOW_BYTES:
            self._paused = False
            self._each_pipe(lambda descriptor: self._listen(descriptor, self._read_pipe))

    def _each_pipe(self, action: Callable[[int], object]) -> None:
        for descriptor in self._pipes:
            action(descriptor)

    def _want_write(self, *, wanted: bool) -> None:
        registered = self._events_fd in self._selector.get_map()
        if wanted and not registered:
            self._selector.register(self._events_fd, selectors.EVENT_WRITE, lambda _: None)
        elif registered and not wanted:
            self._selector.unregister(self._events_fd)


def _signal_pipe(signals: Iterable[signal.Signals] = SIGNALS) -> int:
    """A descriptor that gives the number of every signal that comes, one byte each."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in signals:
        signal.signal(number, lambda *_: None)
    return reader
