"""One run of one device on its way into a folder: each picture and its row are on disk before the next is taken.

``metadata.jsonl`` gets a row with every picture, with what is known then. What happened (actions, moves, pictures) goes to
a journal beside it, from which the run's rows are written anew, whole, when it ends: then they say what came next. A
recording that broke off leaves its journal, and is gone on with, or ended, from there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from sagehand.action.guard import conflicts
from sagehand.action.library import END, ActionLibrary
from sagehand.cases import ROW_FIELDS, parse_row
from sagehand.errors import InputError
from sagehand.files import write_whole
from sagehand.lines import LineFile
from sagehand.study.dataset.events import Done, Shot
from sagehand.study.dataset.labels import Steps, labels_after, labels_now
from sagehand.study.dataset.session import Session, check_session, differs, read_session, write_library

__all__ = ["JOURNAL", "Recording"]

JOURNAL = ".record.journal"
METADATA = "metadata.jsonl"


class Recording:
    """A run that is being recorded. Use it as a context manager; leaving it without :meth:`finish` leaves it open.

    Attributes:
        session: What is the same for all its pictures.
        run: Its number, from 1 for each device; devices whose files would be called alike are counted together.
        resumed: Whether it was gone on with.
        gone_on_after: When the last thing happened before it was stopped [ns since the epoch], or None.
        history: What was done so far, oldest first.
        place: Where the device is, or None.
        pictures: The rows of its pictures, as far as they are known.
        last_stamp: When the last picture was taken [ns since the epoch], or None.
        seen: Keys of all events that were taken.
    """

    def __init__(self, folder: Path, session: Session | None, library: ActionLibrary | None = None) -> None:
        """Begin a run, or go on with the one that is open in the folder.

        Args:
            folder: The data set's folder; made if it is not there.
            session: The run; None to take the open one as it is.
            library: The cell's actions; None takes every name.

        Raises:
            InputError: The folder holds something else, an open run of another session, or no open run where one is
                needed; or another process records there.
            UnknownName: The library does not have the family or an action of the session.
        """
        self.folder = folder
        self._library = library
        self._noted = False
        if session is not None:
            check_session(session, library)
        _check_folder(folder, needs_open=session is None)
        folder.mkdir(parents=True, exist_ok=True)
        self._lines = LineFile(folder / JOURNAL, f"{folder}: another process is recording into it")
        try:
            self._begin(session)
        except BaseException:
            self._lines.close()
            raise

    def _begin(self, session: Session | None) -> None:
        lines = [doc for _, doc in self._lines.lines()]
        self.resumed = bool(lines)
        if session is None and not lines:
            self._lines.close(remove=True)
            raise InputError(f"{self.folder}: no recording is open in it", hint="begin one with --family and --device")
        self._others = self._rows_of_others({str(doc["picture"]["file_name"]) for doc in lines if "picture" in doc})
        if not lines and session is not None:
            # by what its files are called: two devices (of two families, or "x/1" and "x_1") must not share one picture
            called = _file_stem(session.device)
            runs = [r.get("run") for r in self._others if _file_stem(str(r.get("device"))) == called]
            self.run = 1 + max((n for n in runs if isinstance(n, int)), default=0)
            self._lines.add({"session": asdict(session), "run": self.run})
        else:
            kept = read_session(self._lines.path, lines[0])
            if session is not None and session != kept:
                raise InputError(
                    f"{self.folder}: another recording is open in it: {differs(kept, session)}",
                    hint="go on with the same, or end it with --finish",
                )
            session, self.run = kept, int(lines[0]["run"])
        self.session = session
        self.place = session.place
        self.history: tuple[str, ...] = session.done
        self.seen: set[str] = set()
        self.pictures: list[dict[str, Any]] = []
        self.last_stamp: int | None = None
        self._steps = Steps.of(self._others, session.family, session.device)
        self._steps.number(self.history)
        for doc in lines[1:]:
            self._replay(doc)
        self.gone_on_after = max((doc["stamp_ns"] for doc in lines[1:] if "stamp_ns" in doc), default=None)
        if self._library is not None:
            write_library(self.folder, self._library)
        if lines or self._unended:
            self._write_rows(self.pictures)  # the file may have been cut off in its last line, or lack its end

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # a recording in which nothing happened is none to go on with
        self._lines.close(remove=not self.resumed and not self._noted)

    @property
    def step(self) -> int:
        """The step that a picture would show now."""
        return self._steps.number(self.history)

    @property
    def taken_in_step(self) -> int:
        """Pictures of this run that show what is now."""
        return sum(row["history"] == list(self.history) for row in self.pictures)

    def do(self, done: Done) -> None:
        """Note that an action was done; whether it could be is not asked here."""
        name = done.action if self._library is None else self._library.require(done.action).name
        self._note({"action": name, "place": self.session.places.get(name, self.place), **_when(done.stamp, done.key)})

    def move(self, place: str, stamp: int | None = None, key: str | None = None) -> None:
        """Note that the device is at another place."""
        self._note({"place": place, **_when(stamp, key)})

    def take(self, shot: Shot, stamp: int | None = None, key: str | None = None) -> dict[str, Any]:
        """Write a picture and its row; returns the row as far as it is known.

        Raises:
            InputError: A file cannot be written, or the row is none that can be read again.
        """
        session, step = self.session, self.step
        stem = f"images/{_file_stem(session.device)}_run{self.run:02d}_{len(self.pictures) + 1:04d}"
        group = {"step": f"{session.device} run {self.run} step {step}", "run": f"{session.device} run {self.run}"}
        row: dict[str, Any] = {
            "file_name": stem + shot.suffix,
            "family": session.family,
            "device": session.device,
            **labels_now(step, self.history),
            "group": group.get(session.group),
            "place": self.place,
            "depth_file_name": f"{stem}_depth.png" if shot.depth is not None else None,
            "run": self.run,
            **_when(stamp),
            **shot.extra,
        }
        row = {key: value for key, value in row.items() if value is not None}
        parse_row(row)
        self._refuse_twin(row)
        write_whole(self.folder / row["file_name"], shot.picture)
        if shot.depth is not None:
            write_whole(self.folder / row["depth_file_name"], shot.depth)
        self._note({"picture": row, **_when(stamp, key)})
        with (self.folder / METADATA).open("a", encoding="utf-8", newline="") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
        return row

    def finish(self, *, complete: bool) -> list[str]:
        """End the run: every row gets what came next.

        Args:
            complete: Whether nothing remains to be done; if not, what is left is not known.

        Returns:
            Labels that the action library speaks against, a line each.
        """
        rows = [
            self._ordered(row | labels_after(row["history"], self.history, complete=complete)) for row in self.pictures
        ]
        if rows:
            self._write_rows(rows)
        self._lines.close(remove=True)
        return self._conflicts(rows)

    def _refuse_twin(self, row: Mapping[str, Any]) -> None:
        """A bag or a folder that is recorded a second time would give every picture twice."""
        origin = row.get("source"), row.get("stamp_ns")
        twin = next((r for r in self._others if (r.get("source"), r.get("stamp_ns")) == origin), None)
        if None not in origin and twin is not None:
            raise InputError(
                f"{origin[0]}: was recorded into {self.folder} already ({twin['file_name']})",
                hint="name another folder",
            )

    def _note(self, doc: dict[str, Any]) -> None:
        self._lines.add(doc)
        self._noted = True
        self._replay(doc)

    def _replay(self, doc: Mapping[str, Any]) -> None:
        if doc.get("key") is not None:
            self.seen.add(str(doc["key"]))
        if "picture" in doc:
            self.pictures.append(doc["picture"])
            self.last_stamp = doc.get("stamp_ns")
            self._steps.numbers.setdefault(tuple(doc["picture"]["history"]), doc["picture"]["step"])
            self._steps.taken.add(doc["picture"]["step"])
        if "action" in doc:
            self.history = (*self.history, str(doc["action"]))
            self._steps.number(self.history)  # now, picture or none: a stop must not change the numbers that follow
        if "place" in doc:
            self.place = doc["place"]

    def _rows_of_others(self, own: set[str]) -> list[dict[str, Any]]:
        """Rows of the folder that are not this run's; ``self._text`` keeps all its other lines as they were written."""
        self._text: list[str] = []
        self._unended = False
        rows: list[dict[str, Any]] = []
        path = self.folder / METADATA
        if not path.exists():
            return rows
        try:
            *lines, last = path.read_bytes().decode().split("\n")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path}: is not UTF-8 text", hint="save it as UTF-8, or record into a new folder"
            ) from error
        if last and not self.resumed:  # else a line without an end was cut off by a kill, and stands in the journal
            lines.append(last)
            self._unended = True
        for line in lines:
            row = _row_in(line)
            if row is None or str(row.get("file_name")) not in own:
                self._text.append(line)  # somebody else's slip, too: not ours to take away
                rows += [] if row is None else [row]
        return rows

    def _write_rows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        text = "".join(f"{line}\n" for line in [*self._text, *(json.dumps(row, ensure_ascii=False) for row in rows)])
        write_whole(self.folder / METADATA, text.encode())

    def _ordered(self, row: dict[str, Any]) -> dict[str, Any]:
        return {key: row[key] for key in (*ROW_FIELDS, *row) if key in row}

    def _conflicts(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        if self._library is None:
            return []
        end = self._library.end
        steps = [
            (
                r["file_name"],
                r["previous_action"],
                r["history"],
                n if (n := r.get("next_action")) != END or end else None,
                r["family"],
            )
            for r in rows
        ]
        return conflicts(self._library, steps)


def _file_stem(device: str) -> str:
    """A device's name as its pictures' files bear it."""
    return re.sub(r"[^\w.-]+", "_", device)


def _row_in(line: str) -> dict[str, Any] | None:
    """The row in a line, or None where it holds none."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _when(stamp: int | None = None, key: str | None = None) -> dict[str, Any]:
    return {name: value for name, value in (("stamp_ns", stamp), ("key", key)) if value is not None}


def _check_folder(folder: Path, *, needs_open: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is there already, and is no folder", hint="name another one")
    if needs_open and not (folder / JOURNAL).exists():
        raise InputError(f"{folder}: no recording is open in it", hint="begin one with --family and --device")
    if not folder.exists() or (folder / JOURNAL).exists():
        return
    if (folder / "dataset.json").exists():
        raise InputError(f"{folder}: holds a rendered set", hint="record into a folder of its own")
    if (folder / "metadata.csv").exists():
        raise InputError(f"{folder}: holds a metadata.csv", hint="recordings write metadata.jsonl; name another folder")
    others = {path.name for path in folder.iterdir()} - {"actions.yaml", "images"}
    if others and METADATA not in others:
        raise InputError(f"{folder}: is not empty, and holds no {METADATA}", hint="name a new folder")
