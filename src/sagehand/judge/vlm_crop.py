"""Cropping by a vision-language model: a turn as a question, and its tool call as a move (paper A §2.2).

Here and nowhere else the numbers of the model's own box convention meet the fractions that the moves are made of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sagehand.errors import Malformed
from sagehand.judge import vlm_tools as tools
from sagehand.judge.prompts import Prompts
from sagehand.judge.questions import CropMove, CropTurn
from sagehand.picture import Picture
from sagehand.vlm.base import ImagePart, ToolCall
from sagehand.vlm.boxes import Convention, Frame, convention_limits, convention_words, read_box, say_box
from sagehand.vlm.tools import Tool

__all__ = ["crop_move", "crop_parts", "crop_tools", "image_part"]


def image_part(picture: Picture, label: str) -> ImagePart:
    """A picture for a prompt."""
    return ImagePart(picture.pixels, picture.pixel_id, label)


def crop_parts(prompts: Prompts, turn: CropTurn, convention: Convention, frame: Frame) -> list[str | ImagePart]:
    """What a turn shows and says.

    Args:
        prompts: The texts.
        turn: The turn.
        convention: How the model gives boxes.
        frame: The full picture as the model is shown it.
    """
    notes = "\n".join(f"- {note}" for note in turn.notes) or "none"
    if turn.strategy == "grid":
        told = prompts(
            "crop_grid",
            instruction=turn.instruction,
            rows=turn.rows,
            columns=turn.columns,
            cells=turn.rows * turn.columns,
            turn=turn.turn,
            most=turn.most,
            notes=notes,
        )
    else:
        left, top, right, bottom = say_box(turn.box, convention, frame)
        named = {"x": left, "y": top, "width": right - left, "height": bottom - top}
        told = prompts(
            "crop_box",
            instruction=turn.instruction,
            box=", ".join(f"{name} {_rounded(value, convention)}" for name, value in named.items()),
            unit=convention_words(convention, frame),
            turn=turn.turn,
            most=turn.most,
            notes=notes,
        )
    return [image_part(turn.full, "full picture"), told, image_part(turn.view, "current view")]


def crop_tools(turn: CropTurn, convention: Convention, frame: Frame) -> tuple[type[Tool], ...]:
    """The tools of the turn's strategy (paper A §2.2.1, 2.2.2)."""
    if turn.strategy == "grid":
        return tools.crop_tool(turn.rows * turn.columns), tools.SetGridSize, tools.Reset, tools.Finish
    across, down = convention_limits(convention, frame)
    return tools.bounding_box_tool(across, down, convention_words(convention, frame)), tools.Finish


def crop_move(call: ToolCall, by: str, convention: Convention, frame: Frame) -> CropMove:
    """The move that a tool call stands for, boxes in fractions of the full picture; it is not judged here."""
    said = call.tool.model_dump()
    name: Any = type(call.tool).__name__
    if name == "SetBoundingBoxParameters":
        said = _fractions(said, convention, frame)
    return CropMove(name, said, call.reasoning, by)


def _fractions(said: Mapping[str, float], convention: Convention, frame: Frame) -> dict[str, float]:
    try:
        x, y, width, height = read_box(said, convention, frame, min_side=1).fractions
    except Malformed:
        # empty, or far outside: handed on as it is, so that the turns refuse it and the model is told why
        across, down = convention_limits(convention, frame)
        x, y, width, height = said["x"] / across, said["y"] / down, said["width"] / across, said["height"] / down
    return {"x": x, "y": y, "width": width, "height": height}


def _rounded(value: float, convention: Convention) -> str:
    return f"{value:.3f}" if convention == "0-1" else f"{value:.0f}"
