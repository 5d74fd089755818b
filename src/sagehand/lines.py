"""Files of JSON lines that only grow: one writer at a time, and whole after a kill or a full disk at any moment.

A line is whole when it was appended to its end. What a kill tore can only be the last one: it is cut off when the file is
opened to go on. A line in the middle that cannot be read is damage, and is told with its place. What a line means, and
which of two counts, is for whoever keeps the file.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from io import BufferedReader, FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from sagehand.errors import InputError

__all__ = ["FolderLock", "LineFile", "read_records"]

T = TypeVar("T")


class FolderLock:
    """The right to write into a folder: the system takes it back when the process ends, however it ends."""

    def __init__(self, folder: Path, what: str, *, flag: str = "") -> None:
        """Take the lock, ``.lock`` in the folder, and leave this process's id in it.

        Args:
            folder: The folder; made where it is not there.
            what: What it is to whoever writes into it, for the error: "this run".
            flag: The option by which another folder is named, for the hint.

        Raises:
            InputError: Another process writes into it, or it cannot be written.
        """
        named = f" with {flag}" if flag else ""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file: FileIO = (folder / ".lock").open("a+b", buffering=0)
            try:
                if not _lock(self._file):
                    self._file.seek(0)
                    owner = self._file.readall().decode(errors="replace").strip()
                    who = f"process {owner}" if owner else "another process"
                    raise InputError(
                        f"{folder}: {who} is writing into {what}",
                        hint=f"wait for it or stop it, or name another folder{named}",
                    )
                self._file.truncate(0)
                self._file.write(str(os.getpid()).encode())
            except BaseException:
                self._file.close()
                raise
        except OSError as error:
            raise InputError(
                f"{folder}: cannot be written: {error.strerror or error}", hint=f"name another place{named}"
            ) from error

    def close(self) -> None:
        """Let go of the folder."""
        self._file.close()


def read_records(
    path: Path, parse: Callable[[Any], T], *, hint: str, said: Callable[[Exception], str] = str
) -> Iterator[tuple[T, int]]:
    """The records of a file, also of one that is being written; of one that is not there, none.

    A last line without a line end is a record if it can be read as one, else it is torn and passed over.

    Args:
        path: The file.
        parse: Makes the record of a line's JSON.
        hint: What to do about a damaged line.
        said: Puts into words what was wrong with it.

    Yields:
        (record, where it ends [bytes]); the file is whole up to the last one's end.

    Raises:
        InputError: The file cannot be read, or a line in its middle is no record.
    """
    end = 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    record = parse(json.loads(line))
                except (ValueError, TypeError, KeyError, AttributeError) as error:
                    if not line.endswith(b"\n"):  # only the last one
                        return
                    raise InputError(f"{path}:{number}: is no record: {said(error)}", hint=hint) from error
                end += len(line)
                yield record, end
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}", hint="check its permissions") from error


class LineFile:
    """The file of whoever appends to it. Use it as a context manager.

    Attributes:
        path: The file.
        torn: So much of a last line was cut off when it was opened [bytes].
    """

    def __init__(
        self, path: Path, busy: str | None = None, *, whole: int | None = None, sync_seconds: float | None = None
    ) -> None:
        """Open the file, or make an empty one, and mend its end.

        Args:
            path: The file; its folder must be there.
            busy: What to say when another process holds it; None does not lock it, for its folder is locked.
            whole: So much of it was read as whole [bytes]: what follows is cut off, and a missing line end is set. None
                cuts off what follows the last line end, without reading the lines.
            sync_seconds: Put it on the disk every so often [s], and when it is closed: a power cut loses no more than
                that. A kill of the process alone loses nothing. None leaves it to the system.

        Raises:
            InputError: Another process holds it, or it cannot be opened.
        """
        self.path = path
        self.torn = 0
        self._sync_seconds = sync_seconds
        self._synced = time.monotonic()
        self._reader: BufferedReader | None = None
        try:
            self._file: FileIO = open(path, "a+b", buffering=0)  # noqa: SIM115 - closed by close()
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror}", hint="name another folder") from error
        try:
            if busy is not None:
                self._hold(busy)
            self._mend(self._last_line_end() if whole is None else whole)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def append(self, line: bytes) -> int:
        """Append one line, its end included; when this returns, a kill of the process does not undo it.

        Returns:
            Where it begins [bytes].

        Raises:
            OSError: It could not be written, or put on the disk; nothing of it is left in the file.
        """
        start = self._size()
        try:
            if self._file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            if self._sync_seconds is not None and time.monotonic() - self._synced > self._sync_seconds:
                self._sync()
        except OSError:
            self._file.truncate(start)  # a torn line in the middle could not be told from damage
            raise
        return start

    def add(self, doc: Mapping[str, Any]) -> int:
        """:meth:`append` an object as JSON."""
        return self.append(json.dumps(doc, ensure_ascii=False, allow_nan=False).encode() + b"\n")

    def lines(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """(where it begins [bytes], object) from the first line to the last, read one by one.

        Raises:
            InputError: A line is no JSON object.
        """
        at, size = 0, self._size()
        while at < size:
            doc, length = self._read(at)
            yield at, doc
            at += length

    def at(self, offset: int) -> dict[str, Any]:
        """The object in the line that begins at an offset [bytes]."""
        return self._read(offset)[0]

    def close(self, *, remove: bool = False) -> None:
        """Let go of the file, for good; ``remove`` takes it away first."""
        if self._file.closed:
            return
        try:
            if remove:
                self.path.unlink(missing_ok=True)
            elif self._sync_seconds is not None:
                self._sync()
        finally:
            if self._reader is not None:
                self._reader.close()
            self._file.close()

    def _hold(self, busy: str) -> None:
        try:
            held = _lock(self._file)
        except OSError:  # a file system without locks
            held = False
        if not held:
            raise InputError(busy, hint="wait until it has ended, or name another folder")
        try:
            there = os.path.samestat(os.stat(self.path), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            there = False
        if not there:  # whoever held it took it away between our opening and our locking
            raise InputError(busy, hint="it has just ended: try again")

    def _mend(self, whole: int) -> None:
        self.torn = max(self._size() - whole, 0)
        if self.torn:
            self._file.truncate(whole)
        if whole and os.pread(self._file.fileno(), 1, whole - 1) != b"\n":
            self._file.write(b"\n")

    def _last_line_end(self) -> int:
        end = self._size()
        while end:  # backwards, for the file may be long
            step = min(end, 1 << 16)
            found = os.pread(self._file.fileno(), step, end - step).rfind(b"\n")
            if found >= 0:
                return end - step + found + 1
            end -= step
        return 0

    def _read(self, offset: int) -> tuple[dict[str, Any], int]:
        if self._reader is None:
            self._reader = open(self.path, "rb")  # noqa: SIM115 - closed by close(); the other handle has no buffer
        self._reader.seek(offset)
        line = self._reader.readline()
        try:
            doc = json.loads(line)
            if not isinstance(doc, dict):
                raise ValueError("no object")
        except ValueError as error:
            raise InputError(f"{self.path}: is damaged at byte {offset + 1}", hint="use a new folder") from error
        return doc, len(line)

    def _size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def _sync(self) -> None:
        os.fsync(self._file.fileno())
        self._synced = time.monotonic()


def _lock(file: FileIO) -> bool:
    """Lock a file for this process alone; False where another one holds it."""
    import fcntl  # what only reads needs none

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
