"""SQLite's errors as sagehand's."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from sagehand.errors import InputError, NotACaseBase, ReadOnlyCaseBase, StoreBusy, StoreError, StoreFull

__all__ = ["BUSY_SECONDS", "translated"]

BUSY_SECONDS = 10.0
"""How long a write waits for another process's lock."""

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


@contextlib.contextmanager
def translated(name: str | Path) -> Iterator[None]:
    """SQLite's errors as ours; a number that no column can hold is an InputError."""
    try:
        yield
    except sqlite3.Error as error:
        raise _as_store_error(error, str(name)) from error
    except OverflowError as error:
        raise InputError(f"a number is too large for a case base (the largest is {2**63 - 1})") from error


def _as_store_error(error: sqlite3.Error, name: str) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0)
    primary = code & 0xFF
    if primary in _BUSY:
        return StoreBusy(
            f"{name}: another process has held the write lock for over {BUSY_SECONDS:.0f} s", hint="try again"
        )
    if primary == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE:
        return StoreFull(f"{name}: the disk is full; nothing was written", hint="free some space, then try again")
    if primary == sqlite3.SQLITE_READONLY:
        return ReadOnlyCaseBase(f"{name} cannot be written", hint="check the permissions of the file and its folder")
    if primary == sqlite3.SQLITE_NOTADB:
        return NotACaseBase(f"{name} is no case base")
    if primary == sqlite3.SQLITE_CORRUPT:
        return StoreError(f"{name} is damaged: {error}", hint="restore a copy, or `sqlite3 FILE .recover`")
    if primary == sqlite3.SQLITE_CANTOPEN:
        return StoreError(f"{name}: {error}", hint="check that it and its folder are there and can be read and written")
    if primary == sqlite3.SQLITE_IOERR:
        said = f"{name}: {error}; nothing was written"
        return StoreError(said, hint="check the disk, its free space, and the size that a file may have")
    return StoreError(f"{name}: {error}")
