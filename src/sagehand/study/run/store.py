"""The records of a run: one JSON line an answer, on disk as soon as it is there; and what can be counted from them.

A run folder has one writer at a time (``.lock``). A line that a kill or a full disk tore is cut off when the run is gone
on with, and said; everything else is taken as it stands. Of two records of one item the later one counts.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sagehand.errors import InputError
from sagehand.lines import FolderLock, LineFile, read_records
from sagehand.study.run.plan import Plan
from sagehand.study.run.record import Record

__all__ = ["ASKED", "MANIFEST", "PLAN", "RECORDS", "Run", "RunFiles", "in_order", "read_manifest", "read_run", "totals"]

PLAN, MANIFEST, RECORDS = "plan.yaml", "manifest.json", "records.jsonl"

ASKED = ("query", "test")
"""The subsets that a run's figures are of; the others show what a trained method has learnt by heart."""

_SYNC_SECONDS = 1.0  # a kill loses nothing (the line is with the system), a power cut this much
Key = tuple[str, int, int, str, str]


@dataclass(frozen=True)
class Run:
    """A run folder, read.

    Attributes:
        folder: Where it is.
        plan: The resolved plan.
        manifest: Settings, versions, digests, machine, sessions; {} where there is none.
        records: One for each item that was answered: by arm in the plan's order, seed, fold, subset and item.
    """

    folder: Path
    plan: Plan
    manifest: Mapping[str, Any] = field(repr=False)
    records: tuple[Record, ...] = field(repr=False)


def read_run(folder: str | Path) -> Run:
    """Read a run folder; a run under way may be read, too.

    Raises:
        InputError: It is no run folder, or a line of its records cannot be read.
    """
    folder = Path(folder)
    if not (folder / PLAN).is_file():
        raise InputError(
            f"{folder}: is no run folder: it has no {PLAN}", hint="make one: sagehand study run PLAN --out FOLDER"
        )
    plan = Plan.load(folder / PLAN)
    found, _ = _read_records(folder / RECORDS)
    return Run(folder, plan, read_manifest(folder), tuple(in_order(found, plan)))


def in_order(records: Iterable[Record], plan: Plan) -> list[Record]:
    """Records by arm in the plan's order, then by seed, fold, subset and item, whatever order they were answered in."""
    order = {arm.name: place for place, arm in enumerate(plan.arms)}
    return sorted(records, key=lambda r: (order.get(r.arm, len(order)), r.key))


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a run folder; {} where there is none.

    Raises:
        InputError: It cannot be read.
    """
    path = folder / MANIFEST
    try:
        doc = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}", hint="restore it, or start a new run folder") from error
    if not isinstance(doc, dict):
        raise InputError(f"{path}: is no manifest", hint="restore it, or start a new run folder")
    return doc


def totals(records: Iterable[Record]) -> dict[str, dict[str, Any]]:
    """Arm → what its records add up to: n, right (next action), accuracy, failures, errors, abstained, seconds, tokens.

    Derived from the records alone, so that a run in two parts adds up like an unbroken one. Failures and errors are in
    ``n``. The figures are of :data:`ASKED`; a trained method's other subsets stand under ``subsets``.
    """
    by_arm: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        asked = "" if record.subset in ASKED else record.subset
        by_arm.setdefault(record.arm, {}).setdefault(asked, []).append(record)
    return {
        arm: {
            **_total(subsets.get("", ())),
            **({"subsets": others} if (others := {s: _total(r) for s, r in sorted(subsets.items()) if s}) else {}),
        }
        for arm, subsets in by_arm.items()
    }


def _total(records: Sequence[Record]) -> dict[str, Any]:
    right = sum(bool(r.right.get("next_action")) for r in records)

    def used(what: str) -> int:
        return sum(int(r.usage.get(what, 0)) for r in records)

    return {
        "n": len(records),
        "right": right,
        "accuracy": round(right / len(records), 4) if records else None,
        "abstained": sum(bool(r.answer.get("abstained")) for r in records),
        "failures": sum(r.failure is not None for r in records),
        "errors": sum(r.error is not None for r in records),
        "seconds": round(sum(r.seconds for r in records), 3),
        "calls": used("calls"),
        "tokens": used("prompt") + used("completion"),
        "cached": used("cached"),
    }


class RunFiles:
    """The run folder of whoever writes into it: locked, its records open to be appended. Thread-safe.

    Args:
        folder: The folder; made where it is not there.

    Attributes:
        latest: The newest record of every item that was answered, by its key.
        appended: Records written through this object.
        notes: What had to be mended, a line each.

    Raises:
        InputError: Another process writes into it, it cannot be written, or a line of the records cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes: list[str] = []
        self.appended = 0
        self._writing = threading.Lock()
        self._lock = FolderLock(folder, "this run", flag="--out")
        try:
            path = folder / RECORDS
            found, whole = _read_records(path)
            self.latest: dict[Key, Record] = {record.key: record for record in found}
            self._file = LineFile(path, whole=whole, sync_seconds=_SYNC_SECONDS)
        except BaseException:
            self._lock.close()
            raise
        if torn := self._file.torn:
            self.notes.append(f"{path}: the last line was torn ({torn} bytes) and is cut off; its item is asked again")

    def append(self, record: Record) -> None:
        """Write a record; when the call returns, it survives a kill."""
        line = json.dumps(record.to_dict(), ensure_ascii=False, allow_nan=False, default=_plain) + "\n"
        with self._writing:
            self._file.append(line.encode("utf-8", "surrogatepass"))  # as a file's name may hold, and json reads
            self.latest[record.key] = record
            self.appended += 1

    def close(self) -> None:
        """Put everything on the disk and let go of the folder."""
        try:
            with self._writing:
                self._file.close()
        finally:
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _read_records(path: Path) -> tuple[list[Record], int]:
    """The newest record of every item in the order of the file, and how many bytes of it are whole."""
    found: dict[Key, Record] = {}
    whole = 0
    hint = "delete the line; its item is then asked again"
    for record, whole in read_records(path, _record, hint=hint):  # noqa: B007 - the last one counts
        found.pop(record.key, None)
        found[record.key] = record
    return list(found.values()), whole


def _record(doc: Any) -> Record:
    record = Record.from_dict(doc)
    _ = hash(record.key)  # a key that is no key is damage, too
    return record


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays, tuples' kin and paths, for JSON."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
