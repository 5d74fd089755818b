"""Ctrl-C as a wish that long work can grant at a moment of its own."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["held_interrupt"]


@contextmanager
def held_interrupt() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into an event; a second one interrupts as ever. A handler of the program's own stays."""
    asked = threading.Event()
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield asked
        return

    def hold(number: int, frame: Any) -> None:
        if asked.is_set():
            signal.default_int_handler(number, frame)
        asked.set()

    signal.signal(signal.SIGINT, hold)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
