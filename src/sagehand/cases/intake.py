"""The two ends of an import: rows to drafts in worker threads, drafts to the case base in batches.

:mod:`sagehand.cases.folder` runs them; what they hand to each other is an :data:`Outcome` for each row.
"""

from __future__ import annotations

import hashlib
import secrets
import stat
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias

from sagehand.cases.case import CaseDraft, DepthUnit, parse_row
from sagehand.cases.table import RowProblem, TableRow
from sagehand.cases.write import Embedded
from sagehand.errors import BadVector, CaseConflict, InputError, PictureTooLarge, SagehandError, StoreError

if TYPE_CHECKING:
    from sagehand.cases.base import CaseBase
    from sagehand.embed import Embedder
    from sagehand.picture import Box, Limits, Picture

__all__ = ["Cropper", "Known", "LabelCheck", "Outcome", "Reader", "Ready", "Writer", "crop_and_embed"]

Cropper: TypeAlias = "Callable[[Picture, Mapping[str, Any]], Box | None]"
"""Picture and the fields of its row (``parse_row``) to the box to embed, in pixels of the original; None: all of it."""

LabelCheck: TypeAlias = "Callable[[Mapping[str, Any]], None]"
"""The fields of a row in; raises an InputError for a label that must not come in."""

_SECONDS_BETWEEN_WRITES = 1.0  # with a slow cropper (a VLM), little is lost to a power cut
_BYTES_IN_HAND = 64 * 2**20  # a batch of large photos is written early


@dataclass(frozen=True, slots=True)
class Ready:
    """A row whose picture is decoded and embedded."""

    row: TableRow
    draft: CaseDraft


@dataclass(frozen=True, slots=True)
class Known:
    """A row whose picture is in the case base, byte for byte."""

    row: TableRow
    case_id: str
    depth: bytes | None
    depth_unit: DepthUnit | None


Outcome: TypeAlias = Ready | Known | RowProblem


def crop_and_embed(
    picture: Picture, fields: Mapping[str, Any], cropper: Cropper | None, embedder: Embedder
) -> Embedded:
    """The crop of a picture, the vector of what is in it, and the depth vector where it has depth.

    Args:
        picture: The whole picture.
        fields: The fields of its row (``parse_row``), for the cropper.
        cropper: Finds the part to embed; None for all of it.
        embedder: Embeds it.
    """
    from sagehand.embed import depth_vector

    box = None if cropper is None else cropper(picture, fields)
    view = picture if box is None else picture.crop(box).picture
    relief = None if view.depth is None else depth_vector(view.depth)
    return Embedded(picture.pixel_id, embedder.embed([view.pixels])[0], box, relief)


class Reader:
    """What the worker threads do: one row to a draft, or to the reason why there is none.

    Args:
        folder: The folder of cases.
        base: Asked which files are in it already.
        embedder: Embeds one picture a call.
        cropper: Finds the part to embed, or None for all of the picture.
        check: Refuses labels that must not come in.
        depth_unit: Unit of the depth images.
        files: Images that lie in the folder, for near misses.
        limits: Caps on pictures and depth images.
    """

    def __init__(
        self,
        folder: Path,
        base: CaseBase,
        embedder: Embedder,
        cropper: Cropper | None,
        check: LabelCheck | None,
        depth_unit: DepthUnit,
        files: Sequence[str],
        limits: Limits,
    ) -> None:
        self._folder, self._base, self._embedder = folder, base, embedder
        self._cropper, self._check, self._depth_unit, self._limits = cropper, check, depth_unit, limits
        self._respelled = {_folded(name): name for name in files}
        self._known = base.known_bytes()

    def read(self, row: TableRow) -> Outcome:
        """One row; what is wrong with its files or its label is an outcome too."""
        try:
            return self._read(row)
        except (OSError, SagehandError) as error:
            if isinstance(error, StoreError) and not isinstance(error, BadVector):
                raise
            return RowProblem(row.line, row.file_name, _reason(row.file_name, error))

    def _read(self, row: TableRow) -> Ready | Known:
        from sagehand.picture import load

        fields = parse_row(row.values)
        if self._check is not None:
            self._check(fields)
        image = self._bytes(row.file_name)
        depth_name = row.values.get("depth_file_name")
        depth = None if depth_name is None else self._bytes(depth_name)
        known = self._known.get(hashlib.sha256(image).hexdigest()) if self._known else None
        if known is not None:
            return Known(row, known, depth, None if depth is None else self._depth_unit)
        depth_path = None if depth_name is None else self._folder / depth_name  # by path: errors then name the file
        unit = None if depth_path is None else self._depth_unit
        picture = load(image, name=row.file_name, depth=depth_path, depth_unit=unit, limits=self._limits)
        if row.size is not None and row.size != picture.size:
            drawn, is_ = (f"{width}x{height}" for width, height in (row.size, picture.size))
            raise InputError(
                f"was annotated at {drawn} pixels, and has {is_}",
                hint="annotate the picture as it is, upright by its EXIF",
            )
        seen = crop_and_embed(picture, fields, self._cropper, self._embedder)
        draft = CaseDraft(
            image=image,
            pixel_id=picture.pixel_id,
            vector=seen.vector,
            row=row.values,
            line=row.text,
            depth_image=depth,
            depth_vector=seen.depth_vector,
            box=seen.box,
            depth_unit=unit,
        )
        return Ready(row, draft)

    def _bytes(self, name: str) -> bytes:
        path = self._folder / name
        try:
            info = path.stat()
        except FileNotFoundError:
            raise InputError(f"{name}: no such file", hint=self._hint_for_missing(name)) from None
        if not stat.S_ISREG(info.st_mode):
            raise InputError(f"{name}: is not a file")
        if info.st_size > self._limits.max_bytes:
            cap = f"{self._limits.max_bytes:,}"
            raise PictureTooLarge(f"{name}: {info.st_size:,} bytes are more than the cap of {cap}")
        return path.read_bytes()

    def _hint_for_missing(self, name: str) -> str:
        meant = self._respelled.get(_folded(name))
        if meant == str(PurePosixPath(name)):
            return "it was there when the import began"
        if meant is not None:
            return f"did you mean {meant!r}?"
        return "write '/' between folders" if "\\" in name else ""


class Writer:
    """What the calling thread does: batches into the case base, and counts.

    Args:
        base: The case base.
        batch: Most cases in one transaction.
        total: Rows in all.
        on_progress: Called with (rows done, rows in all) after each write.

    Attributes:
        added: Cases written.
        unchanged: Rows that stood in the case base with the same label.
        conflicts: Rows whose picture stands there with another.
        failed: Rows that cannot be used.
    """

    def __init__(self, base: CaseBase, batch: int, total: int, on_progress: Callable[[int, int], None] | None) -> None:
        self._base, self._batch, self._total, self._on_progress = base, batch, total, on_progress
        self._run = secrets.token_hex(8)  # one import is undone in one go
        self._pending: list[Ready] = []
        self._pending_bytes = 0
        self._last_write = time.monotonic()
        self.added = self.unchanged = 0
        self.conflicts: list[RowProblem] = []
        self.failed: list[RowProblem] = []

    def take(self, outcome: Outcome) -> None:
        """Count an outcome, or put it with the batch in hand."""
        if isinstance(outcome, RowProblem):
            self.failed.append(outcome)
        elif isinstance(outcome, Known):
            self._compare(outcome.row, outcome.case_id, outcome.depth, outcome.depth_unit)
        else:
            self._pending.append(outcome)
            self._pending_bytes += len(outcome.draft.image) + len(outcome.draft.depth_image or b"")
        full = len(self._pending) >= self._batch or self._pending_bytes > _BYTES_IN_HAND
        if full or time.monotonic() - self._last_write > _SECONDS_BETWEEN_WRITES:
            self.flush()

    def flush(self) -> None:
        """Write the batch in hand in one durable transaction."""
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        if pending:
            try:
                results = self._base.add_many([ready.draft for ready in pending], run=self._run)
            except StoreError as error:
                if self.added:
                    kept = f"{self.added} cases before it are kept; run the import again to go on"
                    error.hint = f"{error.hint}; {kept}" if error.hint else kept
                raise
            for ready, result in zip(pending, results, strict=True):
                if isinstance(result, CaseConflict):
                    draft = ready.draft
                    self._compare(ready.row, draft.pixel_id, draft.depth_image, draft.depth_unit)
                else:
                    self.added += 1
        self._last_write = time.monotonic()
        if self._on_progress is not None:
            done = self.added + self.unchanged + len(self.conflicts) + len(self.failed)
            self._on_progress(done, self._total)

    def _compare(self, row: TableRow, case_id: str, depth: bytes | None, unit: DepthUnit | None) -> None:
        """The picture is in the case base: under the same name with the same label, or is it a conflict?"""
        stored = self._base.row(case_id)
        name, different = stored.get("file_name"), _differences(stored, row.values)
        if self._base.depth_image(case_id) != depth:
            different = "; ".join(filter(None, [different, "with another depth image"]))
        elif (there := self._base.depth_unit(case_id)) != unit:
            different = "; ".join(filter(None, [different, f"its depth image is in {there} there, in {unit} here"]))
        if name == row.file_name and not different:
            self.unchanged += 1
            return
        reason = f"the same picture is in the case base as {name!r}, "
        reason += f"but {different}" if different else "with the same label"
        self.conflicts.append(RowProblem(row.line, row.file_name, reason))


def _differences(stored: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """The fields but the file names in which two rows differ, in words; "" when they say the same."""
    there, here = parse_row(stored), parse_row(given)
    there |= there.pop("extra")
    here |= here.pop("extra")
    names = [name for name in there | here if name != "file_name" and there.get(name) != here.get(name)]
    return "; ".join(f"{name} is {there.get(name)!r} there, {here.get(name)!r} here" for name in names)


def _reason(file_name: str, error: OSError | SagehandError) -> str:
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror or error}"
    return str(error).removeprefix(f"{file_name}: ")


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", str(PurePosixPath(name))).casefold()
