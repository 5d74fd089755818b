"""Vectors: what may come in, and how they lie in memory while the case base grows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import BadVector

__all__ = ["UNIT_TOLERANCE", "VectorBlock", "frozen", "read_vectors", "to_blob", "unit_vector"]

UNIT_TOLERANCE = 1e-3
"""How far from 1 a vector's length may be; it is then made exactly 1."""

_LITTLE_FLOAT = np.dtype("<f4")
_ROWS_AT_ONCE = 2048
_T = TypeVar("_T", bound=np.generic)


def unit_vector(vector: NDArray[np.float32], dimension: int | None, *, what: str = "vector") -> NDArray[np.float32]:
    """Check a vector and make its length 1.

    Args:
        vector: Shape (d,), any float type.
        dimension: What d must be; None for any.
        what: The vector's name in an error.

    Raises:
        BadVector: Not of shape (d,), not finite, or not of length 1 within 1e-3.
    """
    array = np.asarray(vector)
    if array.dtype.kind != "f" or array.ndim != 1 or (dimension is not None and array.shape != (dimension,)):
        valid = "one row of floats" if dimension is None else f"one row of {dimension} floats"
        raise BadVector(f"the {what} has shape {array.shape} and type {array.dtype}; valid: {valid}")
    length = float(np.sqrt(np.square(array, dtype=np.float64).sum()))
    if not np.isfinite(length):
        raise BadVector(f"the {what} is not finite", hint="the embedding failed; look at the picture")
    if abs(length - 1.0) > UNIT_TOLERANCE:
        raise BadVector(f"the {what} has length {length:.6g}; valid: 1", hint="divide it by its length")
    return np.ascontiguousarray(array / length, dtype=np.float32)


def to_blob(vector: NDArray[np.float32]) -> bytes:
    """As the file holds it: float32, little-endian."""
    return vector.astype(_LITTLE_FLOAT).tobytes()


def read_vectors(
    connection: sqlite3.Connection, numbers: Sequence[int]
) -> Iterator[tuple[list[int], list[bytes | None], list[bytes | None]]]:
    """Row numbers, vectors and depth vectors of cases, some hundreds at a time, in the order of the file."""
    wanted = set(numbers)
    if len(wanted) > 5000:  # one pass over the table is quicker than so many look-ups
        cursor = connection.execute("SELECT n, vector, depth FROM vectors ORDER BY n")
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            chosen = [row for row in rows if row[0] in wanted]
            if chosen:
                yield [r[0] for r in chosen], [r[1] for r in chosen], [r[2] for r in chosen]
        return
    ordered = sorted(wanted)
    for start in range(0, len(ordered), 500):
        part = ordered[start : start + 500]
        sql = f"SELECT n, vector, depth FROM vectors WHERE n IN ({', '.join('?' * len(part))}) ORDER BY n"
        chosen = connection.execute(sql, part).fetchall()
        yield [r[0] for r in chosen], [r[1] for r in chosen], [r[2] for r in chosen]


class VectorBlock:
    """Rows of unit vectors with room to grow. Rows that were handed out never change: growing and taking rows out copy.

    Attributes:
        dimension: Length d of a row.
        count: How many rows there are.
    """

    def __init__(self, dimension: int, capacity: int = 0) -> None:
        self.dimension, self.count = dimension, 0
        self._rows = np.empty((capacity, dimension), np.float32)
        self._lengths = np.empty(capacity, np.float64)

    @property
    def rows(self) -> NDArray[np.float32]:
        """Shape (count, d), contiguous, not writeable."""
        return frozen(self._rows[: self.count])

    @property
    def lengths(self) -> NDArray[np.float64]:
        """Length of each row: 1 within float32's rounding."""
        return frozen(self._lengths[: self.count])

    def append(self, blobs: Sequence[bytes | None]) -> list[str | None]:
        """Append the vectors that can be used; returns for each what is wrong with it, or None."""
        faults: list[str | None] = [self._fault_of_size(blob) for blob in blobs]
        right = [i for i, fault in enumerate(faults) if fault is None]
        block = np.frombuffer(b"".join(blobs[i] or b"" for i in right), _LITTLE_FLOAT)
        block = block.reshape(-1, self.dimension).astype(np.float32, copy=False)
        with np.errstate(all="ignore"):  # a damaged row may hold anything; it is told apart just below
            lengths = np.sqrt(np.square(block, dtype=np.float64).sum(axis=1))
            good = np.abs(lengths - 1.0) <= UNIT_TOLERANCE  # False for NaN too
        for i in np.flatnonzero(~good):
            length = lengths[i]
            faults[right[i]] = f"length {length:.6g} instead of 1" if np.isfinite(length) else "not finite"
        self._take(block[good] if not good.all() else block, lengths[good])
        return faults

    def without(self, rows: Sequence[int]) -> VectorBlock:
        """A copy that lacks some rows."""
        rest = VectorBlock(self.dimension, len(self._rows))  # as roomy, so that the next case need not copy again
        start = 0
        for row in [*sorted(rows), self.count]:
            end = rest.count + row - start
            rest._rows[rest.count : end] = self._rows[start:row]
            rest._lengths[rest.count : end] = self._lengths[start:row]
            rest.count, start = end, row + 1
        return rest

    def reserve(self, more: int) -> None:
        """Make room for ``more`` rows at once."""
        self._grow(self.count + more)

    def _fault_of_size(self, blob: bytes | None) -> str | None:
        if blob is None:
            return "no vector"
        expected = self.dimension * _LITTLE_FLOAT.itemsize
        return None if len(blob) == expected else f"{len(blob)} bytes instead of {expected}"

    def _take(self, block: NDArray[np.float32], lengths: NDArray[np.float64]) -> None:
        end = self.count + len(block)
        if end > len(self._rows):
            self._grow(max(end, 2 * len(self._rows), 64))
        self._rows[self.count : end] = block
        self._lengths[self.count : end] = lengths
        for row in np.flatnonzero(np.abs(lengths - 1.0) > 1e-6) + self.count:
            self._rows[row] /= self._lengths[row]
            self._lengths[row] = np.sqrt(np.square(self._rows[row], dtype=np.float64).sum())
        self.count = end

    def _grow(self, capacity: int) -> None:
        if capacity <= len(self._rows):
            return
        rows, lengths = np.empty((capacity, self.dimension), np.float32), np.empty(capacity, np.float64)
        rows[: self.count], lengths[: self.count] = self.rows, self.lengths
        self._rows, self._lengths = rows, lengths


def frozen(view: NDArray[_T]) -> NDArray[_T]:
    """The same view, not writeable any more."""
    view.flags.writeable = False
    return view
