"""One event loop on one daemon thread: what lets blocking callers in many threads share an asynchronous client."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

__all__ = ["Background"]

T = TypeVar("T")
_CLOSE_SECONDS = 5.0


class Background:
    """Runs coroutines for other threads; started by the first one, closed at exit if nobody closes it.

    Args:
        at_close: Awaited on the loop when everything in flight is cancelled.
    """

    def __init__(self, at_close: Callable[[], Awaitable[None]]) -> None:
        self._lock = threading.Lock()
        self._at_close = at_close
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._finalizer: weakref.finalize[Any, Any] | None = None
        self.closed = False

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the loop.

        Raises:
            RuntimeError: It is closed, or the caller runs on the loop itself and would wait for itself.
        """
        with self._lock:
            if self.closed or threading.current_thread() is self._thread:
                coroutine.close()
                raise RuntimeError("closed" if self.closed else "called from its own event loop")
            if self._loop is None:
                self._loop = self._started()
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _started(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run, args=(loop,), name="sagehand-vlm", daemon=True)
        self._thread.start()
        self._finalizer = weakref.finalize(self, _stop, loop, self._thread, self._at_close)
        return loop

    def close(self) -> None:
        """Cancel what is in flight, close what the loop holds, end the thread. Calling it again does nothing."""
        with self._lock:
            self.closed = True
            finalizer, self._finalizer = self._finalizer, None
        if finalizer is not None:
            finalizer()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, at_close: Callable[[], Awaitable[None]]) -> None:
    if thread is threading.current_thread():  # the last reference went on the loop itself; the process ends with it
        loop.stop()
        return
    ended = asyncio.run_coroutine_threadsafe(_wind_up(at_close), loop)
    try:
        ended.result(_CLOSE_SECONDS)
    except TimeoutError:
        ended.cancel()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_CLOSE_SECONDS)


async def _wind_up(at_close: Callable[[], Awaitable[None]]) -> None:
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await at_close()
    loop = asyncio.get_running_loop()
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()
