"""Shapes of objects, and the convex solids they are made of.

The analytic simulator, the physics and the pictures all see the same list of :class:`Solid`, so that nothing is round in one and
square in the other. What is hollow (a :class:`Shell`) is a ring of boxes on a disc, for a physics engine collides convex hulls.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from sagehand.world.frames import Pose, axis_rotation, invert, translation

__all__ = [
    "Box",
    "Capsule",
    "Cylinder",
    "Ellipsoid",
    "Shape",
    "Shell",
    "Solid",
    "SolidKind",
    "Sphere",
    "half_lengths",
    "reach",
    "signed_distance",
    "solids_of",
]


class SolidKind(StrEnum):
    """The convex solids that there are; ``size`` is MuJoCo's: half lengths and radii."""

    BOX = "box"
    """size = half lengths along x, y, z."""
    CYLINDER = "cylinder"
    """size = radius, half height along z, 0."""
    SPHERE = "sphere"
    """size = radius, 0, 0."""
    ELLIPSOID = "ellipsoid"
    """size = half axes along x, y, z."""
    CAPSULE = "capsule"
    """size = radius, half length along z of its straight part, 0."""


@dataclass(frozen=True, eq=False)
class Solid:
    """A convex solid in the object's frame.

    Attributes:
        kind: Which solid.
        size: (3,) half lengths and radii [m].
        T_object_solid: (4, 4) where it sits [m].
        volume_m3: Its volume, of the hull [m³].
        part: Name of the part it belongs to.
        rgba: Colour.
        mass_share: Its share of the object's mass; all of an object's sum to 1.
    """

    kind: SolidKind
    size: NDArray[np.float64]
    T_object_solid: Pose
    volume_m3: float
    part: str = "body"
    rgba: tuple[float, float, float, float] = (0.7, 0.7, 0.7, 1.0)
    mass_share: float = 0.0


@dataclass(frozen=True)
class Box:
    """A box; full lengths along x, y, z [m]; its middle is the origin."""

    size_m: tuple[float, float, float]


@dataclass(frozen=True)
class Cylinder:
    """A cylinder about z [m]; its middle is the origin."""

    radius_m: float
    height_m: float


@dataclass(frozen=True)
class Sphere:
    """A ball [m]."""

    radius_m: float


@dataclass(frozen=True)
class Ellipsoid:
    """An ellipsoid; half axes along x, y, z [m]."""

    half_axes_m: tuple[float, float, float]


@dataclass(frozen=True)
class Capsule:
    """A cylinder about z with round ends [m]; ``length_m`` from tip to tip."""

    radius_m: float
    length_m: float


@dataclass(frozen=True)
class Shell:
    """A hollow vessel about z [m], open at the top; the middle of its *foot* is the origin.

    Attributes:
        radius_bottom_m: Outer radius at the foot.
        radius_top_m: Outer radius at the rim.
        height_m: Height.
        wall_m: Thickness of the wall.
        floor_m: Thickness of the floor.
        sides: Boxes in the ring.
    """

    radius_bottom_m: float
    radius_top_m: float
    height_m: float
    wall_m: float
    floor_m: float
    sides: int = 24


Shape = Box | Cylinder | Sphere | Ellipsoid | Capsule | Shell


@dataclass(frozen=True)
class _Raw:
    kind: SolidKind
    size: tuple[float, float, float]
    volume: float
    T: Pose = field(default_factory=lambda: np.eye(4))


def solids_of(
    shape: Shape,
    T_object_shape: Pose,
    *,
    part: str = "body",
    rgba: tuple[float, float, float, float] = (0.7, 0.7, 0.7, 1),
) -> list[Solid]:
    """The convex solids of a shape that sits at ``T_object_shape``; mass shares are by volume within the shape."""
    raw = list(_raw(shape))
    total = sum(r.volume for r in raw)
    return [Solid(r.kind, np.array(r.size), T_object_shape @ r.T, r.volume, part, rgba, r.volume / total) for r in raw]


def _raw(shape: Shape) -> Iterator[_Raw]:
    match shape:
        case Box((x, y, z)):
            yield _Raw(SolidKind.BOX, (x / 2, y / 2, z / 2), x * y * z)
        case Cylinder(r, h):
            yield _Raw(SolidKind.CYLINDER, (r, h / 2, 0), math.pi * r * r * h)
        case Sphere(r):
            yield _Raw(SolidKind.SPHERE, (r, 0, 0), 4 / 3 * math.pi * r**3)
        case Ellipsoid((a, b, c)):
            yield _Raw(SolidKind.ELLIPSOID, (a, b, c), 4 / 3 * math.pi * a * b * c)
        case Capsule(r, length):
            straight = max(length - 2 * r, 0.0)
            yield _Raw(SolidKind.CAPSULE, (r, straight / 2, 0), math.pi * r * r * straight + 4 / 3 * math.pi * r**3)
        case Shell():
            yield from _ring(shape)


def _ring(shell: Shell) -> Iterator[_Raw]:
    """A disc for the floor, and boxes round it; the flats of their outer faces lie on the outer cone."""
    floor = shell.floor_m
    yield _Raw(
        SolidKind.CYLINDER,
        (shell.radius_bottom_m, floor / 2, 0),
        math.pi * shell.radius_bottom_m**2 * floor,
        translation(z=floor / 2),
    )
    lean = math.atan2(shell.radius_top_m - shell.radius_bottom_m, shell.height_m)
    slant = (shell.height_m - floor) / math.cos(lean)
    middle_z = (shell.height_m + floor) / 2
    outer = shell.radius_bottom_m + math.tan(lean) * middle_z
    middle = outer - shell.wall_m / 2 / math.cos(lean)
    half = math.tan(math.pi / shell.sides) * (max(shell.radius_bottom_m, shell.radius_top_m))
    for side in range(shell.sides):
        yield _Raw(
            SolidKind.BOX,
            (half, shell.wall_m / 2, slant / 2),
            2 * half * shell.wall_m * slant,
            # local x runs along the ring, y outwards, z up the wall
            axis_rotation("z", 2 * math.pi * side / shell.sides - math.pi / 2)
            @ translation(y=middle, z=middle_z)
            @ axis_rotation("x", -lean),
        )


def half_lengths(solid: Solid) -> NDArray[np.float64]:
    """(3,) half lengths of the smallest box about a solid, along the solid's own axes [m]."""
    a, b, _ = solid.size
    match solid.kind:
        case SolidKind.CYLINDER:
            return np.array([a, a, b])
        case SolidKind.SPHERE:
            return np.array([a, a, a])
        case SolidKind.CAPSULE:
            return np.array([a, a, a + b])
        case SolidKind.BOX | SolidKind.ELLIPSOID:
            return np.asarray(solid.size, dtype=np.float64)


def reach(solid: Solid, R: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Half lengths of the smallest box about a solid [m].

    With ``R = solid.T_object_solid[:3, :3].T`` the box stands along the solid's own axes.

    Args:
        solid: The solid.
        R: (3, 3) turn from the object's frame to that of the box, or any (K, 3) unit directions in the object's frame: its rows
            are what is measured along. By default the object's axes.

    Returns:
        (3,) or (K,): how far the solid reaches from its middle along each.
    """
    turned = solid.T_object_solid[:3, :3] if R is None else R @ solid.T_object_solid[:3, :3]
    size = solid.size
    match solid.kind:
        case SolidKind.BOX:
            return np.asarray(np.abs(turned) @ size)
        case SolidKind.SPHERE:
            return np.full(len(turned), size[0])
        case SolidKind.ELLIPSOID:
            return np.asarray(np.sqrt((turned**2) @ (size**2)))
        case SolidKind.CAPSULE:
            return np.asarray(np.abs(turned[:, 2]) * size[1] + size[0])
        case SolidKind.CYLINDER:
            across = np.sqrt(np.maximum(1 - turned[:, 2] ** 2, 0))
            return np.asarray(np.abs(turned[:, 2]) * size[1] + size[0] * across)


def signed_distance(solid: Solid, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distances [m] of points (N, 3) [m, object frame] from a solid, negative inside; near for an ellipsoid, else exact."""
    T = invert(solid.T_object_solid)
    p = points @ T[:3, :3].T + T[:3, 3]
    match solid.kind:
        case SolidKind.BOX:
            q = np.abs(p) - solid.size
            outside = np.linalg.norm(np.maximum(q, 0), axis=1)
            return np.asarray(outside + np.minimum(q.max(axis=1), 0))
        case SolidKind.SPHERE:
            return np.asarray(np.linalg.norm(p, axis=1) - solid.size[0])
        case SolidKind.CAPSULE:
            p = p.copy()
            p[:, 2] -= np.clip(p[:, 2], -solid.size[1], solid.size[1])
            return np.asarray(np.linalg.norm(p, axis=1) - solid.size[0])
        case SolidKind.CYLINDER:
            q = np.column_stack([np.linalg.norm(p[:, :2], axis=1) - solid.size[0], np.abs(p[:, 2]) - solid.size[1]])
            return np.asarray(np.linalg.norm(np.maximum(q, 0), axis=1) + np.minimum(q.max(axis=1), 0))
        case SolidKind.ELLIPSOID:
            k0 = np.linalg.norm(p / solid.size, axis=1)
            k1 = np.linalg.norm(p / solid.size**2, axis=1)
            return np.asarray(np.where(k1 > 0, k0 * (k0 - 1) / np.maximum(k1, 1e-12), -solid.size.min()))
