"""What a squeeze leaves unbalanced, by Nguyen's test on two patches, and how the object moves under it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sagehand.world.analytic.statics import LENGTH_M, Contacts, GripStatics
from sagehand.world.frames import Pose, axis_rotation, pose, translation

__all__ = ["Step", "Steps", "pushes_down", "unbalanced"]

Array = NDArray[np.float64]
_PATCH_M = 0.0001
"""What lies so near the first point touched is touched, too [m]: pads and objects are stiff."""
_STEP_M = 0.002
_MOST_STEP = math.radians(50)
_FINE = math.radians(1.5)
_HALF_PAD_M = 0.0088
_SQUARE = math.cos(math.radians(3))


def unbalanced(contacts: Contacts, width_m: float, friction: float) -> Array | None:
    """What a squeeze of 1 N leaves unbalanced: (5,) as :attr:`GripStatics.residual`; None if friction holds the object.

    By Nguyen's test; where edges touch, or it is too near to tell in this way, by :class:`GripStatics`, which takes longer.
    """
    push = _by_patches(contacts, width_m, friction)
    if push is None and (np.abs(contacts.inward[:, 1]) > _SQUARE).all():
        return None
    if push is not None and float(np.abs(push).max()) > 1e-6:
        return push
    exact = GripStatics(contacts, friction)
    return None if exact.stable else exact.residual


def _by_patches(contacts: Contacts, width_m: float, friction: float) -> Array | None:
    """The same by Nguyen's test on the two patches.

    It is held if the line between their nearest points, seen along the closing axis, lies within both friction cones.
    """
    rows = contacts.points.tolist()
    normals = contacts.inward.tolist()
    split = len(rows) - int(contacts.pad.sum())  # those of the first pad come first
    (low1, high1, n1), (low2, high2, n2) = (
        _patch(rows[:split], normals[:split]),
        _patch(rows[split:], normals[split:]),
    )
    # nearest points of the two patches; where they overlap the middle of what they share
    p1, p2 = [0.0, width_m / 2, 0.0], [0.0, -width_m / 2, 0.0]
    for axis in (0, 2):
        middle = (max(low1[axis], low2[axis]) + min(high1[axis], high2[axis])) / 2
        p1[axis] = min(max(middle, low1[axis]), high1[axis])
        p2[axis] = min(max(middle, low2[axis]), high2[axis])
    line = [b - a for a, b in zip(p1, p2, strict=True)]
    least = math.hypot(*line) / math.hypot(1, friction)
    along1, along2 = _dot(line, n1), _dot(line, n2)
    if along1 >= least and -along2 >= least:
        return None
    taken = 2 * friction * abs(n1[1])
    force = [_less(n1[axis] + n2[axis], taken) for axis in (0, 2)]  # both lean the same way: it is pushed along
    # the couple of the two presses, less that of two equal and opposite forces of friction
    borne = friction * min(abs(along1), abs(along2))
    m1, m2 = _moment(p1, n1), _moment(p2, n2)
    moment = [_less(m1[axis] + m2[axis], borne) / LENGTH_M if axis != 1 else 0.0 for axis in range(3)]
    return np.array([*force, *moment])


def _patch(points: list[list[float]], normals: list[list[float]]) -> tuple[list[float], list[float], list[float]]:
    """Lowest and highest corner of a patch, and its mean normal."""
    columns = list(zip(*points, strict=True))
    n = [sum(column) for column in zip(*normals, strict=True)]
    size = max(math.hypot(*n), 1e-9)
    return [min(c) for c in columns], [max(c) for c in columns], [v / size for v in n]


def _dot(a: list[float], b: list[float]) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _moment(p: list[float], f: list[float]) -> list[float]:
    return [p[1] * f[2] - p[2] * f[1], p[2] * f[0] - p[0] * f[2], p[0] * f[1] - p[1] * f[0]]


def _less(value: float, friction: float) -> float:
    """What friction leaves of a push."""
    return math.copysign(max(abs(value) - friction, 0.0), value)


def pushes_down(push: Array, down: Array) -> bool:
    """Whether what moves the object is mainly a force towards the table."""
    force = np.array([push[0], 0.0, push[1]])
    return float(force @ down) > 0.5 * float(np.abs(push).max()) and float(np.abs(push[2:]).max()) < float(
        np.abs(force).max()
    )


@dataclass(frozen=True, eq=False)
class Step:
    """One motion of the object between the pads.

    Attributes:
        T: (4, 4) by which it moves, in the grasp frame [m].
        shift_m: How far it slides by it [m].
    """

    T: Pose
    shift_m: float


class Steps:
    """Small motions of the object under what the squeeze leaves unbalanced; where one overshoots, the next is half as large."""

    def __init__(self) -> None:
        self._cap = {2: _MOST_STEP, 3: _MOST_STEP, 4: _MOST_STEP}
        self._sign: dict[int, float] = {}
        self._last: dict[int, float] = {}
        self.blur_m = _PATCH_M
        """What lies so near the first point touched is touched: more while the object rocks to and fro between two faces [m]."""

    def next(self, push: Array, contacts: Contacts, lean: Array) -> Step:
        """The next."""
        kind = int(np.argmax(np.abs(push)))
        sign = math.copysign(1.0, float(push[kind]))
        if kind < 2:
            T = translation(x=sign * _STEP_M) if kind == 0 else translation(z=sign * _STEP_M)
            return Step(T, _STEP_M)
        axis, angle = "xyz"[kind - 2], math.radians(3)
        if axis != "y":
            # flat faces come to lie flat on the pads: by the angle at which they lean against each other, if it goes that way
            tilt = math.atan2(float(lean[2 if axis == "x" else 0]), -float(lean[1])) * (1 if axis == "x" else -1)
            if math.radians(0.05) < tilt * sign < _MOST_STEP:
                angle = abs(tilt)
        if self._sign.get(kind, sign) != sign:
            self._cap[kind] = min(self._cap[kind], self._last[kind]) / 2
            if self._cap[kind] < _FINE:
                self.blur_m = max(_PATCH_M, _HALF_PAD_M * self._cap[kind])
        angle = min(angle, self._cap[kind])
        self._sign[kind] = sign
        self._last = self._last | {kind: angle}
        middle = contacts.points.mean(axis=0)
        return Step(pose(middle) @ axis_rotation(axis, sign * angle) @ pose(-middle), 0.0)
