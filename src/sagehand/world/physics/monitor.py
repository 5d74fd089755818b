"""What touches what, and how hard: contacts read from MuJoCo's solver.

Owners are numbers, as in :class:`PhysicsModel`: −3 the table and all that is fixed, −2 the arm, −1 the palm, 0 and 1 the
fingers, 2 and up the objects.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.world.physics.setup import PhysicsModel

__all__ = ["FIXED", "PARTS", "Touches", "force_on_robot", "grip_slope", "part_name", "read_touches"]

FIXED, ARM, PALM = -3, -2, -1
PARTS = (ARM, PALM, 0, 1)
"""The robot's owners."""
_NAMES = {ARM: "arm", PALM: "palm", 0: "finger", 1: "finger"}


def part_name(part: int) -> str:
    """What one of the robot's parts is called: "arm", "palm" or "finger"."""
    return _NAMES[part]


@dataclass(frozen=True)
class Touches:
    """Contacts at one moment.

    Attributes:
        normal_n: (lower owner, higher owner) → sum of the normal forces between the two [N].
        depth_m: The same pair → deepest penetration [m].
    """

    normal_n: Mapping[tuple[int, int], float]
    depth_m: Mapping[tuple[int, int], float]

    def between(self, one: int, other: int) -> float:
        """Sum of the normal forces between two owners [N]."""
        return self.normal_n.get((one, other) if one < other else (other, one), 0.0)

    def grip(self, owner: int) -> tuple[float, float]:
        """Normal force of each finger on an object [N]."""
        return self.normal_n.get((0, owner), 0.0), self.normal_n.get((1, owner), 0.0)

    def rests(self, owner: int) -> bool:
        """Whether an object presses on anything that is no part of the robot."""
        return any(n > 0 and owner in pair and (pair[0] == FIXED or pair[0] >= 2) for pair, n in self.normal_n.items())

    def on(self, owner: int, other: int) -> bool:
        """Whether two press on each other."""
        return self.between(owner, other) > 0

    def robot_with(self) -> list[tuple[int, int, float]]:
        """What of the robot presses on what: (part, object or FIXED, sum of normal forces [N]), the strongest first."""
        out = []
        for (low, high), force in self.normal_n.items():
            if low == FIXED and high < 2:
                out.append((high, low, force))
            elif FIXED < low < 2 <= high:
                out.append((low, high, force))
        return sorted(out, key=lambda row: -row[2])

    def robot_in(self) -> tuple[int, int, float] | None:
        """Where the robot is deepest in anything: (part, object or FIXED, penetration [m])."""
        rows = [
            (high, low, d) if low == FIXED else (low, high, d)
            for (low, high), d in self.depth_m.items()
            if (low == FIXED and high < 2) or FIXED < low < 2 <= high
        ]
        return max(rows, key=lambda row: row[2], default=None)


def read_touches(world: PhysicsModel, data: Any) -> Touches:
    """The contacts of the last step. With elliptic cones a contact's first force is the normal one."""
    contact = data.contact
    owners = world.owner[contact.geom].tolist()
    addresses = contact.efc_address.tolist()
    depths = contact.dist.tolist()
    forces = data.efc_force
    normal: dict[tuple[int, int], float] = {}
    depth: dict[tuple[int, int], float] = {}
    for (one, other), address, distance in zip(owners, addresses, depths, strict=True):
        pair = (one, other) if one < other else (other, one)
        depth[pair] = max(depth.get(pair, -1.0), -distance)
        if address >= 0:
            normal[pair] = normal.get(pair, 0.0) + float(forces[address])
    return Touches(normal, depth)


def force_on_robot(world: PhysicsModel, data: Any) -> NDArray[np.float64]:
    """(3,) force of everything else on the arm, the hand and the fingers, in the world [N]: what its joints could feel."""
    contact = data.contact
    address = np.asarray(contact.efc_address)
    owners = world.owner[contact.geom]
    ours = (owners > FIXED) & (owners < 2)
    rows = np.flatnonzero((address >= 0) & (ours[:, 0] ^ ours[:, 1]))
    total = np.zeros(3)
    if len(rows):
        first = address[rows]
        local = data.efc_force[first[:, None] + np.arange(3)]  # every contact here has friction: condim is 3 or more
        frames = contact.frame[rows].reshape(
            -1, 3, 3
        )  # rows: the normal, from the first geom to the second, and tangents
        on_second = np.einsum("ci,cij->cj", local, frames)
        total = np.asarray((np.where(ours[rows, 1], 1.0, -1.0)[:, None] * on_second).sum(axis=0))
    return total


def grip_slope(world: PhysicsModel, data: Any, owner: int, closing: NDArray[np.float64]) -> float:
    """The larger angle of the two fingers' contact normals with an object from the closing axis (3,) [rad]; 0 if untouched.

    A finger that touches at several points counts with the sum of its normal forces.
    """
    contact = data.contact
    address = np.asarray(contact.efc_address)
    owners = world.owner[contact.geom]
    slope = 0.0
    for finger in (0, 1):
        rows = np.flatnonzero((address >= 0) & (owners.min(axis=1) == finger) & (owners.max(axis=1) == owner))
        if len(rows):
            signs = np.where(owners[rows, 0] == finger, 1.0, -1.0)
            push = (signs * data.efc_force[address[rows]]) @ contact.frame[rows, :3]
            length = float(np.linalg.norm(push))
            if length > 1e-9:
                slope = max(slope, math.acos(min(abs(float(push @ closing)) / length, 1.0)))
    return slope
