"""The box self-test: a drawn red square, asked for, and read under each convention (FIELD_REPORTS B06).

The model is not told any units, so that it answers in its own; which they are shows in where the answers fall. The
pictures are no fixed points of the resize rules, so that pixels after a resize differ from pixels before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sagehand.vlm.boxes import Convention, Corners, smart_resize
from sagehand.vlm.profile import Profile

__all__ = ["SIZES", "BoxAnswer", "BoxVerdict", "iou", "judge_boxes", "red_square"]

SIZES: tuple[tuple[int, int], ...] = ((406, 406), (690, 450), (450, 1100), (1300, 820))
"""(width, height) of the pictures of the test [px]."""
_CAPS = tuple(tokens * 28**2 for tokens in (1280, 768, 512, 256))  # pixel caps that servers are known to set
_FOUND = 0.6  # mean IoU from which a convention counts as found
_TWINS = 0.02  # 0-1000 and 0-999 differ by less than a model's own error; so may others: the expected one is then taken
_BACKGROUND, _RED = (205, 208, 212), (222, 28, 28)


@dataclass(frozen=True)
class BoxAnswer:
    """What a model said about one picture of the test.

    Attributes:
        size: (width, height) of the picture [px].
        truth: Corners of the square, in fractions of the picture.
        said: The four numbers as they were given.
        named: Whether they were given as named corners, or as a bare list.
    """

    size: tuple[int, int]
    truth: Corners
    said: Corners
    named: bool


@dataclass(frozen=True)
class BoxVerdict:
    """Which convention the answers were given in.

    Attributes:
        convention: The one found, or None.
        agreement: Mean IoU with the truth, when read in the convention that fits best.
        factor: For pixels: the sides were resized to multiples of this; 1 for no resize. Else None.
        cap: For pixels: the server's cap on pixels [px²], where one shows.
        scores: Convention → mean IoU, best first.
    """

    convention: Convention | None
    agreement: float
    factor: int | None
    cap: int | None
    scores: Mapping[str, float]


@dataclass(frozen=True)
class _Reading:
    convention: Convention
    factor: int | None = None
    cap: int | None = None

    @property
    def name(self) -> str:
        if self.factor is None:
            return self.convention
        resized = "as sent" if self.factor == 1 else f"resized to multiples of {self.factor}"
        return f"{self.convention} ({resized}{f', at most {self.cap}' if self.cap else ''})"

    def fractions(self, answer: BoxAnswer) -> Corners:
        x1, y1, x2, y2 = answer.said
        if self.convention == "yx-1000" and not answer.named:
            x1, y1, x2, y2 = y1, x1, y2, x2
        wide, high = self._units(answer.size)
        return x1 / wide, y1 / high, x2 / wide, y2 / high

    def _units(self, size: tuple[int, int]) -> tuple[float, float]:
        if self.factor is None:
            unit = {"0-1": 1.0, "0-999": 999.0}.get(self.convention, 1000.0)
            return unit, unit
        if self.factor == 1:
            return size
        high, wide = smart_resize(size[1], size[0], self.factor, 4 * self.factor**2, self.cap or 16384 * self.factor**2)
        return wide, high


def red_square(size: tuple[int, int]) -> tuple[NDArray[np.uint8], Corners]:
    """A grey picture with a red square off its centre, and the square's corners in fractions of the picture.

    Args:
        size: (width, height) [px].
    """
    width, height = size
    side = min(width, height) * 3 // 10
    left, top = width * 11 // 20, height // 6
    pixels = np.full((height, width, 3), _BACKGROUND, dtype=np.uint8)
    pixels[top : top + side, left : left + side] = _RED
    return pixels, (left / width, top / height, (left + side) / width, (top + side) / height)


def iou(first: Corners, second: Corners) -> float:
    """Intersection over union of two boxes given by their corners; corners the wrong way round give 0."""
    wide = min(first[2], second[2]) - max(first[0], second[0])
    high = min(first[3], second[3]) - max(first[1], second[1])
    if wide <= 0 or high <= 0:
        return 0.0
    areas = [(c[2] - c[0]) * (c[3] - c[1]) for c in (first, second)]
    return wide * high / (sum(areas) - wide * high)


def judge_boxes(answers: Sequence[BoxAnswer], expected: Profile) -> BoxVerdict:
    """Find the convention that the answers were given in.

    Named corners tell the unit; bare lists tell the order. Without either, nothing is found.

    Args:
        answers: Of several pictures.
        expected: What is known of the family: it wins where two conventions fit alike.
    """
    if not answers:
        return BoxVerdict(None, 0.0, None, None, {})
    readings = _readings(expected)
    named = [a for a in answers if a.named] or list(answers)
    scores = {r: _mean(r, named) for r in readings}
    best = _best(scores, readings)
    listed = [a for a in answers if not a.named]
    if listed and best.convention in ("0-1000", "0-999", "yx-1000"):
        # named corners read alike in both orders: the lists decide
        orders = {r: _mean(r, listed) for r in readings if r.convention in ("0-1000", "yx-1000")}
        first_y = next(r for r in orders if r.convention == "yx-1000")
        first_x = next(r for r in orders if r.convention == "0-1000")
        if orders[first_y] > orders[first_x] + _TWINS:
            best = first_y
        elif best.convention == "yx-1000" and orders[first_x] > orders[first_y] + _TWINS:
            best = first_x
    told = {
        r.name: round(s, 3) for r, s in sorted(scores.items(), key=lambda item: -item[1]) if r.cap is None or r == best
    }
    if scores[best] < _FOUND:
        return BoxVerdict(None, scores[best], None, None, told)
    return BoxVerdict(best.convention, scores[best], best.factor, best.cap, told)


def _readings(expected: Profile) -> list[_Reading]:
    """All of them, the expected one first, and capped ones last."""
    plain: tuple[Convention, ...] = ("0-1", "0-1000", "yx-1000", "0-999")
    pixels: list[_Reading] = [_Reading("pixels", factor) for factor in (1, 28, 32)]
    found = [*(_Reading(c) for c in plain), *pixels]
    found.sort(key=lambda r: (r.convention != expected.boxes, r.factor is not None and r.factor != expected.factor))
    return [*found, *(_Reading("pixels", factor, cap) for factor in (28, 32) for cap in _CAPS)]


def _mean(reading: _Reading, answers: Sequence[BoxAnswer]) -> float:
    return sum(iou(reading.fractions(a), a.truth) for a in answers) / len(answers)


def _best(scores: Mapping[_Reading, float], order: Sequence[_Reading]) -> _Reading:
    """The first in order of those that fit as well as the best."""
    most = max(scores.values())
    return next(r for r in order if scores[r] >= most - _TWINS)
