"""Export of a case base to a folder of cases: what :func:`sagehand.cases.folder.import_folder` took in, given back.

Pictures and depth images come back byte for byte under their file names, rows with their keys in order and those that
sagehand does not know; a row that was not corrected is written as the very line it came from. What was derived is not
written. The folder appears complete or not at all.
"""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import json
import os
import secrets
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from sagehand.cases.case import ROW_FIELDS
from sagehand.cases.formats import coco, labelme
from sagehand.cases.table import FORMATS, LIST_COLUMNS, Format, path_problem
from sagehand.errors import InputError, PictureError, StoreError, StoreFull, UnknownName

if TYPE_CHECKING:
    from sagehand.cases.base import CaseBase
    from sagehand.cases.case import Case, Where

__all__ = ["ExportReport", "RenamedFile", "export_folder"]

_MAGIC = (
    (b"\xff\xd8\xff", ".jpg"),
    (b"\x89PNG", ".png"),
    (b"GIF8", ".gif"),
    (b"BM", ".bmp"),
    (b"II*\0", ".tif"),
    (b"MM\0*", ".tif"),
    (b"RIFF", ".webp"),
)


@dataclass(frozen=True)
class RenamedFile:
    """A file that could not keep its name in the exported folder."""

    case_id: str
    """The case it belongs to."""
    old: str
    """The file name in the case base; "" when it had none."""
    new: str
    """The file name in the folder, which its row names too."""


@dataclass(frozen=True)
class ExportReport:
    """What an export wrote."""

    folder: str
    """The folder, which did not exist before or was empty."""
    format: str
    """"jsonl", "csv", "coco" or "labelme"."""
    cases: int
    """Rows written, each with its picture."""
    depth_images: int
    """Depth images written."""
    rewritten: int
    """Rows that are not the very line they came from: corrected, renamed, from no file, or in another format."""
    renamed: tuple[RenamedFile, ...]
    """Files whose name was taken by another case, or cannot lie in the folder."""
    left_out: tuple[str, ...] = ()
    """Cases whose row or picture is damaged, with what is wrong."""

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, for JSON."""
        return asdict(self)


def export_folder(
    base: CaseBase, folder: str | Path, *, format: Format = "jsonl", where: Where | None = None
) -> ExportReport:
    """Write active cases to a new folder, in the order in which they came into the case base.

    Args:
        base: The case base.
        folder: Must not exist, or be empty. Folders above it are made.
        format: ``metadata.jsonl`` or ``metadata.csv``. A CSV holds text alone: numbers and lists under keys that
            sagehand does not know come back from it as text. "coco" and "labelme" lose nothing, when they come back.
        where: Which cases; default: all.

    Raises:
        InputError: The format is unknown; the folder is not empty or cannot be written.
        StoreFull: The disk is full; nothing was left behind.
    """
    if format not in FORMATS:
        raise UnknownName("format", format, FORMATS)
    target = Path(folder)
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise InputError(f"{target}: is there already, and is no folder", hint="give the name of a new folder")
    if target.is_dir() and any(target.iterdir()):
        raise InputError(f"{target}: is not empty", hint="give the name of a new folder")
    draft: Path | None = None
    try:
        target.absolute().parent.mkdir(parents=True, exist_ok=True)
        draft = target.absolute().with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        draft.mkdir()
        report = _Writing(base, draft, str(folder), format).write(*base.readable_cases(where))
        os.rename(draft, target.absolute())  # replaces an empty folder, and only that
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(
                f"{target}: the disk is full; nothing was written", hint="make room, or export to another disk"
            ) from error
        raise InputError(
            f"{target}: cannot be written: {error.strerror or error}", hint="check the path and its permissions"
        ) from error
    finally:
        if draft is not None and draft.exists():
            shutil.rmtree(draft, ignore_errors=True)
    return report


class _Writing:
    """One export under way."""

    def __init__(self, base: CaseBase, root: Path, shown: str, format: Format) -> None:
        self._base, self._root, self._shown, self._format = base, root, shown, format
        self._names = _Names(
            ["metadata.jsonl", "metadata.csv", *([coco.FILE] if format in ("coco", "labelme") else [])]
        )
        self._renamed: list[RenamedFile] = []
        self._rewritten = self._depth_images = 0

    def write(self, cases: Iterable[Case], damaged: Iterable[str]) -> ExportReport:
        left_out = [f"case {case_id}: its row is damaged" for case_id in damaged]
        rows = []
        for case in cases:
            try:
                rows.append(self._case(case))
            except StoreError as error:
                if error.retryable:
                    raise
                left_out.append(f"case {case.id}: {error.message}")
        self._labels(rows)
        anew = sum(line is None for _, line in rows) if self._format == "jsonl" else len(rows)
        return ExportReport(
            self._shown, self._format, len(rows), self._depth_images, anew, tuple(self._renamed), tuple(left_out)
        )

    def _labels(self, rows: list[tuple[dict[str, Any], str | None]]) -> None:
        """Write the labels, in the format that was asked for."""
        if self._format == "csv":
            (self._root / "metadata.csv").write_text(_as_csv([row for row, _ in rows]), encoding="utf-8", newline="")
        elif self._format == "jsonl":
            lines = [json.dumps(row, ensure_ascii=False) if line is None else line for row, line in rows]
            text = "".join(f"{line}\n" for line in lines)
            (self._root / "metadata.jsonl").write_text(text, encoding="utf-8", newline="")
        elif self._format == "coco":
            self._json(coco.FILE, coco.document((row, self._size(row)) for row, _ in rows))
        else:
            for row, _ in rows:
                name = str(PurePosixPath(row["file_name"]).with_suffix(".json"))
                # a.jpg and a.png would both have an a.json: LabelMe's own imagePath says whose it is
                self._json(self._names.take(name, row["file_name"].encode()), labelme.document(row, self._size(row)))

    def _json(self, name: str, doc: dict[str, Any]) -> None:
        (self._root / name).write_text(
            json.dumps(doc, ensure_ascii=False, indent=1) + "\n", encoding="utf-8", newline=""
        )

    def _size(self, row: dict[str, Any]) -> tuple[int, int] | None:
        """Width and height of a picture, upright by its EXIF, as outlines are; None where it cannot be decoded."""
        from sagehand.picture import load

        try:
            return load(self._root / row["file_name"]).size
        except PictureError:
            return None

    def _case(self, case: Case) -> tuple[dict[str, Any], str | None]:
        """Write the files of a case; returns its row, and the line it came from if that still holds."""
        row, line = dict(self._base.row(case.id)), self._base.line(case.id)
        image, depth = self._base.image(case.id), self._base.depth_image(case.id)
        files = {"file_name": self._file(case.id, row.get("file_name"), image, case.id)}
        if depth is not None:
            stem = str(PurePosixPath(files["file_name"]).with_suffix(""))
            files["depth_file_name"] = self._file(case.id, row.get("depth_file_name"), depth, f"{stem}-depth")
            self._depth_images += 1
        elif row.get("depth_file_name") is not None:  # the case base was never given that file
            del row["depth_file_name"]
            line = None
        if any(row.get(key) != name for key, name in files.items()):
            line = None
            row = {"file_name": "", **row, **files}
        return row, line

    def _file(self, case_id: str, wanted: object, data: bytes, fallback: str) -> str:
        """Write one file under the name that it had, or the nearest that is free; returns the name."""
        if isinstance(wanted, str) and path_problem(wanted) is None:
            name = wanted
        else:
            name = fallback + next((suffix for magic, suffix in _MAGIC if data.startswith(magic)), ".bin")
        name = self._names.take(name, data)
        if name != wanted:
            self._renamed.append(RenamedFile(case_id, wanted if isinstance(wanted, str) else "", name))
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return name


class _Names:
    """The names given out in a folder: no two files on one path, and no file where a folder must be."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._files: dict[PurePosixPath, bytes | None] = {PurePosixPath(name): None for name in taken}
        self._folders: set[PurePosixPath] = set()
        self._next: dict[str, int] = {}

    def take(self, name: str, data: bytes) -> str:
        """``name``, or with a number before its suffix where it is taken by other bytes."""
        digest = hashlib.sha256(data).digest()
        path = PurePosixPath(name)
        if any(parent in self._files for parent in path.parents):
            path = PurePosixPath(name.replace("/", "_"))
        given = name if path == PurePosixPath(name) else str(path)
        while not self._free(path, digest):
            number = self._next.get(given, 2)
            self._next[given] = number + 1
            path = PurePosixPath(given)
            path = path.with_stem(f"{path.stem}-{number}")
        self._files[path] = digest
        self._folders.update(path.parents)
        return given if path == PurePosixPath(given) else str(path)

    def _free(self, path: PurePosixPath, digest: bytes) -> bool:
        if path in self._files:  # several cases may share one depth image
            return self._files[path] == digest
        return path not in self._folders


def _as_csv(rows: list[dict[str, Any]]) -> str:
    columns: list[str] = []
    for row in rows:
        at = 0
        for key in row:
            if key not in columns:
                columns.insert(_place(key, columns, at), key)
            at = columns.index(key) + 1
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns or ["file_name"])
    writer.writerows([_cell(key, row.get(key)) for key in columns] for row in rows)
    return text.getvalue()


def _place(key: str, columns: list[str], at: int) -> int:
    """Where a column belongs that rows before did not have: behind the key before it, known fields in their order."""
    if key in ROW_FIELDS:
        while at < len(columns) and columns[at] in ROW_FIELDS[: ROW_FIELDS.index(key)]:
            at += 1
    return at


def _cell(column: str, value: Any) -> str:
    """A value as :mod:`sagehand.cases.table` reads it from a cell."""
    if value is None:
        return ""
    if isinstance(value, str):  # csv quotes a line feed, but not a carriage return
        return value.replace("\r\n", "\n").replace("\r", "\n")
    if column in LIST_COLUMNS and isinstance(value, list) and _joins(value):
        return ";".join(value)
    return json.dumps(value, ensure_ascii=False)


def _joins(items: list[Any]) -> bool:
    """Whether a list of names can be written as ``a;b``."""
    plain = all(isinstance(item, str) and item and item == item.strip() and ";" not in item for item in items)
    return bool(items) and plain and not items[0].startswith("[")
