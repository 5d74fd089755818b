"""Answers kept, so that the same question is paid for once: complete valid ones only (SPEC C4)."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from sagehand.errors import Malformed, SettingsError, UnknownName
from sagehand.vlm.base import ToolCall
from sagehand.vlm.fit import fit_tool
from sagehand.vlm.prompt import Prompt
from sagehand.vlm.tools import Tool, tool_named

__all__ = ["ReplyCache", "cache_key"]

_FORMAT = 1
_APPLICATION = 0x73676863  # "sghc"
_BUSY_SECONDS = 0.05  # [s]: an answer waits no longer for the file, nor, on the event loop, for another thread
_TURN_SECONDS = 1.0  # [s]: off the event loop, an answer waits so long for its turn among the threads
_OPEN_SECONDS = 2.0  # [s]: several processes may be making the same file
_LOCKED = frozenset((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED))
_HINT = "name another file, or none to keep answers in memory"

T = TypeVar("T")


def cache_key(prompt: Prompt, model: str, parameters: Mapping[str, Any], server: str = "") -> str:
    """SHA-256 of all that an answer depends on: the whole prompt, its pictures, the wire schema, model and parameters.

    Two servers may serve different weights under one name, so the server's address is part of it; "" where there is none.
    The rung that answers is not part of it: a valid call is a valid call.
    """
    whole = [_FORMAT, server, model, dict(parameters), prompt.question.max_tokens, prompt.identity()]
    return hashlib.sha256(json.dumps(whole, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


class ReplyCache:
    """Key → answer, in memory or in one SQLite file that several processes may share.

    A file that is locked, full or damaged costs a second asking and no decision: ``skipped`` counts it. One that stays
    locked while it is opened is left alone, and answers are kept in memory.

    Args:
        path: The file, made when it is not there; None keeps the answers in memory.

    Attributes:
        path: The file; None when the answers are in memory.
        note: Why they are in memory although a file was named, or None.
        skipped: Openings, reads and writes that were left out because the file could not be used just then.

    Raises:
        SettingsError: The path is no reply cache, is damaged, or cannot be opened.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path, self.note = path, None
        self.skipped = 0
        self._lock, self._counting = threading.Lock(), threading.Lock()
        try:
            self._file = _opened(path)
        except sqlite3.Error as error:
            if not _is_locked(error):
                raise SettingsError(
                    f"{path}: the file is no reply cache, or is damaged: {error}", hint=_HINT
                ) from error
            self.path, self.note = None, f"{path}: the reply cache is locked; answers are kept in memory"
            self.skipped = 1
            self._file = _opened(None)

    def _use(self, work: Callable[[sqlite3.Connection], T], turn: float = _BUSY_SECONDS) -> T | None:
        """Do something with the file; None, and counted, when that cannot be done just then."""
        if self._lock.acquire(timeout=turn):
            try:
                return work(self._file)
            except sqlite3.Error:
                pass  # locked, full, damaged, or closed meanwhile: the question is asked again
            finally:
                self._lock.release()
        with self._counting:
            self.skipped += 1
        return None

    def get(self, key: str, tools: Sequence[type[Tool]]) -> ToolCall | None:
        """The answer under a key, checked again against the tools; None when there is none that fits."""
        row = self._use(lambda file: file.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone())
        if row is None:
            return None
        try:
            doc = json.loads(row[0])
            tool = fit_tool(tool_named(doc["tool"], tools), doc["arguments"], [])
            return ToolCall(tool, doc["reasoning"], tuple(doc["repairs"]), attempts=0, mode=doc["mode"], cached=True)
        except (Malformed, UnknownName, ValueError, KeyError, TypeError):
            return None  # written by hand or by another version of a tool: asked again, and written over

    def put(self, key: str, call: ToolCall) -> None:
        """Keep an answer. Not to be called on an event loop: it may wait for the file."""
        doc = {
            "tool": type(call.tool).__name__,
            "arguments": call.tool.model_dump(mode="json"),
            "reasoning": call.reasoning,
            "repairs": call.repairs,
            "mode": call.mode,
        }
        row = (key, json.dumps(doc))
        self._use(lambda file: file.execute("INSERT OR REPLACE INTO replies VALUES (?, ?)", row), _TURN_SECONDS)

    def __len__(self) -> int:
        with self._lock:
            return int(self._file.execute("SELECT count(*) FROM replies").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _opened(path: Path | None) -> sqlite3.Connection:
    """A connection to a reply cache, which is made when it is not there.

    Raises:
        SettingsError: It is none, or cannot be opened.
        sqlite3.Error: It is damaged, or stays locked.
    """
    try:
        file = sqlite3.connect(path or ":memory:", timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise SettingsError(f"{path}: the reply cache cannot be opened: {error}", hint=_HINT) from error
    until = time.monotonic() + _OPEN_SECONDS
    try:
        while True:
            try:
                _prepare(file, path)
                return file
            except sqlite3.Error as error:
                if not _is_locked(error) or time.monotonic() >= until:
                    raise
            if file.in_transaction:
                file.execute("ROLLBACK")
            time.sleep(0.01)  # a switch to the write-ahead log does not wait for locks by itself
    except BaseException:
        file.close()
        raise


def _prepare(file: sqlite3.Connection, path: Path | None) -> None:
    file.execute("BEGIN")  # one view of the file for all that is read
    ready = _is_ready(file, path)
    file.execute("COMMIT")
    if not ready:  # and so empty: the log may be switched on, which no transaction can hold
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("BEGIN IMMEDIATE")
        if not _is_ready(file, path):  # no other process was quicker
            file.execute("CREATE TABLE replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL) WITHOUT ROWID")
            file.execute(f"PRAGMA application_id = {_APPLICATION}")
            file.execute(f"PRAGMA user_version = {_FORMAT}")
        file.execute("COMMIT")
    file.execute("PRAGMA synchronous = NORMAL")  # the last answers may be lost with the power, which is no harm


def _is_ready(file: sqlite3.Connection, path: Path | None) -> bool:
    (application,) = file.execute("PRAGMA application_id").fetchone()
    (version,) = file.execute("PRAGMA user_version").fetchone()
    (tables,) = file.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if (application, version) == (_APPLICATION, _FORMAT):
        return True
    if tables or application:
        raise SettingsError(f"{path}: the file is no reply cache of this version", hint=_HINT)
    return False


def _is_locked(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _LOCKED
