"""The straight last stretch: whether a tip lands on the object, pushes it aside, or the palm bottoms out.

A tip that comes down on a slope pushes the object aside where friction cannot hold it. The object is held between the tip
and the table by two forces on one line, from where the tip lands to the nearest point of the object's base (its weight is
little beside the 10 N of a guarded motion). It is wedged fast while that line lies within both friction cones, the tip's and the
table's (Nguyen 1988), and slips out sideways beyond. On a ball the line lies at half the slope from both normals: it is wedged
while slope / 2 ≤ atan μ (the nip of two rollers; GRASPING §9: an apple rolls into the jaws). Something tall and narrow is wedged
while the slope itself is within atan μ. A tip that lands on anything flatter stops there: the descent is guarded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sagehand.world.analytic.cast import Bundle, Caster
from sagehand.world.analytic.jaws import Jaws
from sagehand.world.analytic.support import support_points
from sagehand.world.frames import Pose, invert

__all__ = ["Descent", "descend"]

_CLEAR = 0.0002
"""A pushed object stands this far from the tip that pushed it [m]."""

_BASE_M = 0.002
"""What lies so near the lowest point bears the object, too [m]."""

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
        wedged: What stopped the hand holds the object fast on the table; else the object gives way.
        point_m: (3,) where that met the object, in the frame of its solids [m].
    """

    short_m: float
    part: str
    both: bool
    pushed_m: float
    top_m: float
    wedged: bool = True
    point_m: Array = field(default_factory=lambda: np.zeros(3))


def descend(
    caster: Caster,
    T_grasp_object: Pose,
    jaws: Jaws,
    width_m: float,
    stretch_m: float,
    friction: float,
    down: Array | None = None,
) -> Descent:
    """Bring the open hand to the grasp pose along its approach.

    Args:
        caster: Rays against the object.
        T_grasp_object: (4, 4) where the object is, in the grasp frame [m].
        jaws: The gripper.
        width_m: Opening [m].
        stretch_m: Length of the stretch [m].
        friction: Between tip and object, and object and table.
        down: (3,) unit, the world's down in the grasp frame; default: the approach.
    """
    faces = _faces(jaws)
    points, part = faces.points.copy(), faces.part
    points[:, 1] += faces.side * (width_m / 2)
    T = invert(T_grasp_object)
    start = points - np.array([0.0, 0.0, stretch_m])
    begin = start @ T[:3, :3].T + T[:3, 3]
    lines = caster.lines(begin, T[:3, 2])
    hits = lines.along(0.0, stretch_m + 0.06)
    left = stretch_m - hits.distance  # of the way, when this point meets the object
    left[lines.inside()] = stretch_m  # it is in the way from the start
    between = faces.middle[np.abs(points[faces.middle, 1]) < width_m / 2]
    top = float(np.min(jaws.palm_z_m - left[between], initial=math.inf))
    meets = left > 0
    if not meets.any():
        return Descent(0.0, "", False, 0.0, top)
    landed = [meets & tip for tip in faces.tips]
    pushed = 0.0
    below = np.array([0.0, 0.0, 1.0]) if down is None else down
    if landed[0].any() != landed[1].any():
        which = 0 if landed[0].any() else 1
        of = landed[which]
        at = int(np.flatnonzero(of)[np.argmax(left[of])])
        away = -1.0 if which == 0 else 1.0
        if _slips_off(caster, hits, at, begin[at], T_grasp_object, friction, below, away):
            need = float(np.max(np.abs(_beyond(points[of][:, 1], width_m))))
            pushed = _push(caster, T_grasp_object, jaws, width_m, away, need)
    if pushed:
        meets &= part == 2
        if not meets.any():
            return Descent(0.0, "", False, pushed, top)
    at = int(np.flatnonzero(meets)[np.argmax(left[meets])])
    both = bool(landed[0].any() and landed[1].any())
    point = begin[at] + (stretch_m - float(left[at])) * T[:3, 2]
    wedged = bool(hits.solid[at] < 0) or _wedged(
        caster,
        point,
        caster.normals(point[None], hits.solid[at : at + 1])[0],
        T_grasp_object[:3, :3].T @ below,
        friction,
    )
    return Descent(float(left[at]), ("tip", "finger", "palm")[part[at]], both, pushed, top, wedged, point)


class _Faces(NamedTuple):
    """The leading faces of both fingers and the palm, the fingers closed.

    Attributes:
        points: (N, 3) from the TCP [m].
        part: (N,) as in :class:`Jaws`.
        side: (N,) which way a point goes along y as the fingers open: 1, −1; 0 for the palm.
        tips: (2, N) whether it is of the tip at +y, and of that at −y.
        middle: (M,) numbers of the palm's points that are over the pads.
    """

    points: Array
    part: NDArray[np.int64]
    side: Array
    tips: NDArray[np.bool_]
    middle: NDArray[np.intp]


@lru_cache(maxsize=8)
def _faces(jaws: Jaws) -> _Faces:
    palm = jaws.part == 2
    finger, of_finger = jaws.landing[~palm], jaws.part[~palm]
    points = np.concatenate([finger, finger * np.array([1.0, -1.0, 1.0]), jaws.landing[palm]])
    part = np.concatenate([of_finger, of_finger, jaws.part[palm]])
    side = np.repeat([1.0, -1.0, 0.0], [len(finger), len(finger), int(palm.sum())])
    middle = np.flatnonzero((part == 2) & (np.abs(points[:, 0]) <= jaws.pad_x_m))
    return _Faces(points, part, side, np.array([(part == 0) & (side == s) for s in (1, -1)]), middle)


def _slips_off(
    caster: Caster, hits: Bundle, at: int, start: Array, T_grasp_object: Pose, friction: float, down: Array, away: float
) -> bool:
    """Whether a tip that lands at a ray's hit pushes the object aside, towards ``away`` along y: it is not wedged fast."""
    if hits.solid[at] < 0:  # it was in there from the start
        return False
    R = T_grasp_object[:3, :3]
    point = start + hits.distance[at] * R[2]
    normal = caster.normals(point[None], hits.solid[at : at + 1])[0]
    if float(R[1] @ normal) * away >= 0:
        return False
    nip = 2 * math.atan(friction)
    if (
        math.acos(float(np.clip(down[2], -1, 1))) > nip
    ):  # the hand comes from the side: nothing wedges the object on the table
        return math.acos(float(np.clip(-normal @ R[2], -1, 1))) > nip
    return not _wedged(caster, point, normal, R.T @ down, friction)


def _wedged(caster: Caster, point: Array, normal: Array, down: Array, friction: float) -> bool:
    """Whether a press at a point (3,) with outward normal (3,) holds the object fast on what bears it: see the module."""
    line = _base_under(caster, point, down) - point
    cone = float(np.linalg.norm(line)) * math.cos(math.atan(friction)) - 1e-9
    return float(-normal @ line) >= cone and float(down @ line) >= cone


def _base_under(caster: Caster, point: Array, down: Array) -> Array:
    """The point (3,) of what an object stands on that is nearest to below a point, all in the frame of the solids [m]."""
    stands = np.concatenate([support_points(s, down) for s in caster.solids])
    depth = stands @ down
    stands = stands[depth > depth.max() - _BASE_M]
    flat = np.eye(3) - np.outer(down, down)
    first = flat @ (point - stands.mean(axis=0))
    size = float(np.linalg.norm(first))
    if size < 1e-9:
        return np.asarray(point + (float(depth.max()) - float(point @ down)) * down)
    first = first / size
    second = np.cross(down, first)
    axes = np.array([first, second])
    low, high = (stands @ axes.T).min(axis=0), (stands @ axes.T).max(axis=0)
    return np.asarray(np.clip(axes @ point, low, high) @ axes + float(depth.max()) * down)


def _beyond(y: Array, width_m: float) -> Array:
    """How far points lie beyond the pads' faces [m]."""
    return np.asarray(np.abs(y) - width_m / 2)


def _push(caster: Caster, T: Pose, jaws: Jaws, width_m: float, away: float, need: float) -> float:
    """How far the object has to go so that it fits between the pads [m, signed]; 0 if there is no room for it."""
    R = T[:3, :3]
    lines = caster.lines((jaws.pad_points[jaws.recess_m == 0] - T[:3, 3]) @ R, R[1])
    start = width_m / 2 + need + 0.01
    high = start - float(lines.against(start, width_m + 0.2).distance.min())
    low = float(lines.along(-start, width_m + 0.2).distance.min()) - start
    if not (math.isfinite(high) and math.isfinite(low)):
        return 0.0
    shift = -(high - width_m / 2) - _CLEAR if away < 0 else -(low + width_m / 2) + _CLEAR
    fits = high + shift <= width_m / 2 and low + shift >= -width_m / 2
    return shift if fits and shift * away > 0 else 0.0
