"""Lines out of the bytes of a stream, made safe to show on a terminal."""

import math
import re

MAX_LINE_BYTES = 64 << 10

# How often a progress bar, which rewrites its line by carriage returns, is shown.
REWRITE_EVERY_S = 1.0

_ENDS = re.compile(rb"([\r\n])")
_RESET = "\x1b[0m"
# Select Graphic Rendition: colours and weights (ECMA-48, 8.3.117).
_SGR = re.compile(r"\x1b\[[0-9;:]*m")
# C0 and C1 controls but the tab, and what reorders or breaks a line of text (Unicode TR9).
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_PLAIN_BYTES = bytes([*b"\t\n", *range(0x20, 0x7F)])


class LineAssembler:
    r"""Cuts a byte stream into lines, the same ones however the stream is cut.

    A line above MAX_LINE_BYTES comes in pieces. Of a line that is rewritten after `\r`, a
    state is given every REWRITE_EVERY_S, and its last one. Holds little more than one line.
    """

    def __init__(self) -> None:
        """Start at the beginning of a line."""
        self._rest = b""
        self._in_pieces = False
        self._rewritten = False
        self._held = b""
        self._shown_s = -math.inf

    def feed(self, data: bytes, now_s: float) -> list[bytes]:
        """The lines that `data` completes, without their ends."""
        data = self._rest + data
        lines: list[bytes] = []
        if b"\r" in data or self._rewritten or self._in_pieces:
            *parts, rest = _ENDS.split(data)
            for text, end in zip(parts[::2], parts[1::2], strict=True):
                lines += self._rewrite(text, now_s) if end == b"\r" else self._end(text)
        else:
            *whole, rest = data.split(b"\n")
            for line in whole:
                lines += [line] if len(line) <= MAX_LINE_BYTES else _pieces(line)
        if len(rest) > MAX_LINE_BYTES:
            *pieces, rest = _pieces(rest)
            lines += pieces
            self._in_pieces = True
        self._rest = rest
        return lines

    def flush(self) -> list[bytes]:
        """The line that was never ended, if there is one."""
        rest, self._rest = self._rest or self._held, b""
        self._begin_line()
        return [rest] if rest else []

    def _begin_line(self) -> None:
        self._in_pieces = False
        self._rewritten = False
        self._held = b""
        self._shown_s = -math.inf

    def _rewrite(self, text: bytes, now_s: float) -> list[bytes]:
        self._rewritten = True
        self._held = text or self._held
        if not self._held or now_s - self._shown_s < REWRITE_EVERY_S:
            return []
        shown, self._held, self._shown_s = self._held, b"", now_s
        return _pieces(shown)

    def _end(self, text: bytes) -> list[bytes]:
        nothing_new = not text and not self._held and (self._rewritten or self._in_pieces)
        shown = [] if nothing_new else _pieces(text or self._held)
        self._begin_line()
        return shown


def _pieces(line: bytes) -> list[bytes]:
    """The line in pieces of at most MAX_LINE_BYTES, cut between characters of UTF-8."""
    pieces = []
    while len(line) > MAX_LINE_BYTES:
        cut = MAX_LINE_BYTES
        while cut > MAX_LINE_BYTES - 3 and line[cut] & 0xC0 == 0x80:
            cut -= 1
        pieces.append(line[:cut])
        line = line[cut:]
    return [*pieces, line]


def visible(line: bytes, *, colour: bool) -> str:
    r"""A line as it may be shown: what would move the cursor or hide text is written out.

    Colours pass if `colour`, and end with the line; else they are left out.

    >>> visible(b"caf\xc3\xa9 \xff\x00\x1b[2J\x1b[31mred", colour=False)
    'café \\xff\\x00\\x1b[2Jred'
    """
    text = line.decode("utf-8", "backslashreplace")
    if not _CONTROL.search(text):
        return text
    if not colour:
        return _CONTROL.sub(_written_out, _SGR.sub("", text))
    shown = []
    at = 0
    for match in _SGR.finditer(text):
        shown += [_CONTROL.sub(_written_out, text[at : match.start()]), match[0]]
        at = match.end()
    shown.append(_CONTROL.sub(_written_out, text[at:]))
    return "".join(shown) + (_RESET if at else "")


def visible_lines(lines: list[bytes], *, colour: bool) -> list[str]:
    """`visible` of each; at once where nothing needs writing out, as millions may come."""
    block = b"\n".join(lines)
    if lines and not block.translate(None, delete=_PLAIN_BYTES):
        return block.decode("ascii").split("\n")
    return [visible(line, colour=colour) for line in lines]


def _written_out(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
