"""Read ahead: a thread prepares the next chunks while one is being worked on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")


class _End:
    """The last thing in the queue: nothing more, or the error that ended the reading."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def prefetched(items: Iterator[T], depth: int) -> Iterator[T]:
    """Yield the same items in the same order, up to ``depth`` of them prepared in a thread.

    An error in the thread is raised where the item would have come. When the consumer stops early
    the thread ends, and the iterator is closed.
    """
    ready: queue.Queue[T | _End] = queue.Queue(maxsize=depth)
    stopped = threading.Event()

    def hand_over(item: T | _End) -> bool:
        while not stopped.is_set():
            try:
                ready.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def read() -> None:
        error = None
        try:
            for item in items:
                if not hand_over(item):
                    break
        except BaseException as caught:
            error = caught
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()
        hand_over(_End(error))

    thread = threading.Thread(target=read, name="oakgp-prefetch", daemon=True)
    thread.start()
    try:
        while True:
            item = ready.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        stopped.set()
        while not ready.empty():  # a thread that waits for room ends sooner
            ready.get_nowait()
        thread.join()
