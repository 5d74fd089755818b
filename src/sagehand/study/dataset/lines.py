"""A file of JSON lines that only grows, locked while it is open, and whole after a kill at any moment."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from sagehand.errors import InputError

__all__ = ["LineFile"]


class LineFile:
    """Use it as a context manager. A last line that a kill cut off is taken away when the file is opened."""

    def __init__(self, path: Path, busy: str) -> None:
        """Open the file, or make an empty one.

        Args:
            path: The file; its folder must be there.
            busy: What to say when another process holds it.

        Raises:
            InputError: Another process holds it, or it cannot be opened.
        """
        self.path = path
        try:
            self._file: BinaryIO = open(path, "a+b")  # noqa: SIM115 - closed by close()
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror}", hint="name another folder") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise InputError(busy, hint="wait until it has ended, or name another folder") from error
        if not self._is_there():  # whoever held it took it away between our opening and our locking
            self._file.close()
            raise InputError(busy, hint="it has just ended: try again")
        self._cut_torn_line()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add(self, doc: Mapping[str, Any]) -> int:
        """Append one line; when this returns, a kill of the process does not undo it. Returns its offset."""
        start = self._file.seek(0, os.SEEK_END)
        self._file.write(json.dumps(doc, ensure_ascii=False, allow_nan=False).encode() + b"\n")
        self._file.flush()
        return start

    def lines(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """(offset, line) from the first to the last, read one by one.

        Raises:
            InputError: A line is no JSON object.
        """
        at, size = 0, self._file.seek(0, os.SEEK_END)
        while at < size:
            doc, length = self._read(at)
            yield at, doc
            at += length

    def at(self, offset: int) -> dict[str, Any]:
        """The line that begins at an offset."""
        return self._read(offset)[0]

    def close(self, *, remove: bool = False) -> None:
        """Let go of the file; ``remove`` takes it away first."""
        if remove:
            self.path.unlink(missing_ok=True)
        self._file.close()

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            return False

    def _read(self, offset: int) -> tuple[dict[str, Any], int]:
        self._file.seek(offset)
        line = self._file.readline()
        try:
            doc = json.loads(line)
            if not isinstance(doc, dict):
                raise ValueError("no object")
        except ValueError as error:
            raise InputError(f"{self.path}: is damaged at byte {offset + 1}", hint="use a new folder") from error
        return doc, len(line)

    def _cut_torn_line(self) -> None:
        end = self._file.seek(0, os.SEEK_END)
        keep = end
        while keep:  # from the end, for the file may be long
            step = min(keep, 1 << 16)
            self._file.seek(keep - step)
            found = self._file.read(step).rfind(b"\n")
            if found >= 0:
                keep = keep - step + found + 1
                break
            keep -= step
        if keep < end:
            self._file.truncate(keep)
