"""Bundles of parallel rays against one object, quick enough for hundreds of grasps a second.

The same solids and answers as :mod:`sagehand.world.objects.rays`, but all solids of a kind at once, and only those near the
bundle. Where a whole line crosses a solid tells of a ray in either direction, and whether a point of the line is inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sagehand.world.objects.shapes import Solid, SolidKind, half_lengths

__all__ = ["Bundle", "Caster", "Lines"]

Array = NDArray[np.float64]
_OUTSIDE = -1e-7
"""A ray that starts this little inside a surface still counts as on it [m]."""
_PARALLEL = 1e-12


@dataclass(frozen=True, eq=False)
class Bundle:
    """The first hit of each of N parallel rays.

    Attributes:
        distance: (N,) along the ray [m]; inf where nothing is hit.
        solid: (N,) number of the solid; −1 where nothing is hit.
    """

    distance: Array
    solid: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Lines:
    """Where N parallel lines cross the S solids near them.

    Attributes:
        numbers: (S,) of the solids.
        enter: (S, N) where, from the line's origin along its direction, it goes in [m]; inf where it misses.
        leave: (S, N) where it comes out [m]; −inf where it misses.
    """

    numbers: NDArray[np.int64]
    enter: Array
    leave: Array

    def along(self, start: Array | float, reach_m: float) -> Bundle:
        """The first surface that rays along the direction meet from ``start`` (N,) on [m], within reach."""
        return self._first(self.enter - start, reach_m)

    def against(self, start: Array | float, reach_m: float) -> Bundle:
        """The same for rays against the direction."""
        return self._first(start - self.leave, reach_m)

    def inside(self) -> NDArray[np.bool_]:
        """(N,) whether the lines' origins lie in one of the solids."""
        return np.asarray(((self.enter < 0) & (self.leave > 0)).any(axis=0))

    def _first(self, way: Array, reach_m: float) -> Bundle:
        count = way.shape[1]
        if not len(self.numbers):
            return Bundle(np.full(count, np.inf), np.full(count, -1))
        np.copyto(way, np.inf, where=~((way >= _OUTSIDE) & (way <= reach_m)))
        if len(way) == 1:
            best, solid = way[0], np.full(count, self.numbers[0])
        else:
            row = way.argmin(axis=0)
            best, solid = way[row, np.arange(count)], self.numbers.take(row)
        np.copyto(solid, -1, where=best == np.inf)
        return Bundle(best, solid)


class Caster:
    """Casts rays against the solids of one object, in the frame of the solids."""

    def __init__(self, solids: Sequence[Solid]) -> None:
        """Prepare the solids; all lengths in metres."""
        self.solids = tuple(solids)
        self._centre = np.array([s.T_object_solid[:3, 3] for s in solids]).reshape(-1, 3)
        self._to_solid = np.array([s.T_object_solid[:3, :3].T for s in solids]).reshape(-1, 3, 3)
        self._shift = np.matmul(self._to_solid, self._centre[:, :, None])
        self._size = np.array([s.size for s in solids], dtype=np.float64).reshape(-1, 3)
        self._half = np.array([half_lengths(s) for s in solids]).reshape(-1, 3)
        self._kind = np.array([_KINDS.index(s.kind) for s in solids], dtype=np.int64)
        self._one_kind = _KINDS[int(self._kind[0])] if len(set(self._kind.tolist())) == 1 else None

    def lines(self, origins: Array, direction: Array) -> Lines:
        """Cross the solids near them with lines.

        Args:
            origins: (N, 3) in the frame of the solids [m].
            direction: (3,) of unit length.
        """
        near = self._near(origins, direction)
        if self._one_kind is not None:
            return Lines(near, *self._cross(self._one_kind, near, origins, direction))
        numbers, enter, leave = [], [], []
        kinds = self._kind[near]
        for number in sorted(set(kinds.tolist())):
            of = near[kinds == number]
            one, two = self._cross(_KINDS[number], of, origins, direction)
            numbers.append(of)
            enter.append(one)
            leave.append(two)
        if len(numbers) == 1:
            return Lines(numbers[0], enter[0], leave[0])
        if not numbers:
            return Lines(near, np.empty((0, len(origins))), np.empty((0, len(origins))))
        return Lines(np.concatenate(numbers), np.concatenate(enter), np.concatenate(leave))

    def first(self, origins: Array, direction: Array, reach_m: float) -> Bundle:
        """The first surface each ray meets from outside within reach; solids it starts in do not count.

        Args:
            origins: (N, 3) in the frame of the solids [m].
            direction: (3,) of unit length.
            reach_m: How far the rays go [m].
        """
        return self.lines(origins, direction).along(0.0, reach_m)

    def normals(self, points: Array, solid: NDArray[np.int64]) -> Array:
        """(N, 3) unit outward normals at points (N, 3) on solids (N,), all of them hits; in the frame of the solids."""
        back = self._to_solid[solid]
        p = np.matmul(back, (points - self._centre[solid])[:, :, None])[:, :, 0]
        size = self._size[solid]
        kinds = self._kind[solid]
        n = p.copy()
        for number in set(kinds.tolist()):
            of = slice(None) if self._one_kind is not None else kinds == number
            n[of] = _normal(_KINDS[number], p[of], size[of])
        n = np.matmul(n[:, None, :], back)[:, 0]
        return np.asarray(n / np.maximum(np.sqrt((n * n).sum(axis=1, keepdims=True)), 1e-12))

    def inside(self, points: Array) -> NDArray[np.bool_]:
        """(N,) whether points (N, 3) [m] in the frame of the solids lie in one of them."""
        return self.lines(points, np.array([0.0, 0.0, 1.0])).inside()

    def _near(self, origins: Array, direction: Array) -> NDArray[np.int64]:
        """Solids whose boxes, seen along the lines, overlap the box about the lines."""
        if len(self.solids) == 1:
            return np.zeros(1, dtype=np.int64)
        across = _across(direction)  # (3, 2)
        seen = origins @ across
        low, high = seen.min(axis=0), seen.max(axis=0)
        reach = (np.abs(self._to_solid @ across) * self._half[:, :, None]).sum(axis=1)
        at = self._centre @ across
        return np.flatnonzero(((at + reach >= low) & (at - reach <= high)).all(axis=1))

    def _cross(self, kind: SolidKind, near: NDArray[np.int64], origins: Array, direction: Array) -> tuple[Array, Array]:
        """(S, N) where lines go into solids of one kind, and where they come out."""
        R = self._to_solid[near]
        o = R.reshape(-1, 3).dot(origins.T).reshape(len(near), 3, len(origins))  # (S, 3, N)
        o -= self._shift[near]
        d = (R @ direction)[:, :, None]  # (S, 3, 1)
        size = self._size[near]
        match kind:
            case SolidKind.BOX:
                enter, leave = _slabs(o, d, size[:, :, None])
            case SolidKind.SPHERE:
                enter, leave = _ball(o, d, size[:, :1])
            case SolidKind.ELLIPSOID:
                enter, leave = _ball(o / size[:, :, None], d / size[:, :, None], np.ones((len(size), 1)))
            case SolidKind.CYLINDER:
                enter, leave = _tube(o, d, size)
            case SolidKind.CAPSULE:
                parts = [_tube(o, d, size)]
                for end in (-1.0, 1.0):
                    c = o.copy()
                    c[:, 2] -= end * size[:, 1:2]
                    parts.append(_ball(c, d, size[:, :1]))
                hit = [one <= two for one, two in parts]
                enter = np.min([np.where(h, p[0], np.inf) for h, p in zip(hit, parts, strict=True)], axis=0)
                leave = np.max([np.where(h, p[1], -np.inf) for h, p in zip(hit, parts, strict=True)], axis=0)
        missed = enter > leave
        np.copyto(enter, np.inf, where=missed)
        np.copyto(leave, -np.inf, where=missed)
        return enter, leave


_KINDS = tuple(SolidKind)


def _across(direction: Array) -> Array:
    """(3, 2) two units square to a direction (3,)."""
    x, y, z = direction.tolist()
    # Duff et al., "Building an orthonormal basis, revisited", JCGT 2017
    sign = 1.0 if z >= 0 else -1.0
    a = -1.0 / (sign + z)
    b = x * y * a
    return np.array([[1 + sign * x * x * a, b], [sign * b, sign + y * y * a], [-sign * x, -y]])


def _slabs(o: Array, d: Array, half: Array) -> tuple[Array, Array]:
    """Lines (S, k, N), directions (S, k, 1) and slabs (S, k, 1): where they are in all k slabs."""
    d = np.where(np.abs(d) < _PARALLEL, _PARALLEL, d)
    middle, wide = o * (-1.0 / d), half / np.abs(d)
    enter = np.maximum.reduce(middle - wide, axis=1)
    middle += wide
    return np.asarray(enter), np.asarray(np.minimum.reduce(middle, axis=1))


def _ball(o: Array, d: Array, radius: Array) -> tuple[Array, Array]:
    """Lines (S, 3, N) and balls about their origins, of radii (S, 1)."""
    return _quadratic((d * d).sum(axis=1), (o * d).sum(axis=1), (o * o).sum(axis=1) - radius * radius)


def _tube(o: Array, d: Array, size: Array) -> tuple[Array, Array]:
    """Lines (S, 3, N) and cylinders about z."""
    enter, leave = _slabs(o[:, 2:], d[:, 2:], size[:, 1:2, None])
    flat, along = o[:, :2], d[:, :2]
    a = (along * along).sum(axis=1)
    c = (flat * flat).sum(axis=1) - size[:, :1] ** 2
    parallel = a < 1e-18  # to the axis: all of it or nothing
    one, two = _quadratic(np.where(parallel, 1.0, a), (flat * along).sum(axis=1), c)
    if parallel.any():
        one = np.where(parallel, np.where(c <= 0, -np.inf, np.inf), one)
        two = np.where(parallel, np.where(c <= 0, np.inf, -np.inf), two)
    return np.maximum(enter, one), np.minimum(leave, two)


def _quadratic(a: Array, half_b: Array, c: Array) -> tuple[Array, Array]:
    root = half_b * half_b - a * c
    miss = root < 0
    s = np.sqrt(np.maximum(root, 0, out=root), out=root)
    enter, leave = (-half_b - s) / a, (s - half_b) / a
    np.copyto(enter, np.inf, where=miss)
    np.copyto(leave, -np.inf, where=miss)
    return enter, leave


def _normal(kind: SolidKind, p: Array, size: Array) -> Array:
    """Outward normals (N, 3) of any length at points (N, 3) of solids of one kind, in their own frames."""
    match kind:
        case SolidKind.BOX:
            rows = np.arange(len(p))
            face = (np.abs(p) - size).argmax(axis=1)
            n = np.zeros_like(p)
            n[rows, face] = np.where(p[rows, face] >= 0, 1.0, -1.0)
            return n
        case SolidKind.SPHERE:
            return p
        case SolidKind.ELLIPSOID:
            return np.asarray(p / size**2)
        case SolidKind.CAPSULE:
            n = p.copy()
            n[:, 2] -= np.clip(p[:, 2], -size[:, 1], size[:, 1])
            return n
        case SolidKind.CYLINDER:
            n = p.copy()
            cap = np.abs(p[:, 2]) - size[:, 1] > np.hypot(p[:, 0], p[:, 1]) - size[:, 0]
            n[:, 2] = np.where(cap, np.sign(p[:, 2]), 0.0)
            n[cap, :2] = 0.0
            return n
