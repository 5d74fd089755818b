"""Import of a folder of cases: pictures and their ``metadata.jsonl`` or ``metadata.csv`` into a case base.

Pictures are read, decoded, cropped and embedded in worker threads (Pillow and ONNX Runtime let go of the interpreter's
lock), in a window of bounded length; the calling thread writes them in batches, in the order of the rows, each batch
durable. Nothing about one file stops the others: what cannot be used is reported with its line and its reason. To
resume an import, run it again: a file whose bytes and label stand in the case base is passed over without decoding.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from sagehand.cases.case import DepthUnit
from sagehand.cases.intake import Cropper, LabelCheck, Outcome, Reader, Writer
from sagehand.cases.table import Format, RowProblem, Table, TableRow, read_table
from sagehand.errors import CropMismatch, InputError, StoreError
from sagehand.interrupt import held_interrupt

if TYPE_CHECKING:
    from sagehand.cases.base import CaseBase
    from sagehand.embed import Embedder
    from sagehand.picture import Limits

__all__ = ["Cropper", "ImportInterrupted", "ImportReport", "LabelCheck", "image_files", "import_folder"]

_IMAGE_SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".gif", ".heic", ".heif", ".avif", ".ppm", ".pgm")
)
_WINDOW = 8  # rows in work a worker: about 0.1 s of work, so that none waits for a write; few enough to bound memory


@dataclass(frozen=True)
class ImportReport:
    """What an import did."""

    folder: str
    """The folder that was read."""
    added: int
    """Cases written to the case base."""
    unchanged: int
    """Rows that stood in the case base already, with the same file name and label."""
    conflicts: tuple[RowProblem, ...]
    """Rows whose picture is in the case base with another label or file name; the case base was left as it is."""
    failed: tuple[RowProblem, ...]
    """Rows that cannot be used, by line: the file or the label, and why."""
    skipped: tuple[str, ...]
    """Images in the folder that no row names."""
    seconds: float
    """How long it took [s]."""
    interrupted: bool = False
    """Whether it was stopped by Ctrl-C; running it again goes on where it stopped."""
    format: str = "jsonl"
    """What was read: "jsonl", "csv", "coco" or "labelme"."""

    @property
    def images_per_second(self) -> float:
        """Cases added per second [1/s]."""
        return self.added / self.seconds if self.seconds > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, for JSON."""
        return {**asdict(self), "images_per_second": round(self.images_per_second, 2)}


class ImportInterrupted(KeyboardInterrupt):
    """Ctrl-C stopped an import after the batch in hand was written; ``report`` says what was done."""

    def __init__(self, report: ImportReport) -> None:
        super().__init__("import interrupted; run it again to go on")
        self.report = report


def import_folder(
    folder: str | Path,
    base: CaseBase,
    embedder: Embedder,
    *,
    format: Format | Literal["auto"] = "auto",
    cropper: Cropper | None = None,
    check: LabelCheck | None = None,
    workers: int | None = None,
    depth_unit: DepthUnit = "mm",
    limits: Limits | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    batch: int = 32,
) -> ImportReport:
    """Import a folder of cases.

    Args:
        folder: Holds the pictures and one ``metadata.jsonl`` or ``metadata.csv``, or COCO or LabelMe annotations.
        base: Where the cases go.
        embedder: Called from several threads at once, one picture a call: best one that uses a single thread itself
            (``get_embedder(name, threads=1)``).
        format: As for :func:`~sagehand.cases.table.read_table`.
        cropper: Finds the part of a picture to embed; called from the worker threads. Needs a case base that was
            created for that crop.
        check: Called with the fields of each row (``parse_row``) before its picture is read; an ``InputError`` that it
            raises keeps the row out, with that reason. Called from the worker threads.
        workers: Threads that decode and embed; default: one a processor.
        depth_unit: Unit of the depth images that rows name in ``depth_file_name``.
        limits: Caps on pictures and depth images; the defaults where there are none.
        on_progress: Called with (rows done, rows in all) after each durable write, by the calling thread.
        batch: Most cases written in one transaction.

    Returns:
        What was done. The order of writing is the order of the rows, however the threads ran.

    Raises:
        InputError: The folder or its table is missing or cannot be read, or an argument is out of range.
        EmbedderMismatch, CropMismatch: The case base was built otherwise.
        StoreError: The case base cannot be written; batches before it are kept, and the hint says how to go on.
        ImportInterrupted: Ctrl-C; what was in hand is written first.
    """
    from sagehand.picture import DEFAULT_LIMITS

    workers = len(os.sched_getaffinity(0)) if workers is None else workers
    if workers < 1 or batch < 1:
        raise InputError(f"workers is {workers} and batch {batch}; both must be at least 1")
    table = read_table(folder, format)
    _require_alike(base, embedder, cropper)
    started = time.perf_counter()
    files = image_files(folder)
    reader = Reader(Path(folder), base, embedder, cropper, check, depth_unit, files, limits or DEFAULT_LIMITS)
    writer = Writer(base, batch, len(table.rows), on_progress)
    interrupted = _run(table.rows, reader, writer, workers)
    report = ImportReport(
        folder=str(folder),
        added=writer.added,
        unchanged=writer.unchanged,
        conflicts=tuple(writer.conflicts),
        failed=tuple(sorted((*table.problems, *writer.failed), key=lambda problem: problem.line)),
        skipped=_without_row(files, table),
        seconds=time.perf_counter() - started,
        interrupted=interrupted,
        format=table.format,
    )
    if interrupted:
        raise ImportInterrupted(report)
    return report


def _require_alike(base: CaseBase, embedder: Embedder, cropper: Cropper | None) -> None:
    """Refuse a base whose cases were embedded or cropped otherwise."""
    base.require(embedder.identity, "none" if cropper is None else None)
    if cropper is not None and base.crop == "none":
        raise CropMismatch("the case base was built without cropping", hint="create one for the crop, or leave it out")


def _without_row(files: Sequence[str], table: Table) -> tuple[str, ...]:
    """The images that no row names, not even one that cannot be used."""
    named = {row.values.get(column) for row in table.rows for column in ("file_name", "depth_file_name")}
    named |= {problem.file_name for problem in table.problems}
    in_rows = {str(PurePosixPath(name)) for name in named if name}
    return tuple(name for name in files if name not in in_rows)


def _run(rows: Sequence[TableRow], reader: Reader, writer: Writer, workers: int) -> bool:
    """Push the rows through; returns whether Ctrl-C stopped it."""
    waiting = iter(rows)
    window: deque[Future[Outcome]] = deque()
    broken: BaseException | None = None
    with held_interrupt() as asked, ThreadPoolExecutor(workers, "import") as pool:
        try:
            while not asked.is_set():
                while len(window) < _WINDOW * workers and (row := next(waiting, None)) is not None:
                    window.append(pool.submit(reader.read, row))
                if not window:
                    break
                outcome = window[0].result()
                window.popleft()
                writer.take(outcome)
        except BaseException as error:
            broken = error
        pool.shutdown(cancel_futures=True)
        if isinstance(broken, StoreError):
            raise broken
        # whatever is worked out already is written first: a crop may have been a paid call
        for future in window:
            if not future.cancelled() and future.exception() is None:
                writer.take(future.result())
        writer.flush()
    if broken is not None and not isinstance(broken, KeyboardInterrupt):
        raise broken
    return asked.is_set() or broken is not None


def image_files(folder: str | Path) -> list[str]:
    """Images in a folder and below it, in order, ``/`` between folders; hidden files and folders are left out."""
    found: list[str] = []
    for top, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [
            Path(top, name).relative_to(folder).as_posix()
            for name in files
            if not name.startswith(".") and os.path.splitext(name)[1].lower() in _IMAGE_SUFFIXES
        ]
    return sorted(found)
