"""What touches what, and how hard: contacts read from MuJoCo's solver.

Owners are numbers, as in :class:`PhysicsModel`: −3 the table and all that is fixed, −2 the arm, −1 the palm, 0 and 1 the
fingers, 2 and up the objects.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.world.physics.setup import PhysicsModel

__all__ = ["FIXED", "PARTS", "Pushes", "Touches", "force_on_robot", "grip_slope", "part_name", "read_touches"]

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
        normal_n: (lower owner, higher owner) → normal force between the two: the length of the *vector* sum of the normal
            forces of all their contact points [N]. Points of a rim that press at angles do not count twice.
        depth_m: The same pair → deepest penetration [m].
        push_n: (part of the robot, object) → (2, 3) vector sums of the forces of the part on the object in the world, the normal
            ones and all with friction, as the mean since contacts were last read [N]; else of this moment.
    """

    normal_n: Mapping[tuple[int, int], float]
    depth_m: Mapping[tuple[int, int], float]
    push_n: Mapping[tuple[int, int], NDArray[np.float64]] = field(default_factory=dict)

    def between(self, one: int, other: int) -> float:
        """Normal force between two owners [N]."""
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
        """What of the robot presses on what: (part, object or FIXED, normal force [N]), the strongest first."""
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


class Pushes:
    """Forces of the robot's parts on objects, taken down at every time step.

    What is read every 10 ms can fall on the peak, or the gap, of a contact that trembles. The mean over all steps is the
    impulse, and that the motors determine.
    """

    def __init__(self, world: PhysicsModel) -> None:
        """Begin with none."""
        self._world = world
        self._spans: list[_Span] = []
        self._key: tuple[bytes, bytes, int] | None = None
        self._steps = 0

    def add(self, data: Any) -> None:
        """Take down the contacts of the last step."""
        self._steps += 1
        contact, force = data.contact, data.efc_force
        key = (contact.geom.tobytes(), contact.efc_address.tobytes(), len(force))
        if key == self._key:  # the same contacts as before: in a step of 2 ms their normals hardly turn
            total = self._spans[-1].force
            total += force
        else:
            self._key = key
            self._spans.append(_Span(contact.geom.copy(), contact.efc_address.tolist(), _frames(data), force.copy()))

    def take(self) -> dict[tuple[int, int], NDArray[np.float64]]:
        """(part, object) → (2, 3) mean, normal and whole, since this was last asked [N]; begins anew."""
        spans, steps, self._spans, self._steps, self._key = self._spans, self._steps, [], 0, None
        push: _Sums = {}
        for span in spans:
            _add_up(push, self._world.owner[span.geoms].tolist(), span.addresses, span.frames, span.force)
        return _of_robot(push, steps)


_Sums = dict[tuple[int, int], list[float]]


@dataclass(frozen=True, eq=False)
class _Span:
    """Time steps on end with the same contacts: their geoms, addresses and frames, and the sum of the solver's forces."""

    geoms: NDArray[np.int32]
    addresses: list[int]
    frames: list[list[float]]
    force: NDArray[np.float64]


def _frames(data: Any) -> list[list[float]]:
    """Of each contact, (9): its normal, from the first geom to the second, and two tangents."""
    out: list[list[float]] = data.contact.frame.reshape(-1, 9).tolist()
    return out


def _add_up(
    push: _Sums, owners: list[list[int]], addresses: list[int], frames: list[list[float]], forces: NDArray[np.float64]
) -> None:
    """Add forces, (6) normal and whole, to those of (lower owner, higher owner): as they act on the higher one."""
    values = forces.tolist()
    for (one, other), address, (nx, ny, nz, ux, uy, uz, vx, vy, vz) in zip(owners, addresses, frames, strict=True):
        if address < 0:
            continue
        n, u, v = values[address : address + 3]  # every contact here has friction: condim is 3 or more
        if one > other:
            one, other, n, u, v = other, one, -n, -u, -v
        total = push.setdefault((one, other), [0.0] * 6)
        x, y, z = n * nx, n * ny, n * nz
        total[0] += x
        total[1] += y
        total[2] += z
        total[3] += x + u * ux + v * vx
        total[4] += y + u * uy + v * vy
        total[5] += z + u * uz + v * vz


def _of_robot(push: _Sums, steps: int) -> dict[tuple[int, int], NDArray[np.float64]]:
    return {pair: np.array(f).reshape(2, 3) / steps for pair, f in push.items() if ARM <= pair[0] < 2 <= pair[1]}


def read_touches(world: PhysicsModel, data: Any, pushes: Pushes | None = None) -> Touches:
    """The contacts of the last step, and what was taken down of those before it.

    With elliptic cones a contact's first force is the normal one.
    """
    contact = data.contact
    owners = world.owner[contact.geom].tolist()
    depth: dict[tuple[int, int], float] = {}
    for (one, other), distance in zip(owners, contact.dist.tolist(), strict=True):
        pair = (one, other) if one < other else (other, one)
        depth[pair] = max(depth.get(pair, -1.0), -distance)
    push: _Sums = {}
    _add_up(push, owners, contact.efc_address.tolist(), _frames(data), data.efc_force)
    mean = _of_robot(push, 1) if pushes is None else pushes.take()
    return Touches({pair: math.hypot(*f[:3]) for pair, f in push.items()}, depth, mean)


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
