"""The case base: cases in one SQLite file, searchable while several threads and processes write to it.

>>> from sagehand.embed import get_embedder
>>> embedder = get_embedder("hash")
>>> base = CaseBase.in_memory(embedder.identity)
>>> len(base)
0
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sagehand.cases import decisions, edit, history, write
from sagehand.cases.case import Case, CaseDraft
from sagehand.cases.history import LogEntry
from sagehand.cases.reader import Reader
from sagehand.cases.records import dump, read_object
from sagehand.cases.sqlite_errors import Damaged
from sagehand.cases.store import Store
from sagehand.errors import CaseConflict, InputError

if TYPE_CHECKING:
    from sagehand.embed import EmbedderIdentity

__all__ = ["CaseBase"]


class CaseBase(Reader):
    """Cases in one file. Make one with :meth:`create`, :meth:`open` or :meth:`in_memory`.

    Every write is one durable transaction: when the call returns, it survives ``kill -9`` and power loss; when it
    raises, nothing was written. An object may be used from several threads, the file from several processes; what one
    writes, the others see at their next call. All writes raise ``ReadOnlyCaseBase``, ``StoreBusy`` or
    ``StoreFull`` where that is the reason.
    """

    @classmethod
    def create(
        cls, path: str | Path, *, embedder: EmbedderIdentity, crop: str = "none", at_first_write: bool = False
    ) -> CaseBase:
        """Make a new case base; an existing file is refused, never overwritten.

        Args:
            path: Where; its folder must exist.
            embedder: Whose vectors it will hold.
            crop: The crop strategy of all its cases.
            at_first_write: Make the file with the first write, so that none is left behind when nothing is written. A
                file that another process has made meanwhile for the same embedder and crop is then written to.
        """
        meta = {"embedder": dump(embedder.to_dict()), "crop": crop}
        return cls(Store.planned(Path(path), meta) if at_first_write else Store.create(Path(path), meta))

    @classmethod
    def open(cls, path: str | Path, *, read_only: bool | None = None) -> CaseBase:
        """Open a case base.

        Args:
            path: The file.
            read_only: None opens for writing where the file and its folder can be written, else read-only. In a folder
                that cannot be written and with no writer at work, the file is taken as it stands and not followed.

        Raises:
            NotACaseBase: There is no file, or it is something else.
            NewerCaseBase: A newer sagehand wrote it.
            ReadOnlyCaseBase: ``read_only=False``, and it cannot be written.
        """
        return cls(Store.open(Path(path), read_only=read_only))

    @classmethod
    def in_memory(cls, embedder: EmbedderIdentity, *, crop: str = "none") -> CaseBase:
        """A case base without a file, for tests and trials."""
        return cls(Store.in_memory({"embedder": dump(embedder.to_dict()), "crop": crop}))

    def add(self, draft: CaseDraft) -> Case:
        """Add a case, or revive the retired one of the same picture.

        Returns:
            The case as its own row says; :meth:`get` adds what the device's other steps say.

        Raises:
            CaseConflict: The same pixels are there already.
            LabelError: The row is not valid.
            BadVector: The vector is not of the base's dimension, not finite, or not of length 1.
        """
        (result,) = self.add_many([draft])
        if isinstance(result, CaseConflict):
            raise result
        return result

    def add_many(self, drafts: Iterable[CaseDraft], *, run: str | None = None) -> list[Case | CaseConflict]:
        """Add cases in one transaction and one batch.

        Args:
            drafts: The cases.
            run: A token that several calls share: they are undone together as long as nothing was written in between.

        Returns:
            For each draft the case, or the conflict that kept it out while the rest was written.

        Raises:
            LabelError, BadVector: A draft is not valid; nothing was written.
        """
        identity = self.embedder
        prepared = [write.prepare(draft, identity.dimension) for draft in drafts]
        results: list[Case | CaseConflict] = []
        with self._write() as connection:
            self.require(identity)  # it may have been embedded anew since the drafts were made
            batch = history.Batch(connection, "add", goes_on=self._runs.get(run) if run is not None else None)
            for new in prepared:
                try:
                    results.append(write.insert(batch, new))
                except CaseConflict as conflict:
                    results.append(conflict)
        # after the commit: only then is the number ours
        if run is not None and not all(isinstance(result, CaseConflict) for result in results):
            self._runs = {run: batch.number}
        return results

    def correct(
        self,
        case_id: str,
        changes: Mapping[str, Any],
        *,
        reason: str = "",
        check: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> Case:
        """Change the label of a case. What changes nothing is not written, and leaves nothing to undo.

        Args:
            case_id: The case.
            changes: Keys of its row, as in ``metadata.jsonl``, with their new values; None takes a key out.
            reason: Why; kept in the history.
            check: Called with the changed fields (as by ``parse_row``); raises an InputError for a label that must not
                come in.

        Raises:
            LabelError: A value is not valid, or a key looks like a misspelt one.
            InputError: The file name leads out of a folder, or another case has it.
            NoSuchCase: There is no such case.
        """
        with self._write() as connection:
            return write.correct(connection, write.resolve(connection, case_id), changes, reason, check)

    def retire(self, case_id: str, *, reason: str = "") -> Case:
        """Take a case out of use; it stays in the file and its history."""
        with self._write() as connection:
            return write.retire(connection, write.resolve(connection, case_id), reason)

    def undo(self, steps: int = 1) -> list[LogEntry]:
        """Revert the last ``steps`` changes that stand, all or none; returns what was written.

        Raises:
            StoreError: There are not so many, or one is a new embedding, which cannot be undone.
        """
        if steps < 1:
            raise InputError(f"cannot undo {steps} changes; valid: 1 or more")
        with self._write() as connection:
            return history.undo_batches(connection, steps)

    def insert_step(self, family: str, device: str, at: int, name: str | None = None) -> int:
        """Make room for a new step: later ones move up by one. Returns how many cases changed."""
        with self._write() as connection:
            return edit.insert_step(connection, family, device, at, name)

    def move_step(self, family: str, device: str, step: int, to: int) -> int:
        """Put a step in the place of another. Returns how many cases changed."""
        with self._write() as connection:
            return edit.move_step(connection, family, device, step, to)

    def rename_step(self, family: str, device: str, step: int, name: str) -> int:
        """Set the ``state`` of every case of a step. Returns how many cases changed."""
        with self._write() as connection:
            return edit.rename_step(connection, family, device, step, name)

    def rename_device(self, family: str, device: str, to: str) -> int:
        """Give a device another name that is not taken. Returns how many cases changed."""
        with self._write() as connection:
            return edit.rename_device(connection, family, device, to)

    def move_device(self, family: str, device: str, to_family: str) -> int:
        """Put a device into another or a new family. Returns how many cases changed."""
        with self._write() as connection:
            return edit.move_device(connection, family, device, to_family)

    def rename_family(self, family: str, to: str) -> int:
        """Give a family another name that is not taken. Returns how many cases changed."""
        with self._write() as connection:
            return edit.rename_family(connection, family, to)

    def reembed(
        self,
        identity: EmbedderIdentity,
        vectors: Iterable[write.Embedded],
        crop: str,
    ) -> int:
        """Replace the vectors of all active cases by those of another embedder, all or nothing. Drops the calibration.

        Args:
            identity: The new embedder.
            vectors: What each active case is now; the depth vectors are replaced too. All are computed before anything is
                locked.
            crop: The crop strategy that was used.

        Returns:
            How many vectors were written.

        Raises:
            StoreError: A case is left out (one may have been added meanwhile).
            NoSuchCase, BadVector: An id or a vector is not valid.
        """
        computed = list(vectors)
        with self._write() as connection:
            return write.reembed(connection, identity, computed, crop)

    def calibration(self) -> dict[str, Any] | None:
        """What was learnt from the base's similarities, or None; one that is damaged is as good as missing."""
        text = self.calibration_text()
        return None if text is None else read_object(text, "the calibration")

    def calibration_text(self) -> str | None:
        """The same as it is stored: cheap to compare, for callers that keep what they made of it."""
        text = self._meta("calibration")
        if text is None or text == self._sound_calibration:
            return text
        try:
            read_object(text, "the calibration")
        except Damaged:
            return None
        self._sound_calibration = text
        return text

    def set_calibration(self, doc: Mapping[str, Any] | None) -> None:
        """Keep a calibration (None takes it out). It should carry the revision at which it was learnt."""
        text = None if doc is None else decisions.plain_json(doc, "calibration")
        with self._store.writing() as connection:
            connection.execute("DELETE FROM meta WHERE key = 'calibration'")
            if text is not None:
                connection.execute("INSERT INTO meta VALUES ('calibration', ?)", (text,))

    def record_decision(
        self,
        doc: Mapping[str, Any],
        *,
        vector: NDArray[np.float32] | None = None,
        thumbnail: bytes | None = None,
        relief: NDArray[np.float32] | None = None,
        wait: float = 1.0,
    ) -> int:
        """Append a decision to the log, durably.

        Args:
            doc: Plain JSON; its ``object_id`` can be asked for later.
            vector: The query's embedding, shape (d,).
            thumbnail: A small picture of the query.
            relief: The query's depth vector, shape (576,).
            wait: How long to wait for the write lock [s]: whoever decides must not stand still for the log.

        Returns:
            The decision's number.

        Raises:
            StoreBusy: The lock was not to be had in that time.
        """
        with self._store.writing(wait) as connection:
            return decisions.append(connection, doc, vector, thumbnail, relief)

    def decisions(
        self, *, limit: int | None = 20, object_id: str | None = None, before: int | None = None
    ) -> list[dict[str, Any]]:
        """The last decisions, newest first: the documents, with ``decision``, ``time`` and ``base_revision``.

        Args:
            limit: At most so many; None for all.
            object_id: Only those for this object.
            before: Only those before the decision of this number.
        """
        with self._store.reading() as connection:
            most = -1 if limit is None else limit
            return decisions.recent(connection, limit=most, object_id=object_id, before=before)

    def decision(self, number: int) -> dict[str, Any]:
        """One decision by its number."""
        with self._store.reading() as connection:
            return decisions.one(connection, number)

    def decision_thumbnail(self, number: int) -> bytes | None:
        """The picture that was kept with a decision."""
        with self._store.reading() as connection:
            return decisions.thumbnail_of(connection, number)

    def decision_vector(self, number: int) -> NDArray[np.float32] | None:
        """The query's embedding that was kept with a decision, shape (d,)."""
        with self._store.reading() as connection:
            return decisions.vector_of(connection, number)

    def decision_relief(self, number: int) -> NDArray[np.float32] | None:
        """The query's depth vector that was kept with a decision, shape (576,); files of before format 3 kept none."""
        with self._store.reading() as connection:
            return decisions.relief_of(connection, number)

    @contextlib.contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with self._store.writing() as connection:
            yield connection
            # before the commit, while the lock is held: no thread may see the old rows after it
            self._stale = True
