"""The tools that a vision-language model answers paper A's questions with, under the paper's names.

The sentences are for the model: they stand in the schema and in the prompt. What depends on the question (the actions that
are possible, the cells of a grid, the convention of a box) is an enum or a bound of a tool made for it, so that a server
that constrains its replies cannot be told anything else.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, cast

from pydantic import Field, create_model

from sagehand.cases import NOTHING_DONE
from sagehand.judge.cells import MOST_CELLS
from sagehand.vlm.tools import Tool

__all__ = [
    "CANNOT_TELL",
    "NOT_KNOWN",
    "BoolGradeImage",
    "CompareImages",
    "ExpandSearch",
    "Finish",
    "GradeImage",
    "LeafFinalScore",
    "Reset",
    "SetGridSize",
    "bounding_box_tool",
    "crop_tool",
    "prediction_tool",
]

CANNOT_TELL = "cannot_tell"
"""The value that abstains: always among the next actions and the device classes."""

NOT_KNOWN = "not_known"
"""The previous action that a prompt does not name."""


# paper A §2.4
class BoolGradeImage(Tool):
    """Say whether the candidate shows the same kind of device in the same state of disassembly as the query."""

    match: bool = Field(description="true only if place, shape, components and preceding steps all speak for it")


# Algorithm 3
class GradeImage(Tool):
    """Grade how similar the candidate is to the query, in device and state of disassembly."""

    score: int = Field(ge=0, le=10, description="0 nothing in common, 5 the least that counts as a match, 10 the same")


# Algorithm 3
class LeafFinalScore(Tool):
    """Grade how similar a whole device is to the query, from what was found on its pictures."""

    score: int = Field(ge=0, le=10, description="0 another kind of device, 5 the least that counts, 10 the same device")
    summary: str = Field(description="the findings in one sentence")


# §2.4
class ExpandSearch(Tool):
    """Say whether the pictures of one more device shall be graded."""

    expand: bool = Field(description="true if none of the devices graded so far is convincing")


# Algorithm 4
class CompareImages(Tool):
    """Say which of two candidates is more similar to the query, in device and state of disassembly."""

    better: Literal["first", "second"] = Field(description="the candidate that is more similar to the query")


# Algorithm 1
class SetGridSize(Tool):
    """Draw another grid on the view, where a line of this one cuts through what matters."""

    rows: int = Field(ge=1, le=MOST_CELLS, description="rows of the grid")
    columns: int = Field(ge=1, le=MOST_CELLS, description="columns of the grid")


# Algorithm 1
class Reset(Tool):
    """Go back to the full picture."""


# Algorithms 1 and 2
class Finish(Tool):
    """Take the view as it is: the device and its fixture fill it well."""


@lru_cache(maxsize=64)
def crop_tool(cells: int) -> type[Tool]:
    """The tool ``Crop``: cut the view down to a rectangle of cells (paper A, Algorithm 1).

    Args:
        cells: Cells of the grid that is drawn on the view.
    """
    return _made(
        "Crop",
        "Cut the view down to the rectangle from one cell to another, both included.",
        top_left=(int, Field(ge=1, le=cells, description="number of the cell in the rectangle's top left corner")),
        bottom_right=(int, Field(ge=1, le=cells, description="number of the cell in its bottom right corner")),
    )


@lru_cache(maxsize=64)
def bounding_box_tool(across: float, down: float, unit: str) -> type[Tool]:
    """The tool ``SetBoundingBoxParameters``: top left corner and size (paper A, Algorithm 2).

    Args:
        across: Largest x and width in the model's own convention.
        down: Largest y and height.
        unit: The convention in words, as in "in thousandths of the full picture".
    """
    return _made(
        "SetBoundingBoxParameters",
        f"Set the box that is cut out of the full picture, {unit}.",
        x=(float, Field(ge=0, le=across, description="left edge of the box")),
        y=(float, Field(ge=0, le=down, description="top edge of the box")),
        width=(float, Field(ge=0, le=across, description="width of the box")),
        height=(float, Field(ge=0, le=down, description="height of the box")),
    )


@lru_cache(maxsize=256)
def prediction_tool(valid: tuple[str, ...], actions: tuple[str, ...], classes: tuple[str, ...]) -> type[Tool]:
    """The tool ``PredictActions``: the five tasks of paper A §3.1 in one call.

    Args:
        valid: Actions that may be answered; :data:`CANNOT_TELL` comes with them.
        actions: All actions of the cell but the one that stands for "nothing remains".
        classes: The device families that there are; :data:`CANNOT_TELL` comes with them.
    """
    remaining = _one_of(actions)
    return _made(
        "PredictActions",
        "Say what was done last, what comes next, what remains, and what the device is.",
        previous_action=(
            _one_of((NOTHING_DONE, *actions, NOT_KNOWN)),
            Field(description="the previously executed action, copied from the prompt"),
        ),
        next_action=(
            _one_of((*valid, CANNOT_TELL)),
            Field(description=f"the action to execute next; {CANNOT_TELL} if none of the others is certain enough"),
        ),
        remaining_actions=(
            list[remaining],  # type: ignore[valid-type]
            Field(
                max_length=2 * len(actions) + 2,  # checked by us: no server is told it
                description="the actions from the next one to the last one, in order; [] if nothing remains",
            ),
        ),
        is_last=(bool, Field(description="true if the next action is the last one")),
        device_class=(_one_of((*classes, CANNOT_TELL)), Field(description="the family that the device belongs to")),
    )


def _one_of(names: tuple[str, ...]) -> Any:
    """An enum, each name once, in order."""
    return Literal[tuple(dict.fromkeys(names))]


def _made(name: str, doc: str, **fields: Any) -> type[Tool]:
    return cast(type[Tool], create_model(name, __base__=Tool, __doc__=doc, __module__=__name__, **fields))
