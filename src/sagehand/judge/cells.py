"""The numbered cells of a grid over a box (paper A §2.2.1): 1 to rows · columns, row by row from the top left.

Edges are whole pixels, so that a span of cells is a box and a box found through cells is exact.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from sagehand.errors import InputError
from sagehand.picture import Box

__all__ = ["MOST_CELLS", "Grid"]

MOST_CELLS = 8
"""Most rows and most columns that a model may ask for: more than 64 numbers cover the picture."""


@dataclass(frozen=True)
class Grid:
    """A grid over a box.

    Attributes:
        box: What the grid lies over, in pixels of the original.
        rows: Number of rows, at most the box's height [px].
        columns: Number of columns, at most the box's width [px].

    Raises:
        InputError: There is no cell, or a cell would be thinner than a pixel.
    """

    box: Box
    rows: int
    columns: int

    def __post_init__(self) -> None:
        if not (1 <= self.rows <= self.box.height and 1 <= self.columns <= self.box.width):
            raise InputError(
                f"no grid of {self.rows} rows and {self.columns} columns over {self.box.width} x {self.box.height} pixels",
                hint="at least one row and column, and no more of them than pixels",
            )

    @property
    def count(self) -> int:
        """Number of cells; also the number of the last one."""
        return self.rows * self.columns

    @property
    def xs(self) -> tuple[int, ...]:
        """Vertical edges, from left to right, columns + 1 of them [px of the original]."""
        return tuple(self.box.left + i * self.box.width // self.columns for i in range(self.columns + 1))

    @property
    def ys(self) -> tuple[int, ...]:
        """Horizontal edges, from top to bottom, rows + 1 of them [px of the original]."""
        return tuple(self.box.top + i * self.box.height // self.rows for i in range(self.rows + 1))

    def span(self, first: int, second: int) -> Box:
        """The smallest box that holds two cells, whichever corners of it they are.

        Raises:
            InputError: There is no cell of that number.
        """
        for number in (first, second):
            if not 1 <= number <= self.count:
                raise InputError(f"there is no cell {number}", hint=f"cells are 1 to {self.count}")
        (top, left), (bottom, right) = divmod(first - 1, self.columns), divmod(second - 1, self.columns)
        xs, ys = self.xs, self.ys
        left, right, top, bottom = min(left, right), max(left, right), min(top, bottom), max(top, bottom)
        return Box(xs[left], ys[top], xs[right + 1], ys[bottom + 1])

    def covering(self, inner: Box) -> tuple[int, int] | None:
        """Top left and bottom right cell of the smallest span that covers what of ``inner`` lies in the grid.

        Returns:
            Two numbers, or None where nothing of ``inner`` lies in the grid.
        """
        left, right = max(inner.left, self.box.left), min(inner.right, self.box.right)
        top, bottom = max(inner.top, self.box.top), min(inner.bottom, self.box.bottom)
        if left >= right or top >= bottom:
            return None
        first = self._number(bisect_right(self.ys, top) - 1, bisect_right(self.xs, left) - 1)
        return first, self._number(bisect_left(self.ys, bottom) - 1, bisect_left(self.xs, right) - 1)

    def _number(self, row: int, column: int) -> int:
        return row * self.columns + column + 1
