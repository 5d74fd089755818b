"""The questions of cropping: where the device is, at once or by turns (paper A §2.2, Algorithms 1 and 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sagehand.judge.candidate import Finding
from sagehand.judge.cost import FREE, Cost
from sagehand.picture import Box, Picture

__all__ = ["CropAnswer", "CropMove", "CropTool", "CropTurn"]

CropTool = Literal["Crop", "SetGridSize", "Reset", "Finish", "SetBoundingBoxParameters"]


@dataclass(frozen=True)
class CropAnswer:
    """Where the device is (paper A §2.2).

    Attributes:
        box: In pixels of the picture asked about, or None for "cannot tell".
        findings: Why.
        by: The judge's name.
        cost: What the answer cost.
    """

    box: Box | None
    findings: tuple[Finding, ...]
    by: str
    cost: Cost = field(default=FREE, compare=False)


@dataclass(frozen=True, eq=False)
class CropTurn:
    """One turn of cropping: what is seen, and what may be done next (paper A, Algorithms 1 and 2).

    Attributes:
        full: The whole picture, without anything drawn on it, in its original pixels.
        view: What is left of it after the moves so far, scaled down to be looked at; for "grid" with the numbered grid
            drawn on it.
        strategy: "grid" (Crop, SetGridSize, Reset, Finish) or "box" (SetBoundingBoxParameters, Finish).
        rows: Rows of the grid drawn on the view; 0 for "box".
        columns: Its columns; 0 for "box".
        box: What the view shows, in pixels of ``full``.
        turn: Number of this turn, from 1.
        most: Number of the last turn; what is left after it is taken.
        instruction: What shall be in the crop, in words.
        notes: What became of the earlier moves and what this turn demands, in words, oldest first.
    """

    full: Picture
    view: Picture
    strategy: Literal["grid", "box"]
    rows: int
    columns: int
    box: Box
    turn: int
    most: int
    instruction: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CropMove:
    """The tool chosen in a :class:`CropTurn`.

    Attributes:
        tool: Its name.
        arguments: Crop: ``top_left`` and ``bottom_right``, numbers of cells of the view, 1 to rows · columns, row by
            row. SetGridSize: ``rows`` and ``columns``. SetBoundingBoxParameters: ``x``, ``y`` (top left corner),
            ``width`` and ``height`` in fractions of ``full``, 0 to 1. Reset and Finish: none.
        reason: Why, in words.
        by: The judge's name.
        cost: What the answer cost.
    """

    tool: CropTool
    arguments: Mapping[str, float | int]
    reason: str
    by: str
    cost: Cost = field(default=FREE, compare=False)
