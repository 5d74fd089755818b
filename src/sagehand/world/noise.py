"""Noise from named sub-streams, drawn in a fixed order, so that configurations see the same draws (GRASPING §3)."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import InputError
from sagehand.world.frames import Pose, axis_rotation, pose

__all__ = ["ExecutionNoise", "Look", "Motion", "PerceptionNoise", "stream"]


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """The generator of a name under a seed: another name, other numbers; the same name, the same.

    Raises:
        InputError: The seed or a name is a negative number, or neither text nor a whole number.
    """
    if _whole(seed) is None:
        raise InputError(f"the seed is {seed!r}; it must not be negative, and a whole number")
    key: list[int] = []
    for name in names:
        number = zlib.crc32(name.encode()) if isinstance(name, str) else _whole(name)
        if number is None:
            raise InputError(
                f"the name {name!r} of a stream is neither text nor a whole number from 0", hint="as in 'trial', 3"
            )
        key.append(number)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def _whole(value: object) -> int | None:
    """The number if it is whole and not negative; else None."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 0
    return int(value) if whole else None  # type: ignore[call-overload]


@dataclass(frozen=True, eq=False)
class Motion:
    """What one motion does otherwise than told: a shift of the TCP, right of the pose, and a factor on the force."""

    T_grasp_actual: Pose
    force_factor: float


class ExecutionNoise:
    """Draws for the motions of one trial: 1 mm and 0.5° (standard deviations along and about each axis), force ±5 %."""

    def __init__(self, seed: int, *names: str | int, scale: float = 1.0) -> None:
        """Begin the sub-stream ``names`` under ``seed``; ``scale`` multiplies all of it."""
        if not 0 <= scale <= 100:
            raise InputError(f"the noise scale is {scale}; it must be from 0 to 100")
        self.scale = scale
        self._rng = stream(seed, "execution", *names)

    def motion(self) -> Motion:
        """The next motion."""
        shift: NDArray[np.float64] = self._rng.normal(0, 0.001, 3) * self.scale
        turn = self._rng.normal(0, math.radians(0.5), 3) * self.scale
        force = 1 + float(self._rng.uniform(-0.05, 0.05)) * self.scale
        R = axis_rotation("z", turn[2]) @ axis_rotation("y", turn[1]) @ axis_rotation("x", turn[0])
        return Motion(pose(shift, R[:3, :3]), max(force, 0.0))


_CONFUSED_CATEGORY, _CONFUSED_AFFORDANCE = 0.05, 0.05
_MISSED_RELATION, _MISSED_NEIGHBOUR = 0.03, 0.02


@dataclass(frozen=True, eq=False)
class Look:
    """What one look at the scene gets wrong; the same for all that is asked of it, in any order.

    Errors of place hold for one object: another one has its own, by its name.

    Attributes:
        number: Which look of the trial, from 0.
        bias_m: (3,) error of the hand-eye calibration in the camera's frame [m]; the same in all looks of a trial.
    """

    number: int
    bias_m: NDArray[np.float64]
    _seed: int
    _names: tuple[str | int, ...]
    _scale: float

    def place(self, name: str, T_world_object: Pose, T_world_camera: Pose) -> Pose:
        """(4, 4) where an object seems to be [m]: off by 3 mm across the line of sight, 4 mm along it, 3° about the vertical."""
        rng = self._of("place", name)
        shift = self.bias_m + rng.normal(0, (0.003, 0.003, 0.004)) * self._scale
        yaw = float(rng.normal(0, math.radians(3))) * self._scale
        T = axis_rotation("z", yaw) @ T_world_object
        T[:3, 3] = T_world_object[:3, 3] + T_world_camera[:3, :3] @ shift
        return T

    def size_factor(self, name: str) -> float:
        """By what an object seems larger or smaller: 3 %."""
        return max(1 + float(self._of("size", name).normal(0, 0.03)) * self._scale, 0.1)

    def category(self, name: str, category: str, siblings: Sequence[str]) -> str:
        """What an object seems to be: 5 % of the time another category of its superclass, given as ``siblings``."""
        return self._confused(self._of("category", name), category, siblings, _CONFUSED_CATEGORY)

    def affordance(self, name: str, affordance: str, types: Sequence[str]) -> str:
        """What a region seems to afford: 5 % of the time another of the ``types``."""
        return self._confused(self._of("affordance", name), affordance, types, _CONFUSED_AFFORDANCE)

    def sees_relation(self, relation: str, first: str, second: str) -> bool:
        """Whether a relation of two objects is noticed: not in 3 % of cases."""
        missed = float(self._of("relation", relation, first, second).uniform())
        return missed >= min(_MISSED_RELATION * self._scale, 1.0)

    def sees_neighbour(self, name: str) -> bool:
        """Whether another object is noticed at all: not in 2 % of cases."""
        return float(self._of("neighbour", name).uniform()) >= min(_MISSED_NEIGHBOUR * self._scale, 1.0)

    def _of(self, *what: str | int) -> np.random.Generator:
        return stream(self._seed, "perception", *self._names, "look", self.number, *what)

    def _confused(self, rng: np.random.Generator, is_: str, may_be: Sequence[str], share: float) -> str:
        chance, which = (float(v) for v in rng.uniform(size=2))
        others = sorted(set(may_be) - {is_})
        return others[int(which * len(others))] if others and chance < min(share * self._scale, 1.0) else is_


class PerceptionNoise:
    """What a trial's camera gets wrong (GRASPING §3): a hand-eye bias of 2 mm an axis for the whole trial, the rest each look.

    Every look and question has a sub-stream of its own, so what is drawn for one does not depend on what else was asked; a retry
    that does not look again keeps its :class:`Look` and with it every number.
    """

    def __init__(self, seed: int, *names: str | int, scale: float = 1.0) -> None:
        """Begin the sub-stream ``names`` under ``seed``; ``scale`` multiplies all of it, chances included."""
        if not 0 <= scale <= 100:
            raise InputError(f"the noise scale is {scale}; it must be from 0 to 100")
        self.scale = scale
        self._seed, self._names = seed, names
        self.bias_m: NDArray[np.float64] = stream(seed, "perception", *names, "hand-eye").normal(0, 0.002, 3) * scale
        """(3,) in the camera's frame [m]."""
        self._looks = 0

    def look(self) -> Look:
        """The next look."""
        self._looks += 1
        return Look(self._looks - 1, self.bias_m, self._seed, self._names, self.scale)
