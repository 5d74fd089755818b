"""One case as the file holds it: its state (what history keeps of it) and its row in the table."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from sagehand.cases.case import Case, parse_row, read_fields
from sagehand.cases.sqlite_errors import Damaged
from sagehand.errors import InputError

if TYPE_CHECKING:
    from sagehand.picture import Box

__all__ = [
    "Record",
    "State",
    "box_from",
    "dump",
    "read_object",
    "read_record",
    "read_sides",
    "read_state",
    "records_since",
    "write_state",
]


@dataclass(frozen=True)
class State:
    """All of a case that can change, and that undo brings back. The vectors can be made again and are left out."""

    row: dict[str, Any]
    """The metadata row, key order kept."""
    line: str | None
    """The row as it was written, or None once it was corrected."""
    box: tuple[int, int, int, int] | None
    """The crop, in pixels of the original."""
    sha256: str
    """Of the picture's file."""
    depth_sha256: str | None
    """Of the depth image's file."""
    retired: bool = False
    """Whether the case is out of use."""
    depth_unit: str | None = None
    """Unit of the depth image; None where there is none, or in a file of format 1, where it was mm."""

    def to_json(self) -> str:
        """For the history table."""
        return dump(dict(vars(self)))

    @classmethod
    def from_json(cls, text: str) -> State:
        """Back from the history table."""
        doc = read_object(text, "a state in the history")
        try:
            box = doc.pop("box")
            return cls(box=None if box is None else (box[0], box[1], box[2], box[3]), **doc)
        except (KeyError, IndexError, TypeError) as error:
            raise Damaged("a state in the history is not complete") from error

    def with_row(self, row: Mapping[str, Any]) -> State:
        """The same case with another row; the verbatim line goes when the row is another."""
        return self if dump(row) == dump(self.row) else replace(self, row=dict(row), line=None)


class Record(NamedTuple):
    """A row of the table ``cases``, without the verbatim line; the JSON is parsed only when the case is looked at."""

    n: int
    id: str
    row: str
    box: str | None
    depth_sha256: str | None
    retired: int
    seq: int
    vector_seq: int
    family: str
    device: str
    step: int | None
    previous_action: str | None
    next_action: str | None
    place: str | None
    near_group: str | None

    def to_case(self) -> Case:
        """The case as its own row says, nothing derived."""
        try:
            fields = read_fields(read_object(self.row, f"the row of case {self.id}"))
            box = None if self.box is None else box_from(read_sides(self.box, self.id))
        except InputError as error:
            raise Damaged(f"case {self.id}: {error.message}") from error
        return Case(
            id=self.id,
            box=box,
            has_depth=self.depth_sha256 is not None,
            retired=bool(self.retired),
            **fields,
        )


_RECORD_COLUMNS = ", ".join(Record._fields)


def dump(doc: object) -> str:
    """JSON as the file keeps it: key order as given, finite numbers only."""
    return json.dumps(doc, ensure_ascii=False, allow_nan=False)


def read_object(text: object, what: str) -> dict[str, Any]:
    """The JSON object that stands in a column.

    Args:
        text: The column.
        what: What it is, for the message.

    Raises:
        Damaged: It cannot be read, or is no object.
    """
    doc = _read_json(text, what)
    if not isinstance(doc, dict):
        raise Damaged(f"{what} is no JSON object")
    return doc


def read_sides(text: object, case_id: str) -> tuple[int, int, int, int]:
    """The sides of a crop as they stand in the table ``cases``.

    Raises:
        Damaged: They are not four whole numbers.
    """
    what = f"the crop of case {case_id}"
    sides = _read_json(text, what)
    if not isinstance(sides, list) or len(sides) != 4 or not all(type(side) is int for side in sides):
        raise Damaged(f"{what} is no list of four whole numbers")
    return sides[0], sides[1], sides[2], sides[3]


def _read_json(text: object, what: str) -> Any:
    if not isinstance(text, str):
        raise Damaged(f"{what} is no text")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{what} is not JSON") from error


def box_from(sides: tuple[int, int, int, int]) -> Box:
    """A box from left, top, right, bottom."""
    from sagehand.picture import Box

    return Box(*sides)


def records_since(connection: sqlite3.Connection, seq: int) -> list[Record]:
    """All cases that changed after ``seq``, retired ones too, in the order in which they came in."""
    # ordered here: SQLite would rather scan the whole table by n than sort the few rows that its index finds
    which = "WHERE seq > ?" if seq else "WHERE ? = 0"
    found = connection.execute(f"SELECT {_RECORD_COLUMNS} FROM cases {which}", (seq,))
    return sorted(map(Record._make, found), key=lambda record: record.n)


def read_record(connection: sqlite3.Connection, case_id: str) -> Record:
    """The row of a case that is known to be there."""
    sql = f"SELECT {_RECORD_COLUMNS} FROM cases WHERE id = ?"
    return Record._make(connection.execute(sql, (case_id,)).fetchone())


def read_state(connection: sqlite3.Connection, case_id: str) -> State | None:
    """The state of a case, or None where there is none of that id."""
    sql = "SELECT row, line, box, sha256, depth_sha256, retired, depth_unit FROM cases WHERE id = ?"
    found = connection.execute(sql, (case_id,)).fetchone()
    if found is None:
        return None
    row, line, box, sha256, depth_sha256, retired, depth_unit = found
    sides = None if box is None else read_sides(box, case_id)
    return State(
        read_object(row, f"the row of case {case_id}"), line, sides, sha256, depth_sha256, bool(retired), depth_unit
    )


def write_state(connection: sqlite3.Connection, case_id: str, state: State, seq: int, *, new_vectors: bool) -> int:
    """Insert or update the case; returns its row number ``n``."""
    fields = parse_row(state.row)
    values = {
        "id": case_id,
        "row": dump(state.row),
        "line": state.line,
        "box": None if state.box is None else dump(state.box),
        "sha256": state.sha256,
        "depth_sha256": state.depth_sha256,
        "depth_unit": state.depth_unit,
        "retired": int(state.retired),
        "seq": seq,
        "near_group": fields["group"],
        **{name: fields[name] for name in _COPIED},
    }
    changed = ", ".join(f"{name} = excluded.{name}" for name in (*values, *(["vector_seq"] if new_vectors else [])))
    values["vector_seq"] = seq
    sql = (
        f"INSERT INTO cases ({', '.join(values)}) VALUES ({', '.join('?' * len(values))}) "
        f"ON CONFLICT (id) DO UPDATE SET {changed}"
    )
    connection.execute(sql, tuple(values.values()))
    return int(connection.execute("SELECT n FROM cases WHERE id = ?", (case_id,)).fetchone()[0])


_COPIED = ("family", "device", "step", "file_name", "previous_action", "next_action", "place")
