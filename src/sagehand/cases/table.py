"""The table of a folder of cases: ``metadata.jsonl`` or ``metadata.csv`` to rows with line numbers.

The layout is Hugging Face's imagefolder: one row a picture, ``file_name`` relative to the folder. A folder that has no such
table may have COCO or LabelMe annotations (:mod:`sagehand.cases.formats`), which give the same rows. Reading never stops
at a broken line: it becomes a :class:`RowProblem` and the rest is read. What the *labels* in a row mean is checked by
:func:`sagehand.cases.case.parse_row`; here only that a row is a row, and that its file lies inside the folder.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeAlias

from sagehand.cases.case import ROW_FIELDS
from sagehand.cases.formats.strict import BadRow, strict_json
from sagehand.errors import InputError, UnknownName

__all__ = [
    "FILE_COLUMNS",
    "FORMATS",
    "LIST_COLUMNS",
    "ROW_SHAPE",
    "Format",
    "RowProblem",
    "Table",
    "TableRow",
    "path_problem",
    "read_table",
]

Format: TypeAlias = Literal["jsonl", "csv", "coco", "labelme"]
"""How labels are written."""

FORMATS: tuple[Format, ...] = ("jsonl", "csv", "coco", "labelme")
"""All of them; the first is the default."""

LIST_COLUMNS = ("history", "remaining_actions")
FILE_COLUMNS = ("file_name", "depth_file_name")
_BOOL_COLUMNS = ("is_last", "end_state")
_JSON_COLUMNS = ("polygon",)
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")

ROW_SHAPE = (
    '{"file_name": "a.jpg", "family": "phone", "device": "model_x", "step": 1, "previous_action": "none", '
    '"next_action": "unscrew"}'
)
"""One row of a ``metadata.jsonl``, for error messages."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """One good row of the table."""

    line: int
    """Line of the file on which the row starts, from 1; of COCO and LabelMe the number of the picture."""
    values: Mapping[str, Any]
    """The row, keys in the order of the file; in a CSV an empty cell is absent."""
    text: str | None
    """The line as it was written, without its line feed (JSON lines); None for the others, which are written anew."""
    size: tuple[int, int] | None = None
    """Width and height of the picture that the outline was drawn on, where the annotation says so [px]."""

    @property
    def file_name(self) -> str:
        """The picture's file, relative to the folder, ``/`` between folders."""
        return str(self.values["file_name"])


@dataclass(frozen=True, slots=True)
class RowProblem:
    """A row that cannot be used."""

    line: int
    """Line of the file on which the row starts, from 1; of COCO and LabelMe the number of the picture."""
    file_name: str
    """The row's ``file_name`` if it could be read, else ""."""
    reason: str
    """What is wrong, in one line."""


@dataclass(frozen=True, slots=True)
class Table:
    """All rows of one table."""

    path: Path
    """The file that was read; of LabelMe the folder."""
    format: Format
    """Which it is."""
    rows: tuple[TableRow, ...]
    """Good rows, in the order of the file."""
    problems: tuple[RowProblem, ...]
    """Rows that cannot be used, in the order of the file."""


_Found: TypeAlias = "tuple[int, dict[str, Any] | BadRow, str | None, tuple[int, int] | None]"


def read_table(folder: str | Path, format: Format | Literal["auto"] = "auto") -> Table:
    """Read the labels of a folder.

    Args:
        folder: Holds the pictures.
        format: What to read; "auto" takes ``metadata.jsonl`` or ``metadata.csv``, else COCO, else LabelMe annotations.

    Raises:
        UnknownName: There is no such format.
        InputError: The folder, or a table in it, is missing; several tables are there; the file cannot be read or is
            UTF-16; a CSV's header cannot be used; there is no row at all.
    """
    if format not in ("auto", *FORMATS):
        raise UnknownName("format", format, ("auto", *FORMATS))
    folder = Path(folder)
    path, format_, entries = _source(folder, format)
    rows: list[TableRow] = []
    problems: list[RowProblem] = []
    first_line: dict[str, int] = {}
    for line, found, text, size in entries:
        try:
            if isinstance(found, BadRow):
                raise found
            values = _checked(found)
            name = str(PurePosixPath(values["file_name"]))
            if name in first_line:
                where = (
                    f"on line {first_line[name]}" if format_ in ("jsonl", "csv") else f"as number {first_line[name]}"
                )
                raise BadRow(f"file_name {values['file_name']!r} stands {where} already")
            first_line[name] = line
            rows.append(TableRow(line, values, text, size))
        except BadRow as bad:
            given = found.get("file_name") if isinstance(found, dict) else bad.file_name
            problems.append(RowProblem(line, given if isinstance(given, str) else "", str(bad)))
    if not rows and not problems:
        hint = (
            f"write one line a picture: {ROW_SHAPE}" if format_ in ("jsonl", "csv") else "annotate the pictures first"
        )
        raise InputError(f"{path}: holds no row", hint=hint)
    return Table(path, format_, tuple(rows), tuple(problems))


def _source(folder: Path, format: str) -> tuple[Path, Format, Iterable[_Found]]:
    """Which file is read, what it is, and what stands in it."""
    if format in ("auto", "coco", "labelme") and folder.is_dir():
        from sagehand.cases.formats import coco, labelme

        plain = format == "auto" and any((folder / f"metadata.{f}").is_file() for f in ("jsonl", "csv"))
        if not plain and format != "labelme" and (found := coco.find(folder)) is not None:
            return found, "coco", coco.read(folder, found)
        if not plain and format != "coco" and (files := labelme.find(folder)):
            return folder, "labelme", labelme.read(folder, files)
        if format == "coco":
            coco.refuse_spoilt(folder)
            raise InputError(f"{folder}: holds no COCO annotations", hint=f"valid names: {', '.join(coco.NAMES)}")
        if format == "labelme":
            raise InputError(
                f"{folder}: holds no LabelMe annotations", hint="LabelMe writes one .json beside each picture"
            )
    path = _find_table(folder, ("jsonl", "csv") if format == "auto" or not folder.is_dir() else (format,))
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    if data.startswith(_UTF16):
        raise InputError(f"{path}: is UTF-16 text", hint="save it as UTF-8")
    data = data.removeprefix(_BOM)
    format_: Format = "csv" if path.suffix == ".csv" else "jsonl"
    found_ = _csv_rows(path, data) if format_ == "csv" else _json_rows(data)
    return path, format_, ((line, row, text, None) for line, row, text in found_)


def path_problem(name: object) -> str | None:
    """Why ``name`` cannot be a file inside the folder, or None when it can."""
    if not isinstance(name, str) or not name.strip():
        return f"{name!r} is no file name"
    if "\0" in name:
        return f"{name!r} holds a NUL"
    if re.match(r"/|\\|[A-Za-z]:[/\\]", name):
        return f"{name!r} is an absolute path; write it relative to the folder"
    parts = re.split(r"[/\\]", name)
    if ".." in parts:
        return f"{name!r} leads out of the folder"
    if parts[-1] in ("", "."):
        return f"{name!r} names a folder, not a file"
    return None


def _find_table(folder: Path, formats: tuple[str, ...]) -> Path:
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "no such folder"
        raise InputError(f"{folder}: {what}", hint="give the folder that holds the pictures and their metadata.jsonl")
    found = [folder / f"metadata.{name}" for name in formats if (folder / f"metadata.{name}").is_file()]
    if len(found) == 2:
        raise InputError(f"{folder}: holds both metadata.jsonl and metadata.csv", hint="keep the one that counts")
    if found:
        return found[0]
    names = ("metadata.jsonl", "metadata.csv", "_annotations.coco.json")  # the last: train, valid and test of an export
    below = sorted(p for name in names for p in folder.glob(f"*/{name}"))
    if below:
        raise InputError(
            f"{folder}: holds no metadata.jsonl, but {below[0].relative_to(folder)} does exist",
            hint=f"import {below[0].parent}" + (f" and the {len(below) - 1} others one by one" if below[1:] else ""),
        )
    empty = next(folder.iterdir(), None) is None
    raise InputError(
        f"{folder}: is empty" if empty else f"{folder}: holds no metadata.jsonl (or metadata.csv)",
        hint=f"put a metadata.jsonl beside the pictures, one line a picture: {ROW_SHAPE}",
    )


def _checked(values: dict[str, Any]) -> dict[str, Any]:
    if values.get("file_name") is None:
        raise BadRow("file_name is missing")
    for column in FILE_COLUMNS:
        problem = path_problem(values[column]) if values.get(column) is not None else None
        if problem:
            raise BadRow(f"{column} {problem}")
    return values


def _json_rows(data: bytes) -> Iterator[tuple[int, dict[str, Any] | BadRow, str | None]]:
    # only a line feed ends a line: a carriage return before it is kept in the text, so that export gives it back
    for line, raw in enumerate(data.split(b"\n"), start=1):
        if not raw.strip():
            continue
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            yield line, BadRow(f"not UTF-8 text at byte {error.start + 1} of the line"), None
            continue
        try:
            yield line, _json_object(text), text
        except BadRow as bad:
            yield line, bad, None


def _json_object(text: str) -> dict[str, Any]:
    value = strict_json(text)
    if not isinstance(value, dict):
        raise BadRow(f"is no JSON object but {type(value).__name__}; a row looks like {ROW_SHAPE}")
    return value


def _csv_rows(path: Path, data: bytes) -> Iterator[tuple[int, dict[str, Any] | BadRow, None]]:
    header: list[str] | None = None
    for line, record in _csv_records(data):
        if header is None:
            header = _csv_header(path, line, record)
            continue
        if isinstance(record, BadRow) or not any(cell.strip() for cell in record):
            if isinstance(record, BadRow):
                yield line, record, None
            continue
        if len(record) != len(header):
            yield line, BadRow(f"has {len(record)} cells where the header has {len(header)}"), None
            continue
        try:
            cells = zip(header, record, strict=True)
            yield line, {column: _cell(column, cell) for column, cell in cells if cell.strip()}, None
        except BadRow as bad:
            yield line, bad, None
    if header is None:
        raise InputError(f"{path}: is empty", hint="the first line names the columns: file_name,family,device,step,…")


def _csv_records(data: bytes) -> Iterator[tuple[int, list[str] | BadRow]]:
    """Records with the line on which each starts; after a broken one, reading goes on at the next line."""
    # bytes that are no UTF-8 come through as lone surrogates, so that only their own record is refused
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    at = 0

    def feed() -> Iterator[str]:
        nonlocal at
        while at < len(lines):
            at += 1
            yield lines[at - 1].removesuffix("\r") + "\n"

    reader = csv.reader(feed(), strict=True)
    while at < len(lines):
        start = at
        try:
            record = next(reader, None)
        except csv.Error as error:
            yield start + 1, BadRow(f"not CSV: {error}")
            at = start + 1
            reader = csv.reader(feed(), strict=True)
            continue
        if record and any("\udc80" <= c <= "\udcff" for cell in record for c in cell):
            yield start + 1, BadRow("not UTF-8 text; save the table as 'CSV UTF-8'")
        elif record:
            yield start + 1, record


def _csv_header(path: Path, line: int, record: list[str] | BadRow) -> list[str]:
    where = f"{path}, line {line}"
    if isinstance(record, BadRow):
        raise InputError(f"{where}: the header is {record}")
    header = [name.strip() if name.strip() in ROW_FIELDS else name for name in record]
    if len(header) == 1 and ";" in header[0]:
        raise InputError(f"{where}: the columns are separated by ';'", hint="save the table with commas between cells")
    if "file_name" not in header:
        raise InputError(
            f"{where}: no column file_name; found: {', '.join(header)}", hint="name the picture's file there"
        )
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise InputError(f"{where}: the column {twice[0]!r} stands twice", hint="keep one of them")
    return header


def _cell(column: str, cell: str) -> Any:
    """One CSV cell as the value that a JSON row would hold; what does not fit stays text, for parse_row to name."""
    text = cell.strip()
    if column == "step" and re.fullmatch(r"[+-]?\d{1,9}(\.0+)?", text):
        return int(text.partition(".")[0])
    if column in _BOOL_COLUMNS and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if column in LIST_COLUMNS + _JSON_COLUMNS and text.startswith("["):
        return strict_json(text)
    if column in LIST_COLUMNS:
        return [item.strip() for item in text.split(";")]
    return cell
