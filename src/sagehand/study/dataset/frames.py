"""Pictures that appear in a folder, as a grabber of the integrator's own writes them.

``a_depth.png`` is the depth image of ``a.jpg`` (16-bit, millimetres). Times are those at which the files were last
written; what was done comes from a file of events, or from somebody's lines while the folder fills.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from sagehand.cases import image_files
from sagehand.errors import InputError, PictureError
from sagehand.picture import load
from sagehand.study.dataset.events import Done, Event, Frame, Shot, Snap, merge, parse_line, read_events
from sagehand.study.dataset.operator import Lines

__all__ = ["FramesSource"]

POLL = 0.1  # [s]
PATIENCE = 3.0  # [s]; a file that is not whole by then is taken for damaged
_DEPTH = "_depth.png"


class FramesSource:
    """A folder of pictures as a source of events."""

    every = 0.0

    def __init__(
        self,
        folder: str | Path,
        *,
        events: str | Path | None = None,
        lines: Lines | None = None,
        refuse: Callable[[str], None] | None = None,
    ) -> None:
        """Read a folder.

        Args:
            folder: Where the pictures are, or appear.
            events: A file of actions with their times; the folder is read once, as it is.
            lines: What is said while the folder fills; it is watched until they end.
            refuse: Called with what is wrong with a line that is no event.

        Raises:
            InputError: There is no such folder; an event is none; both or neither of ``events`` and ``lines``.
        """
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise InputError(f"{folder}: no such folder", hint="name the folder that the pictures appear in")
        if (events is None) == (lines is None):
            raise InputError(
                "a folder of pictures needs a file of events or lines, and not both", hint="give --events FILE"
            )
        self.live = lines is not None
        self._lines, self._refuse = lines, refuse or (lambda line: None)
        self._given: set[str] = set()
        self._since: dict[str, float] = {}
        self._events: list[Event] = []
        if events is not None:
            files = self._files()
            self._events = read_events(events, files[0][0] if files else None)

    def known(self) -> Sequence[Done]:
        """The actions of the file of events."""
        return [event for event in self._events if isinstance(event, Done)]

    def events(self) -> Iterator[Event]:
        """Pictures and what was said, in the order of time."""
        if self._lines is None:
            yield from merge((self._frame(stamp, name) for stamp, name in self._files()), self._events)
            return
        while not self._lines.ended:
            found = self._lines.wait(POLL)
            limit = time.monotonic() + 2 * PATIENCE
            yield from self._new()
            while (found is not None or self._lines.ended) and self._since and time.monotonic() < limit:
                time.sleep(POLL)  # what was begun before the line shows what was before the action
                yield from self._new()
            if found is None:
                continue
            try:
                event = parse_line(found[0], where=found[1], stamp=found[2])
            except InputError as error:
                self._refuse(f"not recorded: {error}")
                continue
            if isinstance(event, Snap):
                self._refuse("not recorded: every picture of the folder is taken; only a camera takes 'snap'")
            elif event is not None:
                yield event

    def close(self) -> None:
        """Nothing is held."""

    def _files(self) -> list[tuple[int, str]]:
        """(time [ns], name) of the pictures that are there, in the order of their times."""
        found = []
        for name in image_files(self.folder):
            if not name.endswith(_DEPTH):
                try:
                    found.append(((self.folder / name).stat().st_mtime_ns, name))
                except FileNotFoundError:  # the grabber renamed it meanwhile
                    continue
        return sorted(found)

    def _new(self) -> Iterator[Event]:
        """Pictures that have appeared and are whole."""
        for stamp, name in self._files():
            if name in self._given:
                continue
            began = self._since.setdefault(name, time.monotonic())
            if not self._whole(name) and time.monotonic() - began < PATIENCE:
                continue
            del self._since[name]
            self._given.add(name)
            yield self._frame(stamp, name)
        there = {name for _, name in self._files()}
        self._since = {name: began for name, began in self._since.items() if name in there}

    def _whole(self, name: str) -> bool:
        try:
            load(self.folder / name)
        except PictureError:
            return False
        return True

    def _frame(self, stamp: int, name: str) -> Frame:
        return Frame(lambda: self._shot(name), where=name, stamp=stamp, key=name)

    def _shot(self, name: str) -> Shot:
        path = self.folder / name
        picture = load(path)
        depth_path = self.folder / (str(PurePosixPath(name).with_suffix("")) + _DEPTH)
        depth: bytes | None = None
        notes: tuple[str, ...] = ()
        if depth_path.exists():
            try:
                load(picture, depth=depth_path, depth_unit="mm")
                depth = depth_path.read_bytes()
            except PictureError as error:
                notes = (str(error),)
        return Shot(path.read_bytes(), path.suffix.lower(), depth, {"source": f"{self.folder.name}/{name}"}, notes)
