"""The same work on many hosts at once, a bounded number at a time."""

import queue
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

THREADS = 32

T = TypeVar("T")
R = TypeVar("R")


def fan_out(
    items: Sequence[T],
    work: Callable[[T], R],
    *,
    threads: int = THREADS,
    on_result: Callable[[T, R], None] | None = None,
) -> list[R]:
    """What `work` gave for each item, in the order of the items.

    `work` should return what went wrong; if it raises, that is raised here, once it is met, and
    nothing further is begun. So it is when the caller is interrupted: work under way is left to
    end by itself, and does not keep the process alive. `on_result` is called in this thread, as
    results come.
    """
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, R | None, BaseException | None]] = queue.SimpleQueue()
    for index in range(len(items)):
        todo.put(index)
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            try:
                index = todo.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((index, work(items[index]), None))
            except BaseException as error:  # noqa: BLE001  # the end of a thread: raised by the caller
                done.put((index, None, error))

    for _ in range(min(threads, len(items))):
        threading.Thread(target=run, name="rankrun-fan-out", daemon=True).start()
    try:
        return _collect(items, done, on_result)
    finally:
        stop.set()


def _collect(
    items: Sequence[T],
    done: "queue.SimpleQueue[tuple[int, R | None, BaseException | None]]",
    on_result: Callable[[T, R], None] | None,
) -> list[R]:
    results: dict[int, R] = {}
    while len(results) < len(items):
        index, result, error = done.get()
        if error is not None:
            raise error
        results[index] = result  # type: ignore[assignment]  # None only beside an error, or as an R
        if on_result is not None:
            on_result(items[index], results[index])
    return [results[index] for index in range(len(items))]
