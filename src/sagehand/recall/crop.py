"""Query optimisation: cut queries and cases alike down to what matters (paper A §2.2, SPEC A3).

Strategies: ``none`` (the default, until a crop is shown to help), ``truth`` (the polygon that the label holds, or a box
given by hand), ``perceptual`` (what stands out from the background), ``relief`` (what stands up from the surface, by depth;
by colour without it), ``grid`` (Algorithm 1) and ``box`` (Algorithm 2). The last two are meant for a judge with a VLM; the
perceptual judge makes their moves too, but cannot read an instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sagehand.errors import UnknownName
from sagehand.judge.perceptual import PerceptualJudge
from sagehand.judge.questions import Judge
from sagehand.picture import Box, Picture
from sagehand.recall.crop_loop import INSTRUCTION, MOST_TURNS, crop_by_turns
from sagehand.recall.crop_trace import CropResult, CropTrace

__all__ = ["CROPS", "INSTRUCTION", "TURNS", "Cropper", "crop_picture", "cropper"]

TURNS = ("grid", "box")
"""The strategies that a judge makes move by move: a VLM, or for want of one the perceptual judge."""

CROPS = ("none", "perceptual", "relief", "truth", *TURNS)

Cropper = Callable[[Picture, Mapping[str, Any]], Box | None]
"""Picture and its label's fields → the box to cut out, or None for the whole picture."""


def cropper(
    strategy: str,
    judge: Judge,
    *,
    instruction: str = INSTRUCTION,
    most: int = MOST_TURNS,
    on_result: Callable[[CropResult], None] | None = None,
) -> Cropper | None:
    """The function that crops by a strategy, or None where nothing is cut.

    Args:
        strategy: One of :data:`CROPS`.
        judge: Who is asked where the device is, by "grid" and "box".
        instruction: What shall be in the crop, for a judge that reads.
        most: Most turns of "grid" and "box".
        on_result: Called with every result, as when a judge that fails shall stop an import instead of leaving pictures
            whole; it may raise.

    Raises:
        UnknownName: The strategy is not one of them.
    """
    _known(strategy)
    if strategy == "none":
        return None

    def cut(picture: Picture, label: Mapping[str, Any]) -> Box | None:
        result = crop_picture(picture, strategy, judge, label=label, instruction=instruction, most=most)
        if on_result is not None:
            on_result(result)
        return None if result.whole else result.box

    return cut


def crop_picture(
    picture: Picture,
    strategy: str,
    judge: Judge,
    *,
    label: Mapping[str, Any] | None = None,
    instruction: str = INSTRUCTION,
    most: int = MOST_TURNS,
) -> CropResult:
    """Crop one picture by a strategy, with everything that led to it.

    Args:
        picture: The whole picture.
        strategy: One of :data:`CROPS`.
        judge: Who is asked where the device is, by "grid" and "box"; a failure of it is told in the result.
        label: For "truth": ``box`` (a :class:`Box`) or ``polygon`` (points in pixels of the original).
        instruction: What shall be in the crop, for a judge that reads.
        most: Most turns of "grid" and "box".

    Raises:
        UnknownName: The strategy is not one of them.
    """
    _known(strategy)
    if strategy in TURNS:
        return crop_by_turns(picture, judge, strategy, instruction=instruction, most=most)
    box: Box | None = None
    if strategy == "none":
        trace, reason = CropTrace(strategy), "nothing is cut away"
    elif strategy == "truth":
        box = _truth(picture, label or {})
        trace = CropTrace(strategy)
        reason = "the box or polygon that was given" if box else "the label has no box and no polygon in the picture"
    else:
        # by this judge whoever answers the other questions: cases and queries must be cut alike
        own = PerceptualJudge()
        answer = own.crop(picture) if strategy == "perceptual" else own.relief_crop(picture)
        box = answer.box
        trace = CropTrace(strategy, answer.by)
        reason = "; ".join(finding.text for finding in answer.findings) or "the judge gave no reason"
    box = box or Box(0, 0, *picture.size)
    return CropResult(picture, box, trace, True, reason)


def _known(strategy: str) -> None:
    if strategy not in CROPS:
        raise UnknownName("crop strategy", strategy, CROPS)


def _truth(picture: Picture, label: Mapping[str, Any]) -> Box | None:
    box = label.get("box")
    if isinstance(box, Box):
        return picture.crop(box).box  # one that reaches beyond the picture is refused there
    polygon = label.get("polygon")
    if not polygon:
        return None
    xs, ys = [p[0] for p in polygon], [p[1] for p in polygon]
    left, top = max(int(min(xs)), 0), max(int(min(ys)), 0)
    right, bottom = min(int(max(xs)) + 1, picture.width), min(int(max(ys)) + 1, picture.height)
    return Box(left, top, right, bottom) if right > left and bottom > top else None
