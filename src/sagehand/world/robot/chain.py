"""The arm as a chain of joints: poses of its links and of the TCP, and the Jacobian, for many joint angles at once.

Modified Denavit–Hartenberg (Craig 2005, Introduction to Robotics, §3.4): ``T_i-1_i = Rx(α) · Tx(a) · Rz(q) · Tz(d)``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sagehand.errors import InputError
from sagehand.world.frames import axis_rotation, translation
from sagehand.world.robot.description import Robot

__all__ = ["Chain", "Links"]

Array = NDArray[np.float64]


class Links(NamedTuple):
    """Where an arm's frames are.

    Attributes:
        frames: (N, n + 1, 4, 4) of the links 1 to n, then of the flange, in the world [m].
        tcp: (N, 4, 4) of the TCP, in the world [m].
    """

    frames: Array
    tcp: Array


class Chain:
    """An arm's forward kinematics, for N sets of joint angles at once."""

    def __init__(self, robot: Robot) -> None:
        """Settle what of the description does not depend on the joint angles."""
        self.robot = robot
        self.joints = len(robot.home)
        fixed = np.array([axis_rotation("x", alpha) @ translation(x=a) for a, _, alpha in robot.dh])
        fixed[:, :3, 3] += fixed[:, :3, 2] * robot.dh[:, 1, None]
        flange_tcp = fixed[-1] @ robot.T_flange_tcp
        self._flange, self._tcp = fixed[-1], flange_tcp
        # a turn by q mixes the first two columns: a joint's pose is cos q, sin q and 1 times these three
        parts = np.zeros((self.joints, 3, 4, 4))
        parts[:, 0, :3, :2] = fixed[:-1, :3, :2]
        parts[:, 1, :3, 0], parts[:, 1, :3, 1] = fixed[:-1, :3, 1], -fixed[:-1, :3, 0]
        parts[:, 2, :, 2:] = fixed[:-1, :, 2:]
        self._parts = parts.reshape(self.joints, 3, 16)

    def angles(self, q: ArrayLike) -> Array:
        """Joint angles as an array (N, n); one set of (n,) becomes (1, n).

        Raises:
            InputError: They are not n a row, or not finite.
        """
        array = np.atleast_2d(np.asarray(q, dtype=np.float64))
        if array.ndim != 2 or array.shape[1] != self.joints or not np.isfinite(array).all():
            raise InputError(
                f"joint angles of shape {np.shape(q)} do not fit {self.robot.name}",
                hint=f"give {self.joints} finite numbers [rad]",
            )
        return array

    def links(self, Q: Array) -> Links:
        """Frames of all links for Q (N, n) [rad]."""
        count, joints = len(Q), self.joints
        shares = np.empty((joints, count, 3))
        np.cos(Q.T, out=shares[:, :, 0])
        np.sin(Q.T, out=shares[:, :, 1])
        shares[:, :, 2] = 1.0
        steps = (shares @ self._parts).reshape(joints, count, 4, 4)
        frames = np.empty((joints + 1, count, 4, 4))  # joint by joint: what is multiplied lies together
        frames[0] = steps[0]
        for joint in range(1, joints):
            np.matmul(frames[joint - 1], steps[joint], out=frames[joint])
        np.matmul(frames[-2], self._flange, out=frames[-1])
        return Links(frames.transpose(1, 0, 2, 3), frames[-2] @ self._tcp)

    def forward(self, Q: Array) -> Array:
        """(N, 4, 4) TCP poses in the world for Q (N, n) [rad]."""
        return self.links(Q).tcp

    def jacobian(self, links: Links) -> Array:
        """(N, 6, n) geometric Jacobian at the TCP, world frame: rows 0–2 [m/rad], rows 3–5 [rad/rad]."""
        axes = links.frames[:, :-1, :3, 2]
        arms = links.tcp[:, None, :3, 3] - links.frames[:, :-1, :3, 3]
        J = np.empty((len(axes), 6, self.joints))
        J[:, 0] = axes[..., 1] * arms[..., 2] - axes[..., 2] * arms[..., 1]
        J[:, 1] = axes[..., 2] * arms[..., 0] - axes[..., 0] * arms[..., 2]
        J[:, 2] = axes[..., 0] * arms[..., 1] - axes[..., 1] * arms[..., 0]
        J[:, 3:] = axes.transpose(0, 2, 1)
        return J
