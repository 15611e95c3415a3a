"""The end of a stream that may be long."""

_KEPT_BYTES = 16 << 10


class Tail:
    """Keeps the last of what is added."""

    def __init__(self, kept_bytes: int = _KEPT_BYTES) -> None:
        """At most `kept_bytes` are kept."""
        self._kept_bytes = kept_bytes
        self._data = bytearray()

    def add(self, data: bytes) -> None:
        """More of the stream."""
        self._data += data
        del self._data[: -self._kept_bytes]

    @property
    def text(self) -> str:
        """What is kept; bytes that are no UTF-8 as escapes."""
        return bytes(self._data).decode(errors="backslashreplace")
