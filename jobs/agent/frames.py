"""Frames: how agent and controller talk over a pair of byte streams.

    u32 length of payload, big endian | u8 kind | payload

A message is JSON; one that does not fit a frame is cut into PART frames that end with a
MESSAGE frame. A chunk is what a rank wrote: time, rank and stream in binary, then raw bytes.
Both sides refuse a frame above MAX_PAYLOAD_BYTES, so that noise on the stream (a login
banner, a stray print) is an error at once and never an attempt to read gigabytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple, Union

MAX_PAYLOAD_BYTES = (1 << 20) - 64
MAX_MESSAGE_BYTES = 64 << 20

_HEADER = struct.Struct(">IB")
_CHUNK = struct.Struct(">dIB")

_PART = 0
_MESSAGE = 1
_CHUNK_KIND = 2

STDOUT = 1
STDERR = 2
RECORD = 3


class ProtocolError(Exception):
    """The other side does not speak this protocol."""


class Chunk(NamedTuple):
    """Bytes a rank wrote to STDOUT, STDERR or RECORD; `time_s` is the host's clock."""

    time_s: float
    rank: int
    stream: int
    data: bytes


# A message's JSON text, or a chunk.
Frame = Union[bytes, Chunk]  # noqa: UP007  # Python 3.9


def encode_text(text: bytes) -> bytes:
    """The frames of one message."""
    cuts = range(0, max(len(text), 1), MAX_PAYLOAD_BYTES)
    pieces = [text[at : at + MAX_PAYLOAD_BYTES] for at in cuts]
    last = len(pieces) - 1
    return b"".join(
        _HEADER.pack(len(piece), _MESSAGE if index == last else _PART) + piece
        for index, piece in enumerate(pieces)
    )


def encode_chunk(chunk: Chunk) -> bytes:
    """The frame of a chunk, whose data must leave room for its header."""
    length = _CHUNK.size + len(chunk.data)
    assert length <= MAX_PAYLOAD_BYTES
    header = _HEADER.pack(length, _CHUNK_KIND)
    return header + _CHUNK.pack(chunk.time_s, chunk.rank, chunk.stream) + chunk.data


class FrameDecoder:
    """Turns a byte stream, cut anywhere, back into messages and chunks."""

    def __init__(self) -> None:
        """Start before the first byte of a stream."""
        self._buffer = bytearray()
        self._parts = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that `data` completes.

        Raises:
            ProtocolError: on a frame that cannot be one of ours.
        """
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            length, kind = _HEADER.unpack_from(self._buffer)
            if length > MAX_PAYLOAD_BYTES or kind > _CHUNK_KIND:
                start = bytes(self._buffer[:80])
                raise ProtocolError(f"not a frame of the rankrun agent: {start!r}")
            end = _HEADER.size + length
            if len(self._buffer) < end:
                return
            payload = bytes(memoryview(self._buffer)[_HEADER.size : end])
            del self._buffer[:end]
            frame = self._frame(kind, payload)
            if frame is not None:
                yield frame

    def _frame(self, kind: int, payload: bytes) -> Frame | None:
        if kind == _CHUNK_KIND:
            if len(payload) < _CHUNK.size:
                raise ProtocolError("a chunk frame without its header")
            time_s, rank, stream = _CHUNK.unpack_from(payload)
            return Chunk(time_s, rank, stream, payload[_CHUNK.size :])
        self._parts += payload
        if len(self._parts) > MAX_MESSAGE_BYTES:
            raise ProtocolError(f"a message above {MAX_MESSAGE_BYTES} bytes")
        if kind == _PART:
            return None
        text = bytes(self._parts)
        self._parts.clear()
        return text
