"""The quality of a grasp that was tried, and the faithful reading in which a factor below its threshold is the failure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sagehand.world.analytic.factors import (
    clearance_factor,
    difficulty_factor,
    force_factor,
    position_factor,
    security_factor,
    type_factor,
    width_factor,
)
from sagehand.world.analytic.lift import Held
from sagehand.world.analytic.statics import weight_force
from sagehand.world.failures import Failure
from sagehand.world.frames import invert
from sagehand.world.grasp import GraspCommand, GraspType
from sagehand.world.objects.regions import nearest_region
from sagehand.world.quality import THRESHOLD, Quality
from sagehand.world.rules import BROKEN
from sagehand.world.scene import Placed

__all__ = ["NOT_FACTORS", "Measured", "faithful_failure", "quality_of"]


@dataclass
class Measured:
    """What was measured of a grasp on the way, for its quality.

    Attributes:
        force_n: Normal force of each finger [N].
        weight_n: The force that the weight needs by itself [N].
        safe_n: The object's safe force [N].
        object_m: Width of the object between the pads [m]; None if nothing was there.
        overlap_m: How far the fingers overlapped it [m].
        tilt_rad: Between the approach and straight down [rad].
        held: What the grip bore, if it came so far.
    """

    force_n: float = 0.0
    weight_n: float = 0.0
    safe_n: float = math.inf
    object_m: float | None = None
    overlap_m: float = 0.0
    tilt_rad: float = 0.0
    held: Held | None = None


NOT_FACTORS = {
    Failure.UNREACHABLE,
    Failure.WRONG_OBJECT,
    Failure.CONSTRAINT_VIOLATION,
    Failure.TIMEOUT,
    Failure.UNKNOWN,
}
"""They come from observations, not from φ (GRASPING §2)."""


def quality_of(
    command: GraspCommand, target: Placed, measured: Measured, widest_m: float, opening_m: float, gap_m: float
) -> Quality:
    """The seven factors.

    φ7 asks for the force with the whole moment of the centre of mass, as the object stood, though it may swing in the fingers
    and then need less (GRASPING §2). Of a grasp that was never begun (no way there, or too long) φ5 is 0 where there is no way
    for hand and arm, and the others are what they would be if the hand were there.

    Args:
        command: As it was carried out.
        target: Where the target was.
        measured: What was measured.
        widest_m: The widest object that the hand takes [m].
        opening_m: Between the pads before they closed [m].
        gap_m: Smallest clearance on the way [m]; 0 where there is none.
    """
    model = target.model
    point = (invert(target.T_world_object) @ command.T_world_grasp)[:3, 3]
    region, off = nearest_region(model, point, command.region)
    width = measured.object_m
    if width is None:
        width = region.width_m if region is not None else float(model.size_m.min())
    weight = measured.weight_n or weight_force(target.mass_kg, model.friction, command.lift_acceleration)
    held = measured.held
    return Quality(
        position=position_factor(off),
        width=width_factor(opening_m, width, widest_m),
        force=force_factor(measured.force_n, weight, model.f_safe_n),
        type=type_factor(command.type, region, measured.overlap_m, measured.tilt_rad),
        clearance=clearance_factor(gap_m),
        difficulty=difficulty_factor(model.fragility, width),
        security=security_factor(measured.force_n, held.required_n) if held is not None else 0.0,
    )


def faithful_failure(
    failure: Failure | None, why: str, quality: Quality, measured: Measured, kind: GraspType
) -> tuple[Failure | None, str]:
    """The failure in the faithful reading: what is no factor's stands; else the first factor below 0.4; else none.

    φ1 position error · φ2 width mismatch · φ3 slip, deformation, force damage · φ4 orientation, or approach angle for a side
    grasp · φ5 collision · φ6 never alone · φ7 slip, or drop where the moment is what lacks (GRASPING §2).
    """
    if failure in NOT_FACTORS:
        return failure, why
    for name in quality.below:
        value = getattr(quality, name)
        told = f"φ of {name} is {value:.2f}, under {THRESHOLD}"
        match name:
            case "position":
                return Failure.POSITION_ERROR, told
            case "width":
                return Failure.WIDTH_MISMATCH, told
            case "force":
                return _of_force(measured), told
            case "type":
                return Failure.APPROACH_ANGLE if kind is GraspType.SIDE else Failure.ORIENTATION, told
            case "clearance":
                return Failure.COLLISION, told
            case "security":
                held = measured.held
                moment = held is not None and held.required_n > 1.1 * measured.weight_n
                return Failure.DROP if moment else Failure.SLIP, told
    return None, f"no factor below {THRESHOLD} (faithful reading)"


def _of_force(measured: Measured) -> Failure:
    """Too little is a slip, too much does harm; inside the window, whichever end is nearer."""
    force, low, high = measured.force_n, measured.weight_n, measured.safe_n
    if force > BROKEN * high:
        return Failure.FORCE_DAMAGE
    if force <= low or (force < high and force / max(low, 1e-9) < high / force):
        return Failure.SLIP
    return Failure.DEFORMATION
