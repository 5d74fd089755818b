"""The numbered grid that is drawn on a view, and how fine it is (paper A §2.2.1)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sagehand.judge.cells import MOST_CELLS, Grid

if TYPE_CHECKING:
    from PIL import ImageDraw

__all__ = ["default_grid", "draw_grid", "finest_grid"]

_CELLS = 20  # that a grid has when the model has not chosen one
_LEAST_CELL = 8  # px of the original: thinner cells name nothing that can be seen
_LEAST_SHORT = 64  # px of the view: a strip thinner than this gets a margin, or its numbers would not fit

_DARK, _LIGHT, _MARGIN = (16, 18, 20), (255, 255, 255), (128, 128, 128)


def finest_grid(width: int, height: int) -> tuple[int, int]:
    """Most rows and columns that a view of width x height [px of the original] may have."""
    return min(MOST_CELLS, max(height // _LEAST_CELL, 1)), min(MOST_CELLS, max(width // _LEAST_CELL, 1))


def default_grid(width: int, height: int) -> tuple[int, int]:
    """Rows and columns of about twenty, nearly square cells over width x height [px of the original]."""
    most_rows, most_columns = finest_grid(width, height)
    rows, columns = round(math.sqrt(_CELLS * height / width)), round(math.sqrt(_CELLS * width / height))
    return max(min(rows, most_rows), 1), max(min(columns, most_columns), 1)


def draw_grid(pixels: NDArray[np.uint8], grid: Grid) -> NDArray[np.uint8]:
    """Draw the cells and their numbers on a view.

    Lines are light with a dark rim and numbers stand on opaque chips, so that neither depends on what lies under them.

    Args:
        pixels: (H, W, 3) RGB, the grid's box scaled to be looked at.
        grid: The cells.

    Returns:
        (H', W', 3) RGB; larger than ``pixels`` only where a strip needed a grey margin for its numbers.
    """
    from PIL import Image, ImageDraw

    height, width = pixels.shape[:2]
    tall, wide = max(height, _LEAST_SHORT), max(width, _LEAST_SHORT)
    x0, y0 = (wide - width) // 2, (tall - height) // 2
    image = Image.new("RGB", (wide, tall), _MARGIN)
    image.paste(Image.fromarray(pixels), (x0, y0))
    draw = ImageDraw.Draw(image)
    box = grid.box
    xs = [x0 + (x - box.left) * width / box.width for x in grid.xs]
    ys = [y0 + (y - box.top) * height / box.height for y in grid.ys]
    core = max(round(max(wide, tall) / 1024 * 2), 1)
    for colour, thick in ((_DARK, core + 2), (_LIGHT, core)):
        for x in xs[1:-1]:
            draw.line([(x, y0), (x, y0 + height)], fill=colour, width=thick)
        for y in ys[1:-1]:
            draw.line([(x0, y), (x0 + width, y)], fill=colour, width=thick)
    _numbers(draw, xs, ys, (wide, tall))
    return np.asarray(image, dtype=np.uint8)


def _numbers(draw: ImageDraw.ImageDraw, xs: list[float], ys: list[float], size: tuple[int, int]) -> None:
    """Number the cells, each on a chip in its top left corner."""
    from PIL import ImageFont

    columns, rows = len(xs) - 1, len(ys) - 1
    cell = min((xs[-1] - xs[0]) / columns, (ys[-1] - ys[0]) / rows)
    text = min(max(round(0.24 * cell), 15), 36)  # px
    font = ImageFont.load_default(text)
    pad, rim, gap = round(0.28 * text), max(round(text / 14), 1), max(round(0.05 * cell), 4)
    for number in range(1, rows * columns + 1):
        row, column = divmod(number - 1, columns)
        said = str(number)
        left, top, right, bottom = draw.textbbox((0, 0), said, font=font)
        w, h = max(right - left, bottom - top) + 2 * pad, bottom - top + 2 * pad
        x = min(xs[column] + gap, size[0] - w - 1)
        y = min(ys[row] + gap, size[1] - h - 1)
        x, y = max(round(x), 0), max(round(y), 0)
        draw.rounded_rectangle((x, y, x + w, y + h), radius=h * 0.28, fill=_DARK, outline=_LIGHT, width=rim)
        draw.text((x + (w - (right - left)) / 2 - left, y + pad - top), said, font=font, fill=_LIGHT)
