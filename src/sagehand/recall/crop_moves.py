"""What each cropping tool does to the view (paper A, Algorithms 1 and 2), and what becomes of a move that cannot be right.

Repaired is what can only mean one thing: corners in the wrong order are sorted, what reaches beyond the picture is cut off
at its edge, what is too small is grown around its centre. Everything else is refused with a sentence that says why, and the
view stays as it is. The view is therefore never empty and never leaves the picture. What is said of a box holds no
coordinates: models count them in units of their own, which are not known here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from sagehand.errors import InputError
from sagehand.judge.cells import Grid
from sagehand.judge.questions import CropMove
from sagehand.picture import Box
from sagehand.recall.crop_trace import Outcome
from sagehand.recall.grid import default_grid, finest_grid

__all__ = ["LEAST_SHARE", "LEAST_SIDE", "Applied", "View", "apply", "start"]

LEAST_SHARE = 0.02  # of the picture that a crop must hold
LEAST_SIDE = 32  # px of the original: thinner pictures are refused or made up by models (FIELD_REPORTS B09)
_FAR = 1.5  # a fraction beyond this is no fraction: pixels, or 0 to 1000
_EDGE = 1e-6  # of the picture: what rounding makes of an edge at 1
_TOOLS = {"grid": ("Crop", "SetGridSize", "Reset", "Finish"), "box": ("SetBoundingBoxParameters", "Finish")}


@dataclass(frozen=True)
class View:
    """What the model looks at.

    Attributes:
        size: (width, height) of the original [px].
        box: What the view shows, in pixels of the original.
        rows: Rows of its grid; 0 without one.
        columns: Its columns.
        chosen: Rows and columns that the model asked for, or None.
    """

    size: tuple[int, int]
    box: Box
    rows: int = 0
    columns: int = 0
    chosen: tuple[int, int] | None = None

    @property
    def grid(self) -> Grid | None:
        """Its grid, or None without one."""
        return Grid(self.box, self.rows, self.columns) if self.rows else None

    @property
    def strategy(self) -> Literal["grid", "box"]:
        """The strategy, "grid" or "box"."""
        return "grid" if self.rows else "box"


@dataclass(frozen=True)
class Applied:
    """What a move did.

    Attributes:
        view: The view after it.
        outcome: What became of it.
        note: The same in words, for the model's next turn.
    """

    view: View
    outcome: Outcome
    note: str


class _Refused(Exception):
    """A move that is not done; its text says why."""


def start(size: tuple[int, int], strategy: str) -> View:
    """The view of the first turn: the whole picture."""
    whole = View(size, Box(0, 0, *size))
    return _gridded(whole, whole.box) if strategy == "grid" else whole


def apply(view: View, move: CropMove) -> Applied:
    """Do a move.

    Args:
        view: What the model was looking at.
        move: What it chose.

    Returns:
        The next view, which is the same one where the move was refused or ends the turns.
    """
    try:
        if move.tool not in _TOOLS[view.strategy]:
            raise _Refused(f"there is no such tool here; the tools are {', '.join(_TOOLS[view.strategy])}")
        if move.tool == "Finish":
            return Applied(view, "finished", "Finish: the view is the crop")
        if move.tool == "Reset":
            return _moved(view, _gridded(view, Box(0, 0, *view.size)), "Reset", ["the whole picture is shown"], False)
        if move.tool == "SetGridSize":
            return _regrid(view, move.arguments)
        if move.tool == "Crop":
            return _crop(view, move.arguments)
        return _set_box(view, move.arguments)
    except _Refused as refusal:
        return Applied(view, "refused", f"{_said(move.tool)} was not done: {refusal}")


def _gridded(view: View, box: Box) -> View:
    """The view of a box with its grid: the size that the model chose as far as it fits, else about twenty square cells."""
    most_rows, most_columns = finest_grid(box.width, box.height)
    rows, columns = view.chosen or default_grid(box.width, box.height)
    return replace(view, box=box, rows=min(rows, most_rows), columns=min(columns, most_columns))


def _moved(before: View, after: View, what: str, did: list[str], repaired: bool) -> Applied:
    if (after.box, after.rows, after.columns) == (before.box, before.rows, before.columns):
        did = [*did, "nothing changed by it"]
    return Applied(after, "repaired" if repaired else "done", f"{what}: {'; '.join(did)}")


def _regrid(view: View, arguments: Mapping[str, Any]) -> Applied:
    most_rows, most_columns = finest_grid(view.box.width, view.box.height)
    asked = _whole(arguments, "rows"), _whole(arguments, "columns")
    held = min(max(asked[0], 1), most_rows), min(max(asked[1], 1), most_columns)
    after = replace(view, rows=held[0], columns=held[1], chosen=held)
    did = [f"the grid has {held[0]} rows and {held[1]} columns"]
    if held != asked:
        did.append(f"1 to {most_rows} rows and 1 to {most_columns} columns fit this view")
    return _moved(view, after, f"SetGridSize to {asked[0]} x {asked[1]}", did, held != asked)


def _crop(view: View, arguments: Mapping[str, Any]) -> Applied:
    grid = Grid(view.box, view.rows, view.columns)
    first, second = _whole(arguments, "top_left"), _whole(arguments, "bottom_right")
    for name, number in (("top_left", first), ("bottom_right", second)):
        if not 1 <= number <= grid.count:
            raise _Refused(f"{name} is {number}, and this view has the cells 1 to {grid.count}")
    box = grid.span(first, second)
    did: list[str] = []
    if grid.covering(box) != (first, second):
        did.append("the two cells were the wrong corners, and were put in order")
    grown = _grown(box.left, box.top, box.right, box.bottom, view.size)
    if grown != box:
        did.append(_why_grown(view.size))
        box = grown
    repaired = bool(did)
    did.insert(0, f"the view is now {box.width} x {box.height} pixels of the picture")
    return _moved(view, _gridded(view, box), f"Crop from cell {first} to cell {second}", did, repaired)


def _set_box(view: View, arguments: Mapping[str, Any]) -> Applied:
    x, y, w, h = (_fraction(arguments, name) for name in ("x", "y", "width", "height"))
    width, height = view.size
    did: list[str] = []
    if w < 0 or h < 0:
        x, y, w, h = min(x, x + w), min(y, y + h), abs(w), abs(h)
        did.append("its corners were in the wrong order, and were sorted")
    if w == 0 or h == 0:
        raise _Refused("the box is empty; width and height are more than 0")
    left, top, right, bottom = max(x, 0.0), max(y, 0.0), min(x + w, 1.0), min(y + h, 1.0)
    if left >= right or top >= bottom:
        raise _Refused("the box lies outside the picture")
    if max(left - x, top - y, x + w - right, y + h - bottom) > _EDGE:
        inside = right - left, bottom - top
        if inside[0] * inside[1] < LEAST_SHARE or inside[0] * width < LEAST_SIDE or inside[1] * height < LEAST_SIDE:
            raise _Refused("the box reaches beyond the picture, and too little of it lies inside")
        did.append("it reached beyond the picture, and was cut off at the edge")
    try:
        exact = Box.from_fractions(left, top, right - left, bottom - top, view.size)
    except InputError as error:
        raise _Refused("the box covers no pixel of the picture") from error
    box = _grown(exact.left, exact.top, exact.right, exact.bottom, view.size)
    if box != exact:
        did.append(_why_grown(view.size))
    repaired = bool(did)
    did.insert(0, f"the box now covers {box.area / (width * height):.0%} of the picture")
    return _moved(view, replace(view, box=box), "SetBoundingBoxParameters", did, repaired)


def _grown(left: int, top: int, right: int, bottom: int, size: tuple[int, int]) -> Box:
    """The box itself where it is large enough, else grown around its centre and moved into the picture."""
    width, height = size
    w, h = max(right - left, min(LEAST_SIDE, width)), max(bottom - top, min(LEAST_SIDE, height))
    area = LEAST_SHARE * width * height
    if w * h < area:
        scale = math.sqrt(area / (w * h))
        w, h = min(math.ceil(w * scale), width), min(math.ceil(h * scale), height)
        w, h = min(max(w, math.ceil(area / h)), width), min(max(h, math.ceil(area / w)), height)
    if (w, h) == (right - left, bottom - top):
        return Box(left, top, right, bottom)
    x = min(max((left + right - w) // 2, 0), width - w)
    y = min(max((top + bottom - h) // 2, 0), height - h)
    return Box(x, y, x + w, y + h)


def _why_grown(size: tuple[int, int]) -> str:
    sides = f"{min(LEAST_SIDE, size[0])} x {min(LEAST_SIDE, size[1])} pixels"
    return f"it was too small and was grown around its centre (at least {LEAST_SHARE:.0%} of the picture and {sides})"


def _whole(arguments: Mapping[str, Any], name: str) -> int:
    value = arguments.get(name)
    number = _number(value)
    if number is None or number != math.floor(number):
        raise _Refused(f"{name} is {_said(value)}, not a whole number")
    return int(number)


def _fraction(arguments: Mapping[str, Any], name: str) -> float:
    value = arguments.get(name)
    number = _number(value)
    if number is None:
        raise _Refused(f"{name} is {_said(value)}, not a number")
    if abs(number) > _FAR:
        raise _Refused(f"{name} is far outside the picture")
    return number


def _number(value: object) -> float | None:
    """A finite number of a size that can mean something, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e9 < value < 1e9:
        return None
    return float(value)


def _said(value: object) -> str:
    """A value as a model wrote it, in a line of bounded length."""
    if value is None:
        return "missing"
    if isinstance(value, int) and abs(value) >= 10**12:
        return "a huge number"
    text = value if isinstance(value, str) and value.isidentifier() else repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
