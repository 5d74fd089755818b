"""The SQLite file under a case base: how it is made and opened, and transactions that never half-write.

WAL with ``synchronous=FULL``: an acknowledged write survives ``kill -9`` and power loss. One connection and one lock a
:class:`Store`; any number of threads and processes may use the same file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from sagehand.cases.schema import APPLICATION_ID, SCHEMA_VERSION, check_version, migrate, write_schema
from sagehand.cases.sqlite_errors import BUSY_SECONDS, busy, translated
from sagehand.errors import NotACaseBase, ReadOnlyCaseBase, StoreError

__all__ = ["Store"]


class Store:
    """One connection to the file of a case base, with its lock.

    Attributes:
        path: The file, or None in memory.
        read_only: Whether writes are refused.
        lock: Held around every use of the connection.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path | None, *, read_only: bool) -> None:
        self.path, self.read_only = path, read_only
        self.lock = threading.RLock()
        self._connection: sqlite3.Connection | None = connection
        self._pid = os.getpid()
        self._wanted: dict[str, str] | None = None
        self._opened = 0

    @classmethod
    def create(cls, path: Path, meta: dict[str, str]) -> Store:
        """Make a new file, all or nothing, and open it; an existing file is never touched."""
        if not path.parent.is_dir():
            raise StoreError(f"cannot make {path}: there is no folder {path.parent}", hint="make the folder first")
        wal = path.with_name(path.name + "-wal")
        if os.path.lexists(path) or wal.exists():
            found = path if os.path.lexists(path) else wal
            raise StoreError(
                f"cannot make {path}: {found} exists", hint="open it, choose another name, or move it away"
            )
        draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
        try:
            with translated(path), contextlib.closing(sqlite3.connect(draft, isolation_level=None)) as connection:
                write_schema(connection, meta)
                connection.execute("PRAGMA journal_mode=WAL")
            _publish(draft, path)
            _sync_folder(path.parent)
        finally:
            draft.unlink(missing_ok=True)
        return cls.open(path, read_only=False)

    @classmethod
    def open(cls, path: Path, *, read_only: bool | None) -> Store:
        """Open a file; with ``read_only=None`` it is opened for writing where file and folder can be written."""
        _check_header(path)
        writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
        if read_only is False and not writable:
            raise ReadOnlyCaseBase(f"{path} or its folder cannot be written", hint="open it read-only, or copy it")
        as_read_only = not writable if read_only is None else read_only
        store = cls(_connect(path, as_read_only), path, read_only=as_read_only)
        try:
            store._settle()
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def planned(cls, path: Path, meta: dict[str, str]) -> Store:
        """A file that is made when the first transaction is written, and until then reads as an empty one."""
        store = cls.in_memory(meta)
        store.path, store._wanted = path, meta
        return store

    @property
    def on_disk(self) -> bool:
        """Whether there is a file."""
        return self.path is not None and self._wanted is None

    @classmethod
    def in_memory(cls, meta: dict[str, str]) -> Store:
        """A case base that is gone when it is closed."""
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        write_schema(connection, meta)
        return cls(connection, None, read_only=False)

    @property
    def name(self) -> str:
        """The file's path, or "the case base in memory"."""
        return "the case base in memory" if self.path is None else str(self.path)

    def close(self) -> None:
        """Close the connection; closing twice is fine."""
        with self.lock:
            if self._connection is not None and self._pid == os.getpid():
                self._connection.close()
            self._connection = None

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection; hold ``lock`` while you use it."""
        if self._connection is None:
            raise StoreError(f"{self.name} is closed", hint="open it again")
        if self._pid != os.getpid():
            raise StoreError(f"{self.name} was opened by another process", hint="open it after the fork")
        return self._connection

    def data_version(self) -> int:
        """Changes when another connection has written (``PRAGMA data_version``), or the file has been made."""
        version = int(self.connection.execute("PRAGMA data_version").fetchone()[0])
        return version + (self._opened << 32)

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Several reads of one and the same state."""
        with self.lock, translated(self.name):
            connection = self.connection
            if connection.in_transaction:
                yield connection
                return
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")

    @contextlib.contextmanager
    def writing(self, wait: float = BUSY_SECONDS) -> Iterator[sqlite3.Connection]:
        """One durable transaction; whatever goes wrong inside, nothing of it is written.

        Args:
            wait: How long to wait for another process's lock, and for another thread's [s].

        Raises:
            ReadOnlyCaseBase: The base was opened read-only, or the file system turned read-only.
            StoreBusy: Another process held the lock for longer than ``wait``.
            StoreFull: The disk is full.
        """
        if self.read_only:
            raise ReadOnlyCaseBase(
                f"{self.name} was opened read-only", hint="open it where file and folder can be written"
            )
        with self._locked(wait), translated(self.name, wait):
            self._make()
            connection = self.connection
            connection.execute(f"PRAGMA busy_timeout={round(wait * 1000)}")
            try:
                connection.execute("BEGIN IMMEDIATE")
            finally:
                connection.execute(f"PRAGMA busy_timeout={round(BUSY_SECONDS * 1000)}")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                # SQLite has rolled back by itself after some errors (disk full, I/O)
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _locked(self, wait: float) -> Iterator[None]:
        # a thread that writes a batch is waited for as ever, unless less was asked for
        if not self.lock.acquire(timeout=-1 if wait >= BUSY_SECONDS else wait):
            raise busy(self.name, wait, "thread")
        try:
            yield
        finally:
            self.lock.release()

    def _make(self) -> None:
        """Make a planned file now; where another process was quicker, its file is taken if it was made alike."""
        if self._wanted is None or self.path is None or self._connection is None:
            return
        try:
            made = Store.create(self.path, self._wanted)
        except StoreError:
            if not self.path.exists():
                raise
            made = Store.open(self.path, read_only=False)
            there = dict(made.connection.execute("SELECT key, value FROM meta").fetchall())
            if any(there.get(key) != value for key, value in self._wanted.items()):
                made.close()
                raise
        self._connection.close()
        self._connection, self._wanted, self._opened = made.connection, None, 1

    def _settle(self) -> None:
        """Check the version, bring an older file up to date, set the connection up."""
        with self.lock, translated(self.name):
            connection = self.connection
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
            check_version(version, self.name)
            if version < SCHEMA_VERSION:
                self._migrate(version)
            if not self.read_only:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=FULL")
                connection.execute("PRAGMA journal_size_limit=67108864")

    def _migrate(self, version: int) -> None:
        if self.read_only:
            raise StoreError(
                f"{self.name} has format {version} and must be brought to format {SCHEMA_VERSION}",
                hint="open it once where it can be written",
            )
        with self.writing() as connection:
            migrate(connection)


def _publish(draft: Path, path: Path) -> None:
    """Give the finished file its name; fails where the name was taken meanwhile."""
    taken = StoreError(f"cannot make {path}: it exists", hint="open it, or choose another name")
    try:
        os.link(draft, path)
        return
    except FileExistsError:
        raise taken from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise StoreError(f"cannot make {path}: {error.strerror}") from error
    try:  # a file system without hard links: take the name first, then put the file there
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        raise taken from None
    os.replace(draft, path)


def _sync_folder(folder: Path) -> None:
    """Make the new name in ``folder`` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        # some network file systems cannot sync a folder; the file itself is safe
        with contextlib.suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)


def _connect(path: Path, read_only: bool) -> sqlite3.Connection:
    def connect(mode: str) -> sqlite3.Connection:
        uri = f"file:{quote(str(path.absolute()))}?{mode}"
        connection = sqlite3.connect(
            uri, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_SECONDS, cached_statements=256
        )
        try:
            connection.execute("SELECT count(*) FROM meta").fetchone()
        except BaseException:
            connection.close()
            raise
        return connection

    with translated(path):
        if not read_only:
            return connect("mode=rw")
        try:
            return connect("mode=ro")
        except sqlite3.OperationalError:
            # a folder that cannot take the -shm file: safe to read as it stands when no -wal holds newer pages
            if os.access(path.parent, os.W_OK):
                raise
            wal = path.with_name(path.name + "-wal")
            if wal.exists() and wal.stat().st_size > 0:
                raise StoreError(
                    f"{path} cannot be read here: {wal.name} holds newer changes and the folder cannot be written",
                    hint="open it once where it can be written, or copy both files",
                ) from None
            return connect("immutable=1")


def _check_header(path: Path) -> None:
    """Tell other files apart by their first bytes, without letting SQLite touch them."""
    remedy = "give the path of a file that sagehand made"
    if not path.exists():
        raise NotACaseBase(
            f"there is no case base at {path}", hint="check the path, or import a folder of cases into it"
        )
    if not path.is_file():
        raise NotACaseBase(f"{path} is a folder, not a case base", hint=remedy)
    try:
        with path.open("rb") as file:
            head = file.read(100)
    except OSError as error:
        raise NotACaseBase(f"{path} cannot be read: {error.strerror}", hint="check its permissions") from error
    if not head:
        raise NotACaseBase(f"{path} is empty: no case base", hint="remove it, then import a folder of cases into it")
    if not head.startswith(b"SQLite format 3\0"):
        raise NotACaseBase(f"{path} is no case base", hint=remedy)
    if len(head) < 100 or int.from_bytes(head[68:72], "big") != APPLICATION_ID:
        raise NotACaseBase(f"{path} is an SQLite file, but no case base of sagehand", hint=remedy)
    check_version(int.from_bytes(head[60:64], "big"), str(path))
