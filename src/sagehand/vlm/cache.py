"""Answers kept, so that the same question is paid for once: complete valid ones only (SPEC C4)."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sagehand.errors import Malformed, SettingsError, UnknownName
from sagehand.vlm.base import ToolCall
from sagehand.vlm.fit import fit_tool
from sagehand.vlm.prompt import Prompt
from sagehand.vlm.tools import Tool, tool_named

__all__ = ["ReplyCache", "cache_key"]

_FORMAT = 1
_APPLICATION = 0x73676863  # "sghc"
_BUSY_SECONDS = 5.0


def cache_key(prompt: Prompt, model: str, parameters: Mapping[str, Any]) -> str:
    """SHA-256 of all that an answer depends on: the whole prompt, its pictures, the wire schema, model and parameters.

    The rung that answers is not part of it: a valid call is a valid call.
    """
    whole = [_FORMAT, model, dict(parameters), prompt.question.max_tokens, prompt.identity()]
    return hashlib.sha256(json.dumps(whole, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


class ReplyCache:
    """Key → answer, in memory or in one SQLite file that several processes may share.

    A file that is locked for too long, or full, costs a second asking and no decision: ``skipped`` counts it.

    Args:
        path: The file, made when it is not there; None keeps the answers in memory.

    Attributes:
        path: The file, or None.
        skipped: Reads and writes that were left out because the file could not be used just then.

    Raises:
        SettingsError: The path is no reply cache, or cannot be opened.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.skipped = 0
        self._lock = threading.Lock()
        hint = "name another file, or none to keep answers in memory"
        try:
            self._file = sqlite3.connect(
                path or ":memory:", timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise SettingsError(f"{path}: the reply cache cannot be opened: {error}", hint=hint) from error
        try:
            self._prepare()
        except (sqlite3.Error, SettingsError) as error:
            self._file.close()
            if isinstance(error, SettingsError):
                raise
            raise SettingsError(f"{path}: the file is no reply cache: {error}", hint=hint) from error

    def _prepare(self) -> None:
        (application,) = self._file.execute("PRAGMA application_id").fetchone()
        (version,) = self._file.execute("PRAGMA user_version").fetchone()
        (tables,) = self._file.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if (application, version) == (_APPLICATION, _FORMAT):
            return
        if tables or application:
            raise SettingsError(f"{self.path}: the file is no reply cache of this version", hint="name another file")
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute("BEGIN IMMEDIATE")
        self._file.execute(
            "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL) WITHOUT ROWID"
        )
        self._file.execute(f"PRAGMA application_id = {_APPLICATION}")
        self._file.execute(f"PRAGMA user_version = {_FORMAT}")
        self._file.execute("COMMIT")

    def get(self, key: str, tools: Sequence[type[Tool]]) -> ToolCall | None:
        """The answer under a key, checked again against the tools; None when there is none that fits."""
        with self._lock:
            try:
                row = self._file.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone()
            except sqlite3.OperationalError:
                self.skipped += 1
                return None
        if row is None:
            return None
        try:
            doc = json.loads(row[0])
            tool = fit_tool(tool_named(doc["tool"], tools), doc["arguments"], [])
            return ToolCall(tool, doc["reasoning"], tuple(doc["repairs"]), attempts=0, mode=doc["mode"], cached=True)
        except (Malformed, UnknownName, ValueError, KeyError, TypeError):
            return None  # written by hand or by another version of a tool: asked again, and written over

    def put(self, key: str, call: ToolCall) -> None:
        """Keep an answer."""
        doc = {
            "tool": type(call.tool).__name__,
            "arguments": call.tool.model_dump(mode="json"),
            "reasoning": call.reasoning,
            "repairs": call.repairs,
            "mode": call.mode,
        }
        with self._lock:
            try:
                self._file.execute("INSERT OR REPLACE INTO replies VALUES (?, ?)", (key, json.dumps(doc)))
            except sqlite3.OperationalError:
                self.skipped += 1

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
