"""Lifting, holding and shaking by statics: what the grip must bear, what slides, what swings, what is lost.

The lift follows the minimum-jerk law (Flash & Hogan 1985), whose peak acceleration is what the command says; the shake is ±10 mm
at 2.25 Hz along x, then y. A grip whose force bears the wrench of each moment keeps the object as it is. One that only lacks the
torsion about the closing axis lets the object swing until its centre of mass hangs below the pads, and holds it there. One that
lacks friction for a while slides, a(t) faster than friction can follow; it is lost if the way is longer than the pads overlap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sagehand.world.analytic.statics import GripStatics
from sagehand.world.constants import GRAVITY
from sagehand.world.frames import Pose, axis_rotation, pose
from sagehand.world.rules import PEAK_ACCELERATION, SHAKE_ACCELERATION

__all__ = ["Held", "Load", "carry"]

Array = NDArray[np.float64]
_SWINGS = 1e-3
"""Moment about the closing axis [Nm] under which nothing swings."""


@dataclass(frozen=True, eq=False)
class Load:
    """What hangs in the grip.

    Attributes:
        mass_kg: All of it [kg].
        com_m: (3,) its centre of mass in the grasp frame [m].
        pivot_m: (3,) the middle between the patches [m].
        up: (3,) unit, the world's up in the grasp frame.
        sideways: (2, 3) units, the world's x and y in the grasp frame.
    """

    mass_kg: float
    com_m: Array
    pivot_m: Array
    up: Array
    sideways: Array


@dataclass(frozen=True, eq=False)
class Held:
    """What became of it.

    Attributes:
        required_n: Force of each finger that the lift needs, its moment included [N].
        hanging_n: The same once it hangs below the closing axis [N].
        stage: "held", or where it was lost: "slip" before it left the table, "drop" after.
        why: One sentence.
        slid_m: How far it slid in the fingers [m].
        swing: (4, 4) how it turned in the grasp frame.
        swing_rad: By what angle [rad].
        shaken: It was lifted, and lost in the shake.
    """

    required_n: float
    hanging_n: float
    stage: str
    why: str
    slid_m: float
    swing: Pose
    swing_rad: float
    shaken: bool = False


def carry(
    statics: GripStatics, load: Load, force_n: float, acceleration: float, lift_m: float, overlap_m: float
) -> Held:
    """Lift, hold and shake.

    Args:
        statics: What the grip bears.
        load: What hangs in it.
        force_n: Normal force of each finger [N].
        acceleration: Peak of the lift [m/s²].
        lift_m: Height of the lift [m].
        overlap_m: How far it can slide before it leaves the pads [m].
    """
    lift = load.mass_kg * (GRAVITY + acceleration)
    required = statics.required_force(_wrench(-lift * load.up, load.com_m))
    swing, swing_rad, crept = np.eye(4), 0.0, 0.0
    hanging, com = required, load.com_m
    if force_n < required:
        angle = _to_hang(load)
        if angle:
            lowest = _turned(load, angle)
            borne = statics.required_force(_wrench(-lift * load.up, _at(lowest, load.com_m)))
            if borne < required:
                share, crept = _swing(statics, load, force_n, angle)
                swing, swing_rad = _turned(load, share * angle), abs(share * angle)
                hanging, com = borne, _at(lowest, load.com_m)
    # under a constant acceleration a the need is in proportion to g + a
    spare = force_n / hanging * (GRAVITY + acceleration) - GRAVITY if hanging > 0 else math.inf
    if spare < 0:
        plain = load.mass_kg * GRAVITY / (2 * force_n) if force_n > 0 else math.inf
        by_moment = plain < statics.friction
        stage = "drop" if by_moment else "slip"
        why = (
            f"{force_n:.1f} N a finger carry its weight but not its moment, which needs {hanging:.1f} N"
            if by_moment
            else f"{force_n:.1f} N a finger do not carry its weight, which needs {hanging:.1f} N in the lift"
        )
        return Held(required, hanging, stage, why, overlap_m, swing, swing_rad)
    slid = crept + _slid(spare, acceleration, lift_m)
    if slid > overlap_m:
        if crept > overlap_m / 2:
            why = f"it swung by {math.degrees(swing_rad):.0f}° under its moment, which needs {required:.1f} N, and slid out"
            return Held(required, hanging, "drop", why, slid, swing, swing_rad)
        why = f"it slid out as the lift began: {force_n:.1f} N a finger, and {hanging:.1f} N needed"
        return Held(required, hanging, "slip", why, slid, swing, swing_rad)
    if force_n < 2 * hanging:
        pulls = [
            _wrench(-load.mass_kg * (GRAVITY * load.up + sign * SHAKE_ACCELERATION * axis), com)
            for axis in load.sideways
            for sign in (1, -1)
        ]
        if swing_rad > 0:
            for pull in pulls:
                pull[4] = 0.0  # it swings about the closing axis as it did
        if not all(statics.bears(pull, force_n) for pull in pulls):
            worst = max(statics.required_force(pull) for pull in pulls)
            why = f"the shake needs {worst:.1f} N a finger, {force_n:.1f} N were applied"
            return Held(required, hanging, "drop", why, slid, swing, swing_rad, True)
    return Held(required, hanging, "held", "", slid, swing, swing_rad)


def _wrench(force: Array, at: Array) -> Array:
    return np.concatenate(
        [
            force,
            [at[1] * force[2] - at[2] * force[1]],
            [at[2] * force[0] - at[0] * force[2]],
            [at[0] * force[1] - at[1] * force[0]],
        ]
    )


def _to_hang(load: Load) -> float:
    """The turn about the closing axis through the pads that brings the centre of mass lowest [rad]; 0 if it hardly matters."""
    arm = load.com_m - load.pivot_m
    down = -load.up
    if math.hypot(arm[0], arm[2]) * load.mass_kg * GRAVITY < _SWINGS or math.hypot(down[0], down[2]) < 0.1:
        return 0.0
    here, there = math.atan2(arm[0], arm[2]), math.atan2(down[0], down[2])
    return (there - here + math.pi) % (2 * math.pi) - math.pi


def _turned(load: Load, angle: float) -> Pose:
    return pose(load.pivot_m) @ axis_rotation("y", angle) @ pose(-load.pivot_m)


def _at(T: Pose, point: Array) -> Array:
    return np.asarray(T[:3, :3] @ point + T[:3, 3])


def _swing(statics: GripStatics, load: Load, force_n: float, angle: float) -> tuple[float, float]:
    """How far it swings, as a share of the turn that brings the centre of mass lowest, and how far it slides the while [m].

    It swings until torsion bears what moment is left. Sliding and turning follow the normal of the limit ellipsoid (Howe &
    Cutkosky 1996): with t the share of the friction that the weight takes and λ = M_max / F_max, ds / dθ = λ t / √(1 − t²).
    """
    weight = load.mass_kg * GRAVITY
    pull = statics.required_force(np.concatenate([-weight * load.up, np.cross(load.pivot_m, -weight * load.up)]))
    twist = statics.required_force(np.array([0, 0, 0, 0, 1.0, 0]))
    t = min(pull / force_n, 0.999) if force_n > 0 else 0.999
    if not math.isfinite(pull) or not math.isfinite(twist) or twist <= 0:
        return 1.0, math.inf
    left = math.sqrt(1 - t * t)
    arm = load.com_m - load.pivot_m
    down = math.hypot(load.up[0], load.up[2])
    borne = left * force_n / twist / (weight * math.hypot(arm[0], arm[2]) * down)
    rest = math.asin(min(borne, 1.0)) if abs(angle) <= math.pi / 2 or borne < 1 else math.pi / 2
    way = max(abs(angle) - rest, 0.0)
    # at unit force: M_max = 1 / twist, F_max = weight / pull
    lever = pull / (twist * weight)
    return way / abs(angle), lever * t / left * way


def _slid(spare: float, acceleration: float, lift_m: float) -> float:
    """How far it slides while the lift accelerates beyond what friction can follow [m]."""
    if spare >= acceleration or acceleration <= 0:
        return 0.0
    seconds = math.sqrt(PEAK_ACCELERATION * lift_m / acceleration)
    x = np.linspace(0, 1, 201)
    a = lift_m / seconds**2 * (60 * x - 180 * x**2 + 120 * x**3)
    dt = seconds / 200
    speed = way = 0.0
    for value in a.tolist():
        # friction gives the object at most ``spare``; while it lags it gets just that
        gain = value - spare
        if speed > 0 or gain > 0:
            speed = max(speed + gain * dt, 0.0)
            way += speed * dt
    return way + speed * speed / (2 * spare) if spare > 0 else math.inf
