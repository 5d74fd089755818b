"""Forward and inverse kinematics of a described robot, inside its joint limits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sagehand.errors import InputError
from sagehand.world.frames import Pose, is_pose
from sagehand.world.robot.chain import Chain, Links
from sagehand.world.robot.description import Robot, load_robot
from sagehand.world.robot.ik import closed_form, nearest_by_newton, numeric
from sagehand.world.robot.line import follow
from sagehand.world.robot.single import Single, Solved

__all__ = ["POSITION_TOLERANCE_M", "ROTATION_TOLERANCE_RAD", "IkAnswer", "Kinematics", "refuse_unsound"]

Array = NDArray[np.float64]

POSITION_TOLERANCE_M = 1e-4
"""No answer leaves the TCP farther from where it should be [m]."""
ROTATION_TOLERANCE_RAD = math.radians(0.05)
"""Nor turned by more [rad]."""

_SLACK = 0.02
"""How far beyond a limit a candidate may be and still be mended [rad]."""
_APART = 0.3
"""Candidates are told apart when some joint differs by this much [rad]."""
_NEARLY = 1e-3
"""What Newton leaves where a few more steps will do [m or rad]."""
_EXACT = 1e-7
"""What Newton leaves where it has converged [m or rad]."""
_TRIES = 6
"""How many candidates are polished before a pose is given up."""


@dataclass(frozen=True, eq=False)
class IkAnswer:
    """What inverse kinematics found.

    Attributes:
        q: (n,) joint angles within the limits [rad]; None if the pose cannot be reached.
        reached: The TCP comes to the pose, within 0.1 mm and 0.05°.
        position_error_m: How far from it these joint angles, or the best that there are, leave the TCP [m].
        rotation_error_rad: And how far turned [rad].
        why: "" if reached; else "out of reach" (the arm is too short) or "joint limits" (it could, had its joints no limits).
    """

    q: Array | None
    reached: bool
    position_error_m: float
    rotation_error_rad: float
    why: str = ""


class Kinematics:
    """Forward and inverse kinematics of an arm.

    The TCP's frame is the grasp frame. Joint angles are (n,) in radians, poses (4, 4) in the world, which is the robot's base.
    """

    def __init__(self, robot: Robot | str = "panda") -> None:
        """Take a robot, or the name or the file of one."""
        self.robot = load_robot(robot) if isinstance(robot, str) else robot
        self.chain = Chain(self.robot)
        self._single = Single(self.robot)

    def forward(self, q: ArrayLike) -> Pose:
        """The TCP's pose in the world [m] at joint angles q (n,) [rad].

        Raises:
            InputError: They do not fit the robot, or are not finite.
        """
        return np.asarray(self.chain.forward(self.chain.angles(q))[0])

    def links(self, q: ArrayLike) -> Array:
        """(n + 1, 4, 4) poses of the links 1 to n and of the flange in the world [m], at joint angles (n,) [rad]."""
        return np.asarray(self.chain.links(self.chain.angles(q)).frames[0])

    def jacobian(self, q: ArrayLike) -> Array:
        """(6, n) geometric Jacobian at the TCP in world axes: linear [m/rad] above angular [rad/rad]."""
        links: Links = self.chain.links(self.chain.angles(q))
        return np.asarray(self.chain.jacobian(links)[0])

    def miss(self, q: Array, T_world_tcp: Pose) -> tuple[float, float]:
        """How far joint angles q (n,) [rad] leave the TCP from a pose (4, 4) [m], and how far turned [rad]."""
        return self._single.miss(q, T_world_tcp)

    def within_limits(self, q: ArrayLike) -> bool:
        """Whether every joint of q (n,) or (N, n) [rad] is within its limits."""
        Q = self.chain.angles(q)
        return bool(np.all((self.robot.lower <= Q) & (self.robot.upper >= Q)))

    def inverse(self, T_world_tcp: Pose, seed: ArrayLike | None = None) -> IkAnswer:
        """Joint angles that bring the TCP to a pose: of all that there are, those nearest the seed.

        Args:
            T_world_tcp: (4, 4) where it is to be [m].
            seed: (n,) joint angles to stay near [rad]; default: the robot's home.

        Raises:
            InputError: It is no rigid pose, or the seed does not fit the robot.
            MissingExtra: The closed form of this robot is not installed.
        """
        T, start = self._checked(T_world_tcp, seed)
        found = next(self._candidates(T, start, 1, apart=0.0), None)
        if seed is not None and (near := self._single.newton(start, T, steps=6)) and _holds(near):
            found = near if found is None else min(found, near, key=lambda f: float(((f.q - start) ** 2).sum()))
        if found is not None:
            return self._settled(found, T, start)
        found, without_limits = nearest_by_newton(self.chain, self._single, T, start)
        if _holds(found):
            return self._settled(found, T, start)
        why = "joint limits" if without_limits else "out of reach"
        return IkAnswer(None, False, found.position_m, found.rotation_rad, why)

    def all_inverse(self, T_world_tcp: Pose, limit: int = 8, seed: ArrayLike | None = None) -> list[Array]:
        """Ways to bring the TCP to a pose, each (n,) [rad], that differ by 0.3 rad or more; nearest the seed first.

        Args:
            T_world_tcp: (4, 4) where it is to be [m].
            limit: How many at most.
            seed: (n,) joint angles to be near [rad]; default: the robot's home.

        Raises:
            InputError: It is no rigid pose, or the seed does not fit the robot.
            MissingExtra: The closed form of this robot is not installed.
        """
        return list(self.ways(T_world_tcp, limit, seed))

    def ways(self, T_world_tcp: Pose, limit: int = 8, seed: ArrayLike | None = None) -> Iterator[Array]:
        """The same as :meth:`all_inverse`, each made when it is asked for: most callers need the first alone."""
        T, start = self._checked(T_world_tcp, seed)
        return (found.q for found in self._candidates(T, start, limit, apart=_APART))

    def straight(self, q_start: ArrayLike, T_from: Pose, T_to: Pose, steps: int) -> Array | None:
        """Joint path on which the TCP goes straight from one pose to another, turning evenly.

        Args:
            q_start: (n,) joint angles at ``T_from`` [rad]; they are polished, so near is enough.
            T_from: (4, 4) where the line begins [m].
            T_to: (4, 4) where it ends [m].
            steps: How many pieces.

        Returns:
            (steps + 1, n) within the limits [rad], at most 0.2 rad from row to row; None if there is no such path from here.

        Raises:
            InputError: Something is no rigid pose, does not fit the robot, or steps is below 1.
        """
        T_first, q = self._checked(T_from, q_start)
        T_last, _ = self._checked(T_to, None)
        if steps < 1:
            raise InputError(f"steps is {steps}; it must be 1 or more")
        return self.follow(q, T_first, T_last, steps)

    def follow(self, q_start: Array, T_from: Pose, T_to: Pose, steps: int) -> Array | None:
        """The same as :meth:`straight` for what is known to be sound (:func:`refuse_unsound`): nothing is checked."""
        return follow(
            self.chain,
            self._single,
            q_start,
            T_from,
            T_to,
            steps,
            position_m=POSITION_TOLERANCE_M,
            rotation_rad=ROTATION_TOLERANCE_RAD,
        )

    def _checked(self, T: Pose, seed: ArrayLike | None) -> tuple[Pose, Array]:
        refuse_unsound(T)
        if seed is None:
            return T, self.robot.home
        start = self.chain.angles(seed)
        if len(start) != 1:
            raise InputError(f"the seed has the shape {np.shape(seed)}", hint=f"give ({self.chain.joints},)")
        return T, start[0]

    def _candidates(self, T: Pose, seed: Array, limit: int, apart: float) -> Iterator[Solved]:
        """Answers that hold, nearest the seed first; each differs from the others by ``apart`` or more."""
        if self.robot.ik == "numeric":
            near = numeric(self.chain, T, seed)
            found = near.q[(near.position_m < _NEARLY) & (near.rotation_rad < _NEARLY)]
        else:
            found = closed_form(self.chain, T, seed)
        over = np.maximum(self.robot.lower - found, found - self.robot.upper).max(axis=1)
        found = found[over < _SLACK]
        found = found[np.argsort(((found - seed) ** 2).sum(axis=1))]
        good: list[Array] = []
        tries = 0
        for q in found:
            if len(good) >= limit or tries >= _TRIES + 2 * limit:
                return
            if any(np.abs(q - other).max() < apart for other in good):
                continue
            tries += 1
            solved = self._single.newton(q, T, steps=8)
            if _holds(solved):
                good.append(solved.q)
                yield solved

    def _settled(self, found: Solved, T: Pose, seed: Array) -> IkAnswer:
        """Let what is redundant move towards the seed, and keep it if it comes nearer."""
        moved = self._single.newton(found.q, T, steps=2, towards=seed)
        moved = self._single.newton(moved.q, T, steps=3)
        exact = moved.position_m < _EXACT and moved.rotation_rad < _EXACT
        if exact and float(((moved.q - seed) ** 2).sum()) < float(((found.q - seed) ** 2).sum()):
            found = moved
        return IkAnswer(found.q, True, found.position_m, found.rotation_rad)


def refuse_unsound(T: Pose) -> None:
    """Raise InputError where something is no rigid pose (4, 4)."""
    if not is_pose(T, 1e-4):
        raise InputError("this is no rigid pose", hint="give (4, 4), finite, orthonormal, right-handed")


def _holds(found: Solved) -> bool:
    return found.position_m <= POSITION_TOLERANCE_M and found.rotation_rad <= ROTATION_TOLERANCE_RAD
