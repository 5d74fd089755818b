"""What the pads of a gripper touch, and the force that it takes to hold by it: rays from the pads, and simple statics.

A search has to weigh thousands of grasps, so this is coarser than the analytic executor: a grid of rays from each pad finds
the patch, and Coulomb's law with the moment of the centre of mass gives the force. The authority is
:class:`~sagehand.world.analytic.statics.GripStatics`; of natural grasps this law asks for as much or more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sagehand.world.constants import GRAVITY
from sagehand.world.grasp import LIFT_ACCELERATION
from sagehand.world.objects.model import ObjectModel
from sagehand.world.objects.rays import first_hits
from sagehand.world.robot.description import Robot

__all__ = ["Grip", "grip", "holding_force"]

_GRID = (5, 5)  # rays of a pad along its x and z
_PATCH = 0.0005  # what lies so near the first point touched belongs to the patch [m]
_TURN_SHARE = 2 / 3  # mean lever of a uniform disc's friction, as a share of its radius (Howe & Cutkosky 1996)

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Grip:
    """What N grasps touch between the pads, fingers closed.

    Attributes:
        touches: (N,) both pads meet the object.
        width_m: (N,) between the pads then [m].
        middle_m: (N, 3) middle between the two patches in the object's frame [m].
        slope: (N, 2) angle of each patch's outward normal from the closing axis [rad].
        patch_m: (N, 2) extents of the smaller patch along the grasp's x and z [m].
        overlap_m: (N,) how far the pads overlap the object along the approach [m].
    """

    touches: NDArray[np.bool_]
    width_m: Array
    middle_m: Array
    slope: Array
    patch_m: Array
    overlap_m: Array


def grip(model: ObjectModel, T_object_grasp: Array, opening_m: Array, robot: Robot) -> Grip:
    """What grasps touch.

    Args:
        model: The object.
        T_object_grasp: (N, 4, 4) grasp poses in its frame [m].
        opening_m: (N,) between the pads before they close [m].
        robot: Whose pads.
    """
    n = len(T_object_grasp)
    half_x, low, high = _pad(robot)
    grid = np.meshgrid(
        np.linspace(-half_x, half_x, _GRID[0]) * 0.98, np.linspace(low, high, _GRID[1]) * 0.98, indexing="ij"
    )
    xs, zs = grid[0].ravel(), grid[1].ravel()
    R, p = T_object_grasp[:, :3, :3], T_object_grasp[:, :3, 3]
    sides = []
    for sign in (-1.0, 1.0):
        local = np.stack([xs, np.zeros_like(xs), zs], axis=1)
        origins = np.einsum("nij,kj->nki", R, local) + (p + sign / 2 * opening_m[:, None] * R[:, :, 1])[:, None]
        directions = np.repeat(-sign * R[:, None, :, 1], len(local), axis=1)
        hits = first_hits(model.solids, origins.reshape(-1, 3), directions.reshape(-1, 3))
        depth = hits.distance.reshape(n, -1)
        depth = np.where(depth < opening_m[:, None], depth, np.inf)
        normal = hits.normal.reshape(n, -1, 3)
        sides.append(_side(depth, -np.einsum("nki,ni->nk", normal, -sign * R[:, :, 1]), xs, zs))
    (d1, x1, z1, slope1, patch1, zs1), (d2, x2, z2, slope2, patch2, zs2) = sides
    touches = np.isfinite(d1) & np.isfinite(d2)
    y1, y2 = np.where(touches, d1 - opening_m / 2, 0.0), np.where(touches, opening_m / 2 - d2, 0.0)
    middle = np.stack([(x1 + x2) / 2, (y1 + y2) / 2, (z1 + z2) / 2], axis=1)
    step = (high - low) / _GRID[1]
    return Grip(
        touches,
        np.where(touches, np.maximum(y2 - y1, 0.0), 0.0),
        np.einsum("nij,nj->ni", R, middle) + p,
        np.stack([slope1, slope2], axis=1),
        np.minimum(patch1, patch2),
        np.minimum(zs1, zs2) * step,
    )


def holding_force(
    model: ObjectModel,
    T_object_grasp: Array,
    grips: Grip,
    up: Array,
    acceleration: float = LIFT_ACCELERATION,
) -> Array:
    """Normal force of each finger [N] that lifts the object, (N,); inf where the pads do not touch it, or without friction.

    Two pads carry the weight by friction, m(g + a)/2 each, together with the torsion of the centre of mass about the closing
    axis (a circular limit curve, Howe & Cutkosky 1996). What bends the grip about the two other axes shifts the pressure to
    the patches' ends, whose lever is their extent, and takes a couple of friction across the width:
    f = √(F² + (τ/ρ)²)/μ' + |τ_b| / (h + μ·w). A patch that slopes by δ leaves μ' = tan(atan μ − δ) of the friction.

    Args:
        model: The object.
        T_object_grasp: (N, 4, 4) grasp poses in its frame [m].
        grips: What they touch.
        up: (3,) the world's up in the object's frame.
        acceleration: With which it is lifted [m/s²].
    """
    R = T_object_grasp[:, :3, :3]
    weight = -model.mass_kg * (GRAVITY + acceleration) * up
    arm = model.com_m - grips.middle_m
    load = np.einsum("nji,j->ni", R, weight)
    torque = np.einsum("nji,nj->ni", R, np.cross(arm, weight))
    mu = np.tan(np.maximum(np.arctan(model.friction) - grips.slope.max(axis=1), 0))
    radius = np.hypot(grips.patch_m[:, 0], grips.patch_m[:, 1]) / 2
    lever = np.maximum(_TURN_SHARE * radius, 0.001)
    with np.errstate(divide="ignore", invalid="ignore"):
        shear = np.hypot(np.hypot(load[:, 0], load[:, 2]) / 2, np.abs(torque[:, 1]) / 2 / lever) / mu
        along_z = grips.patch_m[:, 1] + model.friction * grips.width_m  # against a turn about x
        along_x = grips.patch_m[:, 0] + model.friction * grips.width_m  # against a turn about z
        bend = np.abs(torque[:, 0]) / along_z + np.abs(torque[:, 2]) / along_x
    force = np.where(mu > 0, shear, np.inf) + np.where(np.isfinite(bend), bend, np.inf)
    return np.where(grips.touches, force, np.inf)


def _pad(robot: Robot) -> tuple[float, float, float]:
    """Half width of the pad along x, and where it begins and ends along z from the TCP [m]."""
    shift = robot.finger_root_m - float(robot.T_hand_tcp[2, 3])
    z, half = float(robot.pad.centre[2]), float(robot.pad.half[2])
    return float(robot.pad.half[0]), shift + z - half, shift + z + half


def _side(
    depth: Array, cosine: Array, xs: Array, zs: Array
) -> tuple[Array, Array, Array, Array, Array, NDArray[np.int64]]:
    """One pad: where it is stopped, middle of its patch, slope, extents, and rows of its grid with object before them."""
    first = depth.min(axis=1)
    hit = np.isfinite(depth)
    with np.errstate(invalid="ignore"):
        near = hit & (depth <= first[:, None] + _PATCH)
    count = np.maximum(near.sum(axis=1), 1)
    x = np.where(near, xs, 0).sum(axis=1) / count
    z = np.where(near, zs, 0).sum(axis=1) / count
    cos = np.where(near, np.clip(cosine, -1, 1), 0).sum(axis=1) / count
    spread = [
        np.where(near, v, -np.inf).max(axis=1) - np.where(near, v, np.inf).min(axis=1) + (v.max() - v.min()) / k / 2
        for v, k in ((xs, _GRID[0]), (zs, _GRID[1]))
    ]
    patch = np.where(near.any(axis=1)[:, None], np.stack(spread, axis=1), 0.0)
    rows = hit.reshape(len(depth), *_GRID).any(axis=1).sum(axis=1)
    return first, x, z, np.arccos(np.clip(cos, -1, 1)), patch, rows
