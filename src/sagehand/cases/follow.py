"""Keeps the index up to date by what changed in the file, instead of building it anew."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sagehand.cases.index import CODED_FIELDS, Index
from sagehand.cases.records import Record
from sagehand.cases.shelf import Device, Shelf
from sagehand.cases.vectors import VectorBlock, frozen, read_vectors

__all__ = ["IndexFollower"]


class IndexFollower:
    """The growing arrays behind the indexes that are handed out.

    What an index was given never changes: new rows go behind its end, anything else is written to a copy.

    Args:
        dimension: Length of a vector.

    Attributes:
        dimension: Length of a vector.
        faults: Active cases whose vector cannot be used, with the reason; they are left out of the index.
    """

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.faults: dict[str, str] = {}
        self._block = VectorBlock(dimension)
        self._ids: list[str] = []
        self._devices: list[Device] = []
        self._rows: dict[str, int] = {}
        self._depth: dict[str, NDArray[np.float32]] = {}
        self._codes = np.empty((len(CODED_FIELDS), 0), np.int32)
        self._vocabularies: list[dict[str, int]] = [{} for _ in CODED_FIELDS]

    def apply(
        self,
        connection: sqlite3.Connection,
        shelf: Shelf,
        changed: Iterable[Record],
        touched: Iterable[tuple[str, str]],
        seen: int,
    ) -> None:
        """Take in what changed after revision ``seen``.

        Args:
            connection: For the new vectors.
            shelf: The rows, up to date.
            changed: The rows that changed.
            touched: The devices that they belong or belonged to.
            seen: Vectors that were written later than this are read again.
        """
        changed = list(changed)
        stale = [r for r in changed if r.id in self._rows and (r.retired or r.vector_seq > seen)]
        if stale:
            self._take_out([self._rows[record.id] for record in stale])
        for record in changed:
            if record.retired or record.vector_seq > seen:
                self.faults.pop(record.id, None)
        new = [r for r in changed if not r.retired and r.id not in self._rows and r.id not in self.faults]
        self._append(connection, new)
        self._devices = list(self._devices)
        self._recode([shelf.devices[key] for key in touched if key in shelf.devices])

    def index(self, revision: int) -> Index:
        """The index as it is now."""
        return Index(
            ids=self._ids,
            devices=self._devices,
            vectors=self._block.rows,
            lengths=self._block.lengths,
            depth_vectors={self._rows[case_id]: vector for case_id, vector in self._depth.items()},
            codes=frozen(self._codes[:, : len(self._ids)]),
            vocabularies=[list(vocabulary) for vocabulary in self._vocabularies],
            rows=self._rows,
            revision=revision,
        )

    def _take_out(self, rows: list[int]) -> None:
        gone = set(rows)
        keep = [row for row in range(len(self._ids)) if row not in gone]
        for row in gone:
            self._depth.pop(self._ids[row], None)
        self._block = self._block.without(rows)
        self._codes = self._codes[:, keep]
        self._ids = [self._ids[row] for row in keep]
        self._devices = [self._devices[row] for row in keep]
        self._rows = {case_id: row for row, case_id in enumerate(self._ids)}

    def _append(self, connection: sqlite3.Connection, records: list[Record]) -> None:
        if not records:
            return
        by_number = {record.n: record for record in records}
        if not self._ids:
            self._block.reserve(len(records) + len(records) // 4 + 64)  # untouched memory costs nothing
        ids = list(self._ids)
        for numbers, blobs, depths in read_vectors(connection, list(by_number)):
            for number, fault, depth in zip(numbers, self._block.append(blobs), depths, strict=True):
                case_id = by_number.pop(number).id
                if fault is not None:
                    self.faults[case_id] = fault
                    continue
                self._rows[case_id] = len(ids)
                ids.append(case_id)
                if depth is not None:
                    self._depth[case_id] = np.frombuffer(depth, np.dtype("<f4")).astype(np.float32, copy=False)
        for record in by_number.values():
            self.faults[record.id] = "no vector"
        self._ids = ids

    def _recode(self, devices: list[Device]) -> None:
        """Set device and codes of every case of ``devices``; they are the only ones that can have changed."""
        old_count = len(self._devices)
        count = len(self._ids)
        cases = [(row, d, i) for d in devices for i in d.records if (row := self._rows.get(i)) is not None]
        cases.sort(key=lambda case: case[0])  # new rows come last, in order
        rows = np.array([row for row, _, _ in cases], np.intp)
        fresh = np.array([self._coded(device, case_id) for _, device, case_id in cases], np.int32)
        fresh = fresh.reshape(-1, len(CODED_FIELDS)).T
        for row, device, _ in cases:
            if row < old_count:
                self._devices[row] = device
            else:
                self._devices.append(device)
        old = rows < old_count
        if count > self._codes.shape[1]:
            grown = np.empty((len(CODED_FIELDS), max(count, 2 * self._codes.shape[1])), np.int32)
            grown[:, :old_count] = self._codes[:, :old_count]
            self._codes = grown
        elif (self._codes[:, rows[old]] != fresh[:, old]).any():
            self._codes = self._codes.copy()
        self._codes[:, rows] = fresh

    def _coded(self, device: Device, case_id: str) -> list[int]:
        record = device.records[case_id]
        previous_action, next_action = device.actions(case_id)
        step = None if record.step is None else str(record.step)
        values = (record.family, record.device, step, record.place, previous_action, next_action, record.near_group)
        return [
            -1 if value is None else vocabulary.setdefault(value, len(vocabulary))
            for value, vocabulary in zip(values, self._vocabularies, strict=True)
        ]
