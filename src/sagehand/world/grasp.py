"""A grasp, and the command that carries it out.

The grasp frame sits at the tool centre point (TCP) between the finger pads: **+z** is the approach direction, from the
palm towards the object; **+y** is the closing direction, from one finger to the other; **+x** follows. It coincides with
the Panda hand's TCP frame. A grasp is given in the object's frame, a command in the world's (GRASPING §1: the paper's
position and direction leave the roll about the approach free and hold no speed).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sagehand.errors import InputError, UnknownName
from sagehand.world.frames import Pose, is_pose, pose, pose_of, quat_xyzw

__all__ = ["LIFT_ACCELERATION", "Grasp", "GraspCommand", "GraspType"]

LIFT_ACCELERATION = 2.0
"""How hard a lift begins [m/s²] (GRASPING §2)."""


class GraspType(StrEnum):
    """How the fingers hold it (GRASPING §1)."""

    POWER = "power"
    """The fingers overlap the object by 30 mm or more."""
    PINCH = "pinch"
    """They overlap it by 8 to 30 mm."""
    SIDE = "side"
    """The approach is 45° or more from vertical."""


@dataclass(frozen=True)
class Grasp:
    """How to hold an object.

    Attributes:
        position_m: The TCP in the object's frame [m].
        quat_xyzw: The grasp frame's rotation in the object's frame.
        width_m: Opening between the fingers before they close [m].
        force_n: Normal force of each finger [N].
        type: Power, pinch or side.
        speed_scale: Share of the usual speed, in (0, 1].
        pregrasp_m: How far before the grasp, against the approach, the straight last stretch begins [m].
        region: Name of the object's region it is meant for, if any.
    """

    position_m: tuple[float, float, float]
    quat_xyzw: tuple[float, float, float, float]
    width_m: float
    force_n: float
    type: GraspType = GraspType.PINCH
    speed_scale: float = 1.0
    pregrasp_m: float = 0.10
    region: str | None = None

    def __post_init__(self) -> None:
        for name in ("position_m", "quat_xyzw", "width_m", "force_n", "speed_scale", "pregrasp_m"):
            value = getattr(self, name)
            if not all(math.isfinite(v) for v in (value if isinstance(value, tuple) else (value,))):
                raise InputError(f"{name} is {value}, which is not finite", hint="give a finite number")
        if not math.isclose(math.hypot(*self.quat_xyzw), 1, abs_tol=1e-3):
            length = math.hypot(*self.quat_xyzw)
            raise InputError(
                f"quat_xyzw {self.quat_xyzw} is not of unit length but {length:.4g}",
                hint="divide its numbers by that" if length > 0 else "(0, 0, 0, 1) turns nothing",
            )
        _in_range("width_m", self.width_m, 0, 1)
        _in_range("force_n", self.force_n, 0, 1000)
        _in_range("pregrasp_m", self.pregrasp_m, 0, 1)
        if not 0 < self.speed_scale <= 1:
            raise InputError(f"speed_scale is {self.speed_scale}; it must be above 0 and at most 1")

    @classmethod
    def from_axes(
        cls,
        position_m: Sequence[float],
        approach: ArrayLike,
        closing: ArrayLike,
        *,
        width_m: float,
        force_n: float,
        **rest: Any,
    ) -> Grasp:
        """A grasp from its approach (+z) and closing (+y) directions in the object's frame, (3,) each.

        The closing direction is made square to the approach.

        Raises:
            InputError: The two are parallel, or of no length.
        """
        z = _unit(approach, "approach")
        y = np.asarray(closing, dtype=np.float64)
        y = _unit(y - (y @ z) * z, "closing direction, square to the approach,")
        quat = quat_xyzw(np.column_stack([np.cross(y, z), y, z]))
        place = (float(position_m[0]), float(position_m[1]), float(position_m[2]))
        return cls(place, quat, width_m, force_n, **rest)

    @classmethod
    def from_pose(cls, T_object_grasp: Pose, *, width_m: float, force_n: float, **rest: Any) -> Grasp:
        """A grasp from its (4, 4) pose in the object's frame."""
        x, y, z = (float(v) for v in T_object_grasp[:3, 3])
        return cls((x, y, z), quat_xyzw(T_object_grasp), width_m, force_n, **rest)

    @property
    def T_object_grasp(self) -> Pose:
        """(4, 4) pose of the grasp frame in the object's frame [m]."""
        return pose_of(self.position_m, self.quat_xyzw)

    def at(self, T_world_object: Pose, target: str, **rest: Any) -> GraspCommand:
        """The command that carries it out on an object believed to be at ``T_world_object``."""
        return GraspCommand(
            target,
            T_world_object @ self.T_object_grasp,
            self.width_m,
            self.force_n,
            self.type,
            self.speed_scale,
            self.pregrasp_m,
            **({"region": self.region} | rest),
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "position_m": list(self.position_m),
            "quat_xyzw": list(self.quat_xyzw),
            "width_m": self.width_m,
            "force_n": self.force_n,
            "type": str(self.type),
            "speed_scale": self.speed_scale,
            "pregrasp_m": self.pregrasp_m,
            "region": self.region,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Grasp:
        """The grasp of :meth:`to_dict`.

        Raises:
            InputError: A field is missing, or not what it must be; the message names it.
            UnknownName: There is no such field, or no such grasp type.
        """
        for key in data:
            if key not in _FIELDS:
                raise UnknownName("field of a grasp", str(key), _FIELDS)
        for key in ("position_m", "quat_xyzw", "width_m", "force_n"):
            if key not in data:
                raise InputError(f"this is no grasp: it has no {key}", hint=_SHAPE)
        kind, region = data.get("type", GraspType.PINCH), data.get("region")
        if kind not in list(GraspType):
            raise UnknownName("grasp type", str(kind), [str(t) for t in GraspType])
        if region is not None and not isinstance(region, str):
            raise InputError(f"region is {region!r}; it must be the name of a region, or null")
        place, quat = _numbers("position_m", data["position_m"], 3), _numbers("quat_xyzw", data["quat_xyzw"], 4)
        numbers = {
            key: _number(key, data[key]) for key in ("width_m", "force_n", "speed_scale", "pregrasp_m") if key in data
        }
        return cls(
            (place[0], place[1], place[2]),
            (quat[0], quat[1], quat[2], quat[3]),
            type=GraspType(kind),
            region=region,
            **numbers,
        )


@dataclass(frozen=True, eq=False)
class GraspCommand:
    """What the robot is told to do: every length and direction in the world's frame.

    Attributes:
        target: Name of the object it is meant for; the hand itself knows nothing of names.
        T_world_grasp: (4, 4) where the TCP is to be when the fingers close [m].
        width_m: Opening before they close [m].
        force_n: Normal force of each finger [N].
        type: Power, pinch or side.
        speed_scale: Share of the usual speed, in (0, 1].
        pregrasp_m: Length of the straight last stretch [m].
        region: The region it is meant for, if any.
        lift_m: How high it is lifted [m].
        lift_acceleration: How hard the lift begins [m/s²].
    """

    target: str
    T_world_grasp: Pose
    width_m: float
    force_n: float
    type: GraspType = GraspType.PINCH
    speed_scale: float = 1.0
    pregrasp_m: float = 0.10
    region: str | None = None
    lift_m: float = 0.15
    lift_acceleration: float = LIFT_ACCELERATION

    def __post_init__(self) -> None:
        if not is_pose(self.T_world_grasp, 1e-4):
            raise InputError("T_world_grasp is no rigid pose", hint="it must be (4, 4), finite, orthonormal")
        _in_range("width_m", self.width_m, 0, 1)
        _in_range("force_n", self.force_n, 0, 1000)
        _in_range("pregrasp_m", self.pregrasp_m, 0, 1)
        for name in ("speed_scale", "lift_m", "lift_acceleration"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise InputError(f"{name} is {value}; it must be above 0, and finite")
        _in_range("speed_scale", self.speed_scale, 0, 1)

    @property
    def approach(self) -> NDArray[np.float64]:
        """(3,) unit approach direction in the world."""
        return self.T_world_grasp[:3, 2]

    @property
    def closing(self) -> NDArray[np.float64]:
        """(3,) unit closing direction in the world."""
        return self.T_world_grasp[:3, 1]

    @property
    def T_world_pregrasp(self) -> Pose:
        """(4, 4) where the straight last stretch begins."""
        return self.T_world_grasp @ pose((0, 0, -self.pregrasp_m))

    def moved(self, T_world_grasp: Pose) -> GraspCommand:
        """The same command elsewhere."""
        return replace(self, T_world_grasp=T_world_grasp)


def _unit(vector: ArrayLike, name: str) -> NDArray[np.float64]:
    array = np.asarray(vector, dtype=np.float64)
    norm = float(np.linalg.norm(array))
    if array.shape != (3,) or not math.isfinite(norm) or norm < 1e-9:
        raise InputError(f"the {name} is {array.tolist()}, which is no direction")
    return array / norm


def _in_range(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InputError(f"{name} is {value}; it must be from {low} to {high}")


_FIELDS = ("position_m", "quat_xyzw", "width_m", "force_n", "type", "speed_scale", "pregrasp_m", "region")
_SHAPE = "it holds position_m, quat_xyzw, width_m [m] and force_n [N]"
_COUNTS = {3: "three", 4: "four"}


def _number(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InputError(f"{key} is {value!r}; it must be a number")
    return float(value)


def _numbers(key: str, value: Any, count: int) -> list[float]:
    if not isinstance(value, list | tuple | np.ndarray) or len(value) != count:
        raise InputError(f"{key} is {value!r}; it must be a list of {_COUNTS[count]} numbers")
    return [_number(key, v) for v in value]
