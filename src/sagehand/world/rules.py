"""How a grasp is carried out and what counts: one set of rules, by which every executor moves, waits and judges.

What differs between executors is how they find out what happens; never how fast the hand comes down, when it gives up, how long
is held, or from where on something has come to harm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sagehand.world.constants import GRAVITY
from sagehand.world.failures import Terminal
from sagehand.world.scene import Placed

__all__ = [
    "ABOVE_M",
    "APPROACH_SPEED",
    "BROKEN",
    "CARRY_SPEED",
    "GIVE_UP_M",
    "GUARD_N",
    "HOLD_S",
    "IMPACT_S",
    "LIES",
    "LIFT_SHARES",
    "LIMIT_S",
    "MOVED_M",
    "OFF_M",
    "PEAK_ACCELERATION",
    "PEAK_SPEED",
    "PUSHED_M",
    "PUT_REST_S",
    "RAISED_M",
    "RAMP_S",
    "SETTLE_S",
    "SET_N",
    "SHAKE_ACCELERATION",
    "SHAKE_HZ",
    "SHAKE_LEAN",
    "SHAKE_M",
    "SHAKE_S",
    "STALL_S",
    "TILT",
    "TOLERANCE",
    "Clock",
    "duration",
    "harmed_by_falling",
    "put_seconds",
    "spill_angle",
    "terminal_of",
    "too_long",
]

GUARD_N = 10.0
"""A guarded motion stops when the robot is pushed with more than this [N]: the nominal threshold of libfranka's examples."""
GIVE_UP_M = 0.010
"""The fingers close where the approach was stopped, if no more than this was left of the way [m]."""
HOLD_S = 2.0
"""How long what was lifted is held still [s]."""
LIMIT_S = 60.0
"""What would take longer is not begun [s]: a grasp, and the way down of putting down."""
LIFT_SHARES = (1.0, 0.75, 0.5)
"""Shares of the lift that are tried one after the other, where the joints do not allow all of it."""

APPROACH_SPEED = 0.10
"""Largest speed of the TCP on a guarded motion [m/s] (O): some 3 kg of the arm move with it."""
CARRY_SPEED = 0.25
"""And on its way through the air [m/s]: the reduced speed of ISO 10218-1."""
TRANSIT = 0.5
"""Share of the joints' speed limits at which the arm comes from home."""
PEAK_SPEED = 1.875
"""Largest speed of the minimum-jerk law over its mean (Flash & Hogan 1985: 30/16)."""
PEAK_ACCELERATION = 10 / math.sqrt(3)
"""Its largest acceleration, times duration² over length."""
SHAKE_M = 0.010
"""How far a shake goes to either side [m]."""
SHAKE_HZ = 2.25
"""How often a second: with 10 mm the acceleration comes to the 2 m/s² of a lift."""
SHAKE_ACCELERATION = SHAKE_M * (2 * math.pi * SHAKE_HZ) ** 2
"""Peak of the shake [m/s²]."""
SHAKE_S = 2 * 2.5 / SHAKE_HZ
"""Both shakes, of five half waves each [s]."""
REST_S = 0.05
"""After the approach [s]."""
STALL_S = 0.04
"""Fingers that have stood still for so long have met what they close on [s]."""
RAMP_S = 0.2
"""In how long the commanded force is laid on then [s]."""
GRIP_S = 0.1
"""And how long it is left to settle [s]."""
SETTLE_S = 0.2
"""What is in the hand after the shake is left to settle for so long, or less [s]."""

ABOVE_M = 0.10
"""From so high above the place the hand goes straight down [m]."""
SET_N = 5.0
"""What is set down stands when it presses back with so much [N]: half of what stops a grasp, for it is in the hand."""
PUT_REST_S = 0.6
"""Setting down: before the fingers open, and until they have [s]."""
OFF_M, TILT = 0.020, math.radians(15)
"""Farther from where the hand let go of it, or turned by more, it was not put down (see :class:`PutTruth`)."""

TOLERANCE = 1.001
"""On forces: rounding harms nothing."""
BROKEN = 1.5
"""Pressed harder than this many times its safe force, an object is broken (GRASPING §2)."""
IMPACT_S = 0.005
"""In how long something hard that falls on a table comes to rest [s] (O: milliseconds, as in drop tests of glass and eggs)."""
LIES = math.radians(45)
"""Tilted more than this, what stood lies [rad]."""
MOVED_M = 0.005
"""How far another object is moved before it is told [m]."""
PUSHED_M = 0.020
"""And before it counts as harm [m]."""
RAISED_M = 0.020
"""Lost below this, it slipped; above, it was dropped [m]."""


def duration(length_m: float, *, speed: float = math.inf, acceleration: float = math.inf) -> float:
    """Time for a length from rest to rest by the minimum-jerk law [s]; its peaks keep a speed [m/s] and acceleration [m/s²]."""
    return max(PEAK_SPEED * length_m / speed, math.sqrt(PEAK_ACCELERATION * length_m / acceleration), 0.05)


@dataclass(frozen=True)
class Clock:
    """The times of one grasp, as it is commanded.

    Attributes:
        from_home_s: What the way from home takes the slowest joint at its speed limit [s].
        pregrasp_m: Length of the last stretch [m].
        speed_scale: Share of the usual speed, in (0, 1].
        finger_speed: Of the robot's fingers [m/s].
        lift_m: Height of the lift [m].
        lift_acceleration: Its peak [m/s²].
    """

    from_home_s: float
    pregrasp_m: float
    speed_scale: float
    finger_speed: float
    lift_m: float
    lift_acceleration: float

    @property
    def transit_s(self) -> float:
        """From home to where the last stretch begins [s]."""
        return self.from_home_s / TRANSIT / self.speed_scale

    @property
    def approach_s(self) -> float:
        """The guarded last stretch [s]."""
        return duration(max(self.pregrasp_m, 1e-3), speed=APPROACH_SPEED * self.speed_scale)

    @property
    def lift_s(self) -> float:
        """The lift [s]; its acceleration is commanded by itself, whatever the speed."""
        return duration(self.lift_m, acceleration=self.lift_acceleration)

    def closing_s(self, travel_m: float) -> float:
        """The fingers, each by a way [m], until the force is laid on [s]."""
        return max(travel_m, 0.0) / (self.finger_speed * self.speed_scale) + STALL_S + RAMP_S + GRIP_S

    def whole_s(self, travel_m: float) -> float:
        """All of a grasp that comes to the end of the shake, with the fingers closing by a way [m] each [s]."""
        before = self.transit_s + self.approach_s + REST_S + self.closing_s(travel_m)
        return before + self.lift_s + HOLD_S + SHAKE_S + SETTLE_S

    def too_long(self, opening_m: float) -> str:
        """Why it is not begun with fingers opened to ``opening_m`` [m], which may close all the way; "" if it is."""
        return too_long(self.whole_s(opening_m / 2), "")


def too_long(seconds: float, what: str) -> str:
    """Why something of so many seconds is not begun; "" if it is."""
    return "" if seconds <= LIMIT_S else f"it would take {seconds:.0f} s{what}, allowed are {LIMIT_S:.0f}"


def put_seconds(over_m: float, turn_rad: float, retreat_m: float, speed_scale: float) -> tuple[float, float]:
    """How long putting down takes: over the place and all of it, and of that the way down by itself [s].

    Args:
        over_m: Way to above the place [m].
        turn_rad: How far the hand turns on it [rad].
        retreat_m: How far it backs off [m].
        speed_scale: Share of the usual speed, in (0, 1].
    """
    slow = APPROACH_SPEED * speed_scale
    down = duration(ABOVE_M, speed=slow)
    over = duration(max(over_m, 0.2 * turn_rad), speed=CARRY_SPEED * speed_scale)
    return over + down + PUT_REST_S + duration(retreat_m, speed=slow), down


def terminal_of(*, broken: bool, spilt: bool, toppled: bool) -> Terminal | None:
    """What cannot be undone, if anything; where there is more than one, the worst: broken before spilt before toppled."""
    if broken:
        return Terminal.BROKEN
    if spilt:
        return Terminal.SPILT
    return Terminal.TOPPLED if toppled else None


def harmed_by_falling(placed: Placed, speed: float) -> float:
    """Force with which something that meets the table at a speed [m/s] comes to rest [N]; 0 for what is not fragile."""
    return placed.mass_kg * speed / IMPACT_S if placed.model.is_fragile else 0.0


def spill_angle(placed: Placed) -> float:
    """Tilt of a filled vessel's axis against the apparent vertical at which water comes to its rim [rad]; π without water.

    tan = (rim − level) / radius: the surface stays level and turns about the axis. One degree is borne in any case.
    """
    cavity = placed.model.cavity
    if cavity is None or not placed.filled:
        return math.pi
    free = (1 - placed.filled) * (cavity.rim_m - cavity.floor_m)
    return max(math.atan2(free, cavity.radius_m), math.radians(1))


SHAKE_LEAN = math.atan2(SHAKE_ACCELERATION, GRAVITY)
"""How far the apparent vertical leans in the shake [rad]."""
