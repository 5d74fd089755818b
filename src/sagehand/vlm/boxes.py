"""Boxes that a model names, turned into pixels of the original: every convention in this one place (SPEC A3).

Model families give boxes in units of their own. Read as another family's they are wrong without any error, so the
convention is part of the model's profile and of every log. What each is, and how sure we are of it:

=========  ==========================================================  =====================================
name       numbers                                                     spoken by
=========  ==========================================================  =====================================
0-1        fractions of width and height                               models that are told so in the prompt
0-1000     thousandths of width and height                             Qwen2-VL, Qwen3-VL
0-999      the same up to 999                                          DeepSeek-VL2
pixels     pixels of the image after the model's own resize            Qwen2.5-VL
yx-1000    thousandths; a *list* is y first (ymin, xmin, ymax, xmax)   Gemini
=========  ==========================================================  =====================================

Named corners are read by their names in every convention; only a bare list has an order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from sagehand.errors import InputError, Malformed
from sagehand.picture import Box

__all__ = [
    "CONVENTIONS",
    "MAX_ASPECT",
    "BoxReading",
    "Convention",
    "Corners",
    "Frame",
    "convention_limits",
    "convention_words",
    "named_corners",
    "read_box",
    "say_box",
    "smart_resize",
]

Convention = Literal["0-1", "0-1000", "0-999", "pixels", "yx-1000"]
CONVENTIONS: tuple[Convention, ...] = get_args(Convention)
Corners = tuple[float, float, float, float]
"""(x1, y1, x2, y2); the unit is said where it is used."""

MAX_ASPECT = 200
"""The Qwen-VL processors refuse a picture with a longer shape."""
_OVERSHOOT = 0.25  # of a side: a corner this far outside is still an object at the border, not another convention
_NAMES: tuple[tuple[str, ...], ...] = (
    ("x1", "xmin", "left", "x"),
    ("y1", "ymin", "top", "y"),
    ("x2", "xmax", "right"),
    ("y2", "ymax", "bottom"),
)


@dataclass(frozen=True)
class Frame:
    """The image that a model was shown, and where the original lies in it.

    Attributes:
        width: Of the image that was sent [px].
        height: Of the image that was sent [px].
        content: (left, top, width, height) of the original in it [px of the image that was sent]; the rest is padding.
        source: (width, height) of the original [px].
    """

    width: int
    height: int
    content: tuple[int, int, int, int]
    source: tuple[int, int]

    @classmethod
    def plain(cls, width: int, height: int) -> Frame:
        """The frame of an image that was sent as it is."""
        return cls(width, height, (0, 0, width, height), (width, height))


@dataclass(frozen=True)
class BoxReading:
    """A box that a model named, in pixels of the original.

    Attributes:
        box: The box [px of the original].
        fractions: The same as (x, y, width, height) in fractions of the original.
        repairs: What was mended because it was certain, as in "corners sorted".
        said: The numbers as the model gave them, x first.
        convention: How they were read.
    """

    box: Box
    fractions: tuple[float, float, float, float]
    repairs: tuple[str, ...]
    said: Corners
    convention: Convention


def smart_resize(height: int, width: int, factor: int, min_pixels: int, max_pixels: int) -> tuple[int, int]:
    """The size that a Qwen-VL processor makes of an image: (height, width), both multiples of ``factor``.

    The rule of ``qwen_vl_utils.vision_process.smart_resize``, with Python's round-half-to-even. A size that it gives is
    a fixed point of it.

    Args:
        height: Of the image [px].
        width: Of the image [px].
        factor: Patch side times merged patches along a side [px].
        min_pixels: Fewest pixels of the result [px²].
        max_pixels: Most pixels of the result [px²].

    Raises:
        InputError: A side is not positive, the caps are the wrong way round, or one side is over 200 times the other.
    """
    if height < 1 or width < 1 or factor < 1 or max_pixels < min_pixels:
        raise InputError(f"smart_resize of {width}x{height} by {factor}, {min_pixels} to {max_pixels} pixels")
    if max(height, width) > MAX_ASPECT * min(height, width):
        raise InputError(
            f"a picture of {width}x{height} is more than {MAX_ASPECT} times as long as wide", hint="pad it"
        )
    high = max(factor, round(height / factor) * factor)
    wide = max(factor, round(width / factor) * factor)
    if high * wide > max_pixels:
        beta = math.sqrt(height * width / max_pixels)
        high, wide = math.floor(height / beta / factor) * factor, math.floor(width / beta / factor) * factor
    elif high * wide < min_pixels:
        beta = math.sqrt(min_pixels / (height * width))
        high, wide = math.ceil(height * beta / factor) * factor, math.ceil(width * beta / factor) * factor
    return high, wide


def convention_limits(convention: Convention, frame: Frame) -> tuple[float, float]:
    """The largest x and the largest y that the convention knows in this frame; the smallest is 0."""
    if convention == "pixels":
        return float(frame.width), float(frame.height)
    top = {"0-1": 1.0, "0-1000": 1000.0, "yx-1000": 1000.0, "0-999": 999.0}[convention]
    return top, top


def convention_words(convention: Convention, frame: Frame) -> str:
    """How a prompt tells a model in which numbers to give a box of this frame."""
    if convention == "0-1":
        return "as fractions of the image's width (x) and height (y), from 0 to 1; x grows to the right, y downwards"
    if convention == "pixels":
        return (
            f"in pixels of the image, which is {frame.width} wide (x) and {frame.height} high (y); "
            "x grows to the right, y downwards"
        )
    top = 999 if convention == "0-999" else 1000
    return f"on a scale from 0 to {top} across the image's width (x) and height (y); x grows to the right, y downwards"


def named_corners(values: Mapping[str, float] | Sequence[float], convention: Convention) -> Corners:
    """Corners as (x1, y1, x2, y2) in the units of the convention, from named fields or from a list.

    Args:
        values: Named corners (x1 y1 x2 y2, xmin …, left …), or x y width height, or a list of four in the order of the
            convention.
        convention: Gives the order of a list.

    Raises:
        Malformed: A field is missing, or a value is no finite number.
    """
    if not isinstance(values, Mapping):
        numbers = [_number(v, f"value {i + 1}") for i, v in enumerate(values)]
        if len(numbers) != 4:
            raise Malformed(f"a box of {len(numbers)} numbers; it has 4")
        a, b, c, d = numbers
        return (b, a, d, c) if convention == "yx-1000" else (a, b, c, d)
    folded = {key.lower().replace("_", ""): (key, value) for key, value in values.items()}

    def field(names: tuple[str, ...]) -> float | None:
        for name in names:
            if name in folded:
                key, value = folded[name]
                return _number(value, key)
        return None

    x1, y1, x2, y2 = (field(names) for names in _NAMES)
    width, height = field(("width", "w")), field(("height", "h"))
    if x1 is not None and width is not None and x2 is None:
        x2 = x1 + width
    if y1 is not None and height is not None and y2 is None:
        y2 = y1 + height
    if x1 is None or y1 is None or x2 is None or y2 is None:
        named = ", ".join(values) or "nothing"
        raise Malformed(f"a box needs x1, y1, x2, y2 (or x, y, width, height), and has {named}")
    return x1, y1, x2, y2


def read_box(
    values: Mapping[str, float] | Sequence[float],
    convention: Convention,
    frame: Frame,
    *,
    min_side: int = 2,
    min_area: float = 0.0,
    tiny: Literal["refuse", "grow"] = "refuse",
) -> BoxReading:
    """Turn what a model said into a box in pixels of the original.

    Corners the wrong way round are sorted, and a box that leaves the image by up to a quarter of its side is clipped:
    both are certain, and recorded. Nothing else is guessed.

    Args:
        values: See :func:`named_corners`.
        convention: The units, from the model's profile.
        frame: The image that the model was shown.
        min_side: Shortest side of the result [px of the original].
        min_area: Smallest share of the original that the result covers.
        tiny: Whether a smaller box is refused, or grown around its centre.

    Raises:
        Malformed: Not four finite numbers; wholly outside the image; far outside, so that another convention is likely;
            or too small. The message says what is wrong and what is valid, in words that the model can be told.
    """
    said = named_corners(values, convention)
    repairs: list[str] = []
    right, bottom = convention_limits(convention, frame)
    x1, x2 = _along(said[0], said[2], right, "x", repairs)
    y1, y2 = _along(said[1], said[3], bottom, "y", repairs)
    # from the units of the convention to pixels of the image that was sent, to pixels of the original
    left, top, wide, high = frame.content
    width, height = frame.source
    edges = (
        (x1 / right * frame.width - left) * width / wide,
        (y1 / bottom * frame.height - top) * height / high,
        (x2 / right * frame.width - left) * width / wide,
        (y2 / bottom * frame.height - top) * height / high,
    )
    if edges[0] >= width or edges[1] >= height or edges[2] < 0 or edges[3] < 0:
        raise Malformed(
            f"the box {_told(said)} lies in the padding beside the picture", hint="name a part of the picture"
        )
    if edges[2] > width + 0.5 or edges[3] > height + 0.5 or edges[0] < -0.5 or edges[1] < -0.5:
        repairs.append("padding cut off")
    x = _whole(edges[0], edges[2], width)
    y = _whole(edges[1], edges[3], height)
    least = min(min_side, width), min(min_side, height)
    share = (x[1] - x[0]) * (y[1] - y[0]) / (width * height)
    if x[1] - x[0] < least[0] or y[1] - y[0] < least[1] or share < min_area:
        if tiny == "refuse":
            raise Malformed(
                f"the box {_told(said)} is too small: {x[1] - x[0]}x{y[1] - y[0]} pixels, {share:.1%} of the picture",
                hint=f"numbers are from 0 to {right:g} in x and from 0 to {bottom:g} in y",
            )
        x, y = _grown(x, y, least, min_area, (width, height))
        repairs.append("grown around its centre, it was too small")
    box = Box(x[0], y[0], x[1], y[1])
    fractions = (box.left / width, box.top / height, box.width / width, box.height / height)
    return BoxReading(box, fractions, tuple(repairs), said, convention)


def say_box(box: Box, convention: Convention, frame: Frame) -> Corners:
    """The corners (x1, y1, x2, y2) of a box of the original in the numbers of a convention; not rounded."""
    right, bottom = convention_limits(convention, frame)
    left, top, wide, high = frame.content
    width, height = frame.source
    return (
        (left + box.left * wide / width) / frame.width * right,
        (top + box.top * high / height) / frame.height * bottom,
        (left + box.right * wide / width) / frame.width * right,
        (top + box.bottom * high / height) / frame.height * bottom,
    )


def _number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Malformed(f"box: {name} is {value!r}, not a finite number")
    return float(value)


def _told(corners: Corners) -> str:
    return "(" + ", ".join(f"{v:g}" for v in corners) + ")"


def _along(first: float, second: float, most: float, axis: str, repairs: list[str]) -> tuple[float, float]:
    """Sort and clip along one axis."""
    if first > second:
        first, second = second, first
        repairs.append(f"{axis} corners sorted")
    valid = f"{axis} is from 0 to {most:g}"
    if second < 0 or first > most:
        raise Malformed(f"the box lies outside the image: {axis} from {first:g} to {second:g}", hint=valid)
    slack = _OVERSHOOT * most
    if first < -slack or second > most + slack:
        raise Malformed(f"the box reaches far outside the image: {axis} from {first:g} to {second:g}", hint=valid)
    if first < 0 or second > most:
        repairs.append(f"{axis} clipped at the image's edge")
    return max(0.0, first), min(most, second)


def _whole(low: float, high: float, size: int) -> tuple[int, int]:
    """Edges in whole pixels, inside the picture; may be empty."""
    first = min(max(round(low), 0), size)
    return first, max(first, min(round(high), size))


def _grown(
    x: tuple[int, int], y: tuple[int, int], least: tuple[int, int], min_area: float, size: tuple[int, int]
) -> tuple[tuple[int, int], tuple[int, int]]:
    """The smallest box around the same centre, moved into the picture, that is large enough."""
    wide, high = max(x[1] - x[0], least[0]), max(y[1] - y[0], least[1])
    wanted = min_area * size[0] * size[1]
    if wide * high < wanted:
        grow = math.sqrt(wanted / (wide * high))
        wide, high = min(size[0], math.ceil(wide * grow)), min(size[1], math.ceil(high * grow))
        wide = min(size[0], max(wide, math.ceil(wanted / high)))
        high = min(size[1], max(high, math.ceil(wanted / wide)))

    def placed(edges: tuple[int, int], length: int, most: int) -> tuple[int, int]:
        start = min(max((edges[0] + edges[1] - length) // 2, 0), most - length)
        return start, start + length

    return placed(x, wide, size[0]), placed(y, high, size[1])
