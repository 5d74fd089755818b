"""What happens during one grasp, written down as it happens, for the judge."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.world.constants import GRAVITY
from sagehand.world.frames import Pose, invert
from sagehand.world.physics.control import SAMPLE_S, Cell
from sagehand.world.physics.monitor import PARTS, Touches
from sagehand.world.rules import spill_angle
from sagehand.world.scene import Scene

__all__ = ["Record", "Stop"]

Array = NDArray[np.float64]
_FALL = np.array([0.0, 0.0, -GRAVITY])
_SMOOTH = 6  # samples over which an acceleration is taken: the surface of water does not follow a jolt


@dataclass(frozen=True)
class Stop:
    """A guarded motion that met something.

    Attributes:
        part: "arm", "palm" or "finger".
        other: The object's name, or "table".
        short_m: How much of the way was left [m].
    """

    part: str
    other: str
    short_m: float

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {"part": self.part, "other": self.other, "short_m": round(self.short_m, 4)}


@dataclass
class Record:
    """One grasp as it happens.

    Attributes:
        cell: Where it happens.
        scene: How it began.
        pressed_n: Object → largest force of one part of the robot on it [N]: the length of the vector sum of the normal forces
            of all their contact points, averaged over 20 ms. That is the normal force of one finger which ``f_safe_n`` is
            about, also on a curved rim, whose points press at angles. It is never more than with friction added: where the
            edge of a pad is wedged between two pieces of a rim, normal forces along the rim are held by friction of the same
            finger, and press nothing.
        met_n: The same, while the hand approached [N].
        spilt: Vessels whose water came to the rim.
        stop: What the approach met, if anything.
        gave_up: It was too far away for the fingers to close.
        clasped: Objects that both fingers touched at any time while closing.
        grasped: Objects between the fingers when closed.
        closed_m: How far apart the fingers were then [m].
        turned: Object → how far it turned while they closed [rad].
        slope: Object → angle of the fingers' contact normals with it from the closing axis [rad].
        in_tcp: Object → (4, 4) where it was in the TCP's frame when closed [m].
        stuck: The arm could not go up from where the fingers closed.
        hangs: What the fingers held at the end, but did not take off the table.
        fall_speed: Fragile object → largest speed of its centre of mass downwards while no part of the robot touched it [m/s].
        top_rise_m: How high what was grasped had been lifted at most [m].
    """

    cell: Cell
    scene: Scene
    start: dict[str, Pose] = field(default_factory=dict)
    start_com: dict[str, Array] = field(default_factory=dict)
    pressed_n: dict[str, float] = field(default_factory=dict)
    met_n: dict[str, float] = field(default_factory=dict)
    spilt: set[str] = field(default_factory=set)
    stop: Stop | None = None
    gave_up: bool = False
    clasped: set[str] = field(default_factory=set)
    grasped: tuple[str, ...] = ()
    closed_m: float = 0.0
    turned: dict[str, float] = field(default_factory=dict)
    slope: dict[str, float] = field(default_factory=dict)
    in_tcp: dict[str, Pose] = field(default_factory=dict)
    stuck: bool = False
    hangs: tuple[str, ...] = ()
    fall_speed: dict[str, float] = field(default_factory=dict)
    top_rise_m: float = 0.0
    _last: Mapping[tuple[int, int], Array] = field(default_factory=dict)
    _speeds: dict[str, deque[Array]] = field(default_factory=dict)
    _fragile: tuple[str, ...] = ()
    _free: int = 0

    def __post_init__(self) -> None:
        for placed in self.scene.objects:
            self.start[placed.name] = self.cell.T_world(placed.name)
            self.start_com[placed.name] = self.cell.com(placed.name)
            if placed.content_kg:
                self._speeds[placed.name] = deque(maxlen=_SMOOTH)
        self._fragile = tuple(o.name for o in self.scene.objects if o.model.is_fragile)

    def owner(self, name: str) -> int:
        """The number of an object among owners."""
        return 2 + self.cell.world.names.index(name)

    def com_of(self, name: str) -> Array:
        """(4,) an object's centre of mass in its own frame [m], homogeneous."""
        return np.append(invert(self.start[name])[:3] @ np.append(self.start_com[name], 1.0), 1.0)

    def rise(self, name: str) -> float:
        """How far an object's centre of mass is above where it began [m]."""
        return float(self.cell.com(name)[2] - self.start_com[name][2])

    def look_approaching(self, touches: Touches) -> bool:
        """Take down what the approaching hand does."""
        return self._look(touches, self.met_n)

    def look(self, touches: Touches) -> bool:
        """Take down forces and water, every 10 ms; never stops a motion."""
        return self._look(touches, self.pressed_n)

    def _look(self, touches: Touches, pressed_n: dict[str, float]) -> bool:
        for pair, push in touches.push_n.items():
            mean = float(np.linalg.norm(push + self._last.get(pair, 0.0), axis=1).min()) / 2
            name = self.cell.world.names[pair[1] - 2]
            if mean > pressed_n.get(name, 0.0):
                pressed_n[name] = mean
        self._last = touches.push_n
        for name, speeds in self._speeds.items():
            dof = self.cell.world.object_dof[name]
            speeds.append(np.array(self.cell.data.qvel[dof : dof + 3]))
            if len(speeds) == _SMOOTH and name not in self.spilt:
                acceleration = (speeds[-1] - speeds[0]) / (SAMPLE_S * (_SMOOTH - 1))
                up = self.cell.T_world(name)[:3, 2]
                if _tilt(up, acceleration) >= spill_angle(self.scene[name]):
                    self.spilt.add(name)
        for name in self._fragile:
            if not any(touches.between(part, self.owner(name)) for part in PARTS):
                speed = -float(self.cell.velocity(name)[2])
                self.fall_speed[name] = max(speed, self.fall_speed.get(name, 0.0))
        return False

    def look_closing(self, touches: Touches) -> bool:
        """The same, and whom both fingers touch."""
        self.look(touches)
        for name in self.cell.world.names:
            if name not in self.clasped and min(touches.grip(self.owner(name))) > 0:
                self.clasped.add(name)
        return False

    def look_holding(self, touches: Touches) -> bool:
        """The same, and whether what was grasped has been free of the fingers for 50 ms: then the motion may end."""
        self.look(touches)
        self.top_rise_m = max(self.top_rise_m, self.rise(self.grasped[0]))
        owners = [self.owner(name) for name in self.grasped]
        if any(max(touches.grip(owner)) > 0 for owner in owners):
            self._free = 0
            return False
        self._free += 1
        return self._free >= 5

    @property
    def lost(self) -> bool:
        """Whether what was grasped is no longer touched."""
        return self._free >= 5


def _tilt(up: Array, acceleration: Array) -> float:
    felt = acceleration - _FALL
    norm = float(np.linalg.norm(felt))
    if norm < 1.0:  # in free fall water stays nowhere
        return math.pi / 2
    return math.acos(max(-1.0, min(1.0, float(up @ felt) / norm)))
