"""What is the same for all pictures of a run, and what the action library says to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from sagehand.action.guard import check_actions, know
from sagehand.action.library import END, ActionLibrary
from sagehand.errors import InputError, UnknownName
from sagehand.files import write_whole
from sagehand.study.dataset.events import COMMANDS, Done

__all__ = ["Session", "check_session", "differs", "objection", "read_session", "write_library"]


@dataclass(frozen=True)
class Session:
    """What is the same for all pictures of a run.

    Attributes:
        family: The device's family.
        device: The device (model).
        place: Where it is at first; None where that is not said.
        places: Action → where the device is after it.
        done: What was done before the recording began, oldest first.
        group: What counts as near-duplicates: the pictures of one "step" of the run (a camera that stands still sees the
            same again and again), the whole "run", or "none".
    """

    family: str
    device: str
    place: str | None = None
    places: Mapping[str, str] = field(default_factory=dict)
    done: tuple[str, ...] = ()
    group: Literal["step", "run", "none"] = "step"


def check_session(session: Session, library: ActionLibrary | None) -> None:
    """Hold a session against the action library.

    Raises:
        UnknownName: The library does not have its family, or an action that it names.
        InputError: An action is called as a command of a recording is.
    """
    if library is None:
        return
    if session.family not in library.families:
        raise UnknownName(
            "family", session.family, library.families, hint=f"the families are those of {library.source}"
        )
    for name in (*session.done, *session.places):
        library.require(name)
    for name in COMMANDS:
        if name != END and name in library:
            raise InputError(
                f"{library.source}: the action {name!r} cannot be told from the line {name!r} of a recording",
                hint="give the action another name",
            )


def objection(library: ActionLibrary | None, done: Done, history: Sequence[str], family: str) -> str | None:
    """Why the library's preconditions speak against an action that is said to have been done; None where they do not.

    Args:
        library: The cell's actions; None speaks against nothing.
        done: What is said to have been done.
        history: What was done before it, oldest first.
        family: The device's family.

    Raises:
        UnknownName: The library does not have the action.
    """
    if library is None:
        return None
    name = library.require(done.action).name
    return check_actions(library, know(library, history=history), family=family).ruled_out.get(name)


def write_library(folder: Path, library: ActionLibrary) -> None:
    """Put the actions beside the pictures.

    Raises:
        InputError: Others lie there already.
    """
    path, source = folder / "actions.yaml", Path(library.source)
    if path.exists():
        if ActionLibrary.load(path).digest != library.digest:
            raise InputError(f"{path}: holds other actions than {source}", hint="record into a new folder")
    elif source.exists():
        write_whole(path, source.read_bytes())


def read_session(path: Path, doc: Mapping[str, Any]) -> Session:
    """The session that stands in the first line of a journal.

    Raises:
        InputError: It is none.
    """
    try:
        kept = dict(doc["session"])
        return Session(**{**kept, "done": tuple(kept["done"])})
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: is no journal of a recording", hint="record into a new folder") from error


def differs(kept: Session, wanted: Session) -> str:
    """In what two sessions differ, in words."""
    old, new = asdict(kept), asdict(wanted)
    return ", ".join(f"{name} {old[name]!r}, not {new[name]!r}" for name in old if old[name] != new[name])
