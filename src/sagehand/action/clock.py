"""How long the parts of a decision took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Clock"]


class Clock:
    """Wall-clock seconds of named parts, from when it was made.

    Attributes:
        parts: Part → seconds, in the order in which they ended.
    """

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        self._started = time.perf_counter()

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        """Time a part; one that fails counts, too."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.parts[part] = self.parts.get(part, 0.0) + time.perf_counter() - started

    def total(self) -> float:
        """Seconds since it was made."""
        return time.perf_counter() - self._started
