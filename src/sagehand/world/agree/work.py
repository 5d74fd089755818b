"""The work of an agreement study: samples made and tried, one after the other or by several processes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sagehand.errors import InputError
from sagehand.world.agree.outcome import outcome_of
from sagehand.world.agree.plan import Item
from sagehand.world.agree.sample import Sampler
from sagehand.world.agree.store import Entry
from sagehand.world.executor import Executor

__all__ = ["Make", "Results", "Task", "Work", "Worker", "in_turn", "side_by_side"]

_WINDOW = 2  # samples in work a process: none waits for work, and no more than these are made after Ctrl-C
_LOOK = 0.2  # [s] between two looks at whether Ctrl-C was pressed
Make = Callable[[], Executor]
"""Makes an executor; picklable where there is more than one process."""
Task = tuple[Item, tuple[str, ...]]
"""A sample, and the executors that are to try it."""


@dataclass(frozen=True)
class Work:
    """What a process needs to know of a study.

    Attributes:
        objects: Targets and neighbours by name.
        seed: Root seed.
        robot: A robot's name or file.
        makers: Executor's name → makes it.
        code: Executor's name → digest of what its outcomes depend on.
    """

    objects: tuple[str, ...]
    seed: int
    robot: str
    makers: Mapping[str, Make]
    code: Mapping[str, str]


class Worker:
    """Makes samples and tries them; everything it needs is made once."""

    def __init__(self, work: Work) -> None:
        """Take the study; executors are made when the first grasp asks for them."""
        from sagehand.world.objects.load import resolve
        from sagehand.world.robot.description import load_robot

        self._work = work
        self._sampler = Sampler(work.objects, work.seed, load_robot(work.robot), resolve)
        self._executors: dict[str, Executor] = {}

    def entries(self, task: Task) -> list[Entry]:
        """The outcomes of a task; what went wrong while the sample was made says which."""
        item, names = task
        try:
            sample = self._sampler.sample(item)
        except Exception as error:
            error.add_note(f"while sample {item.number} was made: {item.object}, {item.kind}")
            raise
        doc: dict[str, Any] = sample.to_dict()
        made = []
        for name in names:
            if name not in self._executors:
                self._executors[name] = self._work.makers[name]()
                outcome_of(self._executors[name], sample)  # what is compiled or imported the first time is no grasp's
            made.append(Entry(doc, outcome_of(self._executors[name], sample), self._work.code[name]))
        return made


Results = Callable[[threading.Event], Iterator[list[Entry]]]
"""Gives the outcomes of one task after the other; begins none when the event (Ctrl-C) is set."""


def in_turn(work: Work, tasks: Sequence[Task]) -> Results:
    """One task after the other, in this process."""

    def results(asked: threading.Event) -> Iterator[list[Entry]]:
        worker = Worker(work) if tasks else None
        for task in tasks:
            if asked.is_set() or worker is None:
                return
            yield worker.entries(task)

    return results


def side_by_side(work: Work, tasks: Sequence[Task], jobs: int) -> Results:
    """By processes, as they are finished. After Ctrl-C what is in work is finished; a second Ctrl-C does not wait for it."""

    def results(asked: threading.Event) -> Iterator[list[Entry]]:
        import multiprocessing

        waiting = iter(tasks)
        running: set[Future[list[Entry]]] = set()
        context = multiprocessing.get_context("spawn")
        with _one_thread_each():
            pool = ProcessPoolExecutor(jobs, context, initializer=_begin, initargs=(work,))
            try:
                while True:
                    for task in islice(waiting, 0 if asked.is_set() else _WINDOW * jobs - len(running)):
                        with _masked():
                            running.add(pool.submit(_entries, task))
                    if not running:
                        break
                    finished, _ = wait(running, _LOOK, FIRST_COMPLETED)
                    for future in finished:
                        running.discard(future)
                        yield future.result()
            except BrokenProcessPool as error:
                raise InputError(
                    "a process was ended from outside (memory ran out?)", hint="run again to go on, or with fewer jobs"
                ) from error
            except KeyboardInterrupt:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            finally:
                pool.shutdown(cancel_futures=True)

    return results


@contextmanager
def _masked() -> Iterator[None]:
    """A process that is started meanwhile never gets Ctrl-C, for it is the parent's to handle: it inherits the mask."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started meanwhile do their linear algebra in one thread each; so "per core" means that."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update({name: "1" for name, value in before.items() if value is None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)


_WORKER: list[Worker] = []
"""In a process of a study: its worker."""


def _begin(work: Work) -> None:
    """Set up a process; without its parent there is nothing for it to do."""
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:

        def follow() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=follow, daemon=True).start()
    _WORKER.append(Worker(work))


def _entries(task: Task) -> list[Entry]:
    return _WORKER[0].entries(task)
