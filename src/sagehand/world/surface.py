"""The surface of a whole object, of however many solids: points all over it, normals, and lines through its material."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sagehand.world.objects.model import ObjectModel
from sagehand.world.objects.rays import cross, normals_at
from sagehand.world.objects.shapes import signed_distance

__all__ = ["distance_from", "material", "surface_normals", "surface_points", "thinned"]

Array = NDArray[np.float64]

_SAME = 1e-5  # stretches of material this near are one [m]


def material(model: ObjectModel, origins: Array, directions: Array) -> tuple[Array, Array]:
    """Where lines go into and out of the object's material, solids that touch or overlap taken as one.

    Args:
        model: The object, of S solids.
        origins: (N, 3) points of the lines in its frame [m].
        directions: (N, 3) or (3,), of unit length.

    Returns:
        (S, N) distances along the lines at which stretches of material begin, and end [m], ascending; +inf where there is none.
    """
    crossings = cross(model.solids, origins, directions)
    order = np.argsort(crossings.enter, axis=0)
    enter = np.take_along_axis(crossings.enter, order, axis=0)
    leave = np.maximum.accumulate(np.take_along_axis(crossings.leave, order, axis=0), axis=0)
    begins = np.isfinite(enter)
    ends = begins.copy()
    begins[1:] &= enter[1:] > leave[:-1] + _SAME
    ends[:-1] &= ~np.isfinite(enter[1:]) | begins[1:]
    return np.sort(np.where(begins, enter, np.inf), axis=0), np.sort(np.where(ends, leave, np.inf), axis=0)


def surface_points(model: ObjectModel, spacing_m: float = 0.004) -> Array:
    """Points all over the surface, on the inside of walls too, (N, 3) [m]: where a grid of lines along each axis meets it."""
    low, high = model.bounds_m
    found = []
    for axis in range(3):
        a, b = (axis + 1) % 3, (axis + 2) % 3
        ticks = []
        for side in (a, b):
            n = int(np.clip(math.ceil((high[side] - low[side]) / spacing_m), 4, 70))
            ticks.append(low[side] + (np.arange(n) + 0.5) / n * (high[side] - low[side]))
        grid = np.stack(np.meshgrid(*ticks, indexing="ij"), axis=-1).reshape(-1, 2)
        origins = np.empty((len(grid), 3))
        origins[:, axis], origins[:, a], origins[:, b] = low[axis] - 0.01, grid[:, 0], grid[:, 1]
        direction = np.zeros(3)
        direction[axis] = 1
        for distance in material(model, origins, direction):
            row, line = np.nonzero(np.isfinite(distance))
            points = origins[line].copy()
            points[:, axis] += distance[row, line]
            found.append(points)
    return np.concatenate(found)


def surface_normals(model: ObjectModel, points: Array) -> Array:
    """Outward normals (N, 3) at points (N, 3) of the surface [m]."""
    if not len(points):
        return points.copy()
    near = np.abs(np.stack([signed_distance(s, points) for s in model.solids])).argmin(axis=0)
    normals = np.zeros_like(points)
    for number in np.unique(near):
        of = near == number
        normals[of] = normals_at(model.solids[number], points[of])
    return normals


def distance_from(model: ObjectModel, points: Array) -> Array:
    """(N,) distances of points (N, 3) from the object [m], negative inside."""
    return np.asarray(np.min([signed_distance(s, points) for s in model.solids], axis=0))


def thinned(points: Array, cell_m: float, *, also: Array | None = None) -> NDArray[np.int64]:
    """Numbers of points (N, 3) such that each cell of a grid holds one; ``also`` (N, k), in whole steps, tells apart more."""
    cells = np.floor(points / cell_m)
    if also is not None:
        cells = np.column_stack([cells, np.round(also)])
    return np.sort(np.unique(cells.astype(np.int64), axis=0, return_index=True)[1])
