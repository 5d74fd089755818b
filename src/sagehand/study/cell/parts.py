"""Parts: the rows of which devices, places and clutter are made.

A part says what it looks like, where it sits and *when it is there*: a device in a given state is the list of its parts
whose conditions hold among the state's facts. A later device is thus one more table, not one more program.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from sagehand.study.cell.shapes import Shape

__all__ = ["Part", "Role", "here", "moved", "needing", "ring"]

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
