"""What is done to a good grasp to make it a bad one; fixed before anything was run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sagehand.errors import UnknownName
from sagehand.world.frames import Pose, axis_rotation, pose
from sagehand.world.grasp import GraspCommand, GraspType
from sagehand.world.objects.model import ObjectModel
from sagehand.world.robot.description import Robot

__all__ = ["MUST_FAIL", "Spoilt", "spoiled"]

MUST_FAIL = ("frictionless", "out of reach", "below table")
"""Negative controls that no executor may let succeed. A shift of σ = 50 mm may find the object again by chance."""


@dataclass(frozen=True, eq=False)
class Spoilt:
    """A spoilt grasp.

    Attributes:
        command: What is told.
        sub: What was done to it.
        friction: The target's friction instead of its own, if any.
    """

    command: GraspCommand
    sub: str
    friction: float | None = None


def spoiled(
    kind: str,
    turn: int,
    command: GraspCommand,
    model: ObjectModel,
    needed_n: float,
    robot: Robot,
    rng: np.random.Generator,
) -> Spoilt:
    """Spoil a grasp.

    * "disturbed": position N(0, σ) along each axis, σ 5, 10 or 20 mm, and turned by up to 15, 30 or 45° about any axis;
    * "force": log-uniform from 0.2 to 1 times what it needs, or from 1 to 3 times what is safe, as far as the hand can press;
    * "opening": 20 mm ("narrow"; half of what is less wide), 5 mm less than the object ("tight"), across its wide side
      ("across"), or of a wrong type ("type");
    * "hopeless": no friction, σ = 50 mm, out of reach, below the table.

    Args:
        kind: As above.
        turn: Which of its kind: what is done goes round.
        command: The good one.
        model: The target.
        needed_n: What the grasp needs [N].
        robot: Whose hand.
        rng: Draws.

    Raises:
        UnknownName: There is no such kind.
    """
    match kind:
        case "disturbed":
            sigma, angle = (0.005, 0.010, 0.020)[turn % 3], (15, 30, 45)[turn // 3 % 3]
            return Spoilt(command.moved(_disturbed(command.T_world_grasp, sigma, angle, rng)), f"{sigma * 1000:.0f} mm")
        case "force":
            return _forced(turn, command, model, needed_n, robot, rng)
        case "opening":
            return _opened(turn, command, robot)
        case "hopeless":
            return _hopeless(turn, command, rng)
    raise UnknownName("kind of spoilt grasp", kind, ("disturbed", "force", "opening", "hopeless"))


def _disturbed(T: Pose, sigma: float, most_deg: float, rng: np.random.Generator) -> Pose:
    axis = rng.normal(size=3)
    axis /= np.linalg.norm(axis)
    angle = math.radians(most_deg) * rng.random()
    skew = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    turned = np.eye(3) + math.sin(angle) * skew + (1 - math.cos(angle)) * skew @ skew
    return pose(T[:3, 3] + rng.normal(0, sigma, 3), turned @ T[:3, :3])


def _forced(
    turn: int, command: GraspCommand, model: ObjectModel, needed_n: float, robot: Robot, rng: np.random.Generator
) -> Spoilt:
    most = robot.force_n[1]
    crushable = model.f_safe_n < 0.95 * most
    if (turn % 2 and crushable) or not math.isfinite(needed_n):
        force = min(model.f_safe_n * 3 ** rng.random(), most)
        return Spoilt(replace(command, force_n=force), "strong")
    return Spoilt(replace(command, force_n=min(needed_n, most) * 0.2 ** rng.random()), "weak")


def _opened(turn: int, command: GraspCommand, robot: Robot) -> Spoilt:
    wide = max(command.width_m - 0.010, 0.002)
    match turn % 4:
        case 0:
            narrow = 0.020 if wide > 0.022 else wide / 2
            return Spoilt(replace(command, width_m=narrow), "narrow")
        case 1:
            return Spoilt(replace(command, width_m=max(wide - 0.005, 0.0)), "tight")
        case 2:
            across = command.T_world_grasp @ axis_rotation("z", math.pi / 2)
            return Spoilt(replace(command, T_world_grasp=across, width_m=robot.width_m[1]), "across")
    wrong = GraspType.SIDE if command.type is not GraspType.SIDE else GraspType.POWER
    return Spoilt(replace(command, type=wrong), "type")


def _hopeless(turn: int, command: GraspCommand, rng: np.random.Generator) -> Spoilt:
    T = command.T_world_grasp
    match turn % 4:
        case 0:
            return Spoilt(command, "frictionless", 0.0)
        case 1:
            return Spoilt(command.moved(pose(T[:3, 3] + rng.normal(0, 0.050, 3), T[:3, :3])), "50 mm")
        case 2:
            far = T[:3, 3] * (1, 1, 0)
            away = far / np.linalg.norm(far) * 1.3 + (0, 0, T[2, 3])
            return Spoilt(command.moved(pose(away, T[:3, :3])), "out of reach")
    return Spoilt(command.moved(pose((T[0, 3], T[1, 3], -0.060), T[:3, :3])), "below table")
