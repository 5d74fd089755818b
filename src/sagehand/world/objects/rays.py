"""Rays against convex solids: where they go in and out, and the surface's normal there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sagehand.world.frames import invert
from sagehand.world.objects.shapes import Solid, SolidKind

__all__ = ["Crossings", "Hits", "cross", "first_hits", "normals_at"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Crossings:
    """Where N rays cross S solids: (S, N) distances along the ray in and out [m]; +inf and −inf where they miss."""

    enter: Array
    leave: Array


@dataclass(frozen=True, eq=False)
class Hits:
    """The first hit of each of N rays.

    Attributes:
        distance: (N,) along the ray [m]; inf where nothing is hit.
        solid: (N,) number of the solid; −1 where nothing is hit.
        point: (N, 3) in the frame of the solids [m].
        normal: (N, 3) unit, outwards; 0 where nothing is hit.
    """

    distance: Array
    solid: NDArray[np.int64]
    point: Array
    normal: Array

    @property
    def any(self) -> NDArray[np.bool_]:
        """(N,) whether something is hit."""
        return self.solid >= 0


def cross(solids: Sequence[Solid], origins: Array, directions: Array) -> Crossings:
    """Cross every solid with every ray.

    Args:
        solids: S solids.
        origins: (N, 3) in the frame of the solids [m].
        directions: (N, 3) or (3,), of unit length.
    """
    directions = np.broadcast_to(directions, origins.shape)
    enter = np.full((len(solids), len(origins)), np.inf)
    leave = np.full((len(solids), len(origins)), -np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        for row, solid in enumerate(solids):
            T = invert(solid.T_object_solid)
            enter[row], leave[row] = _interval(solid, origins @ T[:3, :3].T + T[:3, 3], directions @ T[:3, :3].T)
    missed = ~(enter <= leave)
    enter[missed], leave[missed] = np.inf, -np.inf
    return Crossings(enter, leave)


def first_hits(solids: Sequence[Solid], origins: Array, directions: Array) -> Hits:
    """The first surface that each ray meets from outside, at a distance of 0 or more; solids it starts in do not count."""
    directions = np.broadcast_to(directions, origins.shape)
    enter = cross(solids, origins, directions).enter
    enter = np.where(enter >= 0, enter, np.inf)
    if not len(solids):
        enter = np.full((1, len(origins)), np.inf)
    solid = np.argmin(enter, axis=0)
    distance = enter[solid, np.arange(len(origins))]
    hit = np.isfinite(distance)
    point = origins + np.where(hit, distance, 0.0)[:, None] * directions
    normal = np.zeros_like(point)
    for number in np.unique(solid[hit]):
        of = hit & (solid == number)
        normal[of] = normals_at(solids[number], point[of])
    return Hits(distance, np.where(hit, solid, -1), point, normal)


def normals_at(solid: Solid, points: Array) -> Array:
    """(N, 3) unit outward normals of a solid at points (N, 3) on its surface [m], in the frame of the solids."""
    T = invert(solid.T_object_solid)
    p = points @ T[:3, :3].T + T[:3, 3]
    match solid.kind:
        case SolidKind.BOX:
            face = np.argmax(np.abs(p) - solid.size, axis=1)
            n = np.zeros_like(p)
            n[np.arange(len(p)), face] = np.where(p[np.arange(len(p)), face] >= 0, 1.0, -1.0)
        case SolidKind.SPHERE:
            n = p
        case SolidKind.ELLIPSOID:
            n = p / solid.size**2
        case SolidKind.CAPSULE:
            n = p.copy()
            n[:, 2] -= np.clip(p[:, 2], -solid.size[1], solid.size[1])
        case SolidKind.CYLINDER:
            n = np.column_stack([p[:, :2], np.zeros(len(p))])
            cap = np.abs(p[:, 2]) - solid.size[1] > np.linalg.norm(p[:, :2], axis=1) - solid.size[0]
            n[cap] = np.column_stack([np.zeros((cap.sum(), 2)), np.sign(p[cap, 2])])
    n = n @ solid.T_object_solid[:3, :3].T
    return np.asarray(n / np.maximum(np.linalg.norm(n, axis=1, keepdims=True), 1e-12))


def _interval(solid: Solid, o: Array, d: Array) -> tuple[Array, Array]:
    size = solid.size
    match solid.kind:
        case SolidKind.BOX:
            return _slabs(o, d, size)
        case SolidKind.SPHERE:
            return _quadratic((d * d).sum(1), (o * d).sum(1), (o * o).sum(1) - size[0] ** 2)
        case SolidKind.ELLIPSOID:
            o, d = o / size, d / size
            return _quadratic((d * d).sum(1), (o * d).sum(1), (o * o).sum(1) - 1)
        case SolidKind.CYLINDER:
            return _both(_tube(o, d, size[0]), _slabs(o[:, 2:], d[:, 2:], size[1:2]))
        case SolidKind.CAPSULE:
            parts = [_both(_tube(o, d, size[0]), _slabs(o[:, 2:], d[:, 2:], size[1:2]))]
            for end in (-size[1], size[1]):
                c = o - (0, 0, end)
                parts.append(_quadratic((d * d).sum(1), (c * d).sum(1), (c * c).sum(1) - size[0] ** 2))
            hit = np.array([enter <= leave for enter, leave in parts])
            enter = np.where(hit, [p[0] for p in parts], np.inf).min(axis=0)
            leave = np.where(hit, [p[1] for p in parts], -np.inf).max(axis=0)
            return enter, leave


def _slabs(o: Array, d: Array, half: Array) -> tuple[Array, Array]:
    along = d != 0
    one, two = np.where(along, (-half - o) / d, 0), np.where(along, (half - o) / d, 0)
    beside = ~along & (np.abs(o) > half)
    low = np.where(along, np.minimum(one, two), np.where(beside, np.inf, -np.inf))
    high = np.where(along, np.maximum(one, two), np.where(beside, -np.inf, np.inf))
    return low.max(axis=1), high.min(axis=1)


def _tube(o: Array, d: Array, radius: float) -> tuple[Array, Array]:
    a = (d[:, :2] ** 2).sum(1)
    inside = (o[:, :2] ** 2).sum(1) <= radius**2
    enter, leave = _quadratic(a, (o[:, :2] * d[:, :2]).sum(1), (o[:, :2] ** 2).sum(1) - radius**2)
    along = a < 1e-18  # parallel to the axis: all of it or nothing
    return np.where(along, np.where(inside, -np.inf, np.inf), enter), np.where(
        along, np.where(inside, np.inf, -np.inf), leave
    )


def _both(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
    return np.maximum(first[0], second[0]), np.minimum(first[1], second[1])


def _quadratic(a: Array, half_b: Array, c: Array) -> tuple[Array, Array]:
    root = half_b * half_b - a * c
    s = np.sqrt(np.maximum(root, 0))
    miss = root < 0
    return np.where(miss, np.inf, (-half_b - s) / a), np.where(miss, -np.inf, (-half_b + s) / a)
