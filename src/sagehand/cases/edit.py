"""Edits of the knowledge tree: steps and devices are inserted, renumbered and renamed, with all their cases.

Each function is one batch inside a write transaction and returns how many cases it changed. Two devices or families are
never merged by accident: a name that is taken is refused. Retired cases stay as they were.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from sagehand.cases.case import parse_row
from sagehand.cases.history import Batch, DeclaredStep
from sagehand.cases.records import read_state
from sagehand.cases.tree import no_such
from sagehand.errors import NoSuchCase, StoreError

__all__ = [
    "insert_step",
    "move_device",
    "move_step",
    "rename_device",
    "rename_family",
    "rename_step",
]


def insert_step(connection: sqlite3.Connection, family: str, device: str, at: int, name: str | None) -> int:
    """Make room for a new step ``at``: the steps from there on move up by one."""
    family, device = _known_device(connection, family, device)
    wanted = parse_row({"family": family, "device": device, "step": at, "state": name})
    last = max(_steps(connection, family, device), default=None)
    if wanted["step"] is None or (last is not None and wanted["step"] > last + 1):
        raise StoreError(f"cannot insert step {at}: {device!r} ends with step {last}", hint="insert it there or before")
    batch = Batch(connection, "insert step")
    new = (family, device, wanted["step"], wanted["state"])
    return _renumber(batch, family, device, lambda step: step + (step >= wanted["step"]), new)


def move_step(connection: sqlite3.Connection, family: str, device: str, step: int, to: int) -> int:
    """Put a step in the place of another; the steps between the two places close up."""
    family, device = _known_device(connection, family, device)
    steps = _steps(connection, family, device)
    for number in (step, to):
        if number not in steps:
            raise _no_such_step(device, number, steps)

    def moved(number: int) -> int:
        if number == step:
            return to
        if step < number <= to:
            return number - 1
        return number + 1 if to <= number < step else number

    return _renumber(Batch(connection, "move step"), family, device, moved)


def rename_step(connection: sqlite3.Connection, family: str, device: str, step: int, name: str) -> int:
    """Give a step another name: the ``state`` of every case in it, and the name it was declared with."""
    family, device = _known_device(connection, family, device)
    steps = _steps(connection, family, device)
    if step not in steps:
        raise _no_such_step(device, step, steps)
    wanted = parse_row({"family": family, "device": device, "state": name})["state"]
    if wanted is None:
        raise StoreError(f"step {step} of {device!r} needs a name", hint="give the state in words")
    batch = Batch(connection, "rename step")
    old = [declared for declared in _declared(connection, family, device) if declared[2] == step]
    batch.change_steps(old, [(family, device, step, wanted) for _ in old])
    return _rewrite(batch, _ids(connection, family, device, step), lambda row: {"state": wanted})


def rename_device(connection: sqlite3.Connection, family: str, device: str, to: str) -> int:
    """Give a device another name; refused where the family has a device of that name."""
    family, device = _known_device(connection, family, device)
    return _rehome(Batch(connection, "rename device"), {(family, device): _names(family, to)})


def move_device(connection: sqlite3.Connection, family: str, device: str, to_family: str) -> int:
    """Put a device into another (or a new) family; refused where that family has a device of that name."""
    family, device = _known_device(connection, family, device)
    return _rehome(Batch(connection, "move device"), {(family, device): _names(to_family, device)})


def rename_family(connection: sqlite3.Connection, family: str, to: str) -> int:
    """Give a family another name; refused where there is a family of that name."""
    devices = _devices(connection)
    family = parse_row({"family": family, "device": "-"})["family"]
    families = {key[0] for key in devices}
    if family not in families:
        raise no_such("family", family, families)
    new = _names(to, "-")[0]
    if new != family and new in families:
        raise StoreError(f"there is a family {new!r} already", hint="move its devices one by one to merge the two")
    moves = {key: (new, key[1]) for key in devices if key[0] == family}
    return _rehome(Batch(connection, "rename family"), moves)


def _renumber(
    batch: Batch, family: str, device: str, moved: Callable[[int], int], new: DeclaredStep | None = None
) -> int:
    old = _declared(batch.connection, family, device)
    batch.change_steps(old, [(f, d, moved(number), name) for f, d, number, name in old] + ([new] if new else []))
    ids = _ids(batch.connection, family, device)
    return _rewrite(batch, ids, lambda row: {"step": moved(int(row["step"]))} if row.get("step") is not None else {})


def _rehome(batch: Batch, moves: Mapping[tuple[str, str], tuple[str, str]]) -> int:
    taken = _devices(batch.connection)
    changed = 0
    for (family, device), (new_family, new_device) in moves.items():
        if (new_family, new_device) == (family, device):
            continue
        if (new_family, new_device) in taken and (new_family, new_device) not in moves:
            raise StoreError(
                f"family {new_family!r} has a device {new_device!r} already",
                hint="choose another name; to merge the two, correct their cases one by one",
            )
        ids = _ids(batch.connection, family, device)
        old = _declared(batch.connection, family, device)
        batch.change_steps(old, [(new_family, new_device, number, name) for _, _, number, name in old])
        names = {"family": new_family, "device": new_device}
        # a name that stays is left as the row spells it
        changes = {key: names[key] for key, kept in (("family", family), ("device", device)) if names[key] != kept}
        changed += _rewrite(batch, ids, partial(_always, changes))
    return changed


def _always(changes: Mapping[str, Any], row: dict[str, Any]) -> Mapping[str, Any]:
    return changes


def _rewrite(batch: Batch, ids: list[str], changes_for: Callable[[dict[str, Any]], Mapping[str, Any]]) -> int:
    changed = 0
    for case_id in ids:
        state = read_state(batch.connection, case_id)
        if state is None:  # cannot be: the ids were read in this transaction
            raise NoSuchCase(f"case {case_id} is gone")
        after = state.with_row({**state.row, **changes_for(state.row)})
        if after is not state:
            batch.change_case(case_id, state, after)
            changed += 1
    return changed


def _ids(connection: sqlite3.Connection, family: str, device: str, step: int | None = None) -> list[str]:
    sql = "SELECT id FROM cases WHERE family = ? AND device = ? AND NOT retired AND (? IS NULL OR step = ?) ORDER BY n"
    return [row[0] for row in connection.execute(sql, (family, device, step, step)).fetchall()]


def _steps(connection: sqlite3.Connection, family: str, device: str) -> list[int]:
    sql = (
        "SELECT step FROM cases WHERE family = :f AND device = :d AND NOT retired AND step IS NOT NULL "
        "UNION SELECT step FROM steps WHERE family = :f AND device = :d ORDER BY step"
    )
    return [row[0] for row in connection.execute(sql, {"f": family, "d": device})]


def _declared(connection: sqlite3.Connection, family: str, device: str) -> list[DeclaredStep]:
    sql = "SELECT family, device, step, name FROM steps WHERE family = ? AND device = ? ORDER BY step"
    return connection.execute(sql, (family, device)).fetchall()


def _devices(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    sql = "SELECT family, device FROM cases WHERE NOT retired UNION SELECT family, device FROM steps"
    return {(family, device) for family, device in connection.execute(sql)}


def _names(family: str, device: str) -> tuple[str, str]:
    fields = parse_row({"family": family, "device": device})
    return fields["family"], fields["device"]


def _known_device(connection: sqlite3.Connection, family: str, device: str) -> tuple[str, str]:
    family, device = _names(family, device)
    devices = _devices(connection)
    if not any(known == family for known, _ in devices):
        raise no_such("family", family, {known for known, _ in devices})
    if (family, device) not in devices:
        raise no_such(f"device in family {family!r}", device, [name for known, name in devices if known == family])
    return family, device


def _no_such_step(device: str, step: int, steps: list[int]) -> NoSuchCase:
    return NoSuchCase(f"{device!r} has no step {step}; its steps: {', '.join(map(str, steps)) or 'none'}")
