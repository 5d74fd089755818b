"""How objects stand: their boxes in the world, what rides on what, and when a standing object falls over."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sagehand.world.frames import Pose, axis_rotation, pose
from sagehand.world.objects.model import ObjectModel
from sagehand.world.objects.shapes import Solid, SolidKind, reach
from sagehand.world.scene import Placed, Scene

__all__ = [
    "base_half",
    "bottom_of",
    "laid_down",
    "riders",
    "support_points",
    "tilt_of",
    "tips_at",
    "world_bounds",
]

Array = NDArray[np.float64]
_CORNERS = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=np.float64)
_TOUCH_M = 0.010
"""A base within this of a top stands on it [m] (GRASPING §4)."""
_OVERLAP = 0.25
"""Share of the smaller footprint that has to be over the other (GRASPING §4)."""


def world_bounds(model: ObjectModel, T_world_object: Pose) -> tuple[Array, Array]:
    """(3,) lowest and (3,) highest corner in the world's axes [m], exact for boxes, near for round solids."""
    low = np.full(3, np.inf)
    high = np.full(3, -np.inf)
    for solid in model.solids:
        middle, half = (T_world_object @ solid.T_object_solid)[:3, 3], reach(solid, T_world_object[:3, :3])
        low, high = np.minimum(low, middle - half), np.maximum(high, middle + half)
    return low, high


def bottom_of(model: ObjectModel, T_world_object: Pose) -> float:
    """Height of its lowest point [m]."""
    return float(world_bounds(model, T_world_object)[0][2])


def tilt_of(T_world_object: Pose) -> float:
    """Between its z and the vertical [rad]."""
    return math.acos(float(np.clip(T_world_object[2, 2], -1, 1)))


def support_points(solid: Solid, direction: Array) -> Array:
    """(K, 3) points of a solid [m]; its farthest along a direction (3,) is among them: corners, a rim, one point of a ball."""
    T, size = solid.T_object_solid, solid.size
    R, middle = T[:3, :3], T[:3, 3]
    local = R.T @ direction
    match solid.kind:
        case SolidKind.BOX:
            points = _CORNERS * size
        case SolidKind.SPHERE:
            points = size[0] * local[None]
        case SolidKind.ELLIPSOID:
            points = (size**2 * local / max(float(np.linalg.norm(size * local)), 1e-12))[None]
        case SolidKind.CAPSULE:
            points = size[0] * local + np.array([[0, 0, -size[1]], [0, 0, size[1]]])
        case SolidKind.CYLINDER:
            across = math.atan2(float(local[1]), float(local[0])) + np.arange(16) * math.pi / 8
            rim = size[0] * np.column_stack([np.cos(across), np.sin(across)])
            points = np.array([(x, y, z) for x, y in rim for z in (-size[1], size[1])])
    return np.asarray(middle + points @ R.T)


def riders(scene: Scene, name: str) -> tuple[tuple[Placed, ...], tuple[Placed, ...]]:
    """What stands on an object, and what lies in its cavity; both come along when it is lifted."""
    target, others = scene[name], scene.others(name)
    if not others:
        return (), ()
    low, high = world_bounds(target.model, target.T_world_object)
    top: list[Placed] = []
    inside: list[Placed] = []
    for other in others:
        middle = other.T_world_object[:3, 3]
        if np.linalg.norm(middle[:2] - target.T_world_object[:2, 3]) > 0.5:
            continue
        other_low, other_high = world_bounds(other.model, other.T_world_object)
        side = np.maximum(np.minimum(high, other_high)[:2] - np.maximum(low, other_low)[:2], 0)
        smaller = min(float(np.prod((high - low)[:2])), float(np.prod((other_high - other_low)[:2])))
        cavity = target.model.cavity
        centre = (other_low + other_high) / 2 - target.T_world_object[:3, 3]
        if (
            cavity is not None
            and float(np.hypot(centre[0], centre[1])) < cavity.radius_m
            and cavity.floor_m - _TOUCH_M < float(other_low[2] - target.T_world_object[2, 3]) < cavity.rim_m - _TOUCH_M
        ):
            inside.append(other)
        elif abs(float(other_low[2] - high[2])) <= _TOUCH_M and float(np.prod(side)) >= _OVERLAP * smaller:
            top.append(other)
    return tuple(top), tuple(inside)


def base_half(model: ObjectModel) -> float:
    """Smallest distance from below the centre of mass to the edge of its base [m], by the box about its lowest 5 mm.

    What is round below (a ball, a capsule on its side) stands on a point and has none to speak of.
    """
    low = np.full(2, np.inf)
    high = np.full(2, -np.inf)
    com = model.com_m
    for solid in model.solids:
        T = solid.T_object_solid
        R, size = T[:3, :3], solid.size
        if solid.kind in (SolidKind.SPHERE, SolidKind.ELLIPSOID):
            continue
        if solid.kind is SolidKind.CAPSULE:
            points = T[:3, 3] + np.array([R[:, 2] * s * size[1] - (0, 0, size[0]) for s in (-1, 1)])
        else:
            half = np.array([size[0], size[0], size[1]]) if solid.kind is SolidKind.CYLINDER else size
            points = T[:3, 3] + (_CORNERS * half) @ R.T
        points = points[points[:, 2] < 0.005]
        if len(points):
            low, high = np.minimum(low, points[:, :2].min(axis=0)), np.maximum(high, points[:, :2].max(axis=0))
    edges = np.concatenate([com[:2] - low, high - com[:2]])
    return max(float(edges.min()), 0.0) if np.isfinite(edges).all() else 0.0


def tips_at(model: ObjectModel, com_m: Array | None = None) -> float:
    """Tilt from which a standing object falls over: atan of base over height of the centre of mass [rad]."""
    height = float((model.com_m if com_m is None else com_m)[2])
    return math.atan2(base_half(model), max(height, 1e-6))


def laid_down(placed: Placed, direction: Array) -> Pose:
    """Where it lies after it has fallen over towards a direction (2,) of the table: on its side, on what bears it at z = 0."""
    T = placed.T_world_object
    yaw = math.atan2(float(direction[1]), float(direction[0]))
    fall = axis_rotation("z", yaw) @ axis_rotation("y", math.pi / 2) @ axis_rotation("z", -yaw)
    R = fall[:3, :3] @ T[:3, :3]
    lying = pose((T[0, 3], T[1, 3], 0.0), R)
    lying[2, 3] = -bottom_of(placed.model, lying)
    return lying
