"""Frames: poses as 4×4 matrices, quaternions with their order in the name.

A pose ``T_a_b`` takes points of frame b to frame a: ``T_a_c = T_a_b @ T_b_c``, and a fixed tool transform stands on the right.
Right-handed, metres, radians (REP 103). Inside sagehand a quaternion is ``quat_xyzw``, as in ROS and SciPy; MuJoCo's
``quat_wxyz`` is made only where MuJoCo is spoken to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sagehand.errors import InputError

__all__ = [
    "Pose",
    "angle_between",
    "axis_rotation",
    "invert",
    "is_pose",
    "pose",
    "pose_of",
    "quat_wxyz",
    "quat_xyzw",
    "rotation_of",
    "rpy",
    "translation",
]

Pose = NDArray[np.float64]
"""(4, 4) homogeneous transform, the last row 0 0 0 1; lengths in metres."""

_EYE = np.eye(4)


def rotation_of(quat_xyzw: Sequence[float]) -> NDArray[np.float64]:
    """The (3, 3) rotation of a quaternion; it need not be of unit length.

    Raises:
        InputError: It is not four finite numbers, or of no length.
    """
    values = [float(v) for v in quat_xyzw]
    norm = math.hypot(*values) if len(values) == 4 else 0.0
    if not math.isfinite(norm) or norm < 1e-9:
        raise InputError(f"{list(quat_xyzw)} is no rotation", hint="give a quaternion as x, y, z, w")
    x, y, z, w = (v / norm for v in values)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def quat_xyzw(rotation: ArrayLike) -> tuple[float, float, float, float]:
    """The unit quaternion of a (3, 3) rotation or (4, 4) pose, w ≥ 0 (Shepperd's method)."""
    r = np.asarray(rotation, dtype=np.float64)[:3, :3]
    diagonal = (r[0, 0], r[1, 1], r[2, 2])
    squares = (
        1 + diagonal[0] - diagonal[1] - diagonal[2],
        1 - diagonal[0] + diagonal[1] - diagonal[2],
        1 - diagonal[0] - diagonal[1] + diagonal[2],
        1 + sum(diagonal),
    )
    largest = max(range(4), key=squares.__getitem__)
    rows = (
        (squares[0], r[1, 0] + r[0, 1], r[0, 2] + r[2, 0], r[2, 1] - r[1, 2]),
        (r[1, 0] + r[0, 1], squares[1], r[2, 1] + r[1, 2], r[0, 2] - r[2, 0]),
        (r[0, 2] + r[2, 0], r[2, 1] + r[1, 2], squares[2], r[1, 0] - r[0, 1]),
        (r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1], squares[3]),
    )
    q = np.array(rows[largest])
    q /= math.copysign(float(np.linalg.norm(q)), q[3] if q[3] else q[largest])
    return float(q[0]), float(q[1]), float(q[2]), float(q[3])


def quat_wxyz(rotation: ArrayLike) -> tuple[float, float, float, float]:
    """MuJoCo's quaternion of a (3, 3) rotation or (4, 4) pose."""
    x, y, z, w = quat_xyzw(rotation)
    return w, x, y, z


def pose(position_m: ArrayLike = (0.0, 0.0, 0.0), rotation: ArrayLike | None = None) -> Pose:
    """The pose at a position (3,) [m] with a (3, 3) rotation; default: none."""
    T = _EYE.copy()
    T[:3, 3] = position_m
    if rotation is not None:
        T[:3, :3] = rotation
    return T


def pose_of(position_m: Sequence[float], quat_xyzw: Sequence[float]) -> Pose:
    """The pose at a position [m], turned by a quaternion."""
    return pose(position_m, rotation_of(quat_xyzw))


def translation(x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Pose:
    """A pure shift [m]."""
    return pose((x, y, z))


def axis_rotation(axis: str, angle: float) -> Pose:
    """A pure turn by ``angle`` [rad] about "x", "y" or "z"."""
    c, s = math.cos(angle), math.sin(angle)
    i, j = {"x": (1, 2), "y": (2, 0), "z": (0, 1)}[axis]
    T = _EYE.copy()
    T[i, i] = T[j, j] = c
    T[i, j], T[j, i] = -s, s
    return T


def rpy(roll: float, pitch: float, yaw: float) -> Pose:
    """Turns about the fixed axes x, y, z, in this order (as in URDF) [rad]."""
    return axis_rotation("z", yaw) @ axis_rotation("y", pitch) @ axis_rotation("x", roll)


def invert(T_a_b: Pose) -> Pose:
    """``T_b_a``."""
    R = T_a_b[:3, :3].T
    return pose(-R @ T_a_b[:3, 3], R)


def angle_between(first: ArrayLike, second: ArrayLike) -> float:
    """The smallest turn from one rotation (3, 3) or pose (4, 4) to another [rad], exact near 0 as near π."""
    R = np.asarray(first)[:3, :3].T @ np.asarray(second)[:3, :3]
    sine = math.hypot(R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]) / 2
    return math.atan2(sine, (float(np.trace(R)) - 1) / 2)


def is_pose(T: ArrayLike, tolerance: float = 1e-6) -> bool:
    """Whether it is a (4, 4) rigid transform: finite, orthonormal, right-handed."""
    array = np.asarray(T, dtype=np.float64)
    if array.shape != (4, 4):
        return False
    # plain numbers: this is asked of every pose that a caller hands over. Whatever is not finite compares false
    (a, b, c, x), (d, e, f, y), (g, h, i, z), (o, p, q, w) = array.tolist()
    long = tolerance + 1e-5
    return (
        all(map(math.isfinite, (x, y, z)))
        and abs(o) <= tolerance
        and abs(p) <= tolerance
        and abs(q) <= tolerance
        and abs(w - 1) <= tolerance
        and abs(a * a + b * b + c * c - 1) <= long
        and abs(d * d + e * e + f * f - 1) <= long
        and abs(g * g + h * h + i * i - 1) <= long
        and abs(a * d + b * e + c * f) <= tolerance
        and abs(a * g + b * h + c * i) <= tolerance
        and abs(d * g + e * h + f * i) <= tolerance
        and a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g) > 0
    )
