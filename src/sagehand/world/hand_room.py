"""The room that a hand takes up on its way to many grasps at once: over the table, and about the object itself.

For a search among thousands of grasps; one grasp is checked by :mod:`~sagehand.world.clearance`, arm and all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sagehand.world.frames import Pose
from sagehand.world.robot.description import EnvelopeBox, Robot

__all__ = ["comes_free", "fingers_reach", "hand_lowest"]

Array = NDArray[np.float64]


def fingers_reach(robot: Robot, points: Array, T_object_grasp: Array, openings: Array) -> Array:
    """How far the fingers reach along what is between them [m], (N,).

    Args:
        robot: Whose fingers.
        points: (P, 3) of the object's surface [m].
        T_object_grasp: (N, 4, 4) grasps [m].
        openings: (N,) [m].
    """
    local = _local(points, T_object_grasp)
    between = (np.abs(local[..., 0]) < 0.010) & (np.abs(local[..., 1]) < openings[:, None] / 2)
    top = np.where(between, local[..., 2], np.inf).min(axis=1)
    return np.asarray(np.where(np.isfinite(top), np.maximum(robot.tips_m - top, 0), 0.0), dtype=np.float64)


def _boxes(robot: Robot, openings: Array) -> list[tuple[Array, Array]]:
    """Palm and fingers from the TCP: (N, 3) centres and (3,) half lengths [m]."""
    shift = float(robot.T_hand_tcp[2, 3])
    rows: list[tuple[Array, Array]] = [
        (np.tile(box.centre - (0, 0, shift), (len(openings), 1)), box.half) for box in robot.hand_boxes
    ]
    finger: tuple[EnvelopeBox, ...] = (*robot.finger_boxes, robot.pad)
    for sign in (1.0, -1.0):
        for box in finger:
            x, y, z = (float(v) for v in box.centre)
            centre = np.tile(np.array([sign * x, 0.0, z + robot.finger_root_m - shift]), (len(openings), 1))
            centre[:, 1] = sign * (openings / 2 + y)
            rows.append((centre, box.half))
    return rows


def hand_lowest(robot: Robot, T: Pose, poses: Array, openings: Array) -> Array:
    """Height of the hand's lowest point over the table [m], (N,)."""
    up = T[2, :3]
    tcp = poses[:, :3, 3] @ up + T[2, 3]
    axes = np.einsum("nji,j->ni", poses[:, :3, :3], up)
    return np.asarray(tcp + np.min([(axes * c).sum(1) - np.abs(axes) @ h for c, h in _boxes(robot, openings)], axis=0))


def _local(points: Array, poses: Array) -> NDArray[np.float32]:
    """(N, P, 3) points in the grasps' frames [m], float32 to be quick."""
    R, p = poses[:, :3, :3].astype(np.float32), poses[:, :3, 3].astype(np.float32)
    return np.asarray(points.astype(np.float32)[None] @ R - np.einsum("ni,nij->nj", p, R)[:, None])


def comes_free(robot: Robot, probes: Array, poses: Array, openings: Array) -> NDArray[np.bool_]:
    """Whether hands come straight down their approach without meeting the object: nothing lies in a box or behind it."""
    left = np.arange(len(poses))
    local = _local(probes, poses)
    for number, (_, half) in enumerate(_boxes(robot, openings)):
        if not len(left):
            break
        centre = _boxes(robot, openings[left])[number][0].astype(np.float32)
        delta = local - centre[:, None]
        meets = (delta[..., 2] < half[2]) & (np.abs(delta[..., 1]) < half[1]) & (np.abs(delta[..., 0]) < half[0])
        free = ~meets.any(axis=1)
        left, local = left[free], local[free]
    return np.isin(np.arange(len(poses)), left)
