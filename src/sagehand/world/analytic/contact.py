"""Closing the fingers: where the pads meet the object, how it moves until both do, and whether it stays.

The fingers press with a force, so the object moves the way that lets them close (Goldberg, "Orienting polygonal parts without
sensors", 1993: squeezing turns a part towards the nearest minimum of its width), until friction holds it: until two forces within
the friction cones balance (Nguyen, "Constructing force-closure grasps", 1988). It slides along the closing axis until both pads
touch; it turns about the two other axes until its faces lie flat on the pads; it slides up, towards the palm, or sideways where
the pads touch a slope steeper than friction holds. The table bears it from below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sagehand.world.analytic.cast import Caster
from sagehand.world.analytic.jaws import Jaws
from sagehand.world.analytic.squeeze import Steps, pushes_down, unbalanced
from sagehand.world.analytic.statics import Contacts, GripStatics
from sagehand.world.frames import Pose, angle_between, translation

__all__ = ["Closing", "close", "extent"]

Array = NDArray[np.float64]
_MOVES = 20
_MOST_TURN = math.radians(60)
_MOST_SHIFT = 0.03
_AROUND = np.array([(math.cos(a), math.sin(a)) for a in np.arange(8) * math.pi / 4]).T
"""(2, 8) units all round."""


@dataclass(frozen=True, eq=False)
class Closing:
    """How the fingers closed.

    Attributes:
        width_m: Between the pads then [m].
        T_grasp_object: (4, 4) where the object came to be in the grasp frame [m].
        statics: What the grip bears; None where nothing is between the pads.
        contacts: Where they touch.
        first_slope_rad: Largest angle between the closing axis and a normal where the pads first touched [rad].
        turn_rad: How far the object turned [rad].
        slid_m: How far it slid, but for along the closing axis [m].
        centred_m: How far along the closing axis [m].
        overlap_m: How far the fingers overlap it along the approach [m].
        held: The squeeze is in balance.
        pressed_down: It would slide down but for the table.
    """

    width_m: float
    T_grasp_object: Pose
    statics: GripStatics | None
    contacts: Contacts | None
    first_slope_rad: float = 0.0
    turn_rad: float = 0.0
    slid_m: float = 0.0
    centred_m: float = 0.0
    overlap_m: float = 0.0
    held: bool = False
    pressed_down: bool = False


def close(
    caster: Caster,
    T_grasp_object: Pose,
    jaws: Jaws,
    width_m: float,
    friction: float,
    down: Array,
    *,
    on_table: bool = True,
    lock: float | None = None,
) -> Closing:
    """Close the fingers on an object.

    Args:
        caster: Rays against the object.
        T_grasp_object: (4, 4) where it is in the grasp frame [m].
        jaws: The gripper.
        width_m: Opening [m].
        friction: Between pad and object.
        down: (3,) unit, the world's down in the grasp frame.
        on_table: Whether something bears it from below.
        lock: Friction that keeps the object from moving between the pads; default: all there is.
    """
    T = T_grasp_object.copy()
    turn = slid = centred = 0.0
    first_slope: float | None = None
    width, statics, contacts = 0.0, None, None
    held = pressed = False
    overlap = 0.0
    locks = friction if lock is None else lock
    steps = Steps()
    for _ in range(_MOVES):
        touch = _touch(caster, T, jaws, width_m, steps.blur_m)
        if touch is None:
            return Closing(0.0, T, None, None, first_slope or 0.0, turn, slid, centred, 0.0, False, pressed)
        width, contacts, overlap = touch.width_m, touch.contacts, touch.overlap_m
        T = translation(y=touch.shift_m) @ T
        centred += touch.shift_m
        if first_slope is None:
            first_slope = float(np.max(np.arccos(np.clip(np.abs(contacts.inward[:, 1]), 0, 1))))
        push = unbalanced(contacts, width, locks)
        if push is None:
            held = True
            break
        if on_table and pushes_down(push, down):
            pressed = True
            break
        step = steps.next(push, contacts, touch.lean)
        slid += step.shift_m
        T = step.T @ T
        turn = angle_between(T_grasp_object, T)
        if turn > _MOST_TURN or slid > _MOST_SHIFT:
            break
    statics = GripStatics(contacts, friction) if contacts is not None else None
    return Closing(width, T, statics, contacts, first_slope or 0.0, turn, slid, abs(centred), overlap, held, pressed)


def extent(caster: Caster, T_grasp_object: Pose, jaws: Jaws, reach_m: float = 0.2) -> float:
    """How wide the object is along the closing axis where the pads are [m]; 0 where nothing is."""
    R = T_grasp_object[:3, :3]
    lines = caster.lines((jaws.pad_points[jaws.recess_m == 0] - T_grasp_object[:3, 3]) @ R, R[1])
    sides = (lines.against(reach_m, 2 * reach_m), lines.along(-reach_m, 2 * reach_m))
    total = sum(reach_m - float(hits.distance.min()) for hits in sides)
    return total if math.isfinite(total) else 0.0


class _Touch(NamedTuple):
    """Both pads touch.

    Attributes:
        width_m: Between the pads [m].
        shift_m: How far the object moves along the closing axis until they do [m].
        contacts: Where.
        overlap_m: How far the fingers overlap it along the approach [m].
        lean: (3,) of the faces touched against each other.
    """

    width_m: float
    shift_m: float
    contacts: Contacts
    overlap_m: float
    lean: Array


def _touch(caster: Caster, T: Pose, jaws: Jaws, width_m: float, blur_m: float) -> _Touch | None:
    """When both pads touch; None if there is nothing for both.

    The pads lie opposite each other, so one line serves a point of both.
    """
    R = T[:3, :3]
    xz, recess = jaws.pad_xz, jaws.recess_m
    origins = (jaws.pad_points - T[:3, 3]) @ R
    start = width_m / 2 + recess
    lines = caster.lines(origins, R[1])
    hits = lines.against(start, width_m + 0.02), lines.along(-start, width_m + 0.02)
    depths = hits[0].distance, hits[1].distance
    one, two = float(depths[0].min()), float(depths[1].min())
    if not (math.isfinite(one) and math.isfinite(two)):
        return None
    width = width_m - one - two
    if width <= 0:
        return None
    shift = (one - two) / 2
    nears = [_corners(xz, np.flatnonzero(depths[side] <= least + blur_m)) for side, least in ((0, one), (1, two))]
    near = np.concatenate(nears)
    split = len(nears[0])
    sign = np.ones(len(near))
    sign[split:] = -1.0
    deep = np.concatenate([depths[0][nears[0]], depths[1][nears[1]]])
    solid = np.concatenate([hits[0].solid[nears[0]], hits[1].solid[nears[1]]])
    set_back = recess[near]
    at = origins[near] + (sign * (width_m / 2 + set_back - deep))[:, None] * R[1]
    inner = -caster.normals(at, solid) @ R.T
    points = jaws.pad_points[near]
    points[:, 1] = sign * (width / 2 + set_back)
    inward = _normals(points, inner, -sign, jaws, set_back > 0)
    pad = np.zeros(len(near), dtype=np.int64)
    pad[split:] = 1
    seen = np.isfinite(depths[0]) | np.isfinite(depths[1])
    overlap = float(jaws.pad_z_m[1] - xz[seen, 1].min())
    lean = (inner[:split].mean(axis=0) - inner[split:].mean(axis=0)) / 2
    return _Touch(width, shift, Contacts(points, inward, pad), overlap, lean)


def _corners(xz: Array, of: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of the points that lie farthest out in eight directions; between them the pressure may be shared."""
    if len(of) <= 4:
        return of
    return np.asarray(of[sorted(set((xz[of] @ _AROUND).argmax(axis=0).tolist()))])


def _normals(points: Array, inward: Array, sign: Array, jaws: Jaws, whole: NDArray[np.bool_]) -> Array:
    """Normals (N, 3) of the contacts: the pad's own within it; at an edge the object's, as far as it leans across that edge.

    An edge that touches a surface lies in its tangent plane, so what leans along the edge is the grid's doing. Where ``whole``,
    above the pad, the object's own normal counts.
    """
    low, high = jaws.pad_z_m
    near = 5e-5
    z = points[:, 2]
    across_x = (np.abs(points[:, 0]) > jaws.pad_x_m - near) | whole
    across_z = (z < low + near) | (z > high - near) | whole
    n = inward.copy()
    n[~across_x, 0] = 0.0
    n[~across_z, 2] = 0.0
    n[:, 1] = np.where(across_x | across_z, inward[:, 1], sign)
    return np.asarray(n / np.maximum(np.sqrt((n * n).sum(axis=1, keepdims=True)), 1e-9))
