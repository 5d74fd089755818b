"""The searchable view of a case base as it once was: from the history, and the vectors that are still in the file.

A change never takes a vector away, except that embedding all cases anew replaces every one of them: what lies before
that cannot be searched any more. A case that was taken out and came back since was embedded again, from the same pixels;
only where its crop or its depth image is another one now does its vector differ, and such cases are named.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from sagehand.cases import history
from sagehand.cases.case import read_fields
from sagehand.cases.follow import IndexFollower
from sagehand.cases.index import Index
from sagehand.cases.records import Record, State, dump, read_state
from sagehand.cases.shelf import Shelf
from sagehand.errors import InputError, StoreError

__all__ = ["Past", "past_index"]


@dataclass(frozen=True, eq=False)
class Past:
    """The cases as they were.

    Attributes:
        index: The searchable view at that revision.
        other_vectors: Ids of cases whose vector is not the one that they had then.
    """

    index: Index
    other_vectors: tuple[str, ...]


def past_index(connection: sqlite3.Connection, revision: int, dimension: int, source: str) -> Past:
    """The index as it was after change ``revision``.

    Args:
        connection: Of the case base.
        revision: Which; 0 is the empty base.
        dimension: Length of a vector.
        source: The file, for errors.

    Raises:
        InputError: There is no such revision.
        StoreError: Every case was embedded anew since.
    """
    newest = history.last_seq(connection)
    if not 0 <= revision <= newest:
        raise InputError(f"there is no revision {revision}", hint=f"give one from 0 to {newest}")
    anew = history.embedded_anew_since(connection, revision)
    if anew is not None:
        raise StoreError(
            f"every case was embedded anew at revision {anew}, so the vectors of revision {revision} are gone",
            hint="a copy of the file from before still has them",
        )
    states = history.states_as_of(connection, revision)
    rows = connection.execute("SELECT n, id, vector_seq FROM cases ORDER BY n").fetchall()
    there = [(n, case_id, vector_seq) for n, case_id, vector_seq in rows if case_id in states]
    records = [_record(n, case_id, states[case_id]) for n, case_id, _ in there]
    shelf = Shelf(source)
    touched = shelf.apply(records)
    follower = IndexFollower(dimension)
    follower.apply(connection, shelf, records, touched, 0)
    other = [i for _, i, seq in there if seq > revision and _seen_otherwise(states[i], read_state(connection, i))]
    return Past(follower.index(revision), tuple(other))


def _record(n: int, case_id: str, state: State) -> Record:
    fields = read_fields(state.row)
    return Record(
        n=n,
        id=case_id,
        row=dump(state.row),
        box=None if state.box is None else dump(list(state.box)),
        depth_sha256=state.depth_sha256,
        retired=0,
        seq=1,
        vector_seq=1,
        family=fields["family"],
        device=fields["device"],
        step=fields["step"],
        previous_action=fields["previous_action"],
        next_action=fields["next_action"],
        place=fields["place"],
        near_group=fields["group"],
    )


def _seen_otherwise(then: State, now: State | None) -> bool:
    """Whether a case of the same pixels was embedded from another crop, or with another depth image."""
    return now is None or (then.box, then.depth_sha256, then.depth_unit) != (now.box, now.depth_sha256, now.depth_unit)
