"""Render the study's data set: pictures, depth images, exact polygons and labels, by several processes, resumable.

A view's content depends on nothing but the view, so what is on disk already need not be made again: each view's files are
written whole, then its row goes to a journal (:mod:`~sagehand.study.dataset.journal`), and ``metadata.jsonl`` is written at
the end, in the order of the views, whatever order they were finished in.
"""

from __future__ import annotations

import importlib
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sagehand.errors import InputError
from sagehand.study.cell.dataset import View
from sagehand.study.cell.ewaste import IMAGES, SEED, ewaste_actions, ewaste_views
from sagehand.study.cell.render import CellRenderer
from sagehand.study.dataset.folder import adopt, check_same, header_of, missing, sweep, whole, write_set
from sagehand.study.dataset.journal import NAME, Entry, Journal
from sagehand.study.dataset.shoot import Shot, shoot

if TYPE_CHECKING:
    from multiprocessing.context import SpawnContext

__all__ = ["RenderReport", "render_study"]

_WINDOW = 2  # views in work a process: none waits for work, and no more than these are made again after Ctrl-C


@dataclass(frozen=True)
class RenderReport:
    """What was rendered."""

    folder: str
    """The folder."""
    images: int
    """Pictures in it."""
    devices: dict[str, int]
    """Device → its pictures."""
    steps: int
    """Steps of all devices."""
    digest: str
    """SHA-256 of ``SHA256SUMS``, hex: stands for every picture, depth image and label. Pixels may differ between GL drivers."""
    made: int
    """Views rendered now."""
    kept: int
    """Views that were there already."""
    seconds: float
    """How long it took [s]."""

    @property
    def images_per_second(self) -> float:
        """Views rendered per second [1/s], start-up of the processes included; 0 where none was."""
        return self.made / self.seconds if self.made else 0.0

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            **asdict(self),
            "seconds": round(self.seconds, 3),
            "images_per_second": round(self.images_per_second, 2),
        }


def render_study(
    out: str | Path,
    *,
    images: int = IMAGES,
    per_step: int | None = None,
    seed: int = SEED,
    devices: str | Sequence[str] | None = None,
    views: Sequence[View] | None = None,
    actions: str | Path | None = None,
    width: int = 640,
    height: int = 480,
    jobs: int | None = None,
    resume: bool = True,
    on_progress: Callable[[int, int], None] | None = None,
) -> RenderReport:
    """Render the data set "ewaste" into a folder of labelled pictures; run it again to go on where it stopped.

    Beside the pictures lie ``metadata.jsonl``, ``actions.yaml``, ``dataset.json`` (parameters, versions, counts, digest),
    ``SHA256SUMS`` and a short ``README.md``. With more than one job a script must call this under
    ``if __name__ == "__main__"``, for the processes are spawned.

    Args:
        out: The folder; new, empty, or begun with the same parameters.
        images: Pictures in all, spread evenly over the steps of all devices.
        per_step: Pictures of each step, in place of ``images``.
        seed: Root seed; another seed, other pictures.
        devices: Names, and "random:K" for K devices that nobody has seen, also separated by commas; default: all six.
        views: Views of one's own, in place of all that.
        actions: The action library to put beside them; default: the set's own.
        width: Columns [px].
        height: Rows [px].
        jobs: Processes; default: one a processor.
        resume: Go on in a folder that was begun; else it must be new or empty.
        on_progress: Called with (views there, views in all).

    Raises:
        InputError: A parameter is out of range, or the folder holds something else or was made with other parameters.
        UnknownName: A device that there is not.
        MissingExtra: MuJoCo is not installed.
        SettingsError: MuJoCo finds no GL driver.
        KeyboardInterrupt: Ctrl-C; what was made is kept.
    """
    jobs = len(os.sched_getaffinity(0)) if jobs is None else jobs
    for name, value in {"images": images, "per_step": per_step, "jobs": jobs, "width": width, "height": height}.items():
        if value is not None and value < 1:
            raise InputError(f"{name} is {value}; it must be at least 1")
    started = time.perf_counter()
    asked: dict[str, Any] = {"views": "given"}
    if views is None:
        asked = {"images": images if per_step is None else None, "per_step": per_step, "seed": seed}
        asked["devices"] = devices if devices is None or isinstance(devices, str) else ",".join(devices)
        views = ewaste_views(images, per_step=per_step, seed=seed, devices=devices)
    folder, library = Path(out), ewaste_actions() if actions is None else Path(actions)
    header = header_of(views, asked | {"width": width, "height": height}, library)
    _check_folder(folder, header, resume=resume)
    if (done := whole(folder, views)) is not None:
        return _report(folder, done, 0, len(views), started)
    with CellRenderer(width, height) as renderer:
        gl = _gl_name()
        folder.mkdir(parents=True, exist_ok=True)
        with Journal(folder, header) as journal:
            check_same(folder, journal.header, header)
            sweep(folder)
            adopt(folder, views, journal)
            for place in missing(folder, journal):
                journal.forget(place)
            kept = len(journal)
            todo = [place for place in range(len(views)) if place not in journal]
            shots = _in_turn(folder, views, todo, renderer) if jobs == 1 or len(todo) < 2 else None
            if shots is None:
                renderer.close()  # one context a process is enough
                shots = _side_by_side(folder, views, todo, (width, height), min(jobs, len(todo)))
            _tell(on_progress, kept, len(views))
            with closing(shots):
                for place, shot in shots:
                    journal.add(place, Entry(shot.row, shot.sums))
                    _tell(on_progress, len(journal), len(views))
            written = write_set(folder, header, journal.entries(), library, gl)
            journal.close(remove=True)
    return _report(folder, written, len(todo), kept, started)


def _check_folder(folder: Path, header: dict[str, Any], *, resume: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is there already, and is no folder", hint="name another one")
    there = list(islice(folder.iterdir(), 1)) if folder.is_dir() else []
    begun = any((folder / name).exists() for name in (NAME, "dataset.json"))
    if there and not begun:
        raise InputError(f"{folder}: is not empty, and no rendering was begun in it", hint="name a new folder")
    if there and not resume:
        raise InputError(f"{folder}: holds a rendering already", hint="name a new folder, or go on with resume")
    if (folder / "dataset.json").exists():
        check_same(folder, None, header)


def _in_turn(
    folder: Path, views: Sequence[View], places: Iterable[int], renderer: CellRenderer
) -> Generator[tuple[int, Shot]]:
    for place in places:
        yield place, shoot(folder, views[place], renderer)


def _side_by_side(
    folder: Path, views: Sequence[View], places: Sequence[int], size: tuple[int, int], jobs: int
) -> Generator[tuple[int, Shot]]:
    """Shots as they are finished. After Ctrl-C, or an error, what is in work is finished but not handed out."""
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
    os.environ.setdefault(
        "LP_NUM_THREADS", str(threads)
    )  # the software driver would take all processors in each process
    _RENDERER.append(CellRenderer(*size))


def _shoot(folder: Path, view: View) -> Shot:
    return shoot(folder, view, _RENDERER[0])


def _gl_name() -> str | None:
    """Who draws, as in "llvmpipe (LLVM 15.0.6, 256 bits)"; None where it does not say."""
    with suppress(Exception):  # a courtesy: what a driver without it raises differs by back end
        gl = importlib.import_module("OpenGL.GL")
        name = gl.glGetString(gl.GL_RENDERER)
        return str(name.decode()) if name else None
    return None


def _tell(on_progress: Callable[[int, int], None] | None, done: int, total: int) -> None:
    if on_progress is not None:
        on_progress(done, total)


def _report(folder: Path, doc: dict[str, Any], made: int, kept: int, started: float) -> RenderReport:
    devices = {name: int(entry["images"]) for name, entry in doc["devices"].items()}
    steps = sum(len(entry["steps"]) for entry in doc["devices"].values())
    seconds = time.perf_counter() - started
    return RenderReport(str(folder), int(doc["images"]), devices, steps, str(doc["digest"]), made, kept, seconds)
