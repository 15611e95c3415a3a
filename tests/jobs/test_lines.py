import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankrun.jobs.lines import (
    MAX_LINE_BYTES,
    REWRITE_EVERY_S,
    LineAssembler,
    visible,
    visible_lines,
)

texts = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\xc3\xa9", b"\xff"])).map(b"".join)
cut_places = st.lists(st.integers(min_value=0), max_size=12)


def assembled(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(c % (len(data) + 1) for c in cuts)})
    assembler = LineAssembler()
    lines: list[bytes] = []
    for start, end in pairwise(places):
        lines += assembler.feed(data[start:end], 0.0)
    return lines + assembler.flush()


@given(texts, cut_places)
def test_lines_do_not_depend_on_how_the_stream_is_cut(data: bytes, cuts: list[int]) -> None:
    assert assembled(data, cuts) == assembled(data, [])


@given(st.binary().filter(lambda data: b"\r" not in data), cut_places)
def test_nothing_is_lost(data: bytes, cuts: list[int]) -> None:
    expected = data.split(b"\n")
    assert assembled(data, cuts) == (expected if expected[-1] else expected[:-1])


@given(st.integers(min_value=1, max_value=5), cut_places)
def test_a_long_line_comes_in_whole_characters(times: int, cuts: list[int]) -> None:
    line = "x€".encode() * (times * MAX_LINE_BYTES // 4) + b"end"
    pieces = assembled(line + b"\nnext\n", cuts)
    assert pieces.pop() == b"next"
    assert b"".join(pieces) == line
    assert max(map(len, pieces)) <= MAX_LINE_BYTES
    assert "\\x" not in "".join(visible(piece, colour=False) for piece in pieces)


def test_what_is_held_is_bounded() -> None:
    assembler = LineAssembler()
    for _ in range(100):
        assembler.feed(b"x" * 100_000, 0.0)
        assert len(assembler._rest) <= MAX_LINE_BYTES


def test_a_progress_bar_is_shown_now_and_then_and_at_its_end() -> None:
    assembler = LineAssembler()
    shown: list[bytes] = []
    for step in range(100):
        shown += assembler.feed(b"\r%d%%" % step, step * REWRITE_EVERY_S / 10)
    shown += assembler.feed(b"\r100%\n", 10.0)
    assert 9 <= len(shown) <= 12
    assert shown[-1] == b"100%"


def test_windows_line_ends() -> None:
    assert assembled(b"a\r\n\r\nb\r\n", []) == [b"a", b"b"]


@given(st.binary())
def test_nothing_that_moves_the_cursor_is_shown(line: bytes) -> None:
    shown = visible(line, colour=False)
    assert not re.search(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u202a-\u202e]", shown)


@pytest.mark.parametrize(
    ("line", "plain", "coloured"),
    [
        (b"\x1b[1;31mred\x1b[0m", "red", "\x1b[1;31mred\x1b[0m\x1b[0m"),
        (b"\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07", None),
        (b"tab\tstays", "tab\tstays", None),
        (b"\xff\xfe", "\\xff\\xfe", None),
        ("a\u202eb".encode(), "a\\u202eb", None),
    ],
)
def test_what_is_shown(line: bytes, plain: str, coloured: str | None) -> None:
    assert visible(line, colour=False) == plain
    assert visible(line, colour=True) == (coloured or plain)


@given(st.lists(st.binary().map(lambda line: line.replace(b"\n", b""))), st.booleans())
def test_many_at_once_are_shown_like_each(lines: list[bytes], colour: bool) -> None:
    assert visible_lines(lines, colour=colour) == [visible(line, colour=colour) for line in lines]
