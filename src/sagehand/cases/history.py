"""The history of a case base: every change with its before and after. Undo, and the cases as they once were.

Nothing is ever taken out: undo writes what it reverts as a new batch, so that a revision number stays good for ever.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sagehand.cases.records import State, dump, read_object, read_state, write_state
from sagehand.cases.sqlite_errors import Damaged
from sagehand.errors import StoreError

__all__ = [
    "Batch",
    "DeclaredStep",
    "LogEntry",
    "as_of",
    "changes_since",
    "embedded_anew_since",
    "last_seq",
    "read_log",
    "states_as_of",
    "undo_batches",
]

DeclaredStep = tuple[str, str, int, str | None]
"""Family, device, number and name of a step that was declared, with or without cases."""

_REEMBED = "reembed"


@dataclass(frozen=True)
class LogEntry:
    """One change of one case (or of the declared steps, or of the embedder)."""

    seq: int
    """Number of the change; the case base's revision after it."""
    batch: int
    """Number shared by the changes that were made, and are undone, together."""
    time: str
    """UTC, ISO 8601."""
    operation: str
    """What was done, as in "add" or "rename step"."""
    case_id: str | None
    """The case, or None when the change was not to a case."""
    before: dict[str, Any] | None
    """What was there before; None when nothing was."""
    after: dict[str, Any] | None
    """What is there since."""
    reason: str
    """Why, in the words of whoever did it."""
    undoes: int | None
    """The batch that this change reverts, if it is an undo."""

    def changes(self) -> dict[str, tuple[Any, Any]]:
        """The keys of the row that changed, with the values before and after (None = absent)."""
        old = (self.before or {}).get("row") or {}
        new = (self.after or {}).get("row") or {}
        return {key: (old.get(key), new.get(key)) for key in {**old, **new} if old.get(key) != new.get(key)}


class Batch:
    """Changes that are made in one transaction and undone in one go.

    Args:
        connection: Inside a write transaction.
        operation: What is done.
        reason: Why.
        undoes: The batch that this one reverts.
        goes_on: A batch that this one belongs to, so that the two are undone together, if nothing came in between.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        operation: str,
        reason: str = "",
        undoes: int | None = None,
        goes_on: int | None = None,
    ) -> None:
        self.connection, self.operation, self.reason, self.undoes = connection, operation, reason, undoes
        last = connection.execute("SELECT max(batch) FROM history").fetchone()[0]
        self.number = last if last is not None and last == goes_on else (last or 0) + 1
        self.time = datetime.now(UTC).isoformat(timespec="milliseconds")

    def change_case(
        self, case_id: str, before: State | None, after: State, *, operation: str = "", new_vectors: bool = False
    ) -> int:
        """Write a case and log it; returns the case's row number."""
        old = None if before is None else before.to_json()
        seq = self.log(case_id, old, after.to_json(), operation)
        return write_state(self.connection, case_id, after, seq, new_vectors=new_vectors)

    def change_steps(self, removed: Iterable[DeclaredStep], added: Iterable[DeclaredStep]) -> None:
        """Take declared steps out, put others in, and log it; does nothing where there is nothing to change."""
        gone, come = [list(step) for step in removed], [list(step) for step in added]
        if gone == come:
            return
        sql = "DELETE FROM steps WHERE family = ? AND device = ? AND step = ?"
        self.connection.executemany(sql, [step[:3] for step in gone])
        self.connection.executemany("INSERT INTO steps VALUES (?, ?, ?, ?)", come)
        self.log(None, dump({"steps": gone}), dump({"steps": come}))

    def log(self, case_id: str | None, before: str | None, after: str | None, operation: str = "") -> int:
        """Append to the history; returns the new sequence number."""
        sql = (
            "INSERT INTO history (batch, time, operation, case_id, before, after, reason, undoes) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        )
        values = (self.number, self.time, operation or self.operation, case_id, before, after, self.reason, self.undoes)
        return int(self.connection.execute(sql, values).lastrowid or 0)


def last_seq(connection: sqlite3.Connection) -> int:
    """The number of the last change: the case base's revision."""
    return int(connection.execute("SELECT coalesce(max(seq), 0) FROM history").fetchone()[0])


def read_log(connection: sqlite3.Connection, *, limit: int | None = None, batch: int | None = None) -> list[LogEntry]:
    """Changes, newest first; of one batch, or the last ``limit``."""
    which, values = ("", []) if batch is None else ("WHERE batch = ?", [batch])
    sql = (
        "SELECT seq, batch, time, operation, case_id, before, after, reason, undoes "
        f"FROM history {which} ORDER BY seq DESC LIMIT ?"
    )
    rows = connection.execute(sql, [*values, -1 if limit is None else limit]).fetchall()
    return [LogEntry(*row[:5], *(_doc(doc, row[0]) for doc in row[5:7]), *row[7:]) for row in rows]


def _doc(text: str | None, seq: int) -> dict[str, Any] | None:
    return None if text is None else read_object(text, f"change {seq} of the history")


def undo_batches(connection: sqlite3.Connection, steps: int) -> list[LogEntry]:
    """Revert the last ``steps`` batches that stand, newest first; inside a write transaction.

    Only the newest standing batch is ever reverted, so what it changed is still as it left it.
    """
    sql = (
        "SELECT DISTINCT batch FROM history WHERE undoes IS NULL "
        "AND batch NOT IN (SELECT undoes FROM history WHERE undoes IS NOT NULL) ORDER BY batch DESC LIMIT ?"
    )
    standing = [int(row[0]) for row in connection.execute(sql, (steps,))]
    if len(standing) < steps:
        there = f"only {len(standing)} changes stand" if standing else "nothing is left to undo"
        raise StoreError(f"cannot undo {steps}: {there}", hint="the log lists what was done")
    written: list[LogEntry] = []
    for number in standing:
        written += _undo(connection, number)
    return written


def _undo(connection: sqlite3.Connection, number: int) -> list[LogEntry]:
    entries = read_log(connection, batch=number)
    batch = Batch(connection, "undo", f"undo of {entries[-1].operation}", undoes=number)
    for entry in entries:
        if entry.operation == _REEMBED:
            raise StoreError(
                "the last change is a new embedding of every case, which cannot be undone",
                hint="embed the cases again with the embedder that you want",
            )
        if entry.case_id is None:
            batch.change_steps(_declared(entry.after), _declared(entry.before))
            continue
        now = read_state(connection, entry.case_id)
        if now is None:
            raise StoreError(
                f"cannot undo: case {entry.case_id} is gone from the file", hint="restore a copy of the file"
            )
        then = State.from_json(dump(entry.before)) if entry.before is not None else replace(now, retired=True)
        batch.change_case(entry.case_id, now, then)
    return read_log(connection, batch=batch.number)


def _declared(doc: dict[str, Any] | None) -> list[DeclaredStep]:
    try:
        return [(family, device, step, name) for family, device, step, name in (doc or {"steps": []})["steps"]]
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged("a change of steps in the history is not complete") from error


def as_of(connection: sqlite3.Connection, revision: int) -> dict[str, dict[str, Any]]:
    """The rows of the active cases as they were after change ``revision``, by id."""
    return {case_id: state.row for case_id, state in states_as_of(connection, revision).items()}


def states_as_of(connection: sqlite3.Connection, revision: int) -> dict[str, State]:
    """The active cases as they were after change ``revision``, by id."""
    sql = (
        "SELECT case_id, after FROM history WHERE seq IN "
        "(SELECT max(seq) FROM history WHERE seq <= ? AND case_id IS NOT NULL GROUP BY case_id)"
    )
    states = {case_id: State.from_json(after) for case_id, after in connection.execute(sql, (revision,))}
    return {case_id: state for case_id, state in states.items() if not state.retired}


def changes_since(connection: sqlite3.Connection, revision: int, case_ids: Sequence[str]) -> list[LogEntry]:
    """What was done to some cases after change ``revision``, oldest first."""
    marks = ", ".join("?" * len(case_ids))
    sql = (
        "SELECT seq, batch, time, operation, case_id, before, after, reason, undoes FROM history "
        f"WHERE seq > ? AND case_id IN ({marks}) ORDER BY seq"
    )
    rows = connection.execute(sql, (revision, *case_ids)).fetchall()
    return [LogEntry(*row[:5], *(_doc(doc, row[0]) for doc in row[5:7]), *row[7:]) for row in rows]


def embedded_anew_since(connection: sqlite3.Connection, revision: int) -> int | None:
    """The first change after ``revision`` that replaced every vector, or None."""
    sql = "SELECT min(seq) FROM history WHERE seq > ? AND operation = ?"
    found = connection.execute(sql, (revision, _REEMBED)).fetchone()[0]
    return None if found is None else int(found)
