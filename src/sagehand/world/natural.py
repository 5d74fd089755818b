"""The natural grasp of a region: what its data file says, at the turn that the arm reaches best.

The TCP goes to the region's origin, comes in against its z and closes along its y. A round region repeats itself all round the
object; every region may be taken with the fingers changed round. Among what is left the arm decides (GRASPING §1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import InputError
from sagehand.world.frames import Pose, axis_rotation
from sagehand.world.grasp import LIFT_ACCELERATION, Grasp
from sagehand.world.grip import GRAVITY, grip, holding_force
from sagehand.world.objects.model import ObjectModel, Region, Turn
from sagehand.world.robot.description import Robot
from sagehand.world.robot.kinematics import Kinematics

__all__ = ["OPENING_MARGIN_M", "SECURITY", "auto_grasp", "grasp_for", "grasping_force"]

OPENING_MARGIN_M = 0.005
"""How far each finger is opened beyond the object [m]: φ2 of GRASPING §2 is 1 from 10 mm in all."""
SECURITY = 1.5
"""Force over what is required, from which φ3 of GRASPING §2 is 1."""
_STEP_DEG = 15
_ABOVE_TABLE_M = 0.001
_PREGRASP_M = 0.10


@dataclass(frozen=True, eq=False)
class _Choice:
    """A grasp, and what the arm says of it: reached, the base's distance from where the last stretch begins, the joints' way."""

    grasp: Grasp
    reached: bool
    distance_m: float
    way_rad: float

    @property
    def order(self) -> tuple[bool, float, float]:
        return not self.reached, round(self.distance_m, 2), self.way_rad


def grasp_for(
    model: ObjectModel,
    region: str,
    T_world_object: Pose,
    robot: Robot,
    *,
    kinematics: Kinematics | None = None,
    force_n: float | None = None,
    mass_kg: float | None = None,
) -> Grasp:
    """The natural grasp of a region.

    Opened by the region's width and 5 mm on either side, within the hand's limits. Where the tips would stand in the table, the
    hand is raised until they do not.

    Args:
        model: The object.
        region: Name of the region.
        T_world_object: (4, 4) where it is [m]; the table is z = 0.
        robot: Whose hand and arm.
        kinematics: The arm's, where they are made already.
        force_n: Normal force of each finger [N]; default :func:`grasping_force`.
        mass_kg: With its content [kg], for the default force.

    Raises:
        UnknownName: The object has no such region.
    """
    return min(
        _choices(model, model.region(region), T_world_object, robot, kinematics, force_n, mass_kg), key=_order
    ).grasp


def auto_grasp(
    model: ObjectModel,
    T_world_object: Pose,
    robot: Robot,
    *,
    kinematics: Kinematics | None = None,
    force_n: float | None = None,
    mass_kg: float | None = None,
) -> Grasp:
    """The natural grasp of the first region that fits between the fingers and that the arm reaches; see :func:`grasp_for`.

    Raises:
        InputError: The object has no region.
    """
    if not model.regions:
        raise InputError(f"{model.name} has no region to grasp", hint="give the grasp as a file, *.json")
    kinematics = kinematics or Kinematics(robot)
    best: list[_Choice] = []
    for region in model.regions.values():
        best.append(min(_choices(model, region, T_world_object, robot, kinematics, force_n, mass_kg), key=_order))
        if best[-1].reached and region.width_m <= robot.widest_m:
            return best[-1].grasp
    return min(best, key=lambda c: (model.region(c.grasp.region or "").width_m > robot.widest_m, *c.order)).grasp


def grasping_force(
    model: ObjectModel, grasp: Grasp, up: NDArray[np.float64], robot: Robot, mass_kg: float | None = None
) -> float:
    """Normal force of each finger that suits a grasp [N].

    It is 1.5 times the force that the lift requires, with the moment of the centre of mass, but no more than the geometric middle
    of required and safe (GRASPING §2), within the hand's limits.

    Args:
        model: The object.
        grasp: The grasp; its own force does not count.
        up: (3,) the world's up in the object's frame.
        robot: Whose hand.
        mass_kg: With its content [kg]; default: empty.
    """
    mass = model.mass_kg if mass_kg is None else mass_kg
    T = grasp.T_object_grasp[None]
    touched = grip(model, T, np.array([grasp.width_m]), robot)
    required = float(holding_force(model, T, touched, up)[0]) * mass / model.mass_kg
    if not math.isfinite(required):  # the pads miss it: the weight alone
        required = mass * (GRAVITY + LIFT_ACCELERATION) / (2 * model.friction) if model.friction > 0 else math.inf
    safe = min(model.f_safe_n, robot.force_n[1])
    wanted = min(SECURITY * required, math.sqrt(required * safe)) if math.isfinite(required) else safe
    return float(np.clip(wanted, robot.force_n[0], robot.force_n[1]))


def _order(choice: _Choice) -> tuple[bool, float, float]:
    return choice.order


def _choices(
    model: ObjectModel,
    region: Region,
    T_world_object: Pose,
    robot: Robot,
    kinematics: Kinematics | None,
    force_n: float | None,
    mass_kg: float | None,
) -> list[_Choice]:
    kinematics = kinematics or Kinematics(robot)
    width = float(np.clip(region.width_m + 2 * OPENING_MARGIN_M, *robot.width_m))
    up = T_world_object[2, :3]
    choices = []
    turns = range(0, 360, _STEP_DEG) if region.turn is Turn.ROUND else (0,)
    for about_object in turns:
        for about_approach in (0, 180):
            # the region's z points out of the object, the grasp's z into it; y stays
            T = (
                axis_rotation("z", math.radians(about_object))
                @ region.T_object_region
                @ axis_rotation("y", math.pi)
                @ axis_rotation("z", math.radians(about_approach))
            )
            T = T.copy()
            T[:3, 3] += _lift_off_table(T_world_object @ T, width, robot) * up
            grasp = Grasp.from_pose(
                T, width_m=width, force_n=1.0, type=region.types[0], region=region.name, pregrasp_m=_PREGRASP_M
            )
            command = grasp.at(T_world_object, model.name)
            answer = kinematics.inverse(command.T_world_grasp)
            way = math.inf if answer.q is None else float(np.abs(answer.q - robot.home).max())
            before = command.T_world_pregrasp[:2, 3]
            choices.append(_Choice(grasp, answer.reached, float(np.hypot(*before)), way))
    done: list[_Choice] = []
    for choice in choices:
        force = force_n
        if force is None:  # a round region is held alike all round
            alike = region.turn is Turn.ROUND and done
            force = done[0].grasp.force_n if alike else grasping_force(model, choice.grasp, up, robot, mass_kg)
        done.append(replace(choice, grasp=replace(choice.grasp, force_n=force)))
    return done


def _lift_off_table(T_world_grasp: Pose, width_m: float, robot: Robot) -> float:
    """How far up the hand must go for its lowest tip to stand 1 mm above the table [m]."""
    half_x, half_y = float(robot.pad.half[0]), width_m / 2 + 2 * float(robot.pad.half[1])
    corners = np.array([[x, y, robot.tips_m] for x in (-half_x, half_x) for y in (-half_y, half_y)])
    lowest = float((corners @ T_world_grasp[:3, :3].T + T_world_grasp[:3, 3])[:, 2].min())
    return max(0.0, _ABOVE_TABLE_M - lowest)
