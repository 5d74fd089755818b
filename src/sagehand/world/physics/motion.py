"""Motions in time: joint paths run from rest to rest, as smooth as a person's hand, and a shake."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sagehand.world.physics.setup import TIMESTEP
from sagehand.world.rules import SHAKE_HZ, SHAKE_M

__all__ = ["Timed", "shake", "still", "timed"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Timed:
    """Joint angles at each time step: (K, n) [rad], and their rates (K, n) [rad/s]."""

    q: Array
    rate: Array

    @property
    def seconds(self) -> float:
        """How long it takes [s]."""
        return len(self.q) * TIMESTEP


def timed(path: Array, seconds: float, fastest: Array) -> Timed:
    """Run a joint path, whose rows are evenly spaced, from rest to rest: minimum jerk along it, cubics between rows.

    Args:
        path: (K, n) [rad].
        seconds: In how long [s]; longer where a joint would be too fast.
        fastest: (n,) the joints' speed limits [rad/s].
    """
    motion = _run(path, seconds)
    excess = float((np.abs(motion.rate).max(axis=0) / fastest).max())
    return motion if excess <= 1 else _run(path, seconds * excess * 1.001)


def _run(path: Array, seconds: float) -> Timed:
    count = max(round(seconds / TIMESTEP), 2)
    x = np.arange(1, count + 1) / count
    share = x**3 * (10 - 15 * x + 6 * x * x)
    speed = 30 * x**2 * (1 - x) ** 2 / (count * TIMESTEP)
    pieces = len(path) - 1
    at = np.minimum((share * pieces).astype(int), pieces - 1)
    u = (share * pieces - at)[:, None]
    slope = np.gradient(path, axis=0)
    p0, p1, m0, m1 = path[at], path[at + 1], slope[at], slope[at + 1]
    # cubic Hermite
    q = (1 + 2 * u) * (1 - u) ** 2 * p0 + u * (1 - u) ** 2 * m0 + u * u * (3 - 2 * u) * p1 + u * u * (u - 1) * m1
    du = 6 * u * (u - 1) * (p0 - p1) + (1 - u) * (1 - 3 * u) * m0 + u * (3 * u - 2) * m1
    return Timed(q, du * (speed * pieces)[:, None])


def still(q: Array, seconds: float) -> Timed:
    """Stay at joint angles (n,)."""
    count = max(round(seconds / TIMESTEP), 1)
    return Timed(np.repeat(q[None], count, axis=0), np.zeros((count, len(q))))


def shake(q: Array, jacobian: Array, axis: int) -> Timed:
    """Swing the TCP ±10 mm along a world axis (0 or 1) at 2.25 Hz and back to where it was, 1.1 s.

    Five half waves, of which the first two swell and the last two fade, so that it begins and ends at rest.

    Args:
        q: (n,) where it begins [rad].
        jacobian: (6, n) there.
        axis: Which.
    """
    omega = 2 * math.pi * SHAKE_HZ
    half = math.pi / omega
    t = np.arange(1, round(5 * half / TIMESTEP) + 1) * TIMESTEP
    swell = np.clip(np.minimum(t, 5 * half - t) / (2 * half), 0, 1)
    envelope = np.sin(math.pi / 2 * swell)
    offset = SHAKE_M * envelope * np.sin(omega * t)
    twist = np.zeros(6)
    twist[axis] = 1.0
    direction = np.linalg.pinv(jacobian) @ twist
    return Timed(q + offset[:, None] * direction, np.gradient(offset, TIMESTEP)[:, None] * direction)
