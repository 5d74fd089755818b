"""Reading a case base: following the file's changes, searching, the knowledge tree, history and files."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from sagehand.cases import check, history, write
from sagehand.cases.case import Case, DepthUnit, Hit, Where
from sagehand.cases.follow import IndexFollower
from sagehand.cases.history import LogEntry
from sagehand.cases.index import Index
from sagehand.cases.past import Past, past_index
from sagehand.cases.records import State, read_object, read_state, records_since
from sagehand.cases.shelf import Shelf
from sagehand.cases.sqlite_errors import Damaged, translated
from sagehand.cases.store import Store
from sagehand.cases.tree import Tree, grow_tree
from sagehand.errors import CropMismatch, EmbedderMismatch, InputError, StoreError

if TYPE_CHECKING:
    from sagehand.embed import EmbedderIdentity

__all__ = ["Reader"]


class Reader:
    """The half of a :class:`~sagehand.cases.base.CaseBase` that only reads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._shelf = Shelf(store.name)
        self._follower: IndexFollower | None = None
        self._index: Index | None = None
        self._tree: Tree | None = None
        self._seen_seq, self._seen_version, self._stale = 0, -1, True
        self._identity: tuple[str, EmbedderIdentity] | None = None
        self._sound_calibration: str | None = None
        self._runs: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __len__(self) -> int:
        """How many cases are active."""
        with self._store.reading() as connection:
            return int(connection.execute("SELECT count(*) FROM cases WHERE NOT retired").fetchone()[0])

    def __bool__(self) -> bool:
        """True: an empty case base is a case base."""
        return True

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        self._store.close()

    @property
    def path(self) -> Path | None:
        """The file, or None in memory."""
        return self._store.path

    @property
    def on_disk(self) -> bool:
        """Whether there is a file: not in memory, and not before the first write of one made ``at_first_write``."""
        return self._store.on_disk

    @property
    def read_only(self) -> bool:
        """Whether writes are refused."""
        return self._store.read_only

    @property
    def embedder(self) -> EmbedderIdentity:
        """Whose vectors it holds, now (another process may have embedded it anew)."""
        text = self._meta("embedder") or "{}"
        if self._identity is None or self._identity[0] != text:
            from sagehand.embed import EmbedderIdentity

            with translated(self._store.name):
                try:
                    self._identity = (text, EmbedderIdentity.from_dict(read_object(text, "the embedder's name")))
                except InputError as error:
                    raise Damaged(error.message) from error
        return self._identity[1]

    @property
    def crop(self) -> str:
        """The crop strategy of its cases."""
        return self._meta("crop") or "none"

    @property
    def revision(self) -> int:
        """Number of the last change of a case or a step; decisions and the calibration do not count."""
        with self._store.reading() as connection:
            return history.last_seq(connection)

    def require(self, identity: EmbedderIdentity, crop: str | None = None) -> None:
        """Refuse an embedder or a crop strategy whose vectors cannot be compared with those in the base.

        Raises:
            EmbedderMismatch: Another network, revision, dimension or preprocessing.
            CropMismatch: Another crop strategy.
        """
        mine, file = self.embedder, self.path or "FILE"
        command = f"sagehand cases reembed {file} --embedder {identity.name}"
        remedy = f"use the base's own, or `{command}`"
        if identity != mine:
            named = [f"{mine}", f"{identity}"]
            if named[0] == named[1]:  # the short form hides what differs
                named = [
                    f"{one} with preprocessing {one.preprocessing}, revision {one.revision}" for one in (mine, identity)
                ]
            raise EmbedderMismatch(f"{self._store.name} holds vectors of {named[0]}, not of {named[1]}", hint=remedy)
        if crop is not None and crop != self.crop:
            raise CropMismatch(
                f"{self._store.name} holds vectors of pictures cropped by {self.crop!r}, not by {crop!r}",
                hint=f"use the base's own, or `{command} --crop {crop}`",
            )

    def get(self, case_id: str) -> Case:
        """A case by its id or a start of it that no other id has, derived fields filled in; retired ones too."""
        with self._store.lock:
            found = self._resolve(case_id)
            self._follow()
            return self._shelf.case(found)

    def cases(self, where: Where | None = None, *, retired: bool = False) -> list[Case]:
        """The active cases that match, in the order family, device, step, file name, id.

        Args:
            where: Which; None for all.
            retired: Whether to give retired cases as well.
        """
        with self._store.lock:
            self._follow()
            return self._shelf.cases(where or Where(), retired=retired)

    def readable_cases(self, where: Where | None = None) -> tuple[list[Case], list[str]]:
        """What can still be read of a damaged base.

        Args:
            where: Which; None for all.

        Returns:
            The active cases that match, in the order in which they came in, and the ids of those whose row is damaged.
        """
        with self._store.reading() as connection:
            self._follow()
            damaged: list[str] = []
            cases = self._shelf.cases(where or Where(), retired=False, damaged=damaged)
            came_in = dict(connection.execute("SELECT id, n FROM cases").fetchall())
            return sorted(cases, key=lambda case: int(came_in[case.id])), damaged

    def image(self, case_id: str) -> bytes:
        """The picture's file, byte for byte."""
        data = self._file(case_id, "sha256")
        if data is None:
            raise StoreError(f"the picture of case {case_id} is missing from {self._store.name}", hint="add it again")
        return data

    def depth_image(self, case_id: str) -> bytes | None:
        """The depth image's file, byte for byte, or None where there is none."""
        return self._file(case_id, "depth_sha256")

    def depth_unit(self, case_id: str) -> DepthUnit | None:
        """The unit of its depth image, or None where there is none. Bases of format 1 did not keep it: millimetres."""
        state = self._state(case_id)
        if state.depth_sha256 is None:
            return None
        return "m" if state.depth_unit == "m" else "um" if state.depth_unit == "um" else "mm"

    def row(self, case_id: str) -> dict[str, Any]:
        """The metadata row as it stands now, key order kept."""
        return self._state(case_id).row

    def line(self, case_id: str) -> str | None:
        """The row as it was written in the file it came from, or None once it was changed."""
        return self._state(case_id).line

    def known_bytes(self) -> dict[str, str]:
        """sha256 of each active case's picture file → the case's id: what need not be decoded again."""
        with self._store.reading() as connection:
            return dict(connection.execute("SELECT sha256, id FROM cases WHERE NOT retired").fetchall())

    def index(self) -> Index:
        """The searchable view, as of now; quick when nothing changed, and brought up to date by what did."""
        with self._store.lock:
            self._follow(vectors=True)
            if self._index is None:
                raise StoreError(f"{self._store.name} cannot be indexed")
            return self._index

    def search(self, vector: NDArray[np.float32], *, k: int, where: Where | None = None) -> list[Hit]:
        """The most similar cases among those that match: min(k, matching) of them, nearest first, then by id.

        Raises:
            BadVector: The vector is not of the base's dimension, not finite, or not of length 1.
        """
        index = self.index()
        rows, similarities = index.top(vector, k, index.mask(where))
        return [Hit(index.cases[int(row)], float(value)) for row, value in zip(rows, similarities, strict=True)]

    def tree(self) -> Tree:
        """The knowledge tree: families, devices, steps, and what is thinly covered."""
        with self._store.reading() as connection:
            self._follow()
            if self._tree is None:
                declared = connection.execute("SELECT family, device, step, name FROM steps").fetchall()
                cases = {key: device.cases.values() for key, device in self._shelf.devices.items()}
                self._tree = grow_tree(cases, declared, self._seen_seq)
            return self._tree

    def log(self, limit: int | None = 50) -> list[LogEntry]:
        """The last changes, newest first; None for all of them."""
        with self._store.reading() as connection:
            return history.read_log(connection, limit=limit)

    def as_of(self, revision: int) -> dict[str, dict[str, Any]]:
        """The rows of the active cases as they were at a revision, by id."""
        with self._store.reading() as connection:
            return history.as_of(connection, revision)

    def index_as_of(self, revision: int) -> Past:
        """The searchable view as it was at a revision.

        Raises:
            InputError: There is no such revision.
            StoreError: Every case was embedded anew since.
        """
        with self._store.reading() as connection:
            return past_index(connection, revision, self.embedder.dimension, self._store.name)

    def changes_since(self, revision: int, case_ids: Sequence[str]) -> list[LogEntry]:
        """What was done to some cases after a revision, oldest first."""
        with self._store.reading() as connection:
            return history.changes_since(connection, revision, case_ids)

    def embedded_anew_since(self, revision: int) -> int | None:
        """The first change after a revision that replaced every vector, or None."""
        with self._store.reading() as connection:
            return history.embedded_anew_since(connection, revision)

    def problems(self, *, thorough: bool = False) -> list[str]:
        """What is wrong with the file, in words; empty when all is well.

        Args:
            thorough: Whether to read the whole file: every row, decision and change must parse, every picture have the
                sha256 that it is filed under, and SQLite's own ``PRAGMA integrity_check`` find nothing.
        """
        with self._store.reading() as connection:
            damaged = check.damaged(connection) if thorough else []
            try:
                self._follow(vectors=True)
            except StoreError:
                if not damaged:  # else each of them is named already
                    raise
            faults = self._follower.faults if self._follower else check.without_vector(connection)
            found = [f"case {i}: its vector cannot be used ({why}); left out of search" for i, why in faults.items()]
            sql = "SELECT id FROM cases WHERE sha256 NOT IN (SELECT sha256 FROM pictures)"
            found += [f"case {row[0]}: its picture is missing" for row in connection.execute(sql)]
            return damaged + found

    def _follow(self, *, vectors: bool = False) -> None:
        """Take in what this object or another process has written since the last look. Holds the lock already."""
        version = self._store.data_version()
        if version == self._seen_version and not self._stale and (self._index is not None or not vectors):
            return
        try:
            with self._store.reading() as connection:
                self._take_in(connection, vectors)
        except BaseException:
            # half taken in: start again from the file next time
            self._shelf, self._follower, self._index, self._tree = Shelf(self._store.name), None, None, None
            self._seen_seq, self._stale = 0, True
            raise
        self._seen_version, self._stale = version, False

    def _take_in(self, connection: sqlite3.Connection, vectors: bool) -> None:
        seq = history.last_seq(connection)
        dimension = self.embedder.dimension
        if self._follower is not None and self._follower.dimension != dimension:
            self._follower, self._index = None, None  # embedded anew
        changed = records_since(connection, self._seen_seq)
        touched = self._shelf.apply(changed)
        if self._follower is None and vectors:
            self._follower = IndexFollower(dimension)
            changed, touched = list(self._shelf.records.values()), set(self._shelf.devices)
        if self._follower is not None and (seq != self._seen_seq or self._index is None):
            self._follower.apply(connection, self._shelf, changed, touched, self._seen_seq)
            self._index = self._follower.index(seq)
        if seq != self._seen_seq:
            self._tree = None
        self._seen_seq = seq

    def _meta(self, key: str) -> str | None:
        with self._store.reading() as connection:
            row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
            return None if row is None else str(row[0])

    def _resolve(self, case_id: str) -> str:
        with self._store.reading() as connection:
            return write.resolve(connection, case_id)

    def _state(self, case_id: str) -> State:
        with self._store.reading() as connection:
            state = read_state(connection, write.resolve(connection, case_id))
            if state is None:
                raise StoreError(f"case {case_id} is missing from {self._store.name}")
            return state

    def _file(self, case_id: str, column: str) -> bytes | None:
        with self._store.reading() as connection:
            sql = f"SELECT data FROM pictures WHERE sha256 = (SELECT {column} FROM cases WHERE id = ?)"
            row = connection.execute(sql, (write.resolve(connection, case_id),)).fetchone()
            return None if row is None else bytes(row[0])
