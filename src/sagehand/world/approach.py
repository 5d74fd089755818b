"""Whether the arm can come to a grasp, and how: the straight last stretch, the lift, the way there.

The analytic executor and the physics both ask here, so that both judge reach and collision alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sagehand.errors import InputError
from sagehand.world.clearance import Clearance, Gap
from sagehand.world.frames import Pose, angle_between
from sagehand.world.robot.kinematics import IkAnswer, Kinematics, refuse_unsound

__all__ = ["ENOUGH_M", "STEP_M", "Approach", "Stretch", "plan_approach", "plan_lift", "plan_straight", "plan_transit"]

Array = NDArray[np.float64]

STEP_M = 0.005
"""Way of the TCP between two rows of a path [m]."""
ENOUGH_M = 0.02
"""With this much room no other way is looked for [m] (GRASPING §2, clearance)."""
_WAYS, _WAYS_TO_LIFT = 6, 20
_STEP_RAD = math.radians(2)
_TRANSIT_RAD = 0.05
_STRAIGHT_M, _STRAIGHT_RAD = 1e-6, 1e-6


@dataclass(frozen=True, eq=False)
class Stretch:
    """A piece of a motion.

    Attributes:
        path: (K, n) joint angles [rad]; None if there is no such path within the joint limits.
        gap: Its smallest gap; None without a path.
        why: "" if it can be gone; else "no straight path" or "collision".
    """

    path: Array | None
    gap: Gap | None
    why: str = ""

    @property
    def free(self) -> bool:
        """It can be gone, and touches nothing."""
        return not self.why


@dataclass(frozen=True, eq=False)
class Approach:
    """The way to a grasp.

    Attributes:
        q_pre: (n,) joint angles before the straight last stretch [rad]; None if there is no path.
        path: (K, n) joint angles of that stretch, first to last [rad]; None if there is none.
        gap: Its smallest gap; None without a path.
        ik: What inverse kinematics says of the grasp itself.
        lift: (K, n) joint angles straight up from the grasp [rad]; None if it was not asked for, or the joints' limits forbid it.
        why: "" if the way is free; else "out of reach", "joint limits", "no straight path" or "collision".
    """

    q_pre: Array | None
    path: Array | None
    gap: Gap | None
    ik: IkAnswer
    lift: Array | None = None
    why: str = ""

    @property
    def free(self) -> bool:
        """It can be gone, and touches nothing but what may be touched."""
        return not self.why


def plan_approach(
    kinematics: Kinematics,
    clearance: Clearance,
    T_world_pregrasp: Pose,
    T_world_grasp: Pose,
    width_m: float,
    ignore_last: Iterable[str] = (),
    seed: ArrayLike | None = None,
    lift_m: float = 0.0,
) -> Approach:
    """Look for a way to a grasp: its straight last stretch, with the arm in one of several postures.

    Six are tried, and up to twenty while those that come there freely cannot lift. The posture nearest the seed is taken if it
    leaves 20 mm of room, else the one of them that leaves most. Where the hand is what comes nearest no other posture helps, and
    none is tried, unless this one cannot lift. A stretch that meets something is returned as well, with ``why`` "collision": the
    physics carries it out to see what happens.

    Args:
        kinematics: Of the robot.
        clearance: Of the robot in the scene.
        T_world_pregrasp: (4, 4) where the stretch begins [m].
        T_world_grasp: (4, 4) where it ends [m].
        width_m: Opening between the fingers on the way [m].
        ignore_last: Objects that the hand may touch on this stretch: the target.
        seed: (n,) joint angles to stay near [rad]; default: the robot's home.
        lift_m: How far it is to be lifted straight up afterwards [m]. Postures that can are preferred to those that cannot,
            as long as they touch nothing: the posture nearest home of one side grasp in five cannot.

    Raises:
        InputError: A pose is not rigid, or the seed does not fit the robot.
        UnknownName: There is no object of a name in ``ignore_last``.
    """
    refuse_unsound(T_world_pregrasp)
    ignore = tuple(ignore_last)
    above = T_world_grasp.copy()
    above[2, 3] += lift_m
    best: Approach | None = None
    reached: IkAnswer | None = None
    for number, q in enumerate(kinematics.ways(T_world_grasp, _WAYS_TO_LIFT if lift_m > 0 else _WAYS, seed)):
        lifts = best is not None and best.free and (best.lift is not None or lift_m <= 0)
        if number >= _WAYS and best is not None and (lifts or not best.free):
            break
        answer = IkAnswer(q, True, *kinematics.miss(q, T_world_grasp))
        reached = reached or answer
        lift: Array | None = None
        if best is not None and best.free and best.gap is not None and best.gap.distance_m >= ENOUGH_M:
            lift = _straight(kinematics, q, T_world_grasp, above)  # what cannot lift is no better
            if lift is None:
                continue
        back = _straight(kinematics, q, T_world_grasp, T_world_pregrasp)
        if back is None:
            continue
        path = np.ascontiguousarray(back[::-1])
        gap = clearance.along(path, width_m, ignore)
        least = best.gap.distance_m if lifts and best is not None and best.gap is not None else 0.0
        if lift_m > 0 and lift is None and gap.distance_m > least:
            lift = _lift(kinematics, back, T_world_grasp, T_world_pregrasp, above)
            if lift is None and not lifts and next(kinematics.ways(above, 1, seed), None) is None:
                lift_m = 0.0  # the arm cannot be there at all: no posture helps
        found = Approach(path[0], path, gap, answer, lift if gap.free else None, "" if gap.free else "collision")
        if best is None or _rank(found) > _rank(best):
            best = found
        can_lift = found.lift is not None or lift_m <= 0 or not gap.free
        if can_lift and (gap.distance_m >= ENOUGH_M or not gap.arm):
            break
    if best is not None:
        return best
    if reached is not None:
        return Approach(None, None, None, reached, why="no straight path")
    answer = kinematics.inverse(T_world_grasp, seed)
    return Approach(None, None, None, answer, why=answer.why or "no straight path")


def _rank(found: Approach) -> tuple[bool, bool, float]:
    """Free before blocked, able to lift before not, then by room; more than enough room is not better than enough."""
    distance = found.gap.distance_m if found.gap else -1.0
    return found.free, found.lift is not None, min(distance, ENOUGH_M)


def plan_straight(
    kinematics: Kinematics,
    clearance: Clearance,
    q_start: ArrayLike,
    T_world_to: Pose,
    width_m: float,
    ignore: Iterable[str] = (),
) -> Stretch:
    """Move the TCP straight from where it is at ``q_start`` (n,) [rad] to a pose (4, 4) [m], turning evenly.

    Raises:
        InputError: The pose is not rigid, or the joint angles do not fit the robot.
        UnknownName: There is no object of a name in ``ignore``.
    """
    refuse_unsound(T_world_to)
    T_from = kinematics.forward(q_start)
    path = kinematics.straight(q_start, T_from, T_world_to, _steps(T_from, T_world_to))
    if path is None:
        return Stretch(None, None, "no straight path")
    return _judged(clearance, path, width_m, ignore)


def plan_lift(
    kinematics: Kinematics,
    clearance: Clearance,
    q_start: ArrayLike,
    height_m: float,
    width_m: float,
    ignore: Iterable[str] = (),
) -> Stretch:
    """Move the TCP straight up by ``height_m`` [m] from where it is at ``q_start`` (n,) [rad]; else as :func:`plan_straight`."""
    T = kinematics.forward(q_start)
    T[2, 3] += height_m
    return plan_straight(kinematics, clearance, q_start, T, width_m, ignore)


def plan_transit(
    clearance: Clearance, q_from: ArrayLike, q_to: ArrayLike, width_m: float, ignore: Iterable[str] = ()
) -> Stretch:
    """Move all joints evenly from one set of angles (n,) to another [rad].

    Raises:
        InputError: They do not fit the robot.
        UnknownName: There is no object of a name in ``ignore``.
    """
    first, last = np.asarray(q_from, dtype=np.float64), np.asarray(q_to, dtype=np.float64)
    if first.shape != last.shape or first.ndim != 1:
        raise InputError(f"joint angles of shapes {first.shape} and {last.shape} make no way")
    rows = max(2, math.ceil(float(np.abs(last - first).max()) / _TRANSIT_RAD) + 1)
    path = first + np.linspace(0, 1, rows)[:, None] * (last - first)
    return _judged(clearance, path, width_m, ignore)


def _judged(clearance: Clearance, path: Array, width_m: float, ignore: Iterable[str]) -> Stretch:
    gap = clearance.along(path, width_m, ignore)
    return Stretch(path, gap, "" if gap.free else "collision")


def _straight(kinematics: Kinematics, q: Array, T_from: Pose, T_to: Pose) -> Array | None:
    """Joint path for the way between two poses, which are known to be rigid."""
    return kinematics.follow(q, T_from, T_to, _steps(T_from, T_to))


def _steps(T_from: Pose, T_to: Pose) -> int:
    """Rows of the path between two poses, but for the first."""
    way, turn = math.dist(T_to[:3, 3].tolist(), T_from[:3, 3].tolist()), angle_between(T_from, T_to)
    return max(1, math.ceil(way / STEP_M - 1e-6), math.ceil(turn / _STEP_RAD - 1e-6))


def _lift(
    kinematics: Kinematics, back: Array, T_world_grasp: Pose, T_world_pregrasp: Pose, T_world_above: Pose
) -> Array | None:
    """Joint path straight up from a grasp; where the stretch ``back`` (K, n) leads straight up, it goes on from its end."""
    rise = T_world_pregrasp[:3, 3] - T_world_grasp[:3, 3]
    higher = float(T_world_above[2, 3] - T_world_pregrasp[2, 3])
    upright = max(abs(float(rise[0])), abs(float(rise[1]))) < _STRAIGHT_M and float(rise[2]) > 0
    if not upright or higher <= STEP_M or angle_between(T_world_grasp, T_world_pregrasp) > _STRAIGHT_RAD:
        return _straight(kinematics, back[0], T_world_grasp, T_world_above)
    rest = _straight(kinematics, back[-1], T_world_pregrasp, T_world_above)
    return None if rest is None else np.concatenate([back, rest[1:]])
