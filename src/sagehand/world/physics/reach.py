"""How the arm comes to a grasp and up again: joint paths within the limits.

Only reach is decided here, with the same plan as the analytic executor's. What stands in the way is met in the simulation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sagehand.world.approach import STEP_M, Approach, plan_approach
from sagehand.world.clearance import Clearance
from sagehand.world.frames import Pose, angle_between, translation
from sagehand.world.grasp import GraspCommand
from sagehand.world.robot.kinematics import Kinematics
from sagehand.world.scene import Scene

__all__ = ["line_up", "plan_reach", "straight_to"]

Array = NDArray[np.float64]

_STEP_RAD = 0.035


def plan_reach(kinematics: Kinematics, scene: Scene, command: GraspCommand, width_m: float) -> Approach:
    """The way to a grasp, with the arm in the posture that comes nearest to nothing; one that can lift before one that cannot.

    Args:
        kinematics: Of the arm.
        scene: How things are.
        command: Where it is to go.
        width_m: Opening between the fingers [m].
    """
    clearance = Clearance(scene, kinematics.robot)
    return plan_approach(
        kinematics,
        clearance,
        command.T_world_pregrasp,
        command.T_world_grasp,
        width_m,
        (command.target,),
        lift_m=command.lift_m,
    )


def line_up(kinematics: Kinematics, q: Array, height_m: float) -> Array | None:
    """Joint path (K, n) straight up from joint angles (n,), or None."""
    T = kinematics.forward(q)
    return straight_to(kinematics, q, translation(z=height_m) @ T)


def straight_to(kinematics: Kinematics, q: Array, T_to: Pose) -> Array | None:
    """Joint path (K, n) on a straight line of the TCP from joint angles (n,) to a pose, or None."""
    T = kinematics.forward(q)
    way = float(np.linalg.norm(T_to[:3, 3] - T[:3, 3]))
    steps = max(int(np.ceil(way / STEP_M)), int(np.ceil(angle_between(T, T_to) / _STEP_RAD)), 2)
    return kinematics.straight(q, T, T_to, steps)
