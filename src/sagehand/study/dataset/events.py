"""What happens while a cell runs: a picture was taken, an action was done, the device moved, the run ended.

Whoever runs the cell says it in lines, typed, sent on a topic, or written to a file with their times::

    lever          # this action was just done
    at vise        # the device is at this place from now on
    snap           # take a picture
    end            # the run is over, and nothing remains to be done

An action that the library's preconditions speak against is taken only with an exclamation mark: ``lever !``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from sagehand.errors import InputError

__all__ = [
    "COMMANDS",
    "NANO",
    "Done",
    "End",
    "Event",
    "Frame",
    "Moved",
    "Shot",
    "Snap",
    "Source",
    "merge",
    "parse_line",
    "parse_time",
    "read_events",
]

COMMANDS = ("snap", "end", "at")
"""Words that are no actions."""

NANO = 1_000_000_000
"""Nanoseconds in a second."""


@dataclass(frozen=True)
class Done:
    """An action was done.

    Attributes:
        action: Its name.
        sure: Whether it is meant, whatever the library's preconditions say.
        where: Where it was said, as in "events.txt, line 3".
        stamp: When [ns since the epoch]; None where it is not known.
        key: What tells it from every other event of its source, so that a recording can go on; None where nothing does.
    """

    action: str
    sure: bool = False
    where: str = ""
    stamp: int | None = None
    key: str | None = None


@dataclass(frozen=True)
class Moved:
    """The device is at another place from now on; attributes as those of :class:`Done`."""

    place: str
    where: str = ""
    stamp: int | None = None
    key: str | None = None


@dataclass(frozen=True)
class Snap:
    """A picture is asked for; attributes as those of :class:`Done`."""

    where: str = ""
    stamp: int | None = None
    key: str | None = None


@dataclass(frozen=True)
class End:
    """The run is over, and nothing remains to be done; attributes as those of :class:`Done`."""

    where: str = ""
    stamp: int | None = None
    key: str | None = None


@dataclass(frozen=True, eq=False)
class Shot:
    """What a camera gave.

    Attributes:
        picture: The picture's file, byte for byte.
        suffix: Its ending, as in ".png".
        depth: The depth image's file (16-bit PNG, millimetres), or None.
        extra: More keys for its row: ``frame_id``, ``intrinsics``, where it came from.
        notes: What could not be used, in words.
    """

    picture: bytes
    suffix: str
    depth: bytes | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Frame:
    """A picture is there; it is decoded only if it is wanted.

    Attributes:
        read: Gives the picture.
        asked: Whether it was asked for by ``snap``, and is taken whatever the times between pictures.
        where: Where it came from.
        stamp: When it was taken [ns since the epoch]; None where it is not known.
        key: What tells it from every other event of its source.
    """

    read: Callable[[], Shot]
    asked: bool = False
    where: str = ""
    stamp: int | None = None
    key: str | None = None


Event: TypeAlias = Done | Moved | Snap | End | Frame


class Source(Protocol):
    """Where a recording comes from.

    Attributes:
        live: Whether somebody is there who can be told that a line was refused.
        every: Least time between two pictures that nobody asked for [s], unless the recording sets its own.
    """

    live: bool
    every: float

    def known(self) -> Sequence[Done]:
        """Actions that are known before the first event; () for what happens only now."""
        ...

    def events(self) -> Iterator[Event]:
        """All events, in the order in which they happened."""
        ...

    def close(self) -> None:
        """Let go of cameras and files."""
        ...


def parse_line(text: str, *, where: str, stamp: int | None = None, key: str | None = None) -> Event | None:
    """One line as an event; None for an empty line or a comment (``#``).

    Raises:
        InputError: It is none; names the line and what is valid.
    """
    line = text.partition("#")[0].strip()
    sure = line.endswith("!")
    words = line.removesuffix("!").split()
    if not words and not sure:
        return None
    name = words[0] if words else ""
    if len(words) == 2 and name == "at" and not sure:
        return Moved(words[1], where, stamp, key)
    if len(words) != 1 or name == "at" or (sure and name in COMMANDS):
        raise InputError(
            f"{where}: {text.strip()!r} is no event", hint="write the name of an action, 'at PLACE', 'snap' or 'end'"
        )
    if name == "snap":
        return Snap(where, stamp, key)
    if name == "end":
        return End(where, stamp, key)
    return Done(name, sure, where, stamp, key)


def parse_time(text: str, *, where: str) -> tuple[Literal["at", "after"], int]:
    """A time: ``("at", ns since the epoch)``, or ``("after", ns since the first picture)`` for ``+12.5``.

    Args:
        text: Seconds since the epoch, ``+`` and seconds since the first picture, or ISO 8601 with its offset from UTC.
        where: What errors call it.

    Raises:
        InputError: It is none of them.
    """
    try:
        seconds = float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            raise InputError(
                f"{where}: {text!r} is no time",
                hint="write seconds since 1970, as 1735689600.25; since the first picture, as +12.5; "
                "or 2025-01-01T00:00:00+00:00",
            ) from None
        return "at", int(moment.replace(microsecond=0).timestamp()) * NANO + moment.microsecond * 1000
    if not math.isfinite(seconds) or abs(seconds) > 1e11:
        raise InputError(f"{where}: {text!r} is out of range", hint="times are in seconds")
    whole, _, part = text.strip().lstrip("+-").partition(".")
    if whole.isdigit() and (part.isdigit() or not part):  # exact: a double does not hold a stamp's nanoseconds
        nanoseconds = int(whole) * NANO + int((part + "0" * 9)[:9])
        nanoseconds = -nanoseconds if text.strip().startswith("-") else nanoseconds
    else:
        nanoseconds = round(seconds * NANO)
    return ("after" if text.strip().startswith("+") else "at"), nanoseconds


def read_events(path: str | Path, start: int | None) -> list[Event]:
    """A file of events: a time, white space or a comma, and a line as :func:`parse_line` takes it.

    Args:
        path: UTF-8 text.
        start: When the first picture was taken [ns since the epoch]; None where there is none.

    Returns:
        In the order of their times.

    Raises:
        InputError: The file cannot be read, or a line of it; names the line.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise InputError(f"{path}: {why}", hint="give a text file of times and actions") from error
    found: list[Event] = []
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.partition("#")[0].strip()
        if not content:
            continue
        where = f"{path}, line {number}"
        when, what = [*re.split(r"\s*,\s*|\s+", content, maxsplit=1), ""][:2]
        kind, nanoseconds = parse_time(when, where=where)
        if kind == "after":
            if start is None:
                raise InputError(f"{where}: there is no first picture that {when} could count from")
            nanoseconds += start
        event = parse_line(what, where=where, stamp=nanoseconds, key=f"line {number}")
        if event is None:
            raise InputError(f"{where}: a time without an event", hint="write what was done then")
        if isinstance(event, Snap):
            raise InputError(f"{where}: no picture can be taken in the past", hint="leave 'snap' out")
        found.append(event)
    return sorted(found, key=_when)


def merge(frames: Iterable[Event], events: Sequence[Event]) -> Iterator[Event]:
    """Both in the order of their times; of the same time, the picture first: it shows what was before the action."""
    waiting = list(events)
    for frame in frames:
        while waiting and _when(waiting[0]) < _when(frame):
            yield waiting.pop(0)
        yield frame
    yield from waiting


def _when(event: Event) -> int:
    return event.stamp if event.stamp is not None else 0
