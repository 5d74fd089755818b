"""Newton's method for one set of joint angles, in plain numbers: a fifth of the time that array code takes for so little.

The same method as :mod:`sagehand.world.robot.newton`; a test holds one against the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sagehand.world.frames import Pose, axis_rotation, translation
from sagehand.world.robot.description import Robot
from sagehand.world.robot.newton import pose_error
from sagehand.world.robot.normal import Column, least_step

__all__ = ["Single", "Solved"]

Array = NDArray[np.float64]

Axis = Column
"""A direction, and where it begins [m]."""
Goal = tuple[float, ...]
"""A pose of the TCP: nine numbers of a rotation, row by row, and three of a place [m]; :meth:`Single.goal` makes it."""

_EDGE, _LONGEST = 1e-9, 0.5
_NONE = (0.0,) * 6
"""Column of a joint that is held."""


@dataclass(frozen=True, eq=False)
class Solved:
    """Joint angles, and how far they leave the TCP from where it should be.

    Attributes:
        q: (n,) joint angles [rad].
        position_m: [m].
        rotation_rad: [rad].
    """

    q: Array
    position_m: float
    rotation_rad: float


class Single:
    """Kinematics of an arm for one set of joint angles at a time."""

    def __init__(self, robot: Robot) -> None:
        """Settle what of the description does not depend on the joint angles."""
        self._rows = [
            (a, d, _exact(math.cos(alpha)), _exact(math.sin(alpha))) for a, d, alpha in robot.dh[:-1].tolist()
        ]
        self._lower, self._upper = robot.lower.tolist(), robot.upper.tolist()
        a, d, alpha = robot.dh[-1].tolist()
        tip = axis_rotation("x", alpha) @ translation(x=a, z=d) @ robot.T_flange_tcp  # from the last link
        self._back = tip[:3, :3].T
        self._tip = tip[:3, 3].tolist()

    def goal(self, T_world_tcp: Pose) -> Goal:
        """A pose (4, 4) of the TCP as :meth:`error` takes it."""
        return *(T_world_tcp[:3, :3] @ self._back).ravel().tolist(), *T_world_tcp[:3, 3].tolist()

    def error(self, q: list[float], goal: Goal) -> tuple[list[float], list[Axis]]:
        """Shift and turn (6) from the TCP at ``q`` to a goal, and the joints' axes and origins, the TCP's origin last."""
        xx, xy, xz, yx, yy, yz, zx, zy, zz = 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0
        px = py = pz = 0.0
        axes: list[Axis] = []
        for (a, d, ca, sa), angle in zip(self._rows, q, strict=True):
            if a:
                px, py, pz = px + a * xx, py + a * xy, pz + a * xz
            if ca == 0.0:  # most arms' axes stand square to each other: nothing to multiply
                if sa > 0:
                    yx, yy, yz, zx, zy, zz = zx, zy, zz, -yx, -yy, -yz
                else:
                    yx, yy, yz, zx, zy, zz = -zx, -zy, -zz, yx, yy, yz
            elif ca != 1.0 or sa:
                yx, zx = ca * yx + sa * zx, ca * zx - sa * yx
                yy, zy = ca * yy + sa * zy, ca * zy - sa * yy
                yz, zz = ca * yz + sa * zz, ca * zz - sa * yz
            if d:
                px, py, pz = px + d * zx, py + d * zy, pz + d * zz
            c, s = math.cos(angle), math.sin(angle)
            xx, yx = c * xx + s * yx, c * yx - s * xx
            xy, yy = c * xy + s * yy, c * yy - s * xy
            xz, yz = c * xz + s * yz, c * yz - s * xz
            axes.append((zx, zy, zz, px, py, pz))
        tx, ty, tz = self._tip
        px += tx * xx + ty * yx + tz * zx
        py += tx * xy + ty * yy + tz * zy
        pz += tx * xz + ty * yz + tz * zz
        g00, g01, g02, g10, g11, g12, g20, g21, g22, gx, gy, gz = goal
        # half of what the turn from here to the goal has off its diagonal
        rx = (g20 * xy + g21 * yy + g22 * zy - g10 * xz - g11 * yz - g12 * zz) / 2
        ry = (g00 * xz + g01 * yz + g02 * zz - g20 * xx - g21 * yx - g22 * zx) / 2
        rz = (g10 * xx + g11 * yx + g12 * zx - g00 * xy - g01 * yy - g02 * zy) / 2
        norm = math.sqrt(rx * rx + ry * ry + rz * rz)
        trace = g00 * xx + g01 * yx + g02 * zx + g10 * xy + g11 * yy + g12 * zy + g20 * xz + g21 * yz + g22 * zz
        if norm < 1e-6 and trace < 1:
            rx, ry, rz = _half_turn(((xx, yx, zx), (xy, yy, zy), (xz, yz, zz)), goal)
        elif norm > 1e-12:
            factor = math.atan2(norm, (trace - 1) / 2) / norm
            rx, ry, rz = rx * factor, ry * factor, rz * factor
        axes.append((xx, xy, xz, px, py, pz))
        return [gx - px, gy - py, gz - pz, rx, ry, rz], axes

    def miss(self, q: Array, T_world_tcp: Pose) -> tuple[float, float]:
        """How far joint angles q (n,) [rad] leave the TCP from a pose (4, 4) [m], and how far turned [rad]."""
        error, _ = self.error(q.tolist(), self.goal(T_world_tcp))
        return math.hypot(*error[:3]), math.hypot(*error[3:])

    @staticmethod
    def jacobian(axes: list[Axis]) -> list[Column]:
        """(n,) columns of the geometric Jacobian, of what :meth:`error` gives."""
        *_, px, py, pz = axes[-1]
        columns: list[Column] = []
        for ax, ay, az, ox, oy, oz in axes[:-1]:
            lx, ly, lz = px - ox, py - oy, pz - oz
            columns.append((ay * lz - az * ly, az * lx - ax * lz, ax * ly - ay * lx, ax, ay, az))
        return columns

    def newton(
        self,
        q: Array,
        T_world_tcp: Pose,
        *,
        steps: int,
        towards: Array | None = None,
        enough: float = 1e-9,
        damping: float = 1e-6,
        limits: bool = True,
    ) -> Solved:
        """Go from joint angles q (n,) [rad] towards a pose (4, 4) [m], inside the limits.

        Args:
            q: Where to begin.
            T_world_tcp: Where the TCP is to be.
            steps: Iterations at most.
            towards: (n,) joint angles that what is redundant moves to; then all iterations are made.
            enough: End when no part of the error is larger [m or rad].
            damping: λ² beside J Jᵀ; more of it is added while the error is large.
            limits: Keep within the joint limits.
        """
        at: list[float] = q.tolist()
        if limits:
            at = [min(max(v, low), high) for v, low, high in zip(at, self._lower, self._upper, strict=True)]
        to = None if towards is None else towards.tolist()
        held: list[int] = []
        goal = self.goal(T_world_tcp)
        error, axes = self.error(at, goal)
        for _ in range(steps):
            size = max(map(abs, error))
            if size < enough and to is None:
                break
            columns = self.jacobian(axes)
            for joint in held:
                columns[joint] = _NONE
            step = self._step(columns, error, damping + 1e-2 * min(size, 1.0) ** 2, at, to, held)
            longest = max(map(abs, step))
            share = _LONGEST / longest if longest > _LONGEST else 1.0
            held = []
            for joint, change in enumerate(step):
                value = at[joint] + share * change
                if limits:
                    low, high = self._lower[joint], self._upper[joint]
                    if value <= low + _EDGE:
                        value = max(value, low)
                        if change < 0:
                            held.append(joint)
                    elif value >= high - _EDGE:
                        value = min(value, high)
                        if change > 0:
                            held.append(joint)
                at[joint] = value
            error, axes = self.error(at, goal)
        return Solved(np.array(at), math.hypot(*error[:3]), math.hypot(*error[3:]))

    @staticmethod
    def _step(
        columns: list[Column],
        error: list[float],
        damping: float,
        at: list[float],
        towards: list[float] | None,
        held: list[int],
    ) -> list[float]:
        """(n,) change of the joint angles [rad]; what the error leaves free moves ``towards`` (n,), if that is asked for."""
        if towards is None:
            return least_step(columns, error, damping)
        rest = [0.0 if joint in held else to - v for joint, (to, v) in enumerate(zip(towards, at, strict=True))]
        moved = [sum(c * r for c, r in zip(row, rest, strict=True)) for row in zip(*columns, strict=True)]
        step = least_step(columns, [e - m for e, m in zip(error, moved, strict=True)], damping)
        return [s + r for s, r in zip(step, rest, strict=True)]


def _half_turn(rotation: tuple[tuple[float, float, float], ...], goal: Goal) -> list[float]:
    """Turn (3) from a rotation, row by row, to a goal's that is half a circle away: the sines do not tell the axis."""
    here, there = np.eye(4), np.eye(4)
    here[:3, :3], there[:3, :3] = rotation, np.reshape(goal[:9], (3, 3))
    return [float(v) for v in pose_error(here[None], there[None])[0, 3:]]


def _exact(value: float) -> float:
    """A sine or cosine, 0 or ±1 where it is that but for rounding."""
    return float(round(value)) if abs(value - round(value)) < 1e-12 else value
