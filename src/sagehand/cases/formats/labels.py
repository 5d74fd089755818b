"""Labels as annotation tools hold them, to the fields of a row; several annotations of one picture must say the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sagehand.cases.case import ROW_FIELDS
from sagehand.cases.formats.strict import BadRow

__all__ = ["LISTS", "agreed", "listed", "named"]

LISTS = ("history", "remaining_actions")
"""Fields that are lists; a tool that has text alone writes ``a;b``."""


def agreed(labels: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """One label of those of several annotations.

    Raises:
        BadRow: Two give a field of a row (not merely a key of their own) different values.
    """
    found: dict[str, Any] = {}
    for label in labels:
        for key, value in label.items():
            before = found.get(key)
            if before is not None and value is None:
                continue
            if key in ROW_FIELDS and before is not None and before != value:
                raise BadRow(f"its annotations disagree about {key}: {before!r} and {value!r}")
            found[key] = value
    return found


def listed(text: str) -> list[str]:
    """The items of ``a;b``."""
    return [item.strip() for item in text.split(";") if item.strip()]


def named(label: object) -> dict[str, Any]:
    """What a label says: ``device``, ``family/device`` or ``family/device/step``.

    Raises:
        BadRow: It is none of them.
    """
    if not isinstance(label, str) or not label.strip():
        raise BadRow("a shape has no label")
    parts = [part.strip() for part in label.split("/")]
    if len(parts) > 3 or not all(parts):
        raise BadRow(f"label {label!r} is not device, family/device or family/device/step")
    if len(parts) == 1:
        return {"device": parts[0]}
    return dict(zip(("family", "device", "step"), parts, strict=False))
