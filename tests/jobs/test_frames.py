import random
import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankrun.jobs.agent import messages
from rankrun.jobs.agent.frames import (
    MAX_PAYLOAD_BYTES,
    STDERR,
    Chunk,
    Frame,
    FrameDecoder,
    ProtocolError,
    encode_chunk,
    encode_text,
)

chunks = st.builds(
    Chunk,
    st.floats(allow_nan=False),
    st.integers(min_value=0, max_value=2**32 - 1),
    st.integers(min_value=0, max_value=255),
    st.binary(max_size=300),
)
frames = st.lists(st.one_of(st.binary(max_size=300), chunks), max_size=8)


def encoded(frame: Frame) -> bytes:
    return encode_text(frame) if isinstance(frame, bytes) else encode_chunk(frame)


def cut(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(stream), *(c % (len(stream) + 1) for c in cuts)})
    return [stream[a:b] for a, b in pairwise(places)]


@given(frames, st.lists(st.integers(min_value=0), max_size=20))
def test_any_cutting_gives_the_same_frames(sent: list[Frame], cuts: list[int]) -> None:
    decoder = FrameDecoder()
    pieces = cut(b"".join(map(encoded, sent)), cuts)
    assert [frame for piece in pieces for frame in decoder.feed(piece)] == sent


def test_a_message_above_one_frame_arrives_whole() -> None:
    text = random.Random(1).randbytes(3 * MAX_PAYLOAD_BYTES + 17)
    assert list(FrameDecoder().feed(encode_text(text))) == [text]


@pytest.mark.parametrize(
    "noise",
    [
        b"Welcome to node7, unauthorised use is forbidden\n",
        struct.pack(">IB", MAX_PAYLOAD_BYTES + 1, 1),
        struct.pack(">IB", 3, 9),
        struct.pack(">IB", 2, 2) + b"ab",
    ],
)
def test_what_is_no_frame_is_refused(noise: bytes) -> None:
    with pytest.raises(ProtocolError):
        list(FrameDecoder().feed(noise))


def test_a_message_without_end_is_refused() -> None:
    part = struct.pack(">IB", MAX_PAYLOAD_BYTES, 0) + bytes(MAX_PAYLOAD_BYTES)
    decoder = FrameDecoder()
    with pytest.raises(ProtocolError, match="above"):
        list(decoder.feed(100 * part))


@given(st.binary(max_size=100))
def test_system_bytes_travel_unchanged(raw: bytes) -> None:
    note = messages.Note(1.0, "what", messages.portable(raw))
    (frame,) = FrameDecoder().feed(messages.encode(note))
    assert isinstance(frame, bytes)
    received = messages.decode(frame)
    assert isinstance(received, messages.Note)
    assert messages.native(received.detail) == raw


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[]", b'["nonsense"]', b'["beat", 1]', b"\xff", b"7"]
)
def test_what_is_no_message_is_refused(text: bytes) -> None:
    with pytest.raises(ProtocolError):
        messages.decode(text)


def test_a_chunk_keeps_its_stream() -> None:
    chunk = Chunk(1.5, 3, STDERR, b"\x00\xff")
    assert list(FrameDecoder().feed(encode_chunk(chunk))) == [chunk]
