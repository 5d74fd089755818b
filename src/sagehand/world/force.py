"""The force that suits a grasp: what the lift needs by statics, with something to spare, and what does no harm (GRASPING §2)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sagehand.world.constants import GRAVITY
from sagehand.world.frames import invert
from sagehand.world.grasp import LIFT_ACCELERATION, Grasp
from sagehand.world.grip import grip, holding_force
from sagehand.world.objects.model import ObjectModel
from sagehand.world.robot.description import Robot

__all__ = ["SECURITY", "grasping_force", "needed_force", "safe_force", "suitable_force"]

SECURITY = 1.5
"""Force over what is required, from which φ3 of GRASPING §2 is 1."""


def grasping_force(
    model: ObjectModel,
    grasp: Grasp,
    up: NDArray[np.float64],
    robot: Robot,
    mass_kg: float | None = None,
    com_m: NDArray[np.float64] | None = None,
) -> float:
    """Normal force of each finger that suits a grasp [N].

    It is 1.5 times :func:`needed_force`, but no more than the geometric middle of needed and safe (GRASPING §2), within the
    hand's limits, and never more than is safe: what needs more than is safe cannot be held unharmed, and is not harmed.

    Args:
        model: The object.
        grasp: The grasp; its own force does not count.
        up: (3,) the world's up in the object's frame.
        robot: Whose hand.
        mass_kg: With its content [kg]; default: empty.
        com_m: (3,) centre of mass with its content in the object's frame [m]; default: empty.
    """
    mass = model.mass_kg if mass_kg is None else mass_kg
    needed = needed_force(model, grasp, up, robot, mass, com_m)
    return suitable_force(needed, safe_force(model, grasp, up, robot, mass), model, robot)


def needed_force(
    model: ObjectModel,
    grasp: Grasp,
    up: NDArray[np.float64],
    robot: Robot,
    mass_kg: float | None = None,
    com_m: NDArray[np.float64] | None = None,
) -> float:
    """Normal force of each finger that the lift needs [N], by the statics of the analytic executor.

    The fingers are closed on the object as it stands, and :class:`~sagehand.world.analytic.statics.GripStatics` tells what force
    bears its weight and moment. Where it knows of none (the pads meet nothing, or squeeze it out), the coarser law of the search,
    :func:`~sagehand.world.grip.holding_force`, is asked, and at last the weight alone, m (g + a) / 2μ.

    Args:
        model: The object.
        grasp: The grasp; its own force does not count.
        up: (3,) the world's up in the object's frame.
        robot: Whose hand.
        mass_kg: With its content [kg]; default: empty.
        com_m: (3,) centre of mass with its content in the object's frame [m]; default: empty.
    """
    from sagehand.world.analytic.cast import Caster
    from sagehand.world.analytic.contact import close
    from sagehand.world.analytic.jaws import jaws_of

    mass, com = model.mass_kg if mass_kg is None else mass_kg, model.com_m if com_m is None else com_m
    T_object_grasp = grasp.T_object_grasp
    upward = T_object_grasp[:3, :3].T @ up
    weight = -mass * (GRAVITY + LIFT_ACCELERATION) * upward
    closing = close(
        Caster(model.solids), invert(T_object_grasp), jaws_of(robot), grasp.width_m, model.friction, -upward
    )
    if closing.statics is not None and closing.held:
        arm = closing.T_grasp_object[:3, :3] @ com + closing.T_grasp_object[:3, 3]
        needed = closing.statics.required_force(np.concatenate([weight, np.cross(arm, weight)]))
        if math.isfinite(needed):
            return needed
    T = T_object_grasp[None]
    touched = grip(model, T, np.array([grasp.width_m]), robot)
    needed = float(holding_force(model, T, touched, up)[0]) * mass / model.mass_kg
    if math.isfinite(needed):
        return needed
    return mass * (GRAVITY + LIFT_ACCELERATION) / (2 * model.friction) if model.friction > 0 else math.inf


def suitable_force(needed_n: float, safe_n: float, model: ObjectModel, robot: Robot) -> float:
    """Force of each finger for what is needed and what is safe, as :func:`grasping_force` tells [N]."""
    wanted = safe_n
    if math.isfinite(needed_n):
        middle = math.sqrt(needed_n * min(model.f_safe_n, robot.force_n[1]))
        wanted = min(SECURITY * needed_n, middle, safe_n)
    return float(np.clip(wanted, robot.force_n[0], robot.force_n[1]))


def safe_force(model: ObjectModel, grasp: Grasp, up: NDArray[np.float64], robot: Robot, mass_kg: float) -> float:
    """Largest force of each finger that does no harm [N]: what pulls along the closing axis, in lift and shake, comes on top."""
    from sagehand.world.rules import SHAKE_ACCELERATION

    along = abs(float(up @ grasp.T_object_grasp[:3, 1]))
    shake = along * GRAVITY + SHAKE_ACCELERATION * math.sqrt(2 * max(1 - along * along, 0.0))
    lift = along * (GRAVITY + LIFT_ACCELERATION)
    return min(max(model.f_safe_n - mass_kg * max(lift, shake) / 2, 0.0), robot.force_n[1])
