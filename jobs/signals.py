"""Signals to the controller, noted instead of acted upon, while a run is supervised."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NOTED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def noted_signals() -> Iterator[list[signal.Signals]]:
    """What comes in, as it comes in; the handlers of before are restored at the end.

    Only on the main thread; elsewhere the list stays empty. A signal that is ignored stays
    ignored: that is how nohup and a shell's background jobs ask for it.
    """
    received: list[signal.Signals] = []

    def note(number: int, _: FrameType | None) -> None:
        received.append(signal.Signals(number))

    on_main_thread = threading.current_thread() is threading.main_thread()
    noted = [n for n in _NOTED if on_main_thread and signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, note) for number in noted}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
