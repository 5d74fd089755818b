"""The decision log: what was answered, on what evidence, and at which revision of the case base (SPEC C7)."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.cases.history import last_seq
from sagehand.cases.records import dump, read_object
from sagehand.cases.vectors import to_blob
from sagehand.errors import InputError, NoSuchCase

__all__ = ["append", "one", "plain_json", "recent", "relief_of", "thumbnail_of", "vector_of"]

_COLUMNS = "n, time, revision, doc"


def append(
    connection: sqlite3.Connection,
    doc: Mapping[str, Any],
    vector: NDArray[np.float32] | None,
    thumbnail: bytes | None,
    relief: NDArray[np.float32] | None = None,
) -> int:
    """Write a decision, inside a write transaction; returns its number.

    Raises:
        InputError: The document is not plain JSON (a number that is not finite, say).
    """
    text = plain_json(doc, "decision")
    object_id = doc.get("object_id")
    values = (
        datetime.now(UTC).isoformat(timespec="milliseconds"),
        None if object_id is None else str(object_id),
        last_seq(connection),
        text,
        None if vector is None else to_blob(np.asarray(vector)),
        thumbnail,
        None if relief is None else to_blob(np.asarray(relief)),
    )
    columns = "time, object_id, revision, doc, vector, thumbnail, relief"
    sql = f"INSERT INTO decisions ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)"
    return int(connection.execute(sql, values).lastrowid or 0)


def plain_json(doc: Mapping[str, Any], what: str) -> str:
    """A document as JSON text; refused where it could not be read back (a number that is not finite, say)."""
    try:
        text = dump(dict(doc))
        text.encode()
    except (TypeError, ValueError) as error:
        raise InputError(f"the {what} is not plain JSON: {error}", hint="write null and a reason instead") from None
    return text


def recent(
    connection: sqlite3.Connection, *, limit: int, object_id: str | None, before: int | None = None
) -> list[dict[str, Any]]:
    """The last decisions, newest first; of one object, and before another decision, if asked."""
    asked = {"object_id = ?": object_id, "n < ?": before}
    values: list[Any] = [value for value in asked.values() if value is not None]
    which = " AND ".join(condition for condition, value in asked.items() if value is not None)
    sql = f"SELECT {_COLUMNS} FROM decisions {'WHERE ' + which if which else ''} ORDER BY n DESC LIMIT ?"
    return [_document(row) for row in connection.execute(sql, [*values, limit]).fetchall()]


def one(connection: sqlite3.Connection, number: int) -> dict[str, Any]:
    """One decision by its number."""
    return _document(_found(connection, number, _COLUMNS))


def thumbnail_of(connection: sqlite3.Connection, number: int) -> bytes | None:
    """The picture that was kept with a decision."""
    data: bytes | None = _found(connection, number, "thumbnail")[0]
    return data


def vector_of(connection: sqlite3.Connection, number: int) -> NDArray[np.float32] | None:
    """The query vector that was kept with a decision, shape (d,)."""
    return _floats(_found(connection, number, "vector")[0])


def relief_of(connection: sqlite3.Connection, number: int) -> NDArray[np.float32] | None:
    """The query's depth vector that was kept with a decision, shape (576,)."""
    return _floats(_found(connection, number, "relief")[0])


def _floats(blob: bytes | None) -> NDArray[np.float32] | None:
    return None if blob is None else np.frombuffer(blob, np.dtype("<f4")).astype(np.float32)


def _found(connection: sqlite3.Connection, number: int, columns: str) -> tuple[Any, ...]:
    sql = f"SELECT {columns} FROM decisions WHERE n = ?"
    try:
        row: tuple[Any, ...] | None = connection.execute(sql, (number,)).fetchone()
    except OverflowError:  # beyond 64 bits no decision has a number
        row = None
    if row is None:
        last = connection.execute("SELECT max(n) FROM decisions").fetchone()[0]
        there = "none is recorded" if last is None else f"the last one is {last}"
        raise NoSuchCase(f"there is no decision {number}; {there}")
    return row


def _document(row: tuple[Any, ...]) -> dict[str, Any]:
    number, time, revision, doc = row
    return {**read_object(doc, f"decision {number}"), "decision": number, "time": time, "base_revision": revision}
