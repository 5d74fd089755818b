"""The table of a folder of cases: ``metadata.jsonl`` or ``metadata.csv`` to rows with line numbers.

The layout is Hugging Face's imagefolder: one row a picture, ``file_name`` relative to the folder. Reading never stops
at a broken line: it becomes a :class:`RowProblem` and the rest is read. What the *labels* in a row mean is checked by
:func:`sagehand.cases.case.parse_row`; here only that a row is a row, and that its file lies inside the folder.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NoReturn

from sagehand.cases.case import ROW_FIELDS
from sagehand.errors import InputError

__all__ = ["FILE_COLUMNS", "LIST_COLUMNS", "ROW_SHAPE", "RowProblem", "Table", "TableRow", "path_problem", "read_table"]

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
    """Line of the file on which the row starts, from 1."""
    values: Mapping[str, Any]
    """The row, keys in the order of the file; in a CSV an empty cell is absent."""
    text: str | None
    """The line as it was written, without its line feed (JSON lines); None for a CSV, which is written anew."""

    @property
    def file_name(self) -> str:
        """The picture's file, relative to the folder, ``/`` between folders."""
        return str(self.values["file_name"])


@dataclass(frozen=True, slots=True)
class RowProblem:
    """A row that cannot be used."""

    line: int
    """Line of the file on which the row starts, from 1."""
    file_name: str
    """The row's ``file_name`` if it could be read, else ""."""
    reason: str
    """What is wrong, in one line."""


@dataclass(frozen=True, slots=True)
class Table:
    """All rows of one table."""

    path: Path
    """The file that was read."""
    format: Literal["jsonl", "csv"]
    """Which of the two it is."""
    rows: tuple[TableRow, ...]
    """Good rows, in the order of the file."""
    problems: tuple[RowProblem, ...]
    """Rows that cannot be used, in the order of the file."""


class _BadRow(Exception):
    """One row cannot be used; becomes a RowProblem."""


def read_table(folder: str | Path) -> Table:
    """Read the ``metadata.jsonl`` or ``metadata.csv`` of a folder.

    Raises:
        InputError: The folder, or a table in it, is missing; both tables are there; the file cannot be read or is
            UTF-16; a CSV's header cannot be used; there is no row at all.
    """
    folder = Path(folder)
    path = _find_table(folder)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    if data.startswith(_UTF16):
        raise InputError(f"{path}: is UTF-16 text", hint="save it as UTF-8")
    data = data.removeprefix(_BOM)
    rows: list[TableRow] = []
    problems: list[RowProblem] = []
    format_: Literal["jsonl", "csv"] = "csv" if path.suffix == ".csv" else "jsonl"
    first_line: dict[str, int] = {}
    for line, found, text in _csv_rows(path, data) if format_ == "csv" else _json_rows(data):
        try:
            if isinstance(found, _BadRow):
                raise found
            values = _checked(found)
            name = str(PurePosixPath(values["file_name"]))
            if name in first_line:
                raise _BadRow(f"file_name {values['file_name']!r} stands on line {first_line[name]} already")
            first_line[name] = line
            rows.append(TableRow(line, values, text))
        except _BadRow as bad:
            given = found.get("file_name") if isinstance(found, dict) else None
            problems.append(RowProblem(line, given if isinstance(given, str) else "", str(bad)))
    if not rows and not problems:
        raise InputError(f"{path}: holds no row", hint=f"write one line a picture: {ROW_SHAPE}")
    return Table(path, format_, tuple(rows), tuple(problems))


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


def _find_table(folder: Path) -> Path:
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "no such folder"
        raise InputError(f"{folder}: {what}", hint="give the folder that holds the pictures and their metadata.jsonl")
    found = [folder / name for name in ("metadata.jsonl", "metadata.csv") if (folder / name).is_file()]
    if len(found) == 2:
        raise InputError(f"{folder}: holds both metadata.jsonl and metadata.csv", hint="keep the one that counts")
    if found:
        return found[0]
    below = sorted(p for name in ("metadata.jsonl", "metadata.csv") for p in folder.glob(f"*/{name}"))
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
        raise _BadRow("file_name is missing")
    for column in FILE_COLUMNS:
        problem = path_problem(values[column]) if values.get(column) is not None else None
        if problem:
            raise _BadRow(f"{column} {problem}")
    return values


def _json_rows(data: bytes) -> Iterator[tuple[int, dict[str, Any] | _BadRow, str | None]]:
    # only a line feed ends a line: a carriage return before it is kept in the text, so that export gives it back
    for line, raw in enumerate(data.split(b"\n"), start=1):
        if not raw.strip():
            continue
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            yield line, _BadRow(f"not UTF-8 text at byte {error.start + 1} of the line"), None
            continue
        try:
            yield line, _json_object(text), text
        except _BadRow as bad:
            yield line, bad, None


def _json_object(text: str) -> dict[str, Any]:
    value = _strict_json(text)
    if not isinstance(value, dict):
        raise _BadRow(f"is no JSON object but {type(value).__name__}; a row looks like {ROW_SHAPE}")
    return value


def _strict_json(text: str) -> Any:
    try:
        return json.loads(
            text, parse_constant=_refuse_constant, parse_float=_finite_float, object_pairs_hook=_unique_keys
        )
    except json.JSONDecodeError as error:
        raise _BadRow(f"not JSON: {error.msg} at column {error.colno}") from error
    except RecursionError as error:
        raise _BadRow("not JSON that can be read: nested too deeply") from error
    except ValueError as error:  # an integer of thousands of digits
        raise _BadRow(f"not JSON that can be read: {str(error).partition(';')[0]}") from error


def _refuse_constant(name: str) -> NoReturn:
    raise _BadRow(f"{name} is no JSON value; leave the key out where nothing is known")


def _finite_float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise _BadRow(f"the number {text} is too large")
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise _BadRow(f"the key {next(n for n in names if names.count(n) > 1)!r} stands twice")
    return values


def _csv_rows(path: Path, data: bytes) -> Iterator[tuple[int, dict[str, Any] | _BadRow, None]]:
    header: list[str] | None = None
    for line, record in _csv_records(data):
        if header is None:
            header = _csv_header(path, line, record)
            continue
        if isinstance(record, _BadRow) or not any(cell.strip() for cell in record):
            if isinstance(record, _BadRow):
                yield line, record, None
            continue
        if len(record) != len(header):
            yield line, _BadRow(f"has {len(record)} cells where the header has {len(header)}"), None
            continue
        try:
            cells = zip(header, record, strict=True)
            yield line, {column: _cell(column, cell) for column, cell in cells if cell.strip()}, None
        except _BadRow as bad:
            yield line, bad, None
    if header is None:
        raise InputError(f"{path}: is empty", hint="the first line names the columns: file_name,family,device,step,…")


def _csv_records(data: bytes) -> Iterator[tuple[int, list[str] | _BadRow]]:
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
            yield start + 1, _BadRow(f"not CSV: {error}")
            at = start + 1
            reader = csv.reader(feed(), strict=True)
            continue
        if record and any("\udc80" <= c <= "\udcff" for cell in record for c in cell):
            yield start + 1, _BadRow("not UTF-8 text; save the table as 'CSV UTF-8'")
        elif record:
            yield start + 1, record


def _csv_header(path: Path, line: int, record: list[str] | _BadRow) -> list[str]:
    where = f"{path}, line {line}"
    if isinstance(record, _BadRow):
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
        return _strict_json(text)
    if column in LIST_COLUMNS:
        return [item.strip() for item in text.split(";")]
    return cell
