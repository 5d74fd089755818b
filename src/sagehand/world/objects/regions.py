"""How far a point is from where an object may be held."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sagehand.world.objects.model import ObjectModel, Region, Turn

__all__ = ["distance_to_region", "nearest_region"]

Array = NDArray[np.float64]
_TURNS = 64


def distance_to_region(region: Region, point_m: ArrayLike) -> float:
    """How far a point (3,) of the object's frame is from a region's box [m]; 0 within it.

    A round region is turned about the object's z to whatever angle brings it nearest: as it may be held at every angle, the
    distance is the same for all points of a circle about z.
    """
    point = np.asarray(point_m, dtype=np.float64)
    if region.turn is not Turn.ROUND:
        return float(_outside(region, point[None])[0])
    radius, height = math.hypot(point[0], point[1]), float(point[2])

    def at(angles: Array) -> Array:
        circle = np.column_stack([radius * np.cos(angles), radius * np.sin(angles), np.full(len(angles), height)])
        return _outside(region, circle)

    if radius < 1e-12:
        return float(at(np.zeros(1))[0])
    low, step = 0.0, 2 * math.pi / _TURNS
    for _ in range(4):  # each round looks about the best of the one before, 30 times as closely
        angles: Array = low + step * np.arange(_TURNS, dtype=np.float64)
        gaps = at(angles)
        best = int(gaps.argmin())
        if gaps[best] == 0.0:
            return 0.0
        low, step = float(angles[best]) - step, 2 * step / (_TURNS - 1)
    return float(gaps[best])


def nearest_region(model: ObjectModel, point_m: ArrayLike, name: str | None = None) -> tuple[Region | None, float]:
    """The region of a name, else the nearest one to a point (3,) of the object's frame, and its distance [m].

    Without regions it is None, and the distance that of the object's box.
    """
    if name is not None and name in model.regions:
        region = model.regions[name]
        return region, distance_to_region(region, point_m)
    if not model.regions:
        low, high = model.bounds_m
        p = np.asarray(point_m, dtype=np.float64)
        return None, float(np.linalg.norm(np.maximum(np.maximum(low - p, p - high), 0)))
    found = ((r, distance_to_region(r, point_m)) for r in model.regions.values())
    return min(found, key=lambda pair: pair[1])


def _outside(region: Region, points: Array) -> Array:
    T = region.T_object_region
    local = (points - T[:3, 3]) @ T[:3, :3]
    return np.asarray(np.linalg.norm(np.maximum(np.abs(local) - np.asarray(region.size_m) / 2, 0), axis=1))
