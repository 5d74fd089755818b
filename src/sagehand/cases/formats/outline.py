"""Outlines as annotation tools draw them, to one polygon; and what COCO wants to know of a polygon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypeGuard

from sagehand.cases.formats.strict import BadRow

__all__ = [
    "Points",
    "area",
    "bounds",
    "check_range",
    "corners",
    "flat",
    "is_number",
    "one_outline",
    "pairs",
    "polygon",
    "shown",
]

Points: TypeAlias = list[list[float]]
"""[x, y] corners in pixels of the original."""

_FARTHEST = 1e9  # as far as a case's outline may reach; what is sure to be within it can be reckoned with


def pairs(numbers: object) -> Points:
    """COCO's x, y, x, y, … to corners; whole numbers stay whole.

    Raises:
        BadRow: Not an even count of at least six finite numbers.
    """
    check_range("a polygon", numbers)
    if not isinstance(numbers, list) or len(numbers) < 6 or len(numbers) % 2 or not all(map(is_number, numbers)):
        raise BadRow(f"a polygon is {shown(numbers)}; valid: x, y, x, y, … of at least three corners")
    return [list(corner) for corner in zip(numbers[::2], numbers[1::2], strict=True)]


def polygon(points: object) -> Points:
    """Corners that a tool wrote as [x, y] pairs.

    Raises:
        BadRow: They are not at least three pairs of finite numbers.
    """
    check_range("a polygon", points)
    if not isinstance(points, list) or len(points) < 3 or not all(map(_is_corner, points)):
        raise BadRow(f"a polygon is {shown(points)}, no list of [x, y] of at least three corners")
    return points


def flat(points: Sequence[Sequence[float]]) -> list[float]:
    """Corners to COCO's x, y, x, y, …."""
    return [number for point in points for number in point]


def corners(first: object, second: object) -> Points:
    """The four corners of the rectangle between two opposite ones.

    Raises:
        BadRow: They are no points, or the rectangle has no area.
    """
    check_range("a box", [first, second])
    if not (_is_corner(first) and _is_corner(second)):
        raise BadRow(f"a box is {shown([first, second])}; valid: two corners [x, y]")
    left, right = sorted((first[0], second[0]))
    top, bottom = sorted((first[1], second[1]))
    if left == right or top == bottom:
        raise BadRow(f"a box is {shown([first, second])}, which has no area")
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


def is_number(value: object) -> bool:
    """Whether it is a number that a coordinate may have."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _FARTHEST


def check_range(what: str, value: object) -> None:
    """Refuse coordinates that are numbers, but farther out than an outline may reach.

    Args:
        what: What they are of, as an error names it.
        value: A list of numbers, or of lists of numbers; whatever else stands in it is left alone.

    Raises:
        BadRow: A number is out of range.
    """
    parts = value if isinstance(value, list) else []
    numbers = [number for part in parts for number in (part if isinstance(part, list) else [part])]
    if any(isinstance(n, int | float) and not isinstance(n, bool) and not is_number(n) for n in numbers):
        raise BadRow(f"{what} is {shown(value)}, out of range: a coordinate lies within ±{_FARTHEST:.0f} pixels")


def _is_corner(value: object) -> TypeGuard[list[float]]:
    return isinstance(value, list) and len(value) == 2 and all(map(is_number, value))


def shown(value: object) -> str:
    """A value as an error shows it, cut short."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
