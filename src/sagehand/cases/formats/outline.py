"""Outlines as annotation tools draw them, to one polygon; and what COCO wants to know of a polygon."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from sagehand.cases.formats.strict import BadRow

__all__ = ["Points", "area", "bounds", "corners", "flat", "one_outline", "pairs"]

Points: TypeAlias = list[list[float]]
"""[x, y] corners in pixels of the original."""


def pairs(numbers: object) -> Points:
    """COCO's x, y, x, y, … to corners; whole numbers stay whole.

    Raises:
        BadRow: Not an even count of at least six finite numbers.
    """
    if not isinstance(numbers, list) or len(numbers) < 6 or len(numbers) % 2 or not all(map(_is_number, numbers)):
        raise BadRow(f"a polygon is {_shown(numbers)}; valid: x, y, x, y, … of at least three corners")
    return [list(corner) for corner in zip(numbers[::2], numbers[1::2], strict=True)]


def flat(points: Sequence[Sequence[float]]) -> list[float]:
    """Corners to COCO's x, y, x, y, …."""
    return [number for point in points for number in point]


def corners(first: Sequence[Any], second: Sequence[Any]) -> Points:
    """The four corners of the rectangle between two opposite ones.

    Raises:
        BadRow: They are no points, or the rectangle has no area.
    """
    if not all(len(p) == 2 and all(map(_is_number, p)) for p in (first, second)):
        raise BadRow(f"a box is {_shown([first, second])}; valid: two corners [x, y]")
    left, right = sorted((first[0], second[0]))
    top, bottom = sorted((first[1], second[1]))
    if left == right or top == bottom:
        raise BadRow(f"a box is {_shown([first, second])}, which has no area")
    return [[left, top], [right, top], [right, bottom], [left, bottom]]


def one_outline(pieces: Sequence[Points]) -> Points | None:
    """One polygon of several pieces: the piece itself where there is one, else the convex hull of all; None of none."""
    if len(pieces) < 2:
        return pieces[0] if pieces else None
    return _hull([point for piece in pieces for point in piece])


def bounds(points: Sequence[Sequence[float]]) -> tuple[float, float, float, float]:
    """x, y, width, height of the box around a polygon."""
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    return min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)


def area(points: Sequence[Sequence[float]]) -> float:
    """Area of a polygon that does not cross itself, by the shoelace formula."""
    turned = [*points[1:], points[0]]
    return abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(points, turned, strict=True))) / 2


def _hull(points: Points) -> Points:
    """Convex hull (Andrew's monotone chain); of points on a line, their box would have no area, so they come back."""
    ordered = sorted({(p[0], p[1]) for p in points})

    def chain(way: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        kept: list[tuple[float, float]] = []
        for p in way:
            while len(kept) > 1 and _turn(kept[-2], kept[-1], p) <= 0:
                kept.pop()
            kept.append(p)
        return kept[:-1]

    around = chain(ordered) + chain(ordered[::-1])
    return [list(p) for p in around] if len(around) > 2 else points


def _turn(a: Sequence[float], b: Sequence[float], c: Sequence[float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
