"""φ1 to φ7: the seven factors of a grasp's quality, as GRASPING §2 defines them (paper B eq. 2)."""

from __future__ import annotations

import math

from sagehand.world.grasp import GraspType
from sagehand.world.objects.model import Region

__all__ = [
    "clearance_factor",
    "difficulty_factor",
    "fits_type",
    "force_factor",
    "position_factor",
    "security_factor",
    "type_factor",
    "width_factor",
]

_NEAR_M = 0.020
_POWER_M, _PINCH_M = 0.030, 0.008
_SIDE = math.radians(45)


def position_factor(distance_m: float) -> float:
    """φ1 = max(0, 1 − distance to the region / 20 mm)."""
    return max(0.0, 1 - distance_m / _NEAR_M)


def width_factor(opening_m: float, object_m: float, widest_m: float) -> float:
    """φ2: 0 if the object is wider than the hand or its opening, else min(1, (w − object) / 10 mm)."""
    if object_m > widest_m or opening_m < object_m:
        return 0.0
    return min(1.0, (opening_m - object_m) / 0.010)


def force_factor(force_n: float, required_n: float, safe_n: float) -> float:
    """φ3 = min(1, ln(f / f_req) / ln 1.5, ln(f_safe / f) / ln 1.5), 0 outside the window [f_req, f_safe]."""
    if not required_n < force_n < safe_n:
        return 0.0
    below = math.log(force_n / required_n) if required_n > 0 else math.inf
    return min(1.0, below / math.log(1.5), math.log(safe_n / force_n) / math.log(1.5))


def fits_type(kind: GraspType, overlap_m: float, tilt_rad: float) -> bool:
    """Whether a grasp is what its type says (GRASPING §1): power from 30 mm of overlap, pinch from 8, side from 45° of tilt."""
    match kind:
        case GraspType.SIDE:
            return tilt_rad >= _SIDE - 1e-6
        case GraspType.POWER:
            return overlap_m >= _POWER_M
        case GraspType.PINCH:
            return overlap_m >= _PINCH_M


def type_factor(kind: GraspType, region: Region | None, overlap_m: float, tilt_rad: float) -> float:
    """φ4: 1 if the type is listed for the region, 0.5 if it is not but can be done, 0 otherwise."""
    if region is None or kind in region.types:
        return 1.0
    return 0.5 if fits_type(kind, overlap_m, tilt_rad) else 0.0


def clearance_factor(gap_m: float) -> float:
    """φ5 = smallest clearance of the swept hand and arm / 20 mm, from 0 to 1."""
    return min(1.0, max(0.0, gap_m / _NEAR_M))


def difficulty_factor(fragility: float, object_m: float) -> float:
    """φ6 = 1 − 0.5·fragility − 0.5·max(0, (object − 60 mm) / 20 mm), not under 0.4: it never fires alone."""
    return min(1.0, max(0.4, 1 - 0.5 * fragility - 0.5 * max(0.0, (object_m - 0.060) / 0.020)))


def security_factor(force_n: float, required_n: float) -> float:
    """φ7 = min(1, wrench margin / 2); the margin is the force applied over that which the lift needs, its moment included."""
    if required_n <= 0:
        return 1.0
    return min(1.0, force_n / required_n / 2) if math.isfinite(required_n) else 0.0
