"""Where the objects of a sample stand: the target in reach, now and then something beside it."""

from __future__ import annotations

import math

import numpy as np

from sagehand.world.footprints import footprint, footprint_gap
from sagehand.world.frames import Pose, angle_between, axis_rotation, translation
from sagehand.world.objects.model import ObjectModel
from sagehand.world.robot.description import Robot
from sagehand.world.scene import TABLE, Placed, Scene

__all__ = ["GAP_M", "REACH_X_M", "REACH_Y_M", "at_rest", "lone_scene", "with_neighbour"]

REACH_X_M = (0.35, 0.65)
"""From and to, away from the robot, where targets stand [m]."""
REACH_Y_M = (-0.25, 0.25)
"""And to its right and left [m]."""
GAP_M = (0.05, 0.12)
"""Smallest and largest gap between the footprints of target and neighbour [m]."""
_TRIES = 20
_STEADY_M, _STEADY_RAD = 0.001, math.radians(1)  # what moves less stands as its file says


def at_rest(model: ObjectModel, robot: Robot) -> Pose:
    """(4, 4) how an object lies when it has come to rest at the origin of the table [m]; its place and yaw are left out.

    What is drawn as standing by itself may still have to settle: a pear rolls until its middle is lowest.
    """
    from sagehand.world.physics.executor import settle

    start = translation((TABLE.x_m[0] + TABLE.x_m[1]) / 2, 0.0)
    T = settle(Scene((Placed("target", model, start),)), robot)["target"].T_world_object.copy()
    if angle_between(T, start) < _STEADY_RAD and abs(float(T[2, 3])) < _STEADY_M:
        return np.eye(4)
    yaw = math.atan2(T[1, 0], T[0, 0])
    T[:2, 3] = 0
    return np.asarray(axis_rotation("z", -yaw) @ T)


def lone_scene(model: ObjectModel, T_rest: Pose, rng: np.random.Generator) -> Scene:
    """The object alone on the table as "target": place uniform in reach, yaw uniform."""
    x, y = rng.uniform(*REACH_X_M), rng.uniform(*REACH_Y_M)
    T = translation(x, y) @ axis_rotation("z", rng.uniform(-math.pi, math.pi)) @ T_rest
    return Scene((Placed("target", model, T),))


def with_neighbour(target: Placed, model: ObjectModel, T_rest: Pose, rng: np.random.Generator) -> Pose | None:
    """A pose (4, 4) of a second object beside the first: gap between footprints uniform in :data:`GAP_M`; None if none fits."""
    gap = rng.uniform(*GAP_M)
    here = footprint(target.model, target.T_world_object)
    for _ in range(_TRIES):
        angle, yaw = rng.uniform(-math.pi, math.pi, 2)
        turned = axis_rotation("z", yaw)
        middle = target.T_world_object[:2, 3]
        low, high = 0.0, 1.0

        def at(
            distance: float, angle: float = angle, turned: Pose = turned, middle: Pose = middle
        ) -> Pose:  # as the loop stands now
            x, y = middle + distance * np.array([math.cos(angle), math.sin(angle)])
            return np.asarray(translation(float(x), float(y)) @ turned @ T_rest)

        for _ in range(30):
            half = (low + high) / 2
            low, high = (half, high) if footprint_gap(here, footprint(model, at(half))) < gap else (low, half)
        T = at(high)
        if all(TABLE.holds(float(x), float(y)) for x, y in footprint(model, T)):
            return T
    return None
