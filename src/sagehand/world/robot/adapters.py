"""Named transforms from the grasp frame to the frames of other tools, and back.

Every tool has its own idea of where a grasp's frame is and which way its axes point; mix them, and the hand is turned by 90° or
comes from the wrong side. Each convention here is one constant ``T_grasp_other``, which stands on the *right*:
``T_world_other = T_world_grasp @ T_grasp_other``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sagehand.errors import InputError, UnknownName
from sagehand.world.frames import Pose, invert, is_pose, pose
from sagehand.world.robot.description import Robot

__all__ = ["CONVENTIONS", "Convention", "from_convention", "to_convention"]

_X_APPROACH = pose(rotation=np.array([[0.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]))
"""Columns are the other frame's axes in the grasp frame: its x is our approach z, its y our closing y."""


@dataclass(frozen=True)
class Convention:
    """How some tool writes a grasp.

    Attributes:
        name: Its name.
        approach: Its axis from the palm to the object, as in "+x".
        closing: Its axis from one finger to the other.
        origin: Where its origin is.
        T_grasp_other: Of a robot: (4, 4) the tool's frame in the grasp frame [m].
    """

    name: str
    approach: str
    closing: str
    origin: str
    T_grasp_other: Callable[[Robot], Pose]


def _same(robot: Robot) -> Pose:
    return np.eye(4)


def _hand(robot: Robot) -> Pose:
    return invert(robot.T_hand_tcp)


def _flange(robot: Robot) -> Pose:
    return invert(robot.T_flange_tcp)


def _x_approach(robot: Robot) -> Pose:
    return _X_APPROACH.copy()


CONVENTIONS: dict[str, Convention] = {
    c.name: c
    for c in (
        Convention("tcp", "+z", "+y", "between the pads", _same),
        Convention("hand", "+z", "+y", "at the foot of the hand: the Panda's panda_hand", _hand),
        Convention("flange", "+z", "", "at the flange: the Panda's panda_link8", _flange),
        Convention("graspnet", "+x", "+y", "between the fingers (GraspNet-1Billion API, AnyGrasp)", _x_approach),
        Convention("gpd", "+x", "+y", "between the fingers (GPD: columns approach, binormal, axis)", _x_approach),
    )
}
"""Name → convention."""


def to_convention(T_world_grasp: Pose, convention: str, robot: Robot) -> Pose:
    """(4, 4) a grasp as a tool writes it, in the same world [m].

    Raises:
        UnknownName: There is no convention of this name.
        InputError: It is no rigid pose.
    """
    return np.asarray(_checked(T_world_grasp) @ _transform(convention, robot))


def from_convention(T_world_other: Pose, convention: str, robot: Robot) -> Pose:
    """(4, 4) the grasp that a tool writes so, in the same world [m].

    Raises:
        UnknownName: There is no convention of this name.
        InputError: It is no rigid pose.
    """
    return np.asarray(_checked(T_world_other) @ invert(_transform(convention, robot)))


def _transform(convention: str, robot: Robot) -> Pose:
    if convention not in CONVENTIONS:
        raise UnknownName("grasp convention", convention, list(CONVENTIONS))
    return CONVENTIONS[convention].T_grasp_other(robot)


def _checked(T: Pose) -> Pose:
    if not is_pose(T, 1e-4):
        raise InputError("this is no rigid pose", hint="give (4, 4), finite, orthonormal, right-handed")
    return T
