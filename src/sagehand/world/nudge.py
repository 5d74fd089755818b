"""A path as the motion's noise makes of it: planned for what was commanded, it ends beside it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sagehand.world.frames import Pose
from sagehand.world.robot.kinematics import Kinematics

__all__ = ["nudge", "nudged"]

Array = NDArray[np.float64]
_STEPS, _NEAR = 5, 1e-5
_LEAST = 1e-3  # of the singular values, beside the largest: what the arm can hardly do is not asked of it


def nudge(kinematics: Kinematics, q: Array, T_world_tcp: Pose) -> Array:
    """(n,) change of the joint angles q (n,) that brings the TCP to a pose (4, 4) near by, as far as the joints go [rad]."""
    robot = kinematics.robot
    at = np.array(q)
    for _ in range(_STEPS):
        T = kinematics.forward(at)
        away = np.concatenate([T_world_tcp[:3, 3] - T[:3, 3], _small_turn(T_world_tcp[:3, :3] @ T[:3, :3].T)])
        if float(np.abs(away).max()) < _NEAR:
            break
        at = np.clip(at + np.linalg.pinv(kinematics.jacobian(at), rcond=_LEAST) @ away, robot.lower, robot.upper)
    return at - q


def nudged(kinematics: Kinematics, path: Array, T_world_end: Pose, whole: bool = True) -> Array:
    """The joint path (K, n), shifted so that the last row brings the TCP to a pose near by, as far as the joints go.

    A robot plans with the command and knows nothing of the noise: no plan is refused, and no posture chosen, because of it.

    Args:
        kinematics: Of the arm.
        path: (K, n) as planned [rad].
        T_world_end: (4, 4) where the TCP really ends, millimetres away from the plan [m].
        whole: All rows are shifted alike; else the first stays, for the arm is there, and the others by and by.
    """
    share = np.ones(len(path)) if whole else np.linspace(0, 1, len(path))
    moved = path + share[:, None] * nudge(kinematics, path[-1], T_world_end)
    return np.asarray(np.clip(moved, kinematics.robot.lower, kinematics.robot.upper))


def _small_turn(R: Array) -> Array:
    """(3,) the rotation vector of a small turn [rad]; near it for a larger one."""
    return np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]) / 2
