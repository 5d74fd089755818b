"""What is damaged inside a case base whose pages SQLite can still read: for ``problems(thorough=True)``."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator

from sagehand.cases.case import read_fields
from sagehand.cases.records import box_from, read_object, read_sides
from sagehand.cases.sqlite_errors import Damaged
from sagehand.errors import InputError

__all__ = ["damaged", "without_vector"]


def damaged(connection: sqlite3.Connection) -> list[str]:
    """Everything that cannot be what was written, one line each; reads the whole file."""
    lines = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
    found = [f"the file: {line}" for line in lines if line != "ok"]
    for part in (_meta, _cases, _history, _decisions, _pictures):
        found += part(connection)
    return found


def without_vector(connection: sqlite3.Connection) -> dict[str, str]:
    """Active cases that have no vector, with the reason, for a file whose index cannot be made."""
    sql = (
        "SELECT id FROM cases LEFT JOIN vectors ON vectors.n = cases.n "
        "WHERE NOT retired AND vectors.vector IS NULL ORDER BY cases.n"
    )
    return {str(row[0]): "no vector" for row in connection.execute(sql)}


def _meta(connection: sqlite3.Connection) -> Iterator[str]:
    there = dict(connection.execute("SELECT key, value FROM meta"))
    yield from _fault("the embedder's name", _identity, there.get("embedder"))
    if "calibration" in there:
        yield from _fault("the calibration", read_object, there["calibration"], "the calibration")


def _identity(text: object) -> None:
    from sagehand.embed import EmbedderIdentity

    EmbedderIdentity.from_dict(read_object(text, "the embedder's name"))


def _cases(connection: sqlite3.Connection) -> Iterator[str]:
    for case_id, row, box in connection.execute("SELECT id, row, box FROM cases ORDER BY n"):
        yield from _fault(f"case {case_id}", _row, row, case_id)
        if box is not None:
            yield from _fault(f"the crop of case {case_id}", _box, box, case_id)


def _row(text: object, case_id: str) -> None:
    read_fields(read_object(text, f"the row of case {case_id}"))


def _box(text: object, case_id: str) -> None:
    box_from(read_sides(text, case_id))


def _history(connection: sqlite3.Connection) -> Iterator[str]:
    for seq, case_id, *docs in connection.execute("SELECT seq, case_id, before, after FROM history ORDER BY seq"):
        what = f"change {seq} of the history"
        for doc in docs:
            if doc is not None:
                yield from _fault(what, _change, doc, what, case_id is not None)


def _change(text: object, what: str, of_case: bool) -> None:
    doc = read_object(text, what)
    if of_case and not isinstance(doc.get("row"), dict):
        raise Damaged(f"{what} holds no row")


def _decisions(connection: sqlite3.Connection) -> Iterator[str]:
    for number, doc in connection.execute("SELECT n, doc FROM decisions ORDER BY n"):
        yield from _fault(f"decision {number}", read_object, doc, f"decision {number}")


def _pictures(connection: sqlite3.Connection) -> Iterator[str]:
    users = "SELECT group_concat(substr(id, 1, 8), ', ') FROM cases WHERE sha256 = :s OR depth_sha256 = :s"
    for sha256, data in connection.execute("SELECT sha256, data FROM pictures ORDER BY rowid"):
        if not isinstance(data, bytes) or hashlib.sha256(data).hexdigest() != sha256:
            of = connection.execute(users, {"s": sha256}).fetchone()[0]
            yield f"a picture does not match its sha256 {sha256[:12]}… (case {of or 'unknown'})"


def _fault(what: str, read: Callable[..., object], *arguments: object) -> Iterator[str]:
    """What is wrong with one column, if reading it fails; ``what`` it is, where the error does not say so itself."""
    try:
        read(*arguments)
    except Damaged as error:
        yield str(error)
    except InputError as error:
        yield f"{what}: {error.message}"
