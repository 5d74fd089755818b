"""Query optimisation: cut queries and cases alike down to what matters (paper A §2.2, SPEC A3).

Strategies of this version: ``none`` (the default, until a crop is shown to help), ``truth`` (the polygon that the label
holds, or a box given by hand) and ``perceptual`` (what stands out from the background).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sagehand.errors import UnknownName
from sagehand.judge.questions import Judge
from sagehand.picture import Box, Picture

__all__ = ["CROPS", "Cropper", "cropper"]

CROPS = ("none", "perceptual", "truth")

Cropper = Callable[[Picture, Mapping[str, Any]], Box | None]
"""Picture and its label's fields → the box to cut out, or None for the whole picture."""


def cropper(strategy: str, judge: Judge) -> Cropper | None:
    """The function that crops by a strategy, or None where nothing is cut.

    Args:
        strategy: One of :data:`CROPS`.
        judge: Who is asked where the device is.

    Raises:
        UnknownName: The strategy is not one of them.
    """
    if strategy not in CROPS:
        raise UnknownName("crop strategy", strategy, CROPS)
    if strategy == "none":
        return None
    if strategy == "truth":
        return _truth
    return lambda picture, label: judge.crop(picture).box


def _truth(picture: Picture, label: Mapping[str, Any]) -> Box | None:
    box = label.get("box")
    if isinstance(box, Box):
        return box
    polygon = label.get("polygon")
    if not polygon:
        return None
    xs, ys = [p[0] for p in polygon], [p[1] for p in polygon]
    left, top = max(int(min(xs)), 0), max(int(min(ys)), 0)
    right, bottom = min(int(max(xs)) + 1, picture.width), min(int(max(ys)) + 1, picture.height)
    return Box(left, top, right, bottom) if right > left and bottom > top else None
