"""How long something may still take."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Deadline:
    """A moment that everything below has to keep."""

    def __init__(self, seconds: float) -> None:
        """It is so many seconds from now."""
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        """Seconds until then, never negative."""
        return max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether it is over."""
        return self.left_s <= 0.0

    def within(self, seconds: float) -> float:
        """This many seconds, or what is left if that is less; never zero, which means no wait."""
        return max(0.01, min(seconds, self.left_s))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What happens inside does not count: somebody is typing."""
        before = time.monotonic()
        try:
            yield
        finally:
            self._end += time.monotonic() - before
