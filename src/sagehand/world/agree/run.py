"""Run an agreement study: every sample in both executors, by several processes; run it again to go on where it stopped."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from sagehand.errors import InputError
from sagehand.interrupt import held_interrupt
from sagehand.world.agree.digest import code_digest, data_digest, versions
from sagehand.world.agree.outcome import outcome_of
from sagehand.world.agree.report import AgreementReport, write_report
from sagehand.world.agree.sample import Item, Sampler, plan_items
from sagehand.world.agree.store import Entry, Records
from sagehand.world.agree.subjects import chosen_objects
from sagehand.world.executor import Executor

__all__ = ["EXECUTORS", "run_agreement"]

_FORMAT = 1
_WINDOW = 2  # samples in work a process: none waits for work, and no more than these are made after Ctrl-C
_LOOK = 0.2  # [s] between two looks at whether Ctrl-C was pressed
Make = Callable[[], Executor]
Task = tuple[Item, tuple[str, ...]]


def _analytic() -> Executor:
    from sagehand.world.analytic.executor import AnalyticExecutor

    return AnalyticExecutor()


def _physics() -> Executor:
    from sagehand.world.physics.executor import PhysicsExecutor

    return PhysicsExecutor()


EXECUTORS: Mapping[str, Make] = {"analytic": _analytic, "physics": _physics}
"""The two that are compared; the second is taken for nature."""


def run_agreement(
    out: str | Path,
    *,
    grasps: int = 1000,
    seed: int = 0,
    jobs: int | None = None,
    objects: Sequence[str] | str | None = None,
    resume: bool = True,
    pictures: int = 12,
    executors: Mapping[str, Make] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> AgreementReport:
    """Try grasps from good to hopeless in the analytic executor and in the physics, and report how far the two agree.

    The folder holds ``records.jsonl`` (one line an outcome, on disk as soon as it is there), ``agreement.json`` (what was
    asked, versions, digests) and the report. Run again, only what is missing is tried, and what depends on code that has changed
    since. With more than one job a script must call this under ``if __name__ == "__main__"``, for the processes are spawned.

    Args:
        out: The folder; new, empty, or begun with the same seed, objects and data files.
        grasps: How many samples; a smaller study is the beginning of a larger one.
        seed: Root seed; another seed, other samples.
        jobs: Processes; default: one a processor.
        objects: "cup" (with its instances), "cup/small", a group, files; default: all.
        resume: Go on in a folder that was begun.
        pictures: Render so many of the worst disagreements.
        executors: "analytic" and "physics" → makes that executor; picklable with more than one job.
        on_progress: Called with (samples done, samples in all).

    Raises:
        InputError: A parameter is out of range, or the folder holds something else or another study.
        UnknownName: There is no object of a name.
        MissingExtra: MuJoCo, frankik or the robot's model is not installed.
        KeyboardInterrupt: Ctrl-C; what was under way is finished and written first. A second one does not wait.
    """
    jobs = len(os.sched_getaffinity(0)) if jobs is None else jobs
    for name, value, least in (("grasps", grasps, 1), ("jobs", jobs, 1), ("seed", seed, 0), ("pictures", pictures, 0)):
        if value < least:
            raise InputError(f"{name} is {value}; it must be at least {least}")
    makers = dict(EXECUTORS if executors is None else executors)
    if set(makers) != set(EXECUTORS):
        raise InputError(f"executors are {sorted(makers)}; they must be {sorted(EXECUTORS)}")
    begun = time.perf_counter()
    folder, names = Path(out), chosen_objects(objects)
    code = {name: code_digest(name) for name in makers}
    header = {
        "format": _FORMAT,
        "seed": seed,
        "objects": list(names),
        "executors": sorted(makers),
        "data": data_digest(),
        "versions": versions(),
    }
    with Records(folder, header, resume=resume) as records:
        there = {key for key, entry in records.entries.items() if entry.code == code[entry.outcome.executor]}
        tasks: list[Task] = [
            (item, todo)
            for item in plan_items(names, range(grasps), seed)
            if (todo := tuple(e for e in sorted(makers) if (item.number, e) not in there))
        ]
        kept = grasps - len(tasks)
        _tell(on_progress, kept, grasps)
        work = _Work(names, seed, makers, code)
        jobs = min(jobs, max(len(tasks), 1))
        results = _in_turn(work, tasks) if jobs == 1 else _side_by_side(work, tasks, jobs)
        with held_interrupt() as asked:
            done = kept
            for made in results(asked):
                records.append(made)
                done += 1
                _tell(on_progress, done, grasps)
        if asked.is_set() and done < grasps:
            raise KeyboardInterrupt
        entries = [e for e in records.entries.values() if e.outcome.number < grasps]
    return write_report(
        folder,
        entries,
        header | {"code": code, "grasps": grasps},
        pictures=pictures,
        made=len(tasks),
        seconds=time.perf_counter() - begun,
    )


@dataclass(frozen=True)
class _Work:
    """What a process needs to know of a study."""

    objects: tuple[str, ...]
    seed: int
    makers: Mapping[str, Make]
    code: Mapping[str, str]


class _Worker:
    """Makes samples and tries them; everything it needs is made once."""

    def __init__(self, work: _Work) -> None:
        from sagehand.world.objects.load import resolve
        from sagehand.world.robot.description import load_robot

        self._work = work
        self._sampler = Sampler(work.objects, work.seed, load_robot(), resolve)
        self._executors: dict[str, Executor] = {}

    def entries(self, task: Task) -> list[Entry]:
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


def _in_turn(work: _Work, tasks: Sequence[Task]) -> Results:
    def results(asked: threading.Event) -> Iterator[list[Entry]]:
        worker = _Worker(work) if tasks else None
        for task in tasks:
            if asked.is_set() or worker is None:
                return
            yield worker.entries(task)

    return results


def _side_by_side(work: _Work, tasks: Sequence[Task], jobs: int) -> Results:
    """As they are finished. After Ctrl-C what is in work is finished; a second Ctrl-C does not wait for it."""

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


_WORKER: list[_Worker] = []
"""In a process of a study: its worker."""


def _begin(work: _Work) -> None:
    """Set up a process; without its parent there is nothing for it to do."""
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:

        def follow() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=follow, daemon=True).start()
    _WORKER.append(_Worker(work))


def _entries(task: Task) -> list[Entry]:
    return _WORKER[0].entries(task)


def _tell(on_progress: Callable[[int, int], None] | None, done: int, total: int) -> None:
    if on_progress is not None:
        on_progress(done, total)
