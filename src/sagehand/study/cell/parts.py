"""Parts: the rows of which devices, places and clutter are made.

A part says what it looks like, where it sits and *when it is there*: a device in a given state is the list of its parts
whose conditions hold among the state's facts. A later device is thus one more table, not one more program.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sagehand.study.cell.shapes import Shape

__all__ = ["Part", "Role", "here", "moved", "needing", "ring", "rotation", "tilted"]

Role: TypeAlias = Literal["device", "fixture", "cell"]
"""What a part belongs to: the outline that is labelled holds ``device`` and ``fixture`` (paper A §3.1)."""


@dataclass(frozen=True)
class Part:
    """One visible part.

    Attributes:
        name: What it is, for people; need not be unique.
        shape: Its shape [mm].
        material: A name in :data:`sagehand.study.cell.materials.MATERIALS`.
        at: Where the foot of the shape stands in the frame of its device or place (x, y, z) [mm].
        turn: Turn about x, then y, then z of that frame, at ``at`` [deg].
        when: Facts that must hold for the part to be there; ``not x`` must not hold.
        role: What it belongs to.
    """

    name: str
    shape: Shape
    material: str
    at: tuple[float, float, float] = (0.0, 0.0, 0.0)
    turn: tuple[float, float, float] = (0.0, 0.0, 0.0)
    when: tuple[str, ...] = ()
    role: Role = "device"


def here(parts: Iterable[Part], facts: frozenset[str]) -> tuple[Part, ...]:
    """The parts whose conditions hold when exactly ``facts`` are true."""
    return tuple(
        part for part in parts if all((c.removeprefix("not ") in facts) != c.startswith("not ") for c in part.when)
    )


def moved(parts: Iterable[Part], by: tuple[float, float, float], *, yaw: float = 0.0) -> tuple[Part, ...]:
    """The same parts, turned together about z by ``yaw`` [deg], then shifted by ``by`` (x, y, z) [mm]."""
    c, s = float(np.cos(np.deg2rad(yaw))), float(np.sin(np.deg2rad(yaw)))
    return tuple(
        replace(
            p,
            at=(c * p.at[0] - s * p.at[1] + by[0], s * p.at[0] + c * p.at[1] + by[1], p.at[2] + by[2]),
            turn=(p.turn[0], p.turn[1], p.turn[2] + yaw),
        )
        for p in parts
    )


def ring(part: Part, count: int, *, start: float = 0.0) -> tuple[Part, ...]:
    """``count`` copies of ``part`` turned about z in equal steps, the first by ``start`` [deg]."""
    return tuple(q for i in range(count) for q in moved([part], (0.0, 0.0, 0.0), yaw=start + 360.0 * i / count))


def needing(parts: Iterable[Part], when: tuple[str, ...]) -> tuple[Part, ...]:
    """The same parts, each needing ``when`` besides its own conditions."""
    return tuple(replace(p, when=p.when + when) for p in parts)


def tilted(parts: Iterable[Part], degrees: float, about: tuple[float, float]) -> tuple[Part, ...]:
    """The same parts, turned together about a line parallel to y.

    Args:
        parts: What to turn.
        degrees: How far; what lies at smaller x than the line comes up for a positive angle [deg].
        about: Where the line goes through (x, z) [mm].
    """
    turn = rotation((0.0, degrees, 0.0))
    axis = np.array([about[0], 0.0, about[1]])
    out = []
    for p in parts:
        m = turn @ rotation(p.turn)
        angles = (math.atan2(m[2, 1], m[2, 2]), -math.asin(max(-1.0, min(1.0, m[2, 0]))), math.atan2(m[1, 0], m[0, 0]))
        x, y, z = (float(v) for v in turn @ (np.asarray(p.at) - axis) + axis)
        a, b, c = (math.degrees(v) for v in angles)
        out.append(replace(p, at=(x, y, z), turn=(a, b, c)))
    return tuple(out)


def rotation(turn: tuple[float, float, float]) -> NDArray[np.float64]:
    """The matrix that turns about x, then y, then z of a fixed frame [deg]: (3, 3)."""
    (cx, sx), (cy, sy), (cz, sz) = ((math.cos(math.radians(a)), math.sin(math.radians(a))) for a in turn)
    about_x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    about_z = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    return np.asarray(about_z @ about_y @ about_x, dtype=np.float64)
