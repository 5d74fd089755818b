"""Joint paths on which the TCP goes along a straight line.

A few knots are tracked one from the other with Newton's method; the rows between them lie on the polynomial through the
knots and are polished all at once, which costs a fraction of tracking every row.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sagehand.world.frames import Pose
from sagehand.world.robot.chain import Chain
from sagehand.world.robot.newton import newton, pose_error
from sagehand.world.robot.single import Single

__all__ = ["LONGEST_JUMP", "follow", "line"]

Array = NDArray[np.float64]

LONGEST_JUMP = 0.2
"""A joint path with a larger step is none [rad]."""
_KNOT_M, _KNOT_RAD = 0.03, 0.12
_MOST_KNOTS = 8


def line(T_from: Pose, T_to: Pose, shares: Array) -> Array:
    """(K, 4, 4) poses on the straight line between two, at shares (K,) of the way: even shift, even turn about one axis."""
    return _along(T_from, _way(T_from, T_to), shares)


def _way(T_from: Pose, T_to: Pose) -> list[float]:
    """(6,) shift [m] and turn [rad, about world axes] from one pose to another."""
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = (T_to[:3, :3] @ T_from[:3, :3].T).tolist()
    turn = [(zy - yz) / 2, (xz - zx) / 2, (yx - xy) / 2]
    sine, cosine = math.hypot(*turn), (xx + yy + zz - 1) / 2
    if sine < 1e-6 and cosine < 0:  # by half a circle: the sines do not tell the axis
        return list(pose_error(T_from[None], T_to[None])[0].tolist())
    factor = math.atan2(sine, cosine) / sine if sine > 1e-12 else 1.0
    shift = (T_to[:3, 3] - T_from[:3, 3]).tolist()
    return [*shift, *(v * factor for v in turn)]


def _along(T_from: Pose, way: list[float], shares: Array) -> Array:
    """The same for a way of :func:`_way`."""
    poses = np.empty((len(shares), 4, 4))
    poses[:] = T_from
    poses[:, :3, 3] += np.multiply.outer(shares, way[:3])
    angle = math.hypot(*way[3:])
    if angle > 1e-9:
        x, y, z = (v / angle for v in way[3:])
        cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        a = (shares * angle)[:, None, None]
        turn = np.eye(3) + np.sin(a) * cross + (1 - np.cos(a)) * (cross @ cross)  # Rodrigues
        poses[:, :3, :3] = turn @ T_from[:3, :3]
    return poses


@lru_cache(maxsize=256)
def _even(pieces: int) -> Array:
    """(pieces + 1,) shares from 0 to 1."""
    return np.linspace(0, 1, pieces + 1)


@lru_cache(maxsize=256)
def _weights(steps: int, pieces: int) -> Array:
    """(steps + 1, pieces + 1) of Lagrange's polynomial through even knots, at even rows."""
    rows, knots = _even(steps), _even(pieces)
    weights = np.ones((steps + 1, pieces + 1))
    for own, knot in enumerate(knots):
        for other in np.delete(knots, own):
            weights[:, own] *= (rows - other) / (knot - other)
    return weights


def follow(
    chain: Chain,
    single: Single,
    q_start: Array,
    T_from: Pose,
    T_to: Pose,
    steps: int,
    *,
    position_m: float,
    rotation_rad: float,
) -> Array | None:
    """Joint path (steps + 1, n) [rad] along the line from ``T_from`` to ``T_to``, begun near q_start (n,).

    None where a row misses its pose by more than ``position_m`` or ``rotation_rad``, or a joint jumps by more than 0.2 rad.
    """
    way = _way(T_from, T_to)
    length, turn = math.hypot(*way[:3]), math.hypot(*way[3:])
    pieces = min(max(2, math.ceil(length / _KNOT_M), math.ceil(turn / _KNOT_RAD)), _MOST_KNOTS)
    knots = np.empty((pieces + 1, chain.joints))
    guess = q_start
    for number, target in enumerate(_along(T_from, way, _even(pieces))):
        found = single.newton(guess, target, steps=5, enough=1e-6)
        if found.position_m > position_m or found.rotation_rad > rotation_rad:
            return None
        knots[number] = found.q
        if number == 0:
            guess = found.q
        elif number == 1:
            guess = 2 * found.q - knots[0]
        else:
            guess = 3 * (found.q - knots[number - 1]) + knots[number - 2]
    poses = _along(T_from, way, _even(steps))
    path = newton(chain, _weights(steps, pieces) @ knots, poses, steps=4, enough=1e-6)
    if path.position_m.max() > position_m or path.rotation_rad.max() > rotation_rad:
        return None
    if np.abs(path.q[1:] - path.q[:-1]).max() > LONGEST_JUMP:
        return None
    return path.q
