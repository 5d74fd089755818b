"""The jaws of a gripper as grids of points from which rays are cast, in the grasp frame."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

from sagehand.world.robot.description import Robot

__all__ = ["Jaws", "jaws_of"]

Array = NDArray[np.float64]
_INSIDE = 1e-5
"""Outermost rays stand this far inside the edge of a face [m], so that a face of the same size is met."""


@dataclass(frozen=True, eq=False)
class Jaws:
    """What of a gripper may meet an object.

    Attributes:
        pad_xz: (N, 2) points of a finger's inner side along x and z from the TCP [m]: its pad, then the finger above it.
        recess_m: (N,) how far each point stands back from the pad's face [m].
        pad_x_m: Half width of the pad [m].
        pad_z_m: Where the pad begins and ends along the approach, from the TCP [m].
        landing: (M, 3) points of the first finger's and the palm's leading faces [m]: x, y, z; a finger's y from its pad's face.
        part: (M,) 0 tip, 1 finger above the pad, 2 palm.
        palm_z_m: Where the palm ends along the approach, from the TCP [m].
    """

    pad_xz: Array
    recess_m: Array
    pad_x_m: float
    pad_z_m: tuple[float, float]
    landing: Array
    part: NDArray[np.int64]
    palm_z_m: float
    pad_points: Array = field(init=False)
    """(N, 3) the same points as ``pad_xz``, with y = 0: between the fingers [m]."""

    def __post_init__(self) -> None:
        points = np.zeros((len(self.pad_xz), 3))
        points[:, ::2] = self.pad_xz
        object.__setattr__(self, "pad_points", points)


@cache
def jaws_of(robot: Robot) -> Jaws:
    """The jaws of a robot, from its boxes."""
    root = robot.finger_root_m - float(robot.T_hand_tcp[2, 3])
    pad = robot.pad
    half_x = float(pad.half[0])
    low, high = root + float(pad.centre[2] - pad.half[2]), root + float(pad.centre[2] + pad.half[2])
    xz, recess = [_grid(half_x, (low, high), (9, 9))], [np.zeros(81)]
    landing = [_face(half_x, (0.0, 2 * float(pad.half[1])), high, (5, 8))]
    part = [np.zeros(40, dtype=np.int64)]
    for box in robot.finger_boxes:
        z = (root + float(box.centre[2] - box.half[2]), root + float(box.centre[2] + box.half[2]))
        y = (float(box.centre[1] - box.half[1]), float(box.centre[1] + box.half[1]))
        if y[0] > 0.005:  # the stem; what is not set back ends at the palm
            xz.append(_grid(float(box.half[0]), z, (3, 5)))
            recess.append(np.full(15, y[0]))
        if y[1] > 2 * float(pad.half[1]):
            landing.append(_face(float(box.half[0]), (2 * float(pad.half[1]), y[1]), z[1], (3, 3)))
            part.append(np.ones(9, dtype=np.int64))
    tcp = float(robot.T_hand_tcp[2, 3])
    palm = max(robot.hand_boxes, key=lambda b: float(b.centre[2] + b.half[2]))
    palm_z = float(palm.centre[2] + palm.half[2]) - tcp
    face = _face(float(palm.half[0]), (-float(palm.half[1]), float(palm.half[1])), palm_z, (7, 17))
    landing.append(face)
    part.append(np.full(len(face), 2, dtype=np.int64))
    return Jaws(
        np.concatenate(xz),
        np.concatenate(recess),
        half_x,
        (low, high),
        np.concatenate(landing),
        np.concatenate(part),
        palm_z,
    )


def _grid(half_x: float, z: tuple[float, float], counts: tuple[int, int]) -> Array:
    x = np.linspace(-half_x + _INSIDE, half_x - _INSIDE, counts[0])
    return np.array([(a, b) for a in x for b in np.linspace(z[0] + _INSIDE, z[1] - _INSIDE, counts[1])])


def _face(half_x: float, y: tuple[float, float], z: float, counts: tuple[int, int]) -> Array:
    x = np.linspace(-half_x + _INSIDE, half_x - _INSIDE, counts[0])
    return np.array([(a, b, z) for a in x for b in np.linspace(y[0] + _INSIDE, y[1] - _INSIDE, counts[1])])
