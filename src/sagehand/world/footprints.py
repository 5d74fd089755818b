"""Where objects stand on the table, seen from above: rectangles, and the gaps between them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sagehand.world.frames import Pose
from sagehand.world.objects.model import ObjectModel

__all__ = ["footprint", "footprint_gap"]

Array = NDArray[np.float64]


def footprint(model: ObjectModel, T_world_object: Pose) -> Array:
    """(4, 2) corners of an object's box on the table [m], in order; the object stands or lies as it does by itself."""
    low, high = model.bounds_m
    corners = np.array([[low[0], low[1]], [high[0], low[1]], [high[0], high[1]], [low[0], high[1]]])
    return np.asarray(corners @ T_world_object[:2, :2].T + T_world_object[:2, 3])


def footprint_gap(first: Array, second: Array) -> float:
    """Smallest distance between two convex footprints [m], (N, 2) and (M, 2) corners in order; 0 where they overlap."""
    if _overlap(first, second):
        return 0.0
    return min(_to_edges(first, second), _to_edges(second, first))


def _overlap(first: Array, second: Array) -> bool:
    """Whether no edge's normal separates the two."""
    for corners in (first, second):
        edges = np.roll(corners, -1, axis=0) - corners
        for normal in np.column_stack([-edges[:, 1], edges[:, 0]]):
            a, b = first @ normal, second @ normal
            if a.max() < b.min() or b.max() < a.min():
                return False
    return True


def _to_edges(points: Array, corners: Array) -> float:
    starts, edges = corners, np.roll(corners, -1, axis=0) - corners
    offsets = points[:, None] - starts[None]
    lengths = np.maximum((edges**2).sum(axis=1), 1e-18)
    share = np.clip((offsets * edges[None]).sum(axis=2) / lengths, 0, 1)
    return float(np.linalg.norm(offsets - share[..., None] * edges[None], axis=2).min())
