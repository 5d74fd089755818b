"""Newton's method for one set of joint angles, in plain numbers: a fifth of the time that array code takes for so little.

The same method as :mod:`sagehand.world.robot.newton`; a test holds one against the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sagehand.world.frames import Pose
from sagehand.world.robot.description import Robot

__all__ = ["Single", "Solved"]

Array = NDArray[np.float64]

_EDGE, _LONGEST = 1e-9, 0.5


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
        self._rows = [(a, d, math.cos(alpha), math.sin(alpha)) for a, d, alpha in robot.dh.tolist()]
        self._lower, self._upper = robot.lower.tolist(), robot.upper.tolist()
        self._low, self._high = robot.lower, robot.upper
        self._back = robot.T_flange_tcp[:3, :3].T
        self._tip = robot.T_flange_tcp[:3, 3].tolist()

    def error(self, q: list[float], T: Pose) -> tuple[list[float], list[float]]:
        """Shift and turn (6) from the TCP at ``q`` to ``T``, and the Jacobian's numbers, joint by joint."""
        xx, xy, xz, yx, yy, yz, zx, zy, zz = 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0
        px = py = pz = 0.0
        axes: list[tuple[float, float, float, float, float, float]] = []
        for (a, d, ca, sa), angle in zip(self._rows, [*q, 0.0], strict=True):
            px, py, pz = px + a * xx, py + a * xy, pz + a * xz
            yx, zx = ca * yx + sa * zx, ca * zx - sa * yx
            yy, zy = ca * yy + sa * zy, ca * zy - sa * yy
            yz, zz = ca * yz + sa * zz, ca * zz - sa * yz
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
        flange = np.array([[xx, xy, xz], [yx, yy, yz], [zx, zy, zz]])  # its axes as rows
        (d00, d01, d02), (d10, d11, d12), (d20, d21, d22) = (T[:3, :3] @ self._back @ flange).tolist()
        gx, gy, gz = T[:3, 3].tolist()
        rx, ry, rz = (d21 - d12) / 2, (d02 - d20) / 2, (d10 - d01) / 2
        norm = math.sqrt(rx * rx + ry * ry + rz * rz)
        if norm > 1e-12:
            factor = math.atan2(norm, (d00 + d11 + d22 - 1) / 2) / norm
            rx, ry, rz = rx * factor, ry * factor, rz * factor
        columns: list[float] = []
        for ax, ay, az, ox, oy, oz in axes[:-1]:
            lx, ly, lz = px - ox, py - oy, pz - oz
            columns += (ay * lz - az * ly, az * lx - ax * lz, ax * ly - ay * lx, ax, ay, az)
        return [gx - px, gy - py, gz - pz, rx, ry, rz], columns

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
        if limits:
            q = np.minimum(np.maximum(q, self._low), self._high)
        held: list[int] = []
        error, columns = self.error(q.tolist(), T_world_tcp)
        for _ in range(steps):
            size = max(map(abs, error))
            if size < enough and towards is None:
                break
            Jt = np.array(columns).reshape(-1, 6)
            if held:
                Jt[held] = 0.0
            G = Jt.T @ Jt
            G.flat[::7] += damping + 1e-2 * min(size, 1.0) ** 2
            aim = np.array(error)
            if towards is None:
                dq = Jt @ np.linalg.solve(G, aim)
            else:
                rest = towards - q
                rest[held] = 0.0
                dq = Jt @ np.linalg.solve(G, aim - rest @ Jt) + rest
            longest = float(np.abs(dq).max())
            if longest > _LONGEST:
                dq *= _LONGEST / longest
            step = dq.tolist()
            values = (q + dq).tolist()
            held = []
            for joint, value in enumerate(values) if limits else ():
                low, high = self._lower[joint], self._upper[joint]
                if value <= low + _EDGE:
                    values[joint] = max(value, low)
                    if step[joint] < 0:
                        held.append(joint)
                elif value >= high - _EDGE:
                    values[joint] = min(value, high)
                    if step[joint] > 0:
                        held.append(joint)
            q = np.array(values)
            error, columns = self.error(values, T_world_tcp)
        return Solved(q, math.hypot(*error[:3]), math.hypot(*error[3:]))
