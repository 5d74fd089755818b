"""Labelled pictures that certify a risk, and how they are read from a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sagehand.action.decision import Known
from sagehand.cases import parse_row, read_table
from sagehand.errors import InputError
from sagehand.judge.leaveout import LeaveOut
from sagehand.picture import Box

__all__ = ["CertifyItem", "certify_items"]


@dataclass(frozen=True)
class CertifyItem:
    """A labelled picture that certifies.

    Attributes:
        picture: The picture's file.
        depth: Its depth image, or None.
        known: What is known beside it when it is decided on.
        next_action: The true next action.
        unit: What is one thing for the statistics: a picture with its near-duplicates, or, where the robot meets new devices
            (a calibration that leaves devices out), a device. One answer a unit counts.
        key: Its own name.
        group: Its group of near-duplicates, if it has one; a group of which a case is in the base certifies nothing.
        family: Its true family, where a calibration that leaves devices out must see that the device is a new one.
        device: Its true device, for the same.
        box: The crop, for a base of crop ``truth`` (pixels of the original).
        polygon: The outline, for the same.
    """

    picture: Path
    depth: Path | None
    known: Known
    next_action: str
    unit: str
    key: str
    group: str | None = None
    family: str | None = None
    device: str | None = None
    box: Box | None = None
    polygon: tuple[tuple[float, float], ...] | None = None


def certify_items(folder: str | Path, leave_out: LeaveOut = "case") -> tuple[list[CertifyItem], list[tuple[str, str]]]:
    """The labelled pictures of a folder, known with their previous action and place, as ``evaluate`` knows them.

    Args:
        folder: Pictures with ``metadata.jsonl`` or ``metadata.csv``.
        leave_out: What is one unit: "case" takes a picture or its group, "device" a device.

    Returns:
        The items, and (file name, reason) of each row that cannot be used or has no next action.

    Raises:
        InputError: The folder cannot be used.
    """
    table = read_table(folder)
    items, left = [], [(p.file_name or f"line {p.line}", p.reason) for p in table.problems]
    for row in table.rows:
        try:
            label = parse_row(row.values)
        except InputError as error:
            left.append((row.file_name, error.message))
            continue
        if label["next_action"] is None:
            left.append((row.file_name, "its row has no next_action"))
            continue
        depth = row.values.get("depth_file_name")
        device = f"{label['family']}/{label['device']}"
        items.append(
            CertifyItem(
                picture=Path(folder, row.file_name),
                depth=None if depth is None else Path(folder, depth),
                known=Known(previous=label["previous_action"], place=label["place"]),
                next_action=label["next_action"],
                unit=device if leave_out == "device" else label["group"] or row.file_name,
                key=row.file_name,
                group=label["group"],
                family=label["family"],
                device=label["device"],
                polygon=label["polygon"],
            )
        )
    return items, left
