"""A vector of the relief in a depth image: what stands up from the surface, whatever the tilt of the camera."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import DepthError

__all__ = ["FLOOR", "GRID", "Cells", "depth_vector", "fit_plane"]

GRID = 24
"""Cells along each side of the height map."""

_CELL_FILL = 0.25  # a cell has a reading when a quarter of its pixels have one: lone readings are mostly edge ghosts
_CELLS_NEEDED = 0.5
FLOOR = 0.004
"""Of the distance to the surface: 2 mm at 0.5 m, what a stereo depth camera wavers after averaging."""

_RELIEF_CELLS = 3  # cells above the floor that make a relief: 0.5 % of the view
_PLANE_CELLS = 0.15  # share of the cells that must lie on the plane for it to count as a surface
_LIMIT = 0.2  # of the distance: heights beyond are a hand or a robot's arm, depths beyond are past the table's edge
_TRIALS = 256  # planes tried; with 40 % of the cells on the surface, 16 of them are drawn from it alone


def depth_vector(depth_m: NDArray[np.float32]) -> NDArray[np.float32] | None:
    """24×24 heights above the supporting surface, as one unit vector.

    For a pinhole camera, whatever its intrinsics, the *inverse* depth of a plane is linear in the pixel,
    ``1/z_p = a·u + b·v + c``, and a point at depth ``z`` on the same ray stands ``h = D·(1 − z/z_p)`` above the plane,
    at a right angle to it, where ``D`` is the camera's distance from the plane. So heights in units of ``D`` need no
    intrinsics, and a tilted camera gives the heights of a level one.

    The plane is found by robust fitting over the cells: seeded trials of three cells, where a trial gains by cells on
    its plane and loses by cells behind it, as nothing lies under a table; then least squares over the cells within 3
    scaled median deviations. Heights are averaged by cell; a cell without readings, or more than 0.2 ``D`` behind the
    plane (past the table's edge), counts as level, and heights above 0.2 ``D`` (a hand, a wall) are held there.

    Args:
        depth_m: (H, W) depth along the optical axis [m]; NaN, infinite or ≤ 0 where there is no reading.

    Returns:
        (576,) float32 of unit length, row by row; None when fewer than half of the cells have readings, no surface is
        found (under 15 % of the cells on one plane), or there is no relief (fewer than 3 cells more than
        0.4 % of ``D``, or 5 deviations of the surface, away from it).

    Raises:
        DepthError: The array is not (H, W) numbers.
    """
    depth = np.asarray(depth_m)
    if depth.ndim != 2 or depth.size == 0 or depth.dtype.kind not in "fiu":
        raise DepthError(f"depth is {depth.dtype} of shape {depth.shape}, not metres of shape (H, W)")
    # Ten readings along a cell's side are plenty: a large image is thinned out.
    step = max(1, min(depth.shape) // (10 * GRID))
    cells = Cells(depth[::step, ::step])
    usable = cells.fill >= _CELL_FILL
    if usable.sum() < _CELLS_NEEDED * usable.size:
        return None
    uv1 = np.stack([cells.mean(cells.u), cells.mean(cells.v), np.ones(GRID * GRID)], axis=1)[usable]
    plane = fit_plane(uv1, cells.mean(1.0 / cells.z)[usable])
    if plane is None:
        return None
    coefficients, deviation = plane
    inverse_plane = coefficients[0] * cells.u + coefficients[1] * cells.v + coefficients[2]
    heights = np.zeros(GRID * GRID)
    heights[usable] = cells.mean(1.0 - cells.z * inverse_plane)[usable]
    heights[heights < -_LIMIT] = 0.0
    heights = np.minimum(heights, _LIMIT)
    if np.count_nonzero(np.abs(heights) > max(FLOOR, 5.0 * deviation)) < _RELIEF_CELLS:
        return None
    return (heights / np.linalg.norm(heights)).astype(np.float32)


class Cells:
    """The readings of a depth image, and means of them by cell of a grid, row by row.

    Args:
        depth: (H, W) depth; no reading where it is not finite or ≤ 0.
        grid: (rows, columns) of the grid.

    Attributes:
        u, v: (n,) column and row of each reading, from −1 to 1.
        z: (n,) depth of each reading [m].
        fill: (cells,) share of each cell's pixels that have a reading.
    """

    def __init__(self, depth: NDArray[Any], grid: tuple[int, int] = (GRID, GRID)) -> None:
        height, width = depth.shape
        down, across = grid
        self._cells = down * across
        with np.errstate(invalid="ignore"):  # NaN compared
            read = np.isfinite(depth) & (depth > 0)
        row_cell, column_cell = np.arange(height) * down // height, np.arange(width) * across // width
        rows, columns = np.nonzero(read)
        self._cell = row_cell[rows] * across + column_cell[columns]
        self.u = (columns + 0.5) / width * 2.0 - 1.0
        self.v = (rows + 0.5) / height * 2.0 - 1.0
        self.z = depth[read].astype(np.float64)
        self._count = np.bincount(self._cell, minlength=self._cells)
        sizes = np.outer(np.bincount(row_cell, minlength=down), np.bincount(column_cell, minlength=across)).ravel()
        self.fill = self._count / np.maximum(sizes, 1)

    def mean(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(cells,) mean by cell of a value for each reading; 0 in a cell without readings."""
        return np.bincount(self._cell, weights=values, minlength=self._cells) / np.maximum(self._count, 1)


def fit_plane(uv1: NDArray[np.float64], inverse: NDArray[np.float64]) -> tuple[NDArray[np.float64], float] | None:
    """The supporting plane.

    Args:
        uv1: (n, 3) position of each cell and 1.
        inverse: (n,) inverse depth of each cell [1/m].

    Returns:
        (3,) coefficients of the inverse depth, and the scaled median deviation of the cells on the plane, as a share of
        the distance; None when no plane holds enough cells.
    """
    drawn = (np.random.default_rng(0).random((_TRIALS, 3)) * len(uv1)).astype(np.int64)
    corners = uv1[drawn]
    solvable = np.abs(np.linalg.det(corners)) > 0.05  # three cells in a line, or next to each other, say little
    if not solvable.any():
        return None
    trials = np.linalg.solve(corners[solvable], inverse[drawn[solvable]][..., None])[..., 0]
    heights = 1.0 - trials @ uv1.T / inverse  # (trials, cells), in units of the distance
    score = np.count_nonzero(np.abs(heights) <= FLOOR, axis=1) - np.count_nonzero(heights < -FLOOR, axis=1)
    on = np.abs(heights[np.argmax(score)]) <= FLOOR
    coefficients = trials[np.argmax(score)]
    deviation = 0.0
    for _ in range(10):
        if on.sum() < max(3, _PLANE_CELLS * len(uv1)):
            return None
        coefficients = np.linalg.lstsq(uv1[on], inverse[on], rcond=None)[0]
        residual = np.abs(1.0 - uv1 @ coefficients / inverse)
        deviation = 1.4826 * float(np.median(residual[on]))
        now = residual <= np.clip(3.0 * deviation, 1e-6, FLOOR)
        if np.array_equal(now, on):
            break
        on = now
    return coefficients, deviation
