"""Views rendered by several processes at once, each with a GL context of its own."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from sagehand.errors import InputError
from sagehand.study.cell.dataset import View
from sagehand.study.cell.render import CellRenderer
from sagehand.study.dataset.shoot import Shot, shoot

if TYPE_CHECKING:
    from multiprocessing.context import SpawnContext

__all__ = ["side_by_side"]

_WINDOW = 2  # views in work a process: none waits for work, and no more than these are made again after Ctrl-C


def side_by_side(
    folder: Path, views: Sequence[View], places: Sequence[int], size: tuple[int, int], jobs: int
) -> Generator[tuple[int, Shot]]:
    """Render views in processes of their own; close it to stop.

    Args:
        folder: Where to.
        views: The set.
        places: Which of them.
        size: Columns and rows of a picture [px].
        jobs: Processes.

    Yields:
        (place, shot) as they are finished. After Ctrl-C, or an error, what is in work is finished but not handed out.

    Raises:
        InputError: A process was ended from outside.
    """
    import multiprocessing

    context: SpawnContext = multiprocessing.get_context("spawn")
    waiting = iter(places)
    running: dict[Future[Shot], int] = {}
    threads = max(1, len(os.sched_getaffinity(0)) // jobs)
    pool = ProcessPoolExecutor(jobs, context, initializer=_begin, initargs=(size, threads))
    try:
        while True:
            for place in islice(waiting, _WINDOW * jobs - len(running)):
                with _uninterrupted():
                    running[pool.submit(_shoot, folder, views[place])] = place
            if not running:
                break
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                yield running[future], future.result()
                del running[future]
    except BrokenProcessPool as error:
        raise InputError(
            "a rendering process was ended from outside (memory ran out?)",
            hint="run it again to go on, or with fewer jobs",
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back: a process that is started meanwhile never gets it, for it is the parent's to handle.

    The mask is for the new process, which inherits it. For this one it is not enough: the kernel may hand the signal to
    another thread (a driver's), and Python would then interrupt the main one half-way through starting that process.
    """
    held: list[int] = []
    handler = signal.getsignal(signal.SIGINT)
    ours = threading.current_thread() is threading.main_thread() and callable(handler)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    if ours:
        signal.signal(signal.SIGINT, lambda number, _: held.append(number))
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if held:
            signal.raise_signal(signal.SIGINT)


_RENDERER: list[CellRenderer] = []
"""In a rendering process: its own renderer."""


def _begin(size: tuple[int, int], threads: int) -> None:
    """Set up a rendering process; without its parent there is nothing for it to do."""
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:

        def follow() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=follow, daemon=True).start()
    # the software driver would take all processors in each process
    os.environ.setdefault("LP_NUM_THREADS", str(threads))
    _RENDERER.append(CellRenderer(*size))


def _shoot(folder: Path, view: View) -> Shot:
    return shoot(folder, view, _RENDERER[0])
