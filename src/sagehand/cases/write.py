"""What is written to a case base: new cases, corrections, retirements, new embeddings. Inside a write transaction."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sagehand.cases.case import ROW_FIELDS, Case, CaseDraft, parse_row, same_label
from sagehand.cases.history import Batch
from sagehand.cases.records import State, dump, read_record, read_state
from sagehand.cases.table import FILE_COLUMNS, path_problem
from sagehand.cases.vectors import to_blob, unit_vector
from sagehand.errors import CaseConflict, InputError, LabelError, NoSuchCase, StoreError, near_misses

if TYPE_CHECKING:
    from sagehand.embed import EmbedderIdentity
    from sagehand.picture import Box

__all__ = ["Embedded", "Prepared", "correct", "insert", "prepare", "reembed", "resolve", "retire"]

_PREFIX_END = "\U0010ffff"


@dataclass(frozen=True)
class Prepared:
    """A draft that was checked, ready to be written."""

    case_id: str
    """The picture's id."""
    state: State
    """What will stand in the file."""
    vector: bytes
    """The unit vector."""
    depth_vector: bytes | None
    """The depth vector."""
    files: dict[str, bytes]
    """sha256 → bytes of the picture and of the depth image."""


class Embedded(NamedTuple):
    """What embedding a case anew gives."""

    case_id: str
    """The case."""
    vector: NDArray[np.float32]
    """The unit vector, shape (d,)."""
    box: Box | None = None
    """The crop, in pixels of the original."""
    depth_vector: NDArray[np.float32] | None = None
    """The depth vector of the same crop; None where there is no depth image, or too few readings in it."""


def prepare(draft: CaseDraft, dimension: int) -> Prepared:
    """Check a draft; nothing is written yet.

    Raises:
        LabelError: The row is not valid.
        BadVector: The vector or the depth vector is not.
    """
    row = dict(draft.row)
    parse_row(row)
    if not draft.pixel_id or not draft.image:
        raise StoreError("a case needs a picture and its pixel id", hint="load it with sagehand.picture.load")
    depth_vector = None if draft.depth_vector is None else unit_vector(draft.depth_vector, None, what="depth vector")
    files = {hashlib.sha256(data).hexdigest(): data for data in (draft.image, draft.depth_image) if data is not None}
    hashes = list(files)  # one only, where the two files are the same bytes
    box = draft.box
    return Prepared(
        case_id=draft.pixel_id,
        state=State(
            row=row,
            line=draft.line,
            box=None if box is None else (box.left, box.top, box.right, box.bottom),
            sha256=hashes[0],
            depth_sha256=None if draft.depth_image is None else hashes[-1],
            depth_unit=None if draft.depth_image is None else draft.depth_unit,
        ),
        vector=to_blob(unit_vector(draft.vector, dimension)),
        depth_vector=None if depth_vector is None else to_blob(depth_vector),
        files=files,
    )


def insert(batch: Batch, new: Prepared) -> Case:
    """Write a new case, or revive the retired one of the same picture.

    Raises:
        CaseConflict: The same pixels are there already; nothing of this case was written.
    """
    connection = batch.connection
    old = read_state(connection, new.case_id)
    if old is not None and not old.retired:
        raise _conflict(new, old)
    connection.executemany("INSERT OR IGNORE INTO pictures VALUES (?, ?)", list(new.files.items()))
    operation = "add" if old is None else "revive"
    n = batch.change_case(new.case_id, old, new.state, operation=operation, new_vectors=True)
    connection.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", (n, new.vector, new.depth_vector))
    return read_record(connection, new.case_id).to_case()


def correct(
    connection: sqlite3.Connection,
    case_id: str,
    changes: Mapping[str, Any],
    reason: str,
    check: Callable[[Mapping[str, Any]], None] | None = None,
) -> Case:
    """Change keys of a case's row; a value of None takes the key out."""
    before = _state(connection, case_id)
    _check_keys(changes, before.row)
    row = {key: value for key, value in {**before.row, **changes}.items() if not (key in changes and value is None)}
    fields = parse_row(row)
    if check is not None:
        # what is not changed may be wrong still: it is put right by a correction of its own
        check({key: value for key, value in fields.items() if key in changes})
    after = before.with_row(row)
    if after is not before:
        _check_files(connection, case_id, changes, before.row)
        Batch(connection, "correct", reason).change_case(case_id, before, after)
    return read_record(connection, case_id).to_case()


def retire(connection: sqlite3.Connection, case_id: str, reason: str) -> Case:
    """Take a case out of use."""
    before = _state(connection, case_id)
    if before.retired:
        raise StoreError(f"case {case_id} is retired already", hint="undo, or add the picture again, to bring it back")
    Batch(connection, "retire", reason).change_case(case_id, before, replace(before, retired=True))
    return read_record(connection, case_id).to_case()


def reembed(
    connection: sqlite3.Connection,
    identity: EmbedderIdentity,
    vectors: Sequence[Embedded],
    crop: str,
) -> int:
    """Replace every vector, the crops and the embedder's name in one go; returns how many vectors were written."""
    given = {new.case_id: (*_blobs(new, identity.dimension), new.box) for new in vectors}
    known = {r[0]: (r[1], bool(r[2])) for r in connection.execute("SELECT id, n, retired FROM cases").fetchall()}
    unknown = [case_id for case_id in given if case_id not in known]
    if unknown:
        raise NoSuchCase(f"there is no case {unknown[0]!r} to embed ({len(unknown)} unknown ids)")
    missing = [case_id for case_id, (_, retired) in known.items() if not retired and case_id not in given]
    if missing:
        raise StoreError(
            f"{len(missing)} of {len(known)} cases have no new vector, the first is {missing[0]}",
            hint="cases may have been added meanwhile: embed them all again",
        )
    names = {"embedder": dump(identity.to_dict()), "crop": crop}
    old = dict(connection.execute("SELECT key, value FROM meta WHERE key IN ('embedder', 'crop')").fetchall())
    seq = Batch(connection, "reembed").log(None, dump(_readable(old)), dump(_readable(names)))
    for case_id, (n, _) in known.items():
        vector, depth, box = given.get(case_id, (None, None, None))
        sides = None if box is None else dump([box.left, box.top, box.right, box.bottom])
        connection.execute("UPDATE vectors SET vector = ?, depth = ? WHERE n = ?", (vector, depth, n))
        connection.execute("UPDATE cases SET box = ?, seq = ?, vector_seq = ? WHERE n = ?", (sides, seq, seq, n))
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", list(names.items()))
    # it was learnt from the old vectors' similarities
    connection.execute("DELETE FROM meta WHERE key = 'calibration'")
    return len(given)


def resolve(connection: sqlite3.Connection, text: str) -> str:
    """The id that ``text`` is, or that alone starts with it.

    Raises:
        NoSuchCase: None or several do.
    """
    sql = "SELECT id FROM cases WHERE id >= ? AND id < ? ORDER BY id LIMIT 6"
    found = [row[0] for row in connection.execute(sql, (text, text + _PREFIX_END))] if text else []
    if found and (len(found) == 1 or found[0] == text):
        return str(found[0])
    if found:
        listed = ", ".join(found[:5]) + (", …" if len(found) > 5 else "")
        raise NoSuchCase(f"several cases start with {text!r}: {listed}", hint="give more of the id")
    raise NoSuchCase(f"there is no case {text!r}", hint="give an id, or a start of one that no other id has")


def _blobs(new: Embedded, dimension: int) -> tuple[bytes, bytes | None]:
    depth = None if new.depth_vector is None else to_blob(unit_vector(new.depth_vector, None, what="depth vector"))
    return to_blob(unit_vector(new.vector, dimension)), depth


def _state(connection: sqlite3.Connection, case_id: str) -> State:
    state = read_state(connection, case_id)
    if state is None:
        raise NoSuchCase(f"there is no case {case_id!r}")
    return state


def _check_keys(changes: Mapping[str, Any], row: Mapping[str, Any]) -> None:
    for key in changes:
        if key in ROW_FIELDS or key in row:
            continue
        close = [name for name in near_misses(str(key), ROW_FIELDS) if _nearly(str(key), name)]
        if close:
            raise LabelError(
                f"unknown field {key!r}; known: {', '.join(ROW_FIELDS)}", hint=f"did you mean {close[0]!r}?"
            )


def _check_files(
    connection: sqlite3.Connection, case_id: str, changes: Mapping[str, Any], row: Mapping[str, Any]
) -> None:
    """Refuse what an import would refuse: a file outside the folder, and one name for two pictures."""
    for column in FILE_COLUMNS:
        name = changes.get(column)
        if name is None or name == row.get(column):
            continue
        problem = path_problem(name)
        if problem:
            raise LabelError(f"field {column!r}: {problem}", hint="give a name relative to the folder")
        if column != "file_name":
            continue
        others = connection.execute("SELECT id, file_name FROM cases WHERE NOT retired AND id != ?", (case_id,))
        taken = [other for other, there in others if there and PurePosixPath(there) == PurePosixPath(name)]
        if taken:
            raise InputError(f"file_name {name!r} is taken by case {taken[0]}", hint="choose another name")


def _nearly(one: str, other: str) -> bool:
    """Whether the two are so alike that one is a slip of the pen; "date" is no slip for "state"."""
    import difflib

    return difflib.SequenceMatcher(None, one.casefold(), other).ratio() >= 0.85


def _conflict(new: Prepared, old: State) -> CaseConflict:
    same = same_label(new.state.row, old.row)
    what = "the same picture with the same label" if same else "the same picture with another label"
    ours, theirs = _described(new.state.row), _described(old.row)
    return CaseConflict(
        f"{ours} is in the case base already as {theirs}: {what} (case {new.case_id})",
        hint="" if same else "correct the case that is there, or retire it first",
    )


def _described(row: Mapping[str, Any]) -> str:
    fields = parse_row(row)
    step = "no step" if fields["step"] is None else f"step {fields['step']}"
    name = fields["file_name"] or "a picture without a name"
    return (
        f"{name} [{fields['family']} / {fields['device']} / {step}, next action {fields['next_action'] or 'not known'}]"
    )


def _readable(meta: Mapping[str, str]) -> dict[str, Any]:
    return {"embedder": json.loads(meta["embedder"]), "crop": meta["crop"]}
