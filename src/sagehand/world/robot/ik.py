"""Candidate joint angles for a pose: in closed form for the Panda, by Newton from many starts for any other arm.

The Panda's seventh joint is redundant: for each of its angles there are up to eight answers in closed form (He and Liu 2021,
"Analytical inverse kinematics for Franka Emika Panda"; the package frankik). It is swept over its whole range; the package's
own choice of samples solves only half of the side grasps.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import MissingExtra
from sagehand.world.frames import Pose, invert
from sagehand.world.robot.chain import Chain
from sagehand.world.robot.description import Robot
from sagehand.world.robot.newton import Residual, newton, pose_error
from sagehand.world.robot.single import Single, Solved

__all__ = ["closed_form", "nearest_by_newton", "numeric", "shortfall"]

Array = NDArray[np.float64]

_SWEEP_DEG, _SAMPLES = 340, 120
_LIBRARY = 512
_METRES_A_RADIAN = 0.3
"""What a turn weighs beside a shift when one start is called nearer than another [m/rad]."""


def _frankik() -> Any:
    try:
        return importlib.import_module("frankik")
    except ImportError as error:
        raise MissingExtra("inverse kinematics of the Panda", "world") from error


def closed_form(chain: Chain, T_world_tcp: Pose, seed: Array) -> Array:
    """Every answer of the closed form (M, n) [rad], not yet checked; M may be 0.

    Args:
        chain: The Panda.
        T_world_tcp: Where the TCP is to be [m].
        seed: (7,) joint angles; they decide where an axis is free because two coincide.

    Raises:
        MissingExtra: frankik is not installed.
    """
    T_world_flange = T_world_tcp @ invert(chain.robot.T_flange_tcp)
    found = _frankik().ik_sample_q7(T_world_flange, seed, False, _SAMPLES, _SWEEP_DEG, True)
    rows = np.array(found) if found else np.empty((0, 7))
    return np.asarray(rows[np.isfinite(rows).all(axis=1)])


@lru_cache(maxsize=8)
def _library(robot: Robot) -> tuple[Array, Array]:
    """(512, n) joint angles that fill the limits evenly (additive recurrence; Roberts 2018), and their (512, 4, 4) TCP poses.

    Kept for the robot, so that all kinematics of one robot share it.
    """
    chain = Chain(robot)
    ratio = 2.0
    for _ in range(50):
        ratio = (1 + ratio) ** (1 / (chain.joints + 1))
    steps = np.arange(1, _LIBRARY + 1)[:, None] * ratio ** -np.arange(1.0, chain.joints + 1)
    lower, upper = robot.lower, robot.upper
    Q = lower + (upper - lower) * (0.05 + 0.9 * ((0.5 + steps) % 1))
    return Q, chain.forward(Q)


def _starts(chain: Chain, T_world_tcp: Pose, seed: Array, count: int) -> Array:
    """(count + 2, n): the robot's home, the seed, and those of the library that bring the TCP nearest the pose."""
    Q, poses = _library(chain.robot)
    error = pose_error(poses, T_world_tcp[None])
    far = np.linalg.norm(error[:, :3], axis=1) + _METRES_A_RADIAN * np.linalg.norm(error[:, 3:], axis=1)
    return np.concatenate([chain.robot.home[None], seed[None], Q[np.argsort(far)[:count]]])


def numeric(
    chain: Chain, T_world_tcp: Pose, seed: Array, *, starts: int = 24, steps: int = 40, limits: bool = True
) -> Residual:
    """What Newton makes of the seed, the robot's home, and as many starts as are asked for from all over the limits."""
    return newton(chain, _starts(chain, T_world_tcp, seed, starts), T_world_tcp[None], steps=steps, limits=limits)


def nearest_by_newton(chain: Chain, single: Single, T_world_tcp: Pose, seed: Array) -> tuple[Solved, bool]:
    """How near an arm comes to a pose, and whether it could reach it if its joints had no limits."""
    starts = _starts(chain, T_world_tcp, seed, 3)[1:]
    first = sorted((single.newton(q, T_world_tcp, steps=8) for q in starts), key=_far)
    best = min((single.newton(found.q, T_world_tcp, steps=12) for found in first[:2]), key=_far)
    if shortfall(chain, T_world_tcp) > 0:
        return best, False
    for q in starts:
        found = single.newton(q, T_world_tcp, steps=12, limits=False)
        if found.position_m < 1e-4 and found.rotation_rad < 1e-3:
            return best, True
    return best, False


def _far(found: Solved) -> float:
    return found.position_m + _METRES_A_RADIAN * found.rotation_rad


def shortfall(chain: Chain, T_world_tcp: Pose) -> float:
    """By how much a pose is farther from the first joint's frame than the stretched arm is long [m]; below 0 if it is not."""
    robot = chain.robot
    tool = robot.T_flange_tcp[:3, 3]
    longest = float(np.hypot(robot.dh[1:, 0], robot.dh[1:, 1]).sum() + np.linalg.norm(tool))
    a, d, alpha = robot.dh[0]
    shoulder = np.array([a, -d * np.sin(alpha), d * np.cos(alpha)])
    return float(np.linalg.norm(T_world_tcp[:3, 3] - shoulder)) - longest
