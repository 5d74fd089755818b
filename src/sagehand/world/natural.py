"""The natural grasp of a region: what its data file says, at the turn that the arm reaches best.

The TCP goes to the region's origin, comes in against its z and closes along its y. A round region repeats itself all round the
object; every region may be taken with the fingers changed round. Among what is left the arm decides (GRASPING §1): how it comes
there, and in a scene whether it meets something on the way or cannot lift from there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sagehand.errors import InputError
from sagehand.world.approach import ENOUGH_M, Approach, plan_approach
from sagehand.world.clearance import Clearance
from sagehand.world.force import needed_force, safe_force, suitable_force
from sagehand.world.frames import Pose, axis_rotation
from sagehand.world.grasp import Grasp
from sagehand.world.objects.model import ObjectModel, Region, Turn
from sagehand.world.robot.description import Robot
from sagehand.world.robot.kinematics import Kinematics
from sagehand.world.scene import Placed, Scene

__all__ = ["OPENING_MARGIN_M", "auto_grasp", "grasp_for"]

OPENING_MARGIN_M = 0.005
"""How far each finger is opened beyond the object [m]: φ2 of GRASPING §2 is 1 from 10 mm in all."""
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


class _Chooser:
    """Chooses among the natural grasps of one object."""

    def __init__(self, placed: Placed, robot: Robot, kinematics: Kinematics | None, scene: Scene | None) -> None:
        """Take the object; without a scene nothing stands in the way."""
        self.placed, self.robot = placed, robot
        self.kinematics = kinematics or Kinematics(robot)
        self._clearance = None if scene is None else Clearance(scene, robot)

    def best(self, region: Region) -> tuple[Grasp, Approach | None]:
        """The grasp of a region that the arm reaches best, its force not yet settled, and the way there.

        In a scene it is the first, in the arm's order, that leaves 20 mm of room and can lift; else the one that comes nearest
        to that.
        """
        choices = sorted(self._choices(region), key=lambda c: c.order)
        if self._clearance is None or not choices[0].reached:
            return choices[0].grasp, None
        found: list[tuple[tuple[bool, bool, float], Grasp, Approach]] = []
        for choice in choices:
            if not choice.reached:
                break
            plan = self._way(choice.grasp, self._clearance)
            room = -1.0 if plan.gap is None else min(plan.gap.distance_m, ENOUGH_M)
            found.append(((plan.free, plan.lift is not None, room), choice.grasp, plan))
            # as near to the table as now it is at every turn
            roomy = plan.gap is not None and (plan.gap.other == "table" or room >= ENOUGH_M)
            if plan.free and plan.lift is not None and roomy:
                break
        return max(found, key=lambda f: f[0])[1:]

    def forced(self, grasp: Grasp, force_n: float | None) -> tuple[Grasp, bool]:
        """The grasp with a force, by default the one that suits it; and whether what the lift requires is safe."""
        model, up = self.placed.model, self.placed.T_world_object[2, :3]
        needed = needed_force(model, grasp, up, self.robot, self.placed.mass_kg, self.placed.com_m)
        safe = safe_force(model, grasp, up, self.robot, self.placed.mass_kg)
        force = suitable_force(needed, safe, model, self.robot) if force_n is None else force_n
        return replace(grasp, force_n=force), needed <= safe

    def _way(self, grasp: Grasp, clearance: Clearance) -> Approach:
        command = grasp.at(self.placed.T_world_object, self.placed.name)
        return plan_approach(
            self.kinematics,
            clearance,
            command.T_world_pregrasp,
            command.T_world_grasp,
            command.width_m,
            (self.placed.name,),
            lift_m=command.lift_m,
        )

    def _choices(self, region: Region) -> list[_Choice]:
        robot, T_world_object = self.robot, self.placed.T_world_object
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
                command = grasp.at(T_world_object, self.placed.name)
                answer = self.kinematics.inverse(command.T_world_grasp)
                way = math.inf if answer.q is None else float(np.abs(answer.q - robot.home).max())
                before = command.T_world_pregrasp[:2, 3]
                choices.append(_Choice(grasp, answer.reached, float(np.hypot(*before)), way))
        return choices


def grasp_for(
    model: ObjectModel,
    region: str,
    T_world_object: Pose,
    robot: Robot,
    *,
    kinematics: Kinematics | None = None,
    force_n: float | None = None,
    mass_kg: float | None = None,
    scene: Scene | None = None,
    target: str | None = None,
) -> Grasp:
    """The natural grasp of a region.

    Opened by the region's width and 5 mm on either side, within the hand's limits. Where the tips would stand in the table, the
    hand is raised until they do not. Without a scene the turn is chosen by reach alone; in one, by what stands in the way, too.

    Args:
        model: The object.
        region: Name of the region.
        T_world_object: (4, 4) where it is [m]; the table is z = 0.
        robot: Whose hand and arm.
        kinematics: The arm's, where they are made already.
        force_n: Normal force of each finger [N]; default :func:`~sagehand.world.force.grasping_force`.
        mass_kg: With its content [kg], for the default force.
        scene: Where the object stands; its content then counts as it is there.
        target: Its name in the scene; default: the model's.

    Raises:
        UnknownName: The object has no such region, or the scene no such object.
        MissingExtra: MuJoCo, which tells the gaps in a scene, is not installed.
    """
    wanted = model.region(region)
    chooser = _Chooser(_placed(model, T_world_object, mass_kg, scene, target), robot, kinematics, scene)
    return chooser.forced(chooser.best(wanted)[0], force_n)[0]


def auto_grasp(
    model: ObjectModel,
    T_world_object: Pose,
    robot: Robot,
    *,
    kinematics: Kinematics | None = None,
    force_n: float | None = None,
    mass_kg: float | None = None,
    scene: Scene | None = None,
    target: str | None = None,
) -> Grasp:
    """The natural grasp of the first region that suits.

    It fits between the fingers; the arm comes there freely; it can lift from there; the force that this needs is safe. Where no
    region suits in all four, the one is taken that goes farthest down this list.

    The arguments are those of :func:`grasp_for`; without a scene the object stands alone on the table.

    Raises:
        InputError: The object has no region.
        UnknownName: The scene has no such object.
        MissingExtra: MuJoCo, which tells the gaps in a scene, is not installed.
    """
    if not model.regions:
        raise InputError(f"{model.name} has no region to grasp", hint="give the grasp as a file, *.json")
    placed = _placed(model, T_world_object, mass_kg, scene, target)
    chooser = _Chooser(placed, robot, kinematics, scene or Scene((placed,)))
    found: list[tuple[tuple[bool, ...], Grasp]] = []
    for region in model.regions.values():
        bare, plan = chooser.best(region)
        grasp, safe = chooser.forced(bare, force_n)
        free, lifts = plan is not None and plan.free, plan is not None and plan.lift is not None
        suits = (region.width_m <= robot.widest_m, free, lifts, safe)
        if all(suits):
            return grasp
        found.append((suits, grasp))
    return max(found, key=lambda f: f[0])[1]


def _placed(
    model: ObjectModel, T_world_object: Pose, mass_kg: float | None, scene: Scene | None, target: str | None
) -> Placed:
    """The object where it is believed to be, with what is in it."""
    name = target or model.name
    filled = 0.0 if scene is None else scene[name].filled
    if mass_kg is not None and not filled:
        model = replace(model, mass_kg=mass_kg)
    return Placed(name, model, T_world_object, filled)


def _lift_off_table(T_world_grasp: Pose, width_m: float, robot: Robot) -> float:
    """How far up the hand must go for its lowest tip to stand 1 mm above the table [m]."""
    half_x, half_y = float(robot.pad.half[0]), width_m / 2 + 2 * float(robot.pad.half[1])
    corners = np.array([[x, y, robot.tips_m] for x in (-half_x, half_x) for y in (-half_y, half_y)])
    lowest = float((corners @ T_world_grasp[:3, :3].T + T_world_grasp[:3, 3])[:, 2].min())
    return max(0.0, _ABOVE_TABLE_M - lowest)
