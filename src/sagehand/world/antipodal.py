"""Every grasp that friction allows: an exhaustive search for antipodal pairs of points on an object's surface.

Two points hold an object between soft fingers if the line between them lies in both friction cones (Nguyen 1988, Chen & Burdick
1993). Points are found by rays through the object from all sides, also on the inside of walls, so that the rim of a cup is a
grasp like any other; from each a line is cast through the material. Around each line the hand is turned in steps of 15°, from
above or from the side, never from below (FIELD_REPORTS G06); what the fingers or the palm would run into on the way is left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sagehand.world.frames import Pose
from sagehand.world.grasp import Grasp, GraspType
from sagehand.world.grip import grip, holding_force
from sagehand.world.hand_room import comes_free, fingers_reach, hand_lowest
from sagehand.world.objects.model import ObjectModel
from sagehand.world.objects.regions import distance_to_region
from sagehand.world.robot.description import Robot
from sagehand.world.surface import material, surface_normals, surface_points, thinned

__all__ = ["MARGIN", "antipodal_grasps", "force_window", "grasp_type", "region_of"]

Array = NDArray[np.float64]

MARGIN = 0.005
"""How far the fingers are opened beyond the object on either side [m] (GRASPING §2: φ2 is 1 from 10 mm in all)."""
_SPACING = 0.004  # of the rays, and the edge of the cells that are told apart [m]
_PROBES = 0.008  # between points that must stay out of the hand; its thinnest part is 13 mm [m]
_CELL, _ANGLE = 0.005, math.radians(15)  # grasps nearer than both are one
_PAIRS = 3000  # of more, a share is drawn
_LOOKED_AT = 400  # grasps whose patches are looked at: so many most promising ones, and so many of all others
_CLEAR = 0.001  # between the hand and the table [m]
_BACK = 0.016  # the hand is drawn back from a pair by this at most to be clear of the table [m]
_OVERLAP = 0.008  # of a pad with the object, where the object is that deep [m]


def antipodal_grasps(
    model: ObjectModel,
    T_world_object: Pose | None = None,
    *,
    robot: Robot,
    limit: int | None = None,
    seed: int = 0,
) -> list[Grasp]:
    """All antipodal grasps of an object on the table, those of the best statics first.

    Whether an arm reaches them, and what stands beside the object, is not asked. The opening is the object's width and 5 mm on
    either side; the force is the geometric middle of 1.1 times what holds it and what harms it.

    Args:
        model: The object.
        T_world_object: (4, 4) how it lies; the table is z = 0 [m]. Default: as it stands by itself.
        robot: Whose hand.
        limit: At most so many.
        seed: Of the draw where there are more pairs than are looked at.
    """
    T = np.eye(4) if T_world_object is None else T_world_object
    up = T[2, :3]
    rng = np.random.default_rng(seed)
    points = surface_points(model, _SPACING)
    probes = points[thinned(points, _PROBES)]
    poses, openings = _hands(T, robot, _pairs(model, up, robot, points, rng))
    chosen = _chosen(model, robot, probes, poses, openings, up, rng)
    if not len(chosen):
        return []
    poses, openings = poses[chosen], openings[chosen]
    grips = grip(model, poses, openings, robot)
    needed = holding_force(model, poses, grips, up)
    low, high = force_window(model, needed, robot)
    cone, slope, down = math.atan(model.friction), grips.slope.max(axis=1), -(poses[:, :3, 2] @ up)
    deep = np.minimum(_OVERLAP, _depth(model, poses) - 0.0015)
    good = grips.touches & (slope <= cone) & (grips.overlap_m >= deep - 0.0013)
    window = np.log(np.maximum(high, 1e-3) / np.maximum(low, 1e-3))
    arm = model.com_m - grips.middle_m
    lever = np.linalg.norm(np.cross(arm, up), axis=1)  # how far from the line of gravity it is held
    score = (
        0.30 * np.clip(window / math.log(6), -2, 1)
        + 0.20 * (1 - np.minimum(1, lever / 0.04))
        + 0.20 * (1 - slope / max(cone, 1e-6))
        + 0.10 * np.minimum(1, grips.patch_m.sum(axis=1) / 0.03)
        + 0.15 * down
        + 0.05 * np.minimum(1, hand_lowest(robot, T, poses, openings) / 0.01)
    )
    order = [int(i) for i in np.lexsort((np.arange(len(poses)), -np.round(score, 9))) if good[i]][:limit]
    force = np.clip(np.sqrt(low * high), robot.force_n[0], high)
    reach = fingers_reach(robot, probes, poses[order], openings[order])
    return [
        Grasp.from_pose(
            poses[i],
            width_m=float(openings[i]),
            force_n=float(force[i]),
            type=grasp_type(float(down[i]), float(reach[place])),
            region=region_of(model, poses[i, :3, 3]),
        )
        for place, i in enumerate(order)
    ]


def force_window(model: ObjectModel, needed_n: Array, robot: Robot) -> tuple[Array, Array]:
    """From 1.1 times the force needed to what is safe for object and hand [N], (N,) each; empty where the first is larger."""
    high = np.full_like(needed_n, min(model.f_safe_n, robot.force_n[1]))
    return np.where(np.isfinite(needed_n), 1.1 * needed_n, 1e6), high


def region_of(model: ObjectModel, point_m: Array) -> str | None:
    """The region that a point (3,) in the object's frame is nearest to, within 20 mm [m]; None if there is none."""
    best, name = 0.020, None
    for region in model.regions.values():
        if (gap := distance_to_region(region, point_m)) < best:
            best, name = gap, region.name
    return name


def grasp_type(down: float, reach_m: float) -> GraspType:
    """The type of a grasp (GRASPING §1) by the cosine of its approach to straight down and how far the fingers reach [m]."""
    if down <= math.cos(math.radians(45)) + 1e-9:
        return GraspType.SIDE
    return GraspType.POWER if reach_m >= 0.030 else GraspType.PINCH


@dataclass(frozen=True, eq=False)
class _Lines:
    """Lines through the material: (N, 3) one end, (N, 3) the direction, (N,) how far to the other end [m]."""

    point: Array
    direction: Array
    length: Array


def _pairs(model: ObjectModel, up: Array, robot: Robot, points: Array, rng: np.random.Generator) -> _Lines:
    normals = surface_normals(model, points)
    kept = thinned(points, _SPACING, also=normals * 2)
    if len(kept) > _PAIRS:
        kept = np.sort(rng.choice(kept, _PAIRS, replace=False))
    points, normals = points[kept], normals[kept]
    level = -normals + (normals @ up)[:, None] * up
    size: Array = np.linalg.norm(level, axis=1)
    slanted = (size > 0.5) & (
        size < 0.9999
    )  # level lines beside those square to the surface: they suit a hand from above
    origins = np.concatenate([points, points[slanted]])
    outward = np.concatenate([normals, normals[slanted]])
    directions = np.concatenate([-normals, level[slanted] / size[slanted, None]])
    cone = math.cos(math.atan(model.friction)) - 1e-9
    inside = (-outward * directions).sum(1) >= cone
    origins, directions = origins[inside], directions[inside]
    starts, stops = material(model, origins, directions)
    here = np.asarray((np.abs(starts) < 1e-4).any(axis=0))
    stops = np.where(stops > 1e-4, stops, np.inf)
    through = stops.min(axis=0)
    whole = np.where(np.isfinite(stops), stops, -np.inf).max(axis=0)
    hollow = whole > through + 1e-4  # a wall may be held, and the whole vessel, too
    point = np.concatenate([origins, origins[hollow]])
    direction = np.concatenate([directions, directions[hollow]])
    length = np.concatenate([through, whole[hollow]])
    fits = np.concatenate([here, here[hollow]]) & (length <= robot.widest_m) & (length > 5e-4)
    point, direction, length = point[fits], direction[fits], length[fits]
    far = surface_normals(model, point + length[:, None] * direction)
    both = (far * direction).sum(1) >= cone
    return _Lines(point[both], direction[both], length[both])


def _hands(T: Pose, robot: Robot, lines: _Lines) -> tuple[Array, Array]:
    """(N, 4, 4) grasps in the object's frame and (N,) openings [m] that do not meet the table."""
    if not len(lines.point):
        return np.zeros((0, 4, 4)), np.zeros(0)
    up, y = T[2, :3], lines.direction
    first = -up + (y @ up)[:, None] * y  # as near to straight down as it goes
    upright = np.linalg.norm(first, axis=1) < 1e-3
    first[upright] = np.cross(y[upright], np.eye(3)[np.abs(y[upright]).argmin(axis=1)])
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    side = np.cross(y, first)
    middle = lines.point + lines.length[:, None] / 2 * y
    opening = np.minimum(lines.length + 2 * MARGIN, robot.width_m[1])
    poses, openings = [], []
    for k in range(round(2 * math.pi / _ANGLE)):
        z = math.cos(k * _ANGLE) * first + math.sin(k * _ANGLE) * side
        falls = -(z @ up)
        ok = falls > -1e-3
        pose = np.tile(np.eye(4), (int(ok.sum()), 1, 1))
        pose[:, :3, 0], pose[:, :3, 1], pose[:, :3, 2] = np.cross(y[ok], z[ok]), y[ok], z[ok]
        pose[:, :3, 3] = middle[ok]
        short = _CLEAR - hand_lowest(robot, T, pose, opening[ok])
        back = np.where(short > 0, short / np.maximum(falls[ok], 0.1), 0.0)
        pose[:, :3, 3] -= back[:, None] * z[ok]
        poses.append(pose[back <= _BACK])
        openings.append(opening[ok][back <= _BACK])
    pose, opening = np.concatenate(poses), np.concatenate(openings)
    kept = _distinct(pose)
    pose, opening = pose[kept], opening[kept]
    clear = hand_lowest(robot, T, pose, opening) >= _CLEAR - 1e-4
    return pose[clear], opening[clear]


def _distinct(poses: Array) -> NDArray[np.int64]:
    """The first of all that are within a cell and an angle; fingers changed round are the same."""
    closing = poses[:, :3, 1]
    main = np.abs(closing).argmax(axis=1)
    closing = closing * np.sign(closing[np.arange(len(closing)), main])[:, None]
    turned = np.column_stack([closing, poses[:, :3, 2]]) / math.sin(_ANGLE)
    return thinned(poses[:, :3, 3] + _CELL / 2, _CELL, also=turned)


def _chosen(
    model: ObjectModel, robot: Robot, probes: Array, poses: Array, openings: Array, up: Array, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Numbers of the grasps to look at: those held nearest to the line of gravity and from above, and a share of the others.

    None meets the object on its way.
    """
    arm = model.com_m - poses[:, :3, 3]
    lever = np.linalg.norm(arm - (arm @ up)[:, None] * up, axis=1)
    promise = np.argsort(lever / 0.02 + 0.5 * (poses[:, :3, 2] @ up), kind="stable")
    first = _free_of(robot, probes, poses, openings, promise, _LOOKED_AT)
    seen = int(np.argmax(promise == first[-1])) + 1 if len(first) == _LOOKED_AT else len(promise)
    more = _free_of(robot, probes, poses, openings, rng.permutation(promise[seen:]), _LOOKED_AT)
    return np.sort(np.concatenate([first, more]))


def _free_of(
    robot: Robot, probes: Array, poses: Array, openings: Array, order: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """The first ``count`` of an order that come straight down their approach without meeting the object."""
    found: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
    for begin in range(0, len(order), 400):
        part = order[begin : begin + 400]
        found.append(part[comes_free(robot, probes, poses[part], openings[part])])
        if sum(map(len, found)) >= count:
            break
    return np.concatenate(found)[:count]


def _depth(model: ObjectModel, poses: Array) -> Array:
    """How deep the object's box is along each approach [m], (N,)."""
    low, high = model.bounds_m
    return np.asarray(np.abs(poses[:, :3, 2]) @ (high - low))
