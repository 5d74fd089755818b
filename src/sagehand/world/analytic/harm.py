"""What comes to harm: water that spills, what is thrown over, what falls and breaks."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sagehand.world.analytic.support import base_half, tips_at
from sagehand.world.constants import GRAVITY
from sagehand.world.rules import BROKEN, PUSHED_M, SHAKE_LEAN, harmed_by_falling, spill_angle
from sagehand.world.scene import Placed

__all__ = ["broken_by", "harm_of", "spills", "thrown_over"]

Array = NDArray[np.float64]


def spills(placed: Placed, lean_rad: float) -> bool:
    """Whether water comes to the rim of a vessel that is held leaning and shaken: the shake's 2 m/s² lean as much as 11.5° do."""
    return lean_rad + SHAKE_LEAN >= spill_angle(placed)


def thrown_over(placed: Placed, height_m: float, way_m: float) -> tuple[bool, float]:
    """Whether a push from the side throws an object over, and its force [N].

    It slides at μ·m·g, and tips at m·g·b / h if that is less; tipped by the way pushed at that height, it falls once its
    centre of mass is past its edge.
    """
    weight = placed.mass_kg * GRAVITY
    slide = placed.model.friction * weight
    base = base_half(placed.model)
    tip = weight * base / max(height_m, 1e-6)
    if tip >= slide or base <= 0:
        return False, slide if base > 0 else 0.1 * slide
    return math.atan2(way_m, height_m) > tips_at(placed.model, placed.com_m), tip


def broken_by(placed: Placed, fall_m: float) -> bool:
    """Whether something fragile breaks when it falls: its momentum stops within 5 ms with more than 1.5 times its safe force."""
    speed = math.sqrt(2 * GRAVITY * max(fall_m, 0.0))
    return harmed_by_falling(placed, speed) > BROKEN * placed.model.f_safe_n


def harm_of(lean_rad: float, on_top: tuple[Placed, ...], neighbours_m: Mapping[str, float]) -> tuple[str, ...]:
    """What came to harm by a lift, one sentence each: what slid or tipped off the target's top, and what was pushed."""
    lean = lean_rad + SHAKE_LEAN
    harm = []
    for other in on_top:
        limit = min(math.atan(other.model.friction), tips_at(other.model, other.com_m))
        if other.model.rolling_friction > 0 or lean >= limit:
            harm.append(f"the {other.name} was thrown down")
    harm += [f"the {n} was moved by {m * 1e3:.0f} mm" for n, m in neighbours_m.items() if m > PUSHED_M]
    return tuple(harm)
