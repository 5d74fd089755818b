"""The straight last stretch: whether a tip lands on the object, pushes it aside, or the palm bottoms out.

A tip that comes down on a slope pushes the object aside where friction cannot hold it. The object is held between the tip
and the table; the line between the two contacts lies at half the slope from both normals, so it is wedged fast while
slope / 2 ≤ atan μ and slips out sideways beyond (the nip of two rollers; GRASPING §9: an apple rolls into the jaws). A tip that
lands on anything flatter stops there: the descent is guarded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sagehand.world.analytic.cast import Bundle, Caster
from sagehand.world.analytic.jaws import Jaws
from sagehand.world.frames import Pose, invert

__all__ = ["GUARD_N", "Descent", "descend"]

GUARD_N = 10.0
"""Force at which a guarded motion stops [N]."""
_CLEAR = 0.0002
"""A pushed object stands this far from the tip that pushed it [m]."""

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Descent:
    """How the last stretch went.

    Attributes:
        short_m: How much of the way was left when something stopped the hand [m].
        part: What stopped it: "tip", "finger" or "palm"; "" where nothing did.
        both: Both tips landed: the object is wider than the opening.
        pushed_m: How far the object was pushed along the closing axis [m], to the right of the jaws' y.
        top_m: Where the object begins along the approach between the fingers, from the TCP [m]; inf where nothing is.
    """

    short_m: float
    part: str
    both: bool
    pushed_m: float
    top_m: float


def descend(
    caster: Caster, T_grasp_object: Pose, jaws: Jaws, width_m: float, stretch_m: float, friction: float
) -> Descent:
    """Bring the open hand to the grasp pose along its approach.

    Args:
        caster: Rays against the object.
        T_grasp_object: (4, 4) where the object is, in the grasp frame [m].
        jaws: The gripper.
        width_m: Opening [m].
        stretch_m: Length of the stretch [m].
        friction: Between tip and object, and object and table.
    """
    palm = jaws.part == 2
    finger = jaws.landing[~palm]
    first = finger + np.array([0.0, width_m / 2, 0.0])
    points = np.concatenate([first, first * np.array([1.0, -1.0, 1.0]), jaws.landing[palm]])
    part = np.concatenate([jaws.part[~palm]] * 2 + [jaws.part[palm]])
    side = np.concatenate([np.full(len(first), 1), np.full(len(first), -1), np.zeros(int(palm.sum()), dtype=np.int64)])
    T = invert(T_grasp_object)
    start = points - np.array([0.0, 0.0, stretch_m])
    begin = start @ T[:3, :3].T + T[:3, 3]
    hits = caster.first(begin, T[:3, 2], stretch_m + 0.06)
    left = stretch_m - hits.distance  # of the way, when this point meets the object
    left[caster.inside(begin)] = stretch_m  # it is in the way from the start
    between = palm & (np.abs(jaws.landing[:, 0]) <= jaws.pad_x_m) & (np.abs(jaws.landing[:, 1]) < width_m / 2)
    inner = np.concatenate([np.zeros(2 * len(first), dtype=bool), between[palm]])
    top = float(np.min(jaws.palm_z_m - left[inner], initial=math.inf))
    meets = left > 0
    if not meets.any():
        return Descent(0.0, "", False, 0.0, top)
    landed = [meets & (part == 0) & (side == s) for s in (1, -1)]
    pushed = 0.0
    steep = 2 * math.atan(max(friction, 1e-6))
    if landed[0].any() != landed[1].any():
        which = 0 if landed[0].any() else 1
        of = landed[which]
        at = int(np.flatnonzero(of)[np.argmax(left[of])])
        away = -1.0 if which == 0 else 1.0
        if _slips_off(caster, hits, at, begin[at], T_grasp_object, steep, away):
            need = float(np.max(np.abs(_beyond(points[of][:, 1], width_m))))
            pushed = _push(caster, T_grasp_object, jaws, width_m, away, need)
    if pushed:
        meets &= part == 2
        if not meets.any():
            return Descent(0.0, "", False, pushed, top)
    at = int(np.flatnonzero(meets)[np.argmax(left[meets])])
    both = bool(landed[0].any() and landed[1].any())
    return Descent(float(left[at]), ("tip", "finger", "palm")[part[at]], both, pushed, top)


def _slips_off(
    caster: Caster, hits: Bundle, at: int, start: Array, T_grasp_object: Pose, steep: float, away: float
) -> bool:
    """Whether a tip that lands at a ray's hit meets a slope over ``steep`` [rad] that leads away from it, along ±y."""
    if hits.solid[at] < 0:  # it was in there from the start
        return False
    point = start + hits.distance[at] * T_grasp_object[2, :3]
    normal = T_grasp_object[:3, :3] @ caster.normals(point[None], hits.solid[at : at + 1])[0]
    return bool(math.acos(float(np.clip(-normal[2], -1, 1))) > steep and normal[1] * away < 0)


def _beyond(y: Array, width_m: float) -> Array:
    """How far points lie beyond the pads' faces [m]."""
    return np.asarray(np.abs(y) - width_m / 2)


def _push(caster: Caster, T: Pose, jaws: Jaws, width_m: float, away: float, need: float) -> float:
    """How far the object has to go so that it fits between the pads [m, signed]; 0 if there is no room for it."""
    pad = jaws.recess_m == 0
    xz = jaws.pad_xz[pad]
    back = invert(T)
    sides = []
    for sign in (1.0, -1.0):
        origins = np.column_stack([xz[:, 0], np.full(len(xz), sign * (width_m / 2 + need + 0.01)), xz[:, 1]])
        hits = caster.first(origins @ back[:3, :3].T + back[:3, 3], -sign * back[:3, 1], width_m + 0.2)
        sides.append(sign * (width_m / 2 + need + 0.01 - float(hits.distance.min())))
    high, low = sides
    if not (math.isfinite(high) and math.isfinite(low)):
        return 0.0
    shift = -(high - width_m / 2) - _CLEAR if away < 0 else -(low + width_m / 2) + _CLEAR
    fits = high + shift <= width_m / 2 and low + shift >= -width_m / 2
    return shift if fits and shift * away > 0 else 0.0
