"""The guarded last stretch: what stops the hand before its grasp, what it pushes aside or over, where the fingers close."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sagehand.world.analytic.contact import extent
from sagehand.world.analytic.descent import Descent
from sagehand.world.analytic.harm import thrown_over
from sagehand.world.analytic.reach import Reached
from sagehand.world.analytic.setup import Setup
from sagehand.world.constants import GRAVITY
from sagehand.world.failures import Failure
from sagehand.world.frames import Pose, invert, translation
from sagehand.world.robot.description import Robot
from sagehand.world.rules import GIVE_UP_M, GUARD_N
from sagehand.world.scene import Placed, Scene, Table

__all__ = ["Arrival", "arrive", "table_short"]

Array = NDArray[np.float64]
_BURIED_M = 0.001


@dataclass(eq=False)
class Arrival:
    """Where the hand came to.

    Attributes:
        T: (4, 4) where it is [m].
        target: The target, where it was pushed to.
        short_m: How much of the way was left [m].
        failure: What that is called, should nothing be grasped.
        why: What the hand met; "" if nothing.
        pressed_n: Force on the target [N].
        fallen: (3,) which way the target was thrown over, if it was.
        object_m: How wide the target is where the pads would be [m], if a tip landed on it.
        neighbours_m: Other objects → how far they were pushed [m].
    """

    T: Pose
    target: Placed
    short_m: float = 0.0
    failure: Failure = Failure.COLLISION
    why: str = ""
    pressed_n: float = 0.0
    fallen: Array | None = None
    object_m: float | None = None
    neighbours_m: dict[str, float] = field(default_factory=dict)

    def stopped(self, short_m: float, why: str, failure: Failure) -> None:
        """Something stops the hand; what stops it first counts."""
        if short_m > self.short_m:
            self.short_m, self.why, self.failure = short_m, why, failure

    def shift(self, by: Array) -> None:
        """The target is pushed along the table, by (3,) [m]."""
        self.target = self.target.at(translation(float(by[0]), float(by[1])) @ self.target.T_world_object)


def table_short(setup: Setup, T: Pose, robot: Robot, table: Table) -> float:
    """How much of the way to a pose (4, 4) is left when the tips meet the table [m]; 0 if they do not."""
    outer = setup.width_m / 2 + 2 * float(robot.pad.half[1])
    x, z = setup.jaws.pad_x_m, setup.jaws.pad_z_m[1]
    corners = np.array([(sx * x, sy * outer, z) for sx in (-1, 1) for sy in (-1, 1)])
    at = corners @ T[:3, :3].T + T[:3, 3]
    lowest = min((float(p[2]) for p in at if table.holds(float(p[0]), float(p[1]))), default=1.0)
    sinks = -float(T[2, 2])
    return (1e-4 - lowest) / sinks if lowest < 0 and sinks >= 0.1 else 0.0


def arrive(setup: Setup, scene: Scene, T: Pose, short_m: float, reached: Reached) -> Arrival:
    """Bring the hand to where the fingers close.

    Args:
        setup: The grasp.
        scene: How things are.
        T: (4, 4) the grasp, where the table lets the tips come [m].
        short_m: How much of the way is left there [m].
        reached: What the planner says of it.
    """
    arrival = Arrival(T, scene[setup.command.target])
    if short_m > 0:
        arrival.stopped(short_m, "the finger met the table", Failure.COLLISION)
    if reached.gap_m < 0:
        _meet_others(setup, scene, T, reached, arrival)
    ahead = setup.descend(T, arrival.target, max(setup.command.pregrasp_m - short_m, 0.0))
    nip = 2 * math.atan(arrival.target.model.friction)
    if ahead.part and math.acos(min(max(-float(T[2, 2]), -1.0), 1.0)) > nip:
        ahead = _shove(T, ahead, arrival)
    if ahead.pushed_m:
        arrival.shift(T[:3, 1] * ahead.pushed_m)
    if ahead.part:
        arrival.pressed_n = max(arrival.pressed_n, GUARD_N)
        span = extent(setup.caster(arrival.target.model), invert(T) @ arrival.target.T_world_object, setup.jaws)
        arrival.object_m = span
        narrow = ahead.part != "palm" and span > setup.width_m
        failure = Failure.WIDTH_MISMATCH if narrow else Failure.COLLISION
        arrival.stopped(short_m + ahead.short_m, f"the {ahead.part} met the {arrival.target.name}", failure)
    arrival.T = T @ translation(z=-max(arrival.short_m - short_m, 0.0))
    return arrival


def _meet_others(setup: Setup, scene: Scene, T: Pose, reached: Reached, arrival: Arrival) -> None:
    """What the planner says is in the way: the table under arm or palm, the arm in something, another object.

    Another object that the hand does not wedge on the table gives way, unless that takes more than stops a guarded motion: it
    slides as far as the hand still comes along the table, or rocks about the edge of its base and leans on the hand, unless that
    way throws it over (:func:`~sagehand.world.analytic.harm.thrown_over`).
    """
    why = f"the {reached.part} met the {reached.other}"
    if reached.other == "table":
        arrival.stopped(-reached.gap_m / max(-float(T[2, 2]), 0.2), why, Failure.APPROACH_ANGLE)
        return
    if reached.on_arm or reached.other not in {o.name for o in scene.objects}:
        if reached.gap_m < -_BURIED_M:
            arrival.stopped(2 * GIVE_UP_M, why, Failure.COLLISION)
        return
    other = scene[reached.other]
    ahead = setup.descend(T, other, setup.command.pregrasp_m)
    if ahead.part and not ahead.wedged:
        height = float((other.T_world_object @ np.append(ahead.point_m, 1.0))[2])
        way = ahead.short_m * math.hypot(float(T[0, 2]), float(T[1, 2]))
        toppled, force = thrown_over(other, height, way)
        if force <= GUARD_N and not toppled:
            slides = force >= other.model.friction * other.mass_kg * GRAVITY
            arrival.neighbours_m[other.name] = max(way, -reached.gap_m) if slides else -reached.gap_m
            return
    pushed = abs(ahead.pushed_m) if ahead.pushed_m else (0.0 if ahead.part else -reached.gap_m)
    if pushed:
        arrival.neighbours_m[other.name] = pushed
    arrival.stopped(ahead.short_m, why, Failure.COLLISION)


def _shove(T: Pose, ahead: Descent, arrival: Arrival) -> Descent:
    """A hand that comes from the side pushes the object before it, or over, unless that takes more than stops it.

    From the side: at more than 2 atan μ from the vertical; steeper, the object is wedged between hand and table (the nip of
    :mod:`~sagehand.world.analytic.descent`).
    """
    along = np.array([T[0, 2], T[1, 2], 0.0])
    toppled, force = thrown_over(arrival.target, float(T[2, 3]), ahead.short_m)
    arrival.pressed_n = max(arrival.pressed_n, min(force, GUARD_N))
    if force > GUARD_N:
        return ahead
    if toppled:
        arrival.fallen = along
        arrival.stopped(ahead.short_m, f"the {ahead.part} pushed the {arrival.target.name} over", Failure.COLLISION)
    arrival.shift(along / max(float(np.linalg.norm(along)), 1e-9) * ahead.short_m)
    return Descent(0.0, "", ahead.both, ahead.pushed_m, ahead.top_m)
