"""What stands on the table: objects at poses, the table, the camera. This is the *truth*; a planner never sees it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import InputError, UnknownName
from sagehand.world.frames import Pose, is_pose, pose
from sagehand.world.objects.model import ObjectModel

__all__ = ["CAMERA", "RESERVED", "TABLE", "Camera", "Placed", "Scene", "Table", "check_name"]

RESERVED = frozenset(
    ("arm", "camera", "finger0", "finger1", "floor", "hand", "pad0", "pad1", "palm", "robot", "table", "world")
)
"""What no object of a scene is called: touches, gaps and pictures say it of the table, the robot and its parts."""


@dataclass(frozen=True)
class Table:
    """The table (paper B §V-A: 0.6 × 0.8 m); its top is z = 0, at the height of the robot's base, which is the origin.

    Attributes:
        x_m: From and to, away from the robot [m].
        y_m: From and to, to the robot's right and left [m].
        thickness_m: Of the board [m].
    """

    x_m: tuple[float, float] = (0.2, 0.8)
    y_m: tuple[float, float] = (-0.4, 0.4)
    thickness_m: float = 0.04

    def holds(self, x: float, y: float) -> bool:
        """Whether a point is over the table."""
        return self.x_m[0] <= x <= self.x_m[1] and self.y_m[0] <= y <= self.y_m[1]


TABLE = Table()


@dataclass(frozen=True)
class Camera:
    """A pinhole camera that looks at a point; its optical frame is z forward, x right, y down (REP 105).

    Attributes:
        eye_m: Where it is [m].
        look_at_m: What is in the middle of its picture [m].
        fovy_deg: Full vertical field of view [deg].
        width: Columns [px].
        height: Rows [px].

    Raises:
        InputError: It looks at where it is, its field of view is not between 0 and 180°, or it has no pixels.
    """

    eye_m: tuple[float, float, float] = (1.25, 0.0, 0.75)
    look_at_m: tuple[float, float, float] = (0.5, 0.0, 0.05)
    fovy_deg: float = 45.0
    width: int = 640
    height: int = 480

    def __post_init__(self) -> None:
        places = [*self.eye_m, *self.look_at_m]
        if len(places) != 6 or not all(math.isfinite(v) for v in places):
            raise InputError(f"the camera is at {self.eye_m} and looks at {self.look_at_m}: each is three numbers")
        if math.dist(self.eye_m, self.look_at_m) < 1e-6:
            raise InputError("the camera's eye is where it looks at", hint="move one of them")
        if not 0 < self.fovy_deg < 180:
            raise InputError(f"the camera's field of view is {self.fovy_deg}°; it must be between 0 and 180")
        if min(self.width, self.height) < 1:
            raise InputError(f"the camera's picture is {self.width}x{self.height}; it needs a pixel at least")

    @cached_property
    def T_world_camera(self) -> Pose:
        """(4, 4) pose of the optical frame [m]; not to be written into."""
        eye, at = np.array(self.eye_m), np.array(self.look_at_m)
        z = (at - eye) / np.linalg.norm(at - eye)
        x = np.cross(z, (0.0, 0.0, 1.0))
        x = x / np.linalg.norm(x) if np.linalg.norm(x) > 1e-9 else np.array([0.0, -1.0, 0.0])
        T = pose(eye, np.column_stack([x, np.cross(z, x), z]))
        T.flags.writeable = False  # it is kept
        return T

    @property
    def intrinsics(self) -> NDArray[np.float64]:
        """(3, 3) camera matrix [px]; the centre of the first pixel is (0, 0)."""
        focal = self.height / 2 / math.tan(math.radians(self.fovy_deg) / 2)
        return np.array([[focal, 0, (self.width - 1) / 2], [0, focal, (self.height - 1) / 2], [0, 0, 1.0]])


CAMERA = Camera()


@dataclass(frozen=True, eq=False)
class Placed:
    """An object at a pose.

    Attributes:
        name: Its name in the scene; unique.
        model: What it is.
        T_world_object: (4, 4) where it is [m].
        filled: How far its cavity is filled with water, from 0 to 1 of its height.
    """

    name: str
    model: ObjectModel
    T_world_object: Pose
    filled: float = 0.0

    @property
    def content_kg(self) -> float:
        """Mass of the water in it [kg]."""
        cavity = self.model.cavity
        if cavity is None or self.filled <= 0:
            return 0.0
        return 1000 * math.pi * cavity.radius_m**2 * (cavity.rim_m - cavity.floor_m) * self.filled

    @property
    def mass_kg(self) -> float:
        """Mass with its content [kg]."""
        return self.model.mass_kg + self.content_kg

    @property
    def com_m(self) -> NDArray[np.float64]:
        """(3,) centre of mass with its content, in the object's frame [m]."""
        cavity = self.model.cavity
        if cavity is None or not self.content_kg:
            return self.model.com_m
        middle = np.array([0, 0, cavity.floor_m + self.filled * (cavity.rim_m - cavity.floor_m) / 2])
        return np.asarray((self.model.com_m * self.model.mass_kg + middle * self.content_kg) / self.mass_kg)

    def at(self, T_world_object: Pose) -> Placed:
        """The same object elsewhere."""
        return replace(self, T_world_object=T_world_object)


@dataclass(frozen=True, eq=False)
class Scene:
    """Objects on the table, and the camera that looks at them.

    Raises:
        InputError: A name is taken twice or no name (:func:`check_name`), a pose is not rigid, or what is no vessel is filled.
    """

    objects: tuple[Placed, ...]
    table: Table = TABLE
    camera: Camera = field(default=CAMERA)

    def __post_init__(self) -> None:
        names = [o.name for o in self.objects]
        for name in names:
            check_name(name)
            if names.count(name) > 1:
                raise InputError(f"two objects of the scene are called {name!r}", hint="give each a name of its own")
        for placed in self.objects:
            if not is_pose(placed.T_world_object, 1e-4):
                raise InputError(f"the pose of {placed.name!r} is no rigid pose")
            if not 0 <= placed.filled <= 1:
                raise InputError(f"{placed.name!r} is filled to {placed.filled}; it must be from 0 to 1")
            if placed.filled and placed.model.cavity is None:
                raise InputError(f"{placed.name!r} cannot be filled: it is no vessel")

    def __getitem__(self, name: str) -> Placed:
        for placed in self.objects:
            if placed.name == name:
                return placed
        raise UnknownName("object of the scene", name, [o.name for o in self.objects])

    def others(self, name: str) -> tuple[Placed, ...]:
        """All objects but one."""
        self[name]
        return tuple(o for o in self.objects if o.name != name)

    def with_objects(self, objects: Iterable[Placed]) -> Scene:
        """The same table with other objects."""
        return replace(self, objects=tuple(objects))


def check_name(name: str) -> None:
    """Hold a name of an object in a scene against what one may be called.

    Raises:
        InputError: It is empty, has a ``/`` or what is not printed in it, or is :data:`RESERVED`.
    """
    remedy = "give it another `name`"
    if not name.strip() or not name.isprintable():
        raise InputError(f"an object of the scene is called {name!r}, which is no name", hint=remedy)
    if "/" in name:
        raise InputError(f"an object of the scene is called {name!r}; a name holds no '/'", hint=remedy)
    if name.strip().casefold() in RESERVED:
        raise InputError(
            f"an object of the scene is called {name!r}, which stands for a part of the cell",
            hint=f"{remedy}; not {', '.join(sorted(RESERVED))}",
        )
