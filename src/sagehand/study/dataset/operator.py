"""Lines that somebody writes while a source is running, read beside it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable

__all__ = ["Lines"]


class Lines:
    """Lines of a stream, each with the time at which it came."""

    def __init__(self, stream: Iterable[str], name: str = "stdin") -> None:
        """Begin to read.

        Args:
            stream: Gives lines, and may block for as long as nobody writes one.
            name: What errors call it.
        """
        self.name = name
        self.ended = False
        self._queue: queue.Queue[tuple[str, int] | None] = queue.Queue()
        self._number = 0
        threading.Thread(target=self._follow, args=(stream,), daemon=True).start()  # it may hang in a read for ever

    def wait(self, seconds: float) -> tuple[str, str, int] | None:
        """(line, where it stands, when it came [ns since the epoch]); None when none came in time.

        ``ended`` is set once the stream has no more.
        """
        if self.ended:
            time.sleep(seconds)
            return None
        try:
            found = self._queue.get(timeout=seconds)
        except queue.Empty:
            return None
        if found is None:
            self.ended = True
            return None
        self._number += 1
        return found[0], f"{self.name}, line {self._number}", found[1]

    def _follow(self, stream: Iterable[str]) -> None:
        try:
            for line in stream:
                self._queue.put((line, time.time_ns()))
        finally:
            self._queue.put(None)
