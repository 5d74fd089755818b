"""A case: one picture with its ground truth (SPEC A1), and how a row of metadata becomes one.

A row is a mapping as it stands in ``metadata.jsonl``: the known keys are :data:`ROW_FIELDS`, everything else is kept as
metadata. Absent (or null) means *not known*; a ``previous_action`` of ``"none"`` means that nothing was done yet.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from sagehand.errors import LabelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sagehand.picture import Box

__all__ = ["NOTHING_DONE", "ROW_FIELDS", "Case", "CaseDraft", "DepthUnit", "Hit", "Where", "parse_row", "same_label"]

DepthUnit: TypeAlias = Literal["m", "mm", "um"]
"""Unit of an integer depth image."""

NOTHING_DONE = "none"
"""The ``previous_action`` of a device that nothing was done to yet."""

ROW_FIELDS: tuple[str, ...] = (
    "file_name",
    "family",
    "device",
    "step",
    "state",
    "previous_action",
    "history",
    "next_action",
    "remaining_actions",
    "is_last",
    "end_state",
    "group",
    "place",
    "polygon",
    "depth_file_name",
)
"""The keys of a row that sagehand understands (DESIGN, Formats)."""

_MAX_STEP = 1_000_000
_MAX_COORDINATE = 1e9


@dataclass(frozen=True)
class Case:
    """One picture and what is known about it. ``None`` means not known, everywhere."""

    id: str
    """Identity of the picture's normalised pixels (32 hex characters)."""
    family: str
    """The kind of device, as in "phone"."""
    device: str
    """The device type (model), a leaf of the knowledge tree."""
    step: int | None
    """Number of the disassembly step that the picture shows."""
    state: str | None
    """The step's name in words, as in "back cover off"."""
    previous_action: str | None
    """The action executed last; "none" when nothing was done yet."""
    history: tuple[str, ...] | None
    """All actions executed before, oldest first."""
    next_action: str | None
    """The action to execute next."""
    remaining_actions: tuple[str, ...] | None
    """The actions still to come, the next one first."""
    is_last: bool | None
    """Whether the next action is the last one."""
    end_state: bool | None
    """Whether nothing remains to be done."""
    group: str | None
    """Name shared by near-duplicates, which belong on one side of a split."""
    place: str | None
    """Where the device lies, as in "table" or "vise"."""
    polygon: tuple[tuple[float, float], ...] | None
    """Outline of the device, (x, y) in pixels of the original."""
    box: Box | None
    """The crop that was embedded, in pixels of the original; None when the whole picture was."""
    file_name: str
    """The file the picture came from, or ""."""
    has_depth: bool
    """Whether a depth image lies beside the picture."""
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Keys of the row that sagehand does not know."""
    derived: frozenset[str] = frozenset()
    """Names of the fields that were derived from the device's other steps."""
    retired: bool = False
    """Whether the case was taken out of use; it stays in the file."""

    @property
    def label(self) -> str:
        """The case in words: family / device / step, next action."""
        step = "no step" if self.step is None else f"step {self.step}"
        return f"{self.family} / {self.device} / {step}, next action {self.next_action or 'not known'}"


@dataclass(frozen=True, eq=False)
class CaseDraft:
    """What ``CaseBase.add`` takes."""

    image: bytes
    """The picture's file as it is, kept byte for byte."""
    pixel_id: str
    """``Picture.pixel_id``: becomes the case's id."""
    vector: NDArray[np.float32]
    """The embedding of the (cropped) picture, shape (d,), unit length."""
    row: Mapping[str, Any]
    """The metadata, as in ``metadata.jsonl``, unknown keys and all."""
    line: str | None = None
    """The row as it was written in the file, kept for export; None when it came from no file."""
    depth_image: bytes | None = None
    """The depth image's file, byte for byte."""
    depth_vector: NDArray[np.float32] | None = None
    """``depth_vector`` of the depth image, shape (576,)."""
    box: Box | None = None
    """The crop that was embedded, in pixels of the original."""
    depth_unit: DepthUnit | None = None
    """Unit in which the depth image was read, needed to read it again; None stands for millimetres."""


@dataclass(frozen=True)
class Where:
    """Which cases to look at. A field that is None asks for nothing; all that are given must hold."""

    family: str | None = None
    """The family, exactly."""
    device: str | None = None
    """The device, exactly."""
    step: int | None = None
    """The step's number."""
    place: str | None = None
    """The place, exactly; a case whose place is not known does not match."""
    previous_action: str | None = None
    """The previous action, exactly ("none" for nothing done yet)."""
    next_action: str | None = None
    """The next action, exactly."""
    exclude: frozenset[str] = frozenset()
    """Ids that must not come back, such as the query's own."""
    exclude_groups: frozenset[str] = frozenset()
    """Groups of near-duplicates that must not come back."""

    def matches(self, case: Case) -> bool:
        """Whether ``case`` is one of those asked for."""
        return (
            all(wanted is None or wanted == getattr(case, name) for name, wanted in self.wanted().items())
            and case.id not in self.exclude
            and (case.group is None or case.group not in self.exclude_groups)
        )

    def wanted(self) -> dict[str, str | int | None]:
        """The fields that must be equal, by name; None where nothing is asked."""
        names = ("family", "device", "step", "place", "previous_action", "next_action")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Hit:
    """A case that a search found."""

    case: Case
    """The case."""
    similarity: float
    """Cosine of the two embeddings, rounded to 1e-9."""


def parse_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Check one row of metadata and return the fields of a :class:`Case` that it sets.

    Args:
        row: As in ``metadata.jsonl``. ``family`` and ``device`` are required; null is the same as absent.

    Returns:
        ``file_name``, ``family``, ``device``, ``step``, ``state``, ``previous_action``, ``history``, ``next_action``,
        ``remaining_actions``, ``is_last``, ``end_state``, ``group``, ``place``, ``polygon`` and ``extra``; names
        come back stripped and in Unicode's composed form (NFC), so that one name is one name whatever machine wrote it.

    Raises:
        LabelError: Names the field, the bad value and what is valid.
    """
    _check_json(row)
    return read_fields(row)


def read_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """As :func:`parse_row`, for a row that is known to be plain JSON because it was read from JSON."""
    fields: dict[str, Any] = {}
    for key, reader in _READERS.items():
        value = row.get(key)
        fields[key] = None if value is None else reader(key, value)
    for key in ("family", "device"):
        if fields[key] is None:
            raise LabelError(f"field {key!r} is missing", hint=f'a row needs "{key}": a name')
    if fields["next_action"] == NOTHING_DONE:
        raise LabelError(
            "field 'next_action' is 'none', which is no action",
            hint='leave it out when it is not known; "end_state": true says that nothing remains',
        )
    fields["file_name"] = fields["file_name"] or ""
    del fields["depth_file_name"]  # checked only: the depth image itself lies in the case base
    fields["extra"] = {key: value for key, value in row.items() if key not in _READERS}
    return fields


def same_label(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two rows say the same about a picture: all but file names and unknown keys are equal."""
    first, second = parse_row(one), parse_row(other)
    return all(first[key] == second[key] for key in first if key not in ("file_name", "extra"))


def _check_json(row: Mapping[str, Any]) -> None:
    if not isinstance(row, Mapping):
        raise LabelError(f"a row must be a mapping of names to values, not {_shown(row)}")
    for key in row:
        if not isinstance(key, str):
            raise LabelError(f"a row's keys must be text, not {_shown(key)}")
    try:
        json.dumps(dict(row), allow_nan=False, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise LabelError("the row holds half a surrogate pair, which is no text", hint="save it as UTF-8") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise LabelError(f"the row is not plain JSON: {error}", hint="numbers must be finite") from None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _wrong(key: str, value: object, valid: str) -> LabelError:
    return LabelError(f"field {key!r} is {_shown(value)}; valid: {valid}")


def _text(key: str, value: object) -> str:
    if isinstance(value, str) and value.isascii() and value.isprintable() and value and value.strip() == value:
        return value  # most are; spelling them out below costs ten times as much
    if not isinstance(value, str) or not value.strip():
        raise _wrong(key, value, "a text that is not empty")
    return unicodedata.normalize("NFC", value.strip())


def _name(key: str, value: object) -> str:
    name = _text(key, value)
    if not name.isprintable() and any(unicodedata.category(character) == "Cc" for character in name):
        raise _wrong(key, value, "a name on one line, without control characters")
    return name


def _file(key: str, value: object) -> str:
    # kept to the letter: it must find the file again
    if not isinstance(value, str) or not value or "\0" in value:
        raise _wrong(key, value, "the name of a file")
    return value


def _actions(key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise _wrong(key, value, "a list of action names, [] for no action")
    names = tuple(_name(key, item) for item in value)
    if NOTHING_DONE in names:
        raise LabelError(
            f"field {key!r} holds 'none', which is no action", hint="an empty list says that there is none"
        )
    return names


def _step(key: str, value: object) -> int:
    number: object = value
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdecimal():
        number = int(value) if len(value) <= 20 else value
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= _MAX_STEP:
        raise _wrong(key, value, f"a whole number from 0 to {_MAX_STEP}")
    return number


def _flag(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong(key, value, "true or false")
    return value


def _outline(key: str, value: object) -> tuple[tuple[float, float], ...]:
    valid = "three or more [x, y] points in pixels"
    if not isinstance(value, list | tuple) or len(value) < 3:
        raise _wrong(key, value, valid)
    points = []
    for point in value:
        pair = tuple(point) if isinstance(point, list | tuple) else ()
        if len(pair) != 2 or not all(_is_coordinate(number) for number in pair):
            raise _wrong(key, point, valid)
        points.append((float(pair[0]), float(pair[1])))
    return tuple(points)


def _is_coordinate(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _MAX_COORDINATE


_READERS: dict[str, Callable[[str, object], Any]] = {
    "file_name": _file,
    "family": _name,
    "device": _name,
    "step": _step,
    "state": _text,
    "previous_action": _name,
    "history": _actions,
    "next_action": _name,
    "remaining_actions": _actions,
    "is_last": _flag,
    "end_state": _flag,
    "group": _name,
    "place": _name,
    "polygon": _outline,
    "depth_file_name": _file,
}
