"""What the phases of one grasp share: where it is tried, the command as it is carried out, gripper and rays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.world.analytic.cast import Caster
from sagehand.world.analytic.contact import Closing, close
from sagehand.world.analytic.descent import Descent, descend
from sagehand.world.analytic.jaws import Jaws, jaws_of
from sagehand.world.analytic.reach import Reacher
from sagehand.world.frames import Pose, invert
from sagehand.world.grasp import GraspCommand
from sagehand.world.noise import Motion
from sagehand.world.objects.model import ObjectModel
from sagehand.world.robot.description import Robot
from sagehand.world.scene import Placed, Scene
from sagehand.world.sight import in_view

__all__ = ["Cell", "Setup", "down_in"]


def down_in(T_world_grasp: Pose) -> NDArray[np.float64]:
    """(3,) unit, the world's down in the grasp frame."""
    return -T_world_grasp[2, :3]


@dataclass(frozen=True, eq=False)
class Cell:
    """Where a grasp is tried.

    Attributes:
        scene: How things are before it.
        robot: Whose hand.
        caster: Gives the rays against an object.
        reacher: Asks the planner; None for a free-flying hand.
        clearance: Gaps of the robot in the scene; None for a free-flying hand.
    """

    scene: Scene
    robot: Robot
    caster: Callable[[ObjectModel], Caster]
    reacher: Reacher | None = None
    clearance: Any = None

    def sees(self, what: Placed, T_world_object: Pose) -> bool:
        """Whether the camera sees an object off the table, when it is held at a pose (4, 4) [m]."""
        com = np.append(what.com_m, 1.0)
        now, before = T_world_object @ com, what.T_world_object @ com
        return in_view(self.scene.camera, now[:3], float(now[2] - before[2]))


@dataclass(frozen=True, eq=False)
class Setup:
    """One grasp as it is carried out.

    Attributes:
        command: With the pose that the motion's noise makes of it.
        width_m: Opening of the fingers before they close [m], within the gripper's limits.
        force_n: Normal force of each finger [N], within its limits.
        jaws: The gripper.
        caster: Gives the rays against an object.
    """

    command: GraspCommand
    width_m: float
    force_n: float
    jaws: Jaws
    caster: Callable[[ObjectModel], Caster]

    @classmethod
    def of(cls, cell: Cell, command: GraspCommand, motion: Motion) -> Setup:
        """A command as a motion carries it out, within the gripper's limits."""
        robot = cell.robot
        return cls(
            command.moved(command.T_world_grasp @ motion.T_grasp_actual),
            float(np.clip(command.width_m, *robot.width_m)),
            float(np.clip(command.force_n * motion.force_factor, *robot.force_n)),
            jaws_of(robot),
            cell.caster,
        )

    def descend(self, T: Pose, placed: Placed, stretch_m: float) -> Descent:
        """Bring the open hand to a pose, over a straight last stretch; only this object is looked at."""
        return descend(
            self.caster(placed.model),
            invert(T) @ placed.T_world_object,
            self.jaws,
            self.width_m,
            stretch_m,
            placed.model.friction,
            down_in(T),
        )

    def close(self, T: Pose, placed: Placed) -> Closing:
        """Close the fingers at a pose on an object."""
        T_grasp_object = invert(T) @ placed.T_world_object
        caster, friction = self.caster(placed.model), placed.model.friction
        return close(caster, T_grasp_object, self.jaws, self.width_m, friction, down_in(T))
