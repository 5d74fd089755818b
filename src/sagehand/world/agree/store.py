"""The folder of an agreement study: a header, and one JSON line an outcome, on disk as soon as it is there.

A folder has one writer at a time. A line that a kill tore is cut off when the study is gone on with; of two outcomes of one
sample in one executor the later one counts, and only while the code, the packages and the files of one's own that it depends on
are the same. The header tells of those that the newest outcomes were made with.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sagehand.errors import InputError
from sagehand.files import write_whole
from sagehand.lines import FolderLock, LineFile, read_records
from sagehand.world.agree.outcome import Outcome

__all__ = ["HEADER", "RECORDS", "Entry", "Records", "read_entries", "read_header"]

HEADER, RECORDS = "agreement.json", "records.jsonl"

_SYNC_SECONDS = 1.0  # a kill loses nothing (the line is with the system), a power cut this much


@dataclass(frozen=True, eq=False)
class Entry:
    """A line of the records.

    Attributes:
        sample: The sample, as plain data.
        outcome: What the executor made of it.
        code: Digest of all that it depends on but data files that ship
            (:func:`~sagehand.world.agree.digest.answer_digest`).
    """

    sample: Mapping[str, Any]
    outcome: Outcome
    code: str

    @property
    def key(self) -> tuple[int, str]:
        """Sample and executor."""
        return self.outcome.number, self.outcome.executor

    def to_line(self) -> str:
        """As one line of JSON."""
        doc = {"code": self.code, "sample": self.sample, "outcome": self.outcome.to_dict()}
        return json.dumps(doc, ensure_ascii=False, allow_nan=False) + "\n"


def read_header(folder: Path) -> dict[str, Any]:
    """The header of a study's folder; {} where there is none.

    Raises:
        InputError: It cannot be read.
    """
    path = folder / HEADER
    try:
        doc = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}", hint="restore it, or name a new folder") from error
    if not isinstance(doc, dict):
        raise InputError(f"{path}: is no header of a study", hint="restore it, or name a new folder")
    return doc


def read_entries(path: Path) -> tuple[list[Entry], int]:
    """The newest entry of each sample and executor, and how many bytes of the file are whole.

    Raises:
        InputError: The file cannot be read, or a line in its middle is no entry.
    """
    found: dict[tuple[int, str], Entry] = {}
    whole = 0
    hint = "delete the line; it is then tried again"
    for entry, whole in read_records(path, _entry, hint=hint, said=repr):  # noqa: B007 - the last one counts
        found[entry.key] = entry
    return sorted(found.values(), key=lambda e: e.key), whole


def _entry(doc: Any) -> Entry:
    return Entry(doc["sample"], Outcome.from_dict(doc["outcome"]), str(doc["code"]))


class Records:
    """The records of whoever writes them: the folder locked, the file open to be appended.

    Args:
        folder: The folder; made where it is not there.
        header: What the study is. In a folder that was begun format, seed, robot, objects, executors and data files must
            be the same; what else differs, as a package's version, is written anew.
        resume: Go on in a folder that was begun.

    Attributes:
        entries: (number, executor) → the newest entry.

    Raises:
        InputError: The folder holds something else, another study, or is being written by another process.
    """

    def __init__(self, folder: Path, header: Mapping[str, Any], *, resume: bool = True) -> None:
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder}: is there already, and is no folder", hint="name another one")
        begun = (folder / HEADER).exists()
        if folder.is_dir() and not begun and any(e.name != ".lock" for e in folder.iterdir()):
            raise InputError(f"{folder}: is not empty, and no study was begun in it", hint="name a new folder")
        if begun and not resume:
            raise InputError(f"{folder}: holds a study already", hint="name a new folder, or go on with resume")
        self._lock = FolderLock(folder, "it")
        try:
            there = read_header(folder)
            _same(folder, there, header)
            if there != header:
                write_whole(folder / HEADER, json.dumps(header, indent=1, ensure_ascii=False).encode())
            path = folder / RECORDS
            found, whole = read_entries(path)
            self.entries = {entry.key: entry for entry in found}
            self._file = LineFile(path, whole=whole, sync_seconds=_SYNC_SECONDS)
        except BaseException:
            self._lock.close()
            raise

    def append(self, entries: Sequence[Entry]) -> None:
        """Write entries; when the call returns, they survive a kill of this process."""
        for entry in entries:
            try:
                self._file.append(entry.to_line().encode("utf-8", "surrogatepass"))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                raise InputError(f"{self._file.path}: the disk is full", hint="make room, and go on") from error
            self.entries[entry.key] = entry

    def close(self) -> None:
        """Put all on the disk and let go of the folder."""
        try:
            self._file.close()
        finally:
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _same(folder: Path, there: Mapping[str, Any], header: Mapping[str, Any]) -> None:
    if not there:
        return
    for name in ("format", "seed", "robot", "objects", "executors", "data"):
        if there.get(name) != header.get(name):
            what = {"data": "other data files of objects and robots", "objects": "other objects"}
            said = what.get(name, f"{name} {there.get(name)}, not {header.get(name)}")
            raise InputError(f"{folder}: was begun with {said}", hint="name a new folder")
