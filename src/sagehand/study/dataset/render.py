"""Render the study's data set: pictures, depth images, exact polygons and labels, by several processes, resumable.

A view's content depends on nothing but the view, so what is on disk already need not be made again: each view's files are
written whole, then its row goes to a journal (:mod:`~sagehand.study.dataset.journal`), and ``metadata.jsonl`` is written at
the end, in the order of the views, whatever order they were finished in.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from sagehand.errors import InputError
from sagehand.study.cell.dataset import View
from sagehand.study.cell.ewaste import IMAGES, SEED, ewaste_actions, ewaste_views
from sagehand.study.cell.render import CellRenderer
from sagehand.study.dataset.folder import adopt, check_same, header_of, missing, sweep, whole, write_set
from sagehand.study.dataset.journal import NAME, Entry, Journal
from sagehand.study.dataset.processes import side_by_side
from sagehand.study.dataset.shoot import Shot, shoot

__all__ = ["RenderReport", "render_study"]


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
            _take_up(folder, header, views, journal)
            kept = len(journal)
            _fill(folder, views, journal, renderer, jobs, on_progress)
            made = len(journal) - kept
            written = write_set(folder, header, journal.entries(), library, gl)
            journal.close(remove=True)
    return _report(folder, written, made, kept, started)


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


def _take_up(folder: Path, header: dict[str, Any], views: Sequence[View], journal: Journal) -> None:
    """Leave in the journal what is on disk of this set, and on disk nothing half written."""
    check_same(folder, journal.header, header)
    sweep(folder)
    adopt(folder, views, journal)
    for place in missing(folder, journal):
        journal.forget(place)


def _fill(
    folder: Path,
    views: Sequence[View],
    journal: Journal,
    renderer: CellRenderer,
    jobs: int,
    on_progress: Callable[[int, int], None] | None,
) -> None:
    """Render the views that the journal does not have, each noted as soon as it is on disk."""
    todo = [place for place in range(len(views)) if place not in journal]
    if jobs == 1 or len(todo) < 2:
        shots = _in_turn(folder, views, todo, renderer)
    else:
        renderer.close()  # one context a process is enough
        shots = side_by_side(folder, views, todo, (renderer.width, renderer.height), min(jobs, len(todo)))
    _tell(on_progress, len(journal), len(views))
    with closing(shots):
        for place, shot in shots:
            journal.add(place, Entry(shot.row, shot.sums))
            _tell(on_progress, len(journal), len(views))


def _in_turn(
    folder: Path, views: Sequence[View], places: Iterable[int], renderer: CellRenderer
) -> Generator[tuple[int, Shot]]:
    for place in places:
        yield place, shoot(folder, views[place], renderer)


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
