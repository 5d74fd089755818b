"""The records of a run: one JSON line an answer, on disk as soon as it is there; and what can be counted from them.

A run folder has one writer at a time (``.lock``). A line that a kill or a full disk tore is cut off when the run is gone
on with, and said; everything else is taken as it stands. Of two records of one item the later one counts.
"""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from sagehand.errors import InputError
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
        self._synced = time.monotonic()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(folder)
        except OSError as error:
            raise InputError(
                f"{folder}: cannot be written: {error.strerror or error}", hint="name another place with --out"
            ) from error
        try:
            path = folder / RECORDS
            found, whole = _read_records(path)
            self.latest: dict[Key, Record] = {record.key: record for record in found}
            self._file = self._opened(path, whole)
        except BaseException:
            self._lock.close()
            raise

    def append(self, record: Record) -> None:
        """Write a record; when the call returns, it survives a kill."""
        line = json.dumps(record.to_dict(), ensure_ascii=False, allow_nan=False, default=_plain) + "\n"
        with self._writing:
            self._write(line.encode("utf-8", "surrogatepass"))  # as a file's name may hold, and json reads
            self.latest[record.key] = record
            self.appended += 1
            if time.monotonic() - self._synced > _SYNC_SECONDS:
                self._sync()

    def close(self) -> None:
        """Put everything on the disk and let go of the folder."""
        with self._writing:
            if not self._file.closed:
                self._sync()
                self._file.close()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, line: bytes) -> None:
        size = os.fstat(self._file.fileno()).st_size
        try:
            if self._file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.folder / RECORDS))
        except OSError:
            self._file.truncate(size)  # a torn line in the middle could not be told from damage
            raise

    def _sync(self) -> None:
        os.fsync(self._file.fileno())
        self._synced = time.monotonic()

    def _opened(self, path: Path, whole: int) -> FileIO:
        """The records, open at their end; what is torn there is cut off, a missing line end is set."""
        file = path.open("ab", buffering=0)
        try:
            size = path.stat().st_size
            if size > whole:
                file.truncate(whole)
                self.notes.append(
                    f"{path}: the last line was torn ({size - whole} bytes) and is cut off; its item is asked again"
                )
            if whole and not _ends_line(path, whole):
                file.write(b"\n")
        except BaseException:
            file.close()
            raise
        return file


def _read_records(path: Path) -> tuple[list[Record], int]:
    """The newest record of every item in the order of the file, and how many bytes of it are whole."""
    found: dict[Key, Record] = {}
    whole = 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    doc = json.loads(line)
                    record = Record.from_dict(doc)
                    _ = hash(record.key)
                except (ValueError, TypeError, AttributeError) as error:
                    if not line.endswith(b"\n"):  # only the last one
                        break
                    raise InputError(
                        f"{path}:{number}: is no record: {error}", hint="delete the line; its item is then asked again"
                    ) from error
                found.pop(record.key, None)
                found[record.key] = record
                whole += len(line)
    except FileNotFoundError:
        return [], 0
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}", hint="check its permissions") from error
    return list(found.values()), whole


def _ends_line(path: Path, whole: int) -> bool:
    with path.open("rb") as file:
        file.seek(whole - 1)
        return file.read(1) == b"\n"


def _locked(folder: Path) -> IO[str]:
    """The lock of the folder: the system lets go of it when the process ends, however it ends."""
    import fcntl  # what only reads runs needs none

    file = (folder / ".lock").open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        owner = file.read().strip()
        file.close()
        who = f"process {owner}" if owner else "another process"
        raise InputError(
            f"{folder}: {who} is writing into this run",
            hint="wait for it or stop it, or name another folder with --out",
        ) from None
    except BaseException:
        file.close()
        raise
    file.seek(0)
    file.truncate()
    file.write(str(os.getpid()))
    file.flush()
    return file


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
