"""What no executor begins: scenes whose things stand in one another, and plans in which the arm meets itself."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import InputError
from sagehand.world.clearance import Gap
from sagehand.world.frames import Pose, translation
from sagehand.world.objects.shapes import Solid, SolidKind, reach
from sagehand.world.scene import Scene

__all__ = ["ITSELF", "OVERLAP_M", "depth_between", "meets_itself", "refuse_overlap"]

Array = NDArray[np.float64]

OVERLAP_M = 0.005
"""Things that stand deeper in one another than this would fly apart at once [m]."""
ITSELF = "the arm would meet itself"
"""Why a plan is refused that no controller would carry out."""


def meets_itself(gap: Gap | None, scene: Scene) -> bool:
    """Whether the nearest that a plan comes to anything is a part of the robot in another."""
    if gap is None or gap.distance_m >= 0 or not gap.arm:
        return False
    return gap.other != "table" and gap.other not in {o.name for o in scene.objects}


def refuse_overlap(scene: Scene) -> None:
    """Raise InputError where two objects, or one and the table, stand more than 5 mm deep in one another."""
    table = scene.table
    size = np.array([table.x_m[1] - table.x_m[0], table.y_m[1] - table.y_m[0], table.thickness_m]) / 2
    board = Solid(SolidKind.BOX, size, np.eye(4), 1.0)
    middle = translation(sum(table.x_m) / 2, sum(table.y_m) / 2, -table.thickness_m / 2)
    things: list[tuple[str, tuple[Solid, ...], Pose, Array, Array]] = [("table", (board,), middle, size, middle[:3, 3])]
    for placed in scene.objects:
        low, high = placed.model.bounds_m
        T = placed.T_world_object
        half = np.abs(T[:3, :3]) @ ((high - low) / 2)
        things.append((placed.name, placed.model.solids, T, half, T[:3, :3] @ ((low + high) / 2) + T[:3, 3]))
    for number, (name, solids, T, half, centre) in enumerate(things):
        for other, other_solids, other_T, other_half, other_centre in things[:number]:
            if np.any(half + other_half - np.abs(centre - other_centre) <= OVERLAP_M):
                continue
            for a in solids:
                for b in other_solids:
                    depth = depth_between(a, T, b, other_T, OVERLAP_M)
                    if depth > OVERLAP_M:
                        raise InputError(
                            f"{name} stands {depth * 1e3:.0f} mm deep in {other}",
                            hint="place it elsewhere, or let the scene come to rest first: settle(scene)",
                        )


def depth_between(a: Solid, T_a: Pose, b: Solid, T_b: Pose, enough_m: float = 0.0) -> float:
    """How deep two convex solids are in one another [m]: the shortest way that takes them apart; below 0 they are apart.

    Exact for boxes (their axes and cross products), and for others by 200 directions about: too much by 1 % at most. The search
    ends at the first direction that shows that they are no deeper than ``enough_m``.

    Args:
        a: A solid, and
        T_a: (4, 4) its object in the world [m].
        b: Another, and
        T_b: (4, 4) its.
        enough_m: Depths up to this are not told apart [m].
    """
    apart = (T_b @ b.T_object_solid)[:3, 3] - (T_a @ a.T_object_solid)[:3, 3]
    least = math.inf
    for directions in _directions(a, T_a, b, T_b, apart):
        far = reach(a, directions @ T_a[:3, :3]) + reach(b, directions @ T_b[:3, :3])
        least = min(least, float((far - np.abs(directions @ apart)).min()))
        if least <= enough_m:
            break
    return least


def _directions(a: Solid, T_a: Pose, b: Solid, T_b: Pose, apart: Array) -> Iterator[Array]:
    """(K, 3) units in the world: between the middles and the axes of both, then their cross products and many all around."""
    first, second = (T_a @ a.T_object_solid)[:3, :3].T, (T_b @ b.T_object_solid)[:3, :3].T
    length = float(np.linalg.norm(apart))
    yield np.concatenate([first, second, apart[None] / length]) if length > 1e-9 else np.concatenate([first, second])
    cross = np.cross(first[:, None], second[None]).reshape(-1, 3)
    size = np.linalg.norm(cross, axis=1)
    yield np.concatenate([cross[size > 1e-6] / size[size > 1e-6, None], _AROUND])


def _sphere(count: int) -> Array:
    z = 1 - (np.arange(count) + 0.5) / count  # half of it: a direction and its opposite are one
    turn = np.arange(count) * math.pi * (3 - math.sqrt(5))
    across = np.sqrt(1 - z * z)
    return np.column_stack([across * np.cos(turn), across * np.sin(turn), z])


_AROUND = _sphere(200)
