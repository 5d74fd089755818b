"""The rows of all cases in memory, device by device. They follow the file by what changed; cases are made on demand.

What can be derived for a case depends on the other steps of its device, so a :class:`Device` is the unit that is
replaced when anything in it changes. It never changes itself: whoever holds one holds a consistent state.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from sagehand.cases.case import Case, Where
from sagehand.cases.records import Record
from sagehand.cases.sqlite_errors import Damaged, translated

__all__ = ["Device", "Shelf"]


class Device:
    """The cases of one device at one moment.

    Attributes:
        family: Its family.
        name: Its name.
        records: Its active cases by id.
        source: The file, for errors.
    """

    def __init__(self, family: str, name: str, records: dict[str, Record], source: str) -> None:
        self.family, self.name, self.records, self.source = family, name, records, source

    @cached_property
    def cases(self) -> dict[str, Case]:
        """The cases by id, with what the device's other steps say filled in."""
        from sagehand.cases.derive import fill

        with translated(self.source):
            return {case.id: case for case in fill([record.to_case() for record in self.records.values()])}

    def readable(self, damaged: list[str]) -> Device:
        """This device without the cases whose row cannot be read; their ids go into ``damaged``."""
        sound = {}
        for case_id, record in self.records.items():
            try:
                record.to_case()
                sound[case_id] = record
            except Damaged:
                damaged.append(case_id)
        return self if len(sound) == len(self.records) else Device(self.family, self.name, sound, self.source)

    @cached_property
    def complete(self) -> bool:
        """Whether previous and next action are given in every row, so that nothing need be derived to know them."""
        return all(r.previous_action is not None and r.next_action is not None for r in self.records.values())

    def actions(self, case_id: str) -> tuple[str | None, str | None]:
        """Previous and next action of a case, derived where the row leaves them out."""
        if self.complete:
            record = self.records[case_id]
            return record.previous_action, record.next_action
        case = self.cases[case_id]
        return case.previous_action, case.next_action


class Shelf:
    """All rows, as of one revision.

    Args:
        source: The file, for errors.

    Attributes:
        records: Every case by id, retired ones too.
        devices: The devices that have active cases, by (family, name).
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self.records: dict[str, Record] = {}
        self.devices: dict[tuple[str, str], Device] = {}

    def apply(self, changed: Iterable[Record]) -> set[tuple[str, str]]:
        """Take in changed rows; returns the devices whose cases may look different now."""
        touched: dict[tuple[str, str], dict[str, Record]] = {}

        def rows_of(key: tuple[str, str]) -> dict[str, Record]:
            if key not in touched:
                device = self.devices.get(key)
                touched[key] = {} if device is None else dict(device.records)
            return touched[key]

        for record in changed:
            old = self.records.get(record.id)
            if old is not None and not old.retired and (record.retired or _key(old) != _key(record)):
                rows_of(_key(old)).pop(record.id)
            if not record.retired:
                rows_of(_key(record))[record.id] = record
            self.records[record.id] = record
        for key, records in touched.items():
            if records:
                self.devices[key] = Device(*key, records, self._source)
            else:
                self.devices.pop(key, None)
        return set(touched)

    def case(self, case_id: str) -> Case:
        """A case, retired or not."""
        record = self.records[case_id]
        with translated(self._source):
            return record.to_case() if record.retired else self.devices[_key(record)].cases[case_id]

    def cases(self, where: Where, *, retired: bool, damaged: list[str] | None = None) -> list[Case]:
        """The active cases that match, by family, device, step, file name and id; retired ones as well if asked.

        With a list ``damaged``, cases whose row cannot be read are left out and their ids put there.
        """
        devices = [
            device if damaged is None else device.readable(damaged)
            for device in self.devices.values()
            if where.family in (None, device.family) and where.device in (None, device.name)
        ]
        found = [case for device in devices for case in device.cases.values()]
        if retired:
            with translated(self._source):
                found += [record.to_case() for record in self.records.values() if record.retired]
        return sorted(filter(where.matches, found), key=_order)


def _key(record: Record) -> tuple[str, str]:
    return record.family, record.device


def _order(case: Case) -> tuple[str, str, float, str, str]:
    step = float("inf") if case.step is None else float(case.step)
    return case.family, case.device, step, case.file_name, case.id
