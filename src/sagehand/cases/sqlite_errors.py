"""SQLite's errors as sagehand's."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from sagehand.errors import InputError, NotACaseBase, ReadOnlyCaseBase, StoreBusy, StoreError, StoreFull

__all__ = ["BUSY_SECONDS", "DAMAGE_REMEDY", "Damaged", "busy", "translated"]

BUSY_SECONDS = 10.0
"""How long a write waits for another process's lock."""

DAMAGE_REMEDY = "`sagehand doctor` lists what is damaged; restore a copy, or export what is readable and import it anew"

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


class Damaged(ValueError):
    """What stands in a column cannot be what was written there; leaves a case base as a StoreError naming the file."""


@contextlib.contextmanager
def translated(name: str | Path, wait: float = BUSY_SECONDS) -> Iterator[None]:
    """SQLite's errors as ours; a number that no column can hold is an InputError.

    Args:
        name: The file, for the message.
        wait: How long the write lock is waited for [s], for the message.
    """
    try:
        yield
    except Damaged as error:
        raise StoreError(f"{name} is damaged: {error}", hint=DAMAGE_REMEDY) from error
    except sqlite3.Error as error:
        raise _as_store_error(error, str(name), wait) from error
    except OverflowError as error:
        raise InputError(f"a number is too large for a case base (the largest is {2**63 - 1})") from error


def busy(name: str, wait: float, who: str = "process") -> StoreBusy:
    """The error of a lock that was not had within ``wait`` seconds."""
    return StoreBusy(f"{name}: another {who} has held the write lock for over {wait:g} s", hint="try again")


def _as_store_error(error: sqlite3.Error, name: str, wait: float) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0)
    primary = code & 0xFF
    if primary in _BUSY:
        return busy(name, wait)
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
