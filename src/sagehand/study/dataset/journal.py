"""The journal of a rendering: one line a view that is on disk, so that a rendering can stop at any moment and go on.

The first line says what is being made; each other one holds the place of a view in the set, its row, and the sums of its
files. Lines are read back by their offset: the rows of a hundred thousand views are never in memory together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from sagehand.errors import InputError
from sagehand.lines import LineFile

__all__ = ["NAME", "Entry", "Journal"]

NAME = ".render.journal"


@dataclass(frozen=True)
class Entry:
    """A view that is on disk: its row, and the SHA-256 of its files by name."""

    row: Mapping[str, Any]
    sums: Mapping[str, str]


class Journal:
    """The journal of one folder, locked while it is open. Use it as a context manager."""

    def __init__(self, folder: Path, header: Mapping[str, Any]) -> None:
        """Open the journal, or begin one.

        Args:
            folder: The folder that is rendered into.
            header: What is being made; ``self.header`` is what the journal was begun with.

        Raises:
            InputError: Another process renders there, or the journal cannot be read or written.
        """
        self._lines = LineFile(folder / NAME, f"{folder}: another process is rendering into it")
        self._at: dict[int, int] = {}
        try:
            found: Mapping[str, Any] | None = None
            for offset, doc in self._lines.lines():
                if found is None:
                    found = doc
                elif isinstance(doc.get("place"), int):
                    self._at[doc["place"]] = offset
                else:
                    raise InputError(f"{self._lines.path}: is damaged at byte {offset + 1}", hint="use a new folder")
            if found is None:
                self._lines.add(header)
            self.header: Mapping[str, Any] = header if found is None else found
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __contains__(self, place: int) -> bool:
        return place in self._at

    def __len__(self) -> int:
        return len(self._at)

    def add(self, place: int, entry: Entry) -> None:
        """Note that the view at ``place`` is on disk; when this returns, a kill of the process does not undo it."""
        self._at[place] = self._lines.add({"place": place, "row": entry.row, "sums": entry.sums})

    def forget(self, place: int) -> None:
        """A view whose files are gone: it is to be made again."""
        del self._at[place]

    def entries(self) -> Iterator[tuple[int, Entry]]:
        """(place, entry) in the order of the set, read from disk one by one."""
        for place in sorted(self._at):
            doc = self._lines.at(self._at[place])
            yield place, Entry(doc["row"], doc["sums"])

    def close(self, *, remove: bool = False) -> None:
        """Let go of the folder; ``remove`` when the set is whole."""
        self._lines.close(remove=remove)
