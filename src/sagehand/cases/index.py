"""The searchable view of a case base: a matrix of unit vectors, and the cases' fields as whole numbers to filter by.

Two processes that see the same cases rank them alike, whatever the order in which they came in: a fast float32 product
only chooses the rows that can matter, each of them is then computed in float64 by a sum that does not depend on where
the row lies, rounded to 1e-9, and equal similarities are ordered by id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from sagehand.cases.case import Case, Where
from sagehand.cases.shelf import Device
from sagehand.cases.vectors import unit_vector
from sagehand.errors import InputError, UnknownName

__all__ = ["CODED_FIELDS", "Cases", "Index"]

CODED_FIELDS: tuple[str, ...] = ("family", "device", "step", "place", "previous_action", "next_action", "group")
"""The fields that :meth:`Index.codes` gives."""

_BLOCK = 2048


class Cases(Sequence[Case]):
    """The cases in the order of the index's rows, made when they are looked at."""

    def __init__(self, ids: Sequence[str], devices: Sequence[Device]) -> None:
        self._ids, self._devices = ids, devices

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, row: int) -> Case: ...
    @overload
    def __getitem__(self, row: slice) -> list[Case]: ...
    def __getitem__(self, row: int | slice) -> Case | list[Case]:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        return self._devices[row].cases[self._ids[row]]


class Index:
    """All active cases that have a usable vector, as of one revision. It never changes: ask the base for the next one.

    Attributes:
        ids: The cases' ids, row by row.
        cases: The cases, row by row, with derived fields.
        vectors: Unit vectors, float32, shape (n, d), not writeable.
        depth_vectors: Row → depth vector, shape (576,), of the cases that have one.
        revision: The case base's revision.
    """

    def __init__(
        self,
        *,
        ids: Sequence[str],
        devices: Sequence[Device],
        vectors: NDArray[np.float32],
        lengths: NDArray[np.float64],
        depth_vectors: Mapping[int, NDArray[np.float32]],
        codes: NDArray[np.int32],
        vocabularies: Sequence[list[str]],
        rows: Mapping[str, int],
        revision: int,
    ) -> None:
        self.ids, self.vectors, self.depth_vectors, self.revision = ids, vectors, depth_vectors, revision
        self.cases = Cases(ids, devices)
        self._lengths, self._codes, self._vocabularies, self._rows = lengths, codes, vocabularies, rows

    def __len__(self) -> int:
        return len(self.ids)

    def codes(self, field: str) -> tuple[NDArray[np.int32], list[str]]:
        """A field of every case as whole numbers.

        Args:
            field: One of :data:`CODED_FIELDS`.

        Returns:
            Codes of shape (n,), −1 where the value is not known, and the values that the codes count (steps as text).
            Both belong to the index: do not change them.
        """
        if field not in CODED_FIELDS:
            raise UnknownName("coded field", field, CODED_FIELDS)
        which = CODED_FIELDS.index(field)
        return self._codes[which], self._vocabularies[which]

    def row(self, case_id: str) -> int | None:
        """The row of a case, or None where the index does not hold it."""
        row = self._rows.get(case_id)
        # the look-up is shared with younger indexes, whose rows come after ours
        return row if row is not None and row < len(self) and self.ids[row] == case_id else None

    def mask(self, where: Where | None) -> NDArray[np.bool_] | None:
        """Which rows match, shape (n,); None for all of them."""
        if where is None or where == Where():
            return None
        mask = np.ones(len(self), np.bool_)
        for field, wanted in where.wanted().items():
            if wanted is not None:
                codes, vocabulary = self.codes(field)
                mask &= codes == (vocabulary.index(str(wanted)) if str(wanted) in vocabulary else -2)
        if where.exclude_groups:
            codes, vocabulary = self.codes("group")
            excluded = [code for code, group in enumerate(vocabulary) if group in where.exclude_groups]
            mask &= ~np.isin(codes, excluded)
        excluded_rows = [row for row in map(self.row, where.exclude) if row is not None]
        mask[excluded_rows] = False
        return mask

    def similarities(self, vector: NDArray[np.float32]) -> NDArray[np.float64]:
        """Cosine of ``vector`` with every row.

        Args:
            vector: Unit vector of shape (d,).

        Returns:
            Shape (n,), rounded to 1e-9; a case has the same value in every process.

        Raises:
            BadVector: The vector is not finite, not of length 1, or has the wrong dimension.
        """
        query = self._query(vector)
        blocks = [slice(start, start + _BLOCK) for start in range(0, len(self), _BLOCK)]
        parts = [self._exact(self.vectors[block], self._lengths[block], query) for block in blocks]
        return np.concatenate(parts) if parts else np.empty(0)

    def top(
        self, vector: NDArray[np.float32], k: int, mask: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """The most similar cases among those that match; exactly min(k, matching) of them.

        Args:
            vector: Unit vector of shape (d,).
            k: How many, at least 1.
            mask: Which rows may come back, shape (n,); None for all.

        Returns:
            Rows and similarities; similarity descending, then case id ascending.

        Raises:
            BadVector: The vector is not finite, not of length 1, or has the wrong dimension.
            InputError: ``k`` is below 1, or the mask has another shape.
        """
        query = self._query(vector)
        if k < 1:
            raise InputError(f"cannot look for {k} cases; valid: 1 or more")
        rows = self._preselect(query, k, mask)
        parts = [
            self._exact(self.vectors[part], self._lengths[part], query)
            for part in (rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK))
        ]
        values = np.concatenate(parts) if parts else np.empty(0)
        order = np.argsort(-values, kind="stable")
        if np.any(np.diff(values[order]) == 0):  # ids settle ties; without one they need not be looked at
            order = np.array(sorted(range(len(rows)), key=lambda i: (-values[i], self.ids[int(rows[i])])))
        return rows[order[:k]], values[order[:k]]

    def _preselect(self, query: NDArray[np.float32], k: int, mask: NDArray[np.bool_] | None) -> NDArray[np.intp]:
        """Rows among which the k best surely are."""
        if mask is not None and mask.shape != (len(self),):
            raise InputError(f"the mask has shape {mask.shape}; valid: ({len(self)},)")
        rows = None if mask is None else np.flatnonzero(mask)
        matching = len(self) if rows is None else len(rows)
        if matching <= k:
            return np.arange(matching) if rows is None else rows
        if rows is not None and 16 * matching < len(self):  # so few are copied sooner than all are multiplied
            fast = self.vectors[rows] @ query
        else:
            fast = self.vectors @ query
            if mask is not None:
                fast[~mask] = -np.inf
            rows = None
        # a float32 sum of d products is off by at most d · 2⁻²⁴ (unit vectors); two values may be off both ways
        margin = max(1e-5, 2 * len(query) * 2.0**-24 + 1e-6)
        kth = np.partition(fast, len(fast) - k)[len(fast) - k]
        near = np.flatnonzero(fast >= kth - margin)
        return near if rows is None else rows[near]

    def _query(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        return unit_vector(vector, self.vectors.shape[1], what="query vector")

    @staticmethod
    def _exact(
        rows: NDArray[np.float32], lengths: NDArray[np.float64], query: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        """Cosines in float64: products of float32 are exact there, and NumPy adds up each row for itself, pairwise."""
        wide = query.astype(np.float64)
        length = np.sqrt(np.square(wide).sum())
        dots = np.multiply(rows, wide, dtype=np.float64).sum(axis=1)
        rounded: NDArray[np.float64] = np.clip(np.round(dots / (lengths * length), 9), -1.0, 1.0)
        return rounded
