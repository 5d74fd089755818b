"""Bundles of parallel rays against one object, quick enough for hundreds of grasps a second.

The same solids and answers as :mod:`sagehand.world.objects.rays`, but all boxes at once, and only solids near the bundle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sagehand.world.objects.rays import cross, normals_at
from sagehand.world.objects.shapes import Solid, SolidKind, signed_distance

__all__ = ["Bundle", "Caster"]

Array = NDArray[np.float64]
_OUTSIDE = -1e-7
"""A ray that starts this little inside a surface still counts as on it [m]."""


@dataclass(frozen=True, eq=False)
class Bundle:
    """The first hit of each of N parallel rays.

    Attributes:
        distance: (N,) along the ray [m]; inf where nothing is hit.
        solid: (N,) number of the solid; −1 where nothing is hit.
    """

    distance: Array
    solid: NDArray[np.int64]


class Caster:
    """Casts rays against the solids of one object, in the frame of the solids."""

    def __init__(self, solids: Sequence[Solid]) -> None:
        """Prepare the solids; all lengths in metres."""
        self.solids = tuple(solids)
        self._centre = np.array([s.T_object_solid[:3, 3] for s in solids]).reshape(-1, 3)
        self._radius = np.array([_bounding_radius(s) for s in solids])
        self._is_box = np.array([s.kind is SolidKind.BOX for s in solids], dtype=bool)
        self._to_solid = np.array([s.T_object_solid[:3, :3].T for s in solids]).reshape(-1, 3, 3)
        self._half = np.array([s.size for s in solids]).reshape(-1, 3)

    def first(self, origins: Array, direction: Array, reach_m: float) -> Bundle:
        """The first surface each ray meets from outside within reach; solids it starts in do not count.

        Args:
            origins: (N, 3) in the frame of the solids [m].
            direction: (3,) of unit length.
            reach_m: How far the rays go [m].
        """
        count = len(origins)
        best = np.full(count, np.inf)
        which = np.full(count, -1)
        near = self._near(origins, direction, reach_m)
        boxes = near[self._is_box[near]]
        if boxes.size:
            enter = self._boxes(boxes, origins, direction)
            row = np.argmin(enter, axis=0)
            best = enter[row, np.arange(count)]
            which = np.where(np.isfinite(best), boxes[row], -1)
        for number in near[~self._is_box[near]]:
            enter = cross((self.solids[number],), origins, direction).enter[0]
            enter = np.where(enter >= _OUTSIDE, enter, np.inf)
            nearer = enter < best
            best = np.where(nearer, enter, best)
            which = np.where(nearer, number, which)
        beyond = best > reach_m
        best[beyond], which[beyond] = np.inf, -1
        return Bundle(best, which)

    def normals(self, points: Array, solid: NDArray[np.int64]) -> Array:
        """(N, 3) unit outward normals at points (N, 3) on solids (N,), all of them hits; in the frame of the solids."""
        normal = np.empty((len(points), 3))
        for number in set(solid.tolist()):
            of = solid == number
            normal[of] = normals_at(self.solids[number], points[of])
        return normal

    def inside(self, points: Array) -> NDArray[np.bool_]:
        """(N,) whether points (N, 3) [m] in the frame of the solids lie in one of them."""
        low, high = points.min(axis=0), points.max(axis=0)
        outside = np.maximum(np.maximum(low - self._centre, self._centre - high), 0)
        near = np.flatnonzero(np.einsum("ij,ij->i", outside, outside) <= self._radius**2)
        found = np.zeros(len(points), dtype=bool)
        boxes = near[self._is_box[near]]
        if boxes.size:
            local = np.einsum("bij,bnj->bni", self._to_solid[boxes], points[None] - self._centre[boxes][:, None])
            found |= (np.abs(local) < self._half[boxes][:, None]).all(axis=2).any(axis=0)
        for number in near[~self._is_box[near]]:
            found |= signed_distance(self.solids[number], points) < 0
        return found

    def _near(self, origins: Array, direction: Array, reach_m: float) -> NDArray[np.int64]:
        """Solids whose bounding sphere meets the box around the bundle."""
        ends = np.concatenate([origins, origins + reach_m * direction])
        low, high = ends.min(axis=0), ends.max(axis=0)
        outside = np.maximum(np.maximum(low - self._centre, self._centre - high), 0)
        return np.flatnonzero(np.einsum("ij,ij->i", outside, outside) <= self._radius**2)

    def _boxes(self, boxes: NDArray[np.int64], origins: Array, direction: Array) -> Array:
        """(B, N) where rays enter boxes by the slab method; inf where they miss or start inside."""
        R, half = self._to_solid[boxes], self._half[boxes]
        o = np.einsum("bij,bnj->bni", R, origins[None] - self._centre[boxes][:, None])
        d = R @ direction
        d = np.where(np.abs(d) < 1e-12, 1e-12, d)[:, None]
        near, far = -o / d, half[:, None] / np.abs(d)
        enter, leave = (near - far).max(axis=2), (near + far).min(axis=2)
        return np.asarray(np.where((enter <= leave) & (enter >= _OUTSIDE), enter, np.inf))


def _bounding_radius(solid: Solid) -> float:
    match solid.kind:
        case SolidKind.SPHERE:
            return float(solid.size[0])
        case SolidKind.CAPSULE:
            return float(solid.size[0] + solid.size[1])
        case SolidKind.ELLIPSOID:
            return float(solid.size.max())
        case SolidKind.CYLINDER:
            return float(np.hypot(solid.size[0], solid.size[1]))
        case SolidKind.BOX:
            return float(np.linalg.norm(solid.size))
