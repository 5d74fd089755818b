"""Whether the arm comes to a pose, and what it meets: the shared planner, put in the words of this room."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sagehand.world.frames import Pose, translation
from sagehand.world.robot.description import Robot
from sagehand.world.rules import LIFT_SHARES
from sagehand.world.scene import Scene

__all__ = ["Reached", "Reacher"]

_LIFT_STEP_M = 0.01


@dataclass(frozen=True, eq=False)
class Reached:
    """What the planner says of a grasp.

    Attributes:
        reached: There are joint angles, and a straight last stretch.
        position_error_m: What the best joint angles leave [m].
        rotation_error_rad: And by what angle [rad].
        why: Why not, or "".
        gap_m: Smallest gap on the last stretch, the target not counted [m]; 0 where there is no way.
        part: What of the robot is nearest.
        other: And to what.
        on_arm: The part belongs to the arm.
        from_home: Largest share of a joint's speed limit times seconds that the way from home takes [s].
        q: (n,) joint angles at the grasp [rad]; None without a path.
        lifts: The arm can lift it as high as was asked for; None where the planner did not look.
    """

    reached: bool
    position_error_m: float = 0.0
    rotation_error_rad: float = 0.0
    why: str = ""
    gap_m: float = 0.05
    part: str = ""
    other: str = ""
    on_arm: bool = False
    from_home: float = 0.0
    q: Any = None
    lifts: bool | None = None


class Reacher:
    """Asks the planner of the robot."""

    def __init__(self, robot: Robot) -> None:
        """Make the kinematics of a robot."""
        from sagehand.world.robot.kinematics import Kinematics

        self.robot = robot
        self.kinematics: Any = Kinematics(robot)

    def clearance(self, scene: Scene) -> Any:
        """Gaps of the robot in a scene."""
        from sagehand.world.clearance import Clearance

        return Clearance(scene, self.robot)

    def reach(
        self,
        clearance: Any,
        T_pregrasp: Pose,
        T_grasp: Pose,
        width_m: float,
        scene: Scene,
        target: str,
        lift_m: float = 0.0,
        T_actual: Pose | None = None,
    ) -> Reached:
        """Look for a way to a grasp (:func:`sagehand.world.approach.plan_approach`), if it can be in a posture that can lift.

        Args:
            clearance: Gaps in the scene.
            T_pregrasp: (4, 4) where the last stretch begins, as commanded [m].
            T_grasp: (4, 4) where it ends, as commanded [m].
            width_m: Opening between the fingers [m].
            scene: How things are.
            target: What may be touched.
            lift_m: How high it is to be lifted [m].
            T_actual: (4, 4) where the motion really ends [m]; the way is that of the plan, shifted. Default: as commanded.
        """
        from sagehand.world.approach import plan_approach
        from sagehand.world.nudge import nudged
        from sagehand.world.refuse import ITSELF, meets_itself

        plan = plan_approach(self.kinematics, clearance, T_pregrasp, T_grasp, width_m, (target,), lift_m=lift_m)
        ik = plan.ik
        if plan.path is None or plan.gap is None:
            return Reached(False, ik.position_error_m, ik.rotation_error_rad, plan.why, 0.0)
        if meets_itself(plan.gap, scene):
            return Reached(False, ik.position_error_m, ik.rotation_error_rad, ITSELF, 0.0)
        seconds = float((abs(plan.path[0] - self.robot.home) / self.robot.velocity).max())
        gap, q = plan.gap, plan.path[-1]
        if T_actual is not None:
            path = nudged(self.kinematics, plan.path, T_actual)
            gap, q = clearance.along(path, width_m, (target,)), path[-1]
        return Reached(
            True,
            ik.position_error_m,
            ik.rotation_error_rad,
            "",
            gap.distance_m,
            gap.robot_part,
            gap.other,
            gap.arm,
            seconds,
            q,
            plan.lift is not None if lift_m > 0 and plan.gap.free else None,
        )

    def highest_lift(self, reached: Reached, T_grasp: Pose, lift_m: float) -> float:
        """How far the hand can go straight up from a grasp, of the shares of ``lift_m`` that are tried [m]; else 0."""
        if reached.lifts:
            return lift_m
        for share in LIFT_SHARES if reached.lifts is None else LIFT_SHARES[1:]:
            height = share * lift_m
            steps = max(math.ceil(height / _LIFT_STEP_M), 2)
            T_up = translation(z=height) @ T_grasp
            if self.kinematics.straight(reached.q, T_grasp, T_up, steps) is not None:
                return height
        return 0.0
