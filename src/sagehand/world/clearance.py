"""How far the robot stays from table, objects and itself: the smallest gap of its collision bodies, at one place or along a path.

Boxes about the bodies give what a distance is at least, for all places, bodies and solids at once; the pairs that may hold the
smallest gap are then measured exactly, nearest first, until no other can be smaller.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sagehand.errors import InputError, UnknownName
from sagehand.world.envelope import CAP_M, Bodies, Boxes, Envelope, lower_bound
from sagehand.world.frames import Pose, is_pose, pose
from sagehand.world.objects.model import ObjectModel
from sagehand.world.objects.shapes import Solid, SolidKind, half_lengths
from sagehand.world.robot.description import Robot
from sagehand.world.scene import Scene

__all__ = ["CAP_M", "DEEPEST_M", "Clearance", "Gap"]

Array = NDArray[np.float64]

DEEPEST_M = -0.03
"""An overlap as deep as this ends the search [m]: a deeper one may be elsewhere."""
_SELF_EVERY = 4
"""The robot is held against itself at every fourth row of a path, and at both ends: its own gaps change slowly."""
_FEW = 6
"""So many pairs of a body and an object are looked at first, to find what the others must beat."""


@dataclass(frozen=True)
class Gap:
    """The smallest gap that was found.

    Attributes:
        distance_m: Below 0 they overlap, by so much [m]; 0.05 m if nothing is nearer.
        robot_part: What of the robot: "palm", "finger0", "pad1", or the name of an arm's body; "" if nothing is near.
        other: Name of the object, "table", or the robot's own part that it meets; "" if nothing is near.
        row: Where on the path.
        arm: A part of the arm meets something: another posture may not. False: the hand does.
    """

    distance_m: float
    robot_part: str = ""
    other: str = ""
    row: int = 0
    arm: bool = False

    @property
    def free(self) -> bool:
        """Nothing overlaps."""
        return self.distance_m > 0


class Clearance:
    """Gaps of a robot in a scene.

    The base and the table are bolted together and not counted. What of the robot itself comes near counts only when it
    overlaps: links that follow each other are always near. Two bodies that ride on one link or on neighbours never count.
    """

    def __init__(self, scene: Scene, robot: Robot) -> None:
        """Settle where everything is; no model is compiled, so this is quick.

        Args:
            scene: Objects and table.
            robot: The robot; its base is the origin.

        Raises:
            MissingExtra: MuJoCo or the robot's model is not installed.
        """
        self.robot = robot
        self._envelope = Envelope.of(robot)
        table = scene.table
        size = np.array([table.x_m[1] - table.x_m[0], table.y_m[1] - table.y_m[0], table.thickness_m]) / 2
        middle = (sum(table.x_m) / 2, sum(table.y_m) / 2, -table.thickness_m / 2)
        board = Solid(SolidKind.BOX, size, np.eye(4), float(8 * size.prod()))
        self._names = ["table", *(o.name for o in scene.objects)]
        self._solids: list[Solid] = [board, *(s for o in scene.objects for s in o.model.solids)]
        counts = [1, *(len(o.model.solids) for o in scene.objects)]
        self._owner = np.repeat(np.arange(len(counts)), counts)
        self._first = np.concatenate([[0], np.cumsum(counts)])
        shapes = [_Shape(np.eye(4)[None], size[None], np.zeros(3), size), *(_shape_of(o.model) for o in scene.objects)]
        self._local = np.concatenate([shape.solids for shape in shapes])
        self._half = np.concatenate([shape.halves for shape in shapes])
        self._poses = self._local.copy()
        self._middle = [shape.middle for shape in shapes]
        self._whole_half = np.array([shape.half for shape in shapes])
        self._of_whole = np.repeat(np.eye(len(counts)), 3, axis=0)
        self._whole_centre = np.empty((len(counts), 3))
        self._whole_axes = np.empty((len(counts), 3, 3))
        self._set(0, pose(middle))
        for number, placed in enumerate(scene.objects, 1):
            self._set(number, placed.T_world_object)

    def move(self, name: str, T_world_object: Pose) -> None:
        """Put an object elsewhere.

        Raises:
            UnknownName: There is none of this name.
            InputError: It is no rigid pose.
        """
        if not is_pose(T_world_object, 1e-4):
            raise InputError(f"the pose of {name!r} is no rigid pose")
        self._set(1 + self._number(name), T_world_object)

    def at(self, q: ArrayLike, width_m: float, ignore: Iterable[str] = ()) -> Gap:
        """The smallest gap at joint angles q (n,) [rad] with the fingers opened to ``width_m`` [m].

        Args:
            q: Joint angles.
            width_m: Opening between the fingers.
            ignore: Objects that may be touched.

        Raises:
            InputError: The joint angles do not fit the robot.
            UnknownName: There is no object of a name in ``ignore``.
        """
        return self.along(np.atleast_2d(np.asarray(q, dtype=np.float64)), width_m, ignore)

    def along(self, path: ArrayLike, width_m: float, ignore: Iterable[str] = ()) -> Gap:
        """The smallest gap at the rows of a joint path (N, n) [rad]; what is between two rows is not seen.

        Args:
            path: Joint angles; rows should be 5 mm of the TCP's way apart, or less.
            width_m: Opening between the fingers.
            ignore: Objects that may be touched.

        Raises:
            InputError: The joint angles do not fit the robot.
            UnknownName: There is no object of a name in ``ignore``.
        """
        envelope = self._envelope
        Q = envelope.chain.angles(path)
        counted = np.ones(len(self._names), dtype=bool)
        for name in ignore:
            counted[0 if name == "table" else 1 + self._number(name)] = False
        bodies = envelope.place(Q, width_m)
        return self._least(bodies, self._against_itself(bodies), counted)

    def _number(self, name: str) -> int:
        try:
            return self._names.index(name, 1) - 1
        except ValueError:
            raise UnknownName("object of the scene", name, self._names[1:]) from None

    def _set(self, number: int, T: Pose) -> None:
        rows = slice(int(self._first[number]), int(self._first[number + 1]))
        self._poses[rows] = T @ self._local[rows]
        self._whole_centre[number] = T[:3, :3] @ self._middle[number] + T[:3, 3]
        self._whole_axes[number] = T[:3, :3]

    def _least(self, bodies: Bodies, best: Gap, counted: NDArray[np.bool_]) -> Gap:
        """Whichever is less: ``best``, or the smallest gap between robot and scene."""
        row, body, whole = self._near(bodies, counted)
        if not len(row):
            return best
        about = bodies.boxes(row, body)
        bound = lower_bound(about, Boxes(self._whole_centre[whole], self._whole_axes[whole], self._whole_half[whole]))
        keep = np.flatnonzero(bound < min(CAP_M, best.distance_m))
        if not whole[keep].any():  # only the table, which is one solid
            return self._nearest(bodies, best, row[keep], body[keep], whole[keep], bound[keep])
        # then the solids of the objects that are left: of the nearest few, and of whatever may be nearer still than these
        order = keep[np.argsort(bound[keep], kind="stable")]
        for some in (order[:_FEW], order[_FEW:]):
            some = some[bound[some] < best.distance_m]
            if len(some) and best.distance_m > DEEPEST_M:
                counts = self._first[whole[some] + 1] - self._first[whole[some]]
                solid = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
                solid += np.repeat(self._first[whole[some]], counts)
                pair = np.repeat(some, counts)
                bounds = lower_bound(
                    Boxes(about.centre[pair], about.axes[pair], about.half[pair]),
                    Boxes(self._poses[solid, :3, 3], self._poses[solid, :3, :3], self._half[solid]),
                )
                best = self._nearest(bodies, best, row[pair], body[pair], solid, bounds)
        return best

    def _near(
        self, bodies: Bodies, counted: NDArray[np.bool_]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """Rows, bodies and whole objects, (M,) each, of which the ball about the body is near the box about the object."""
        rows, count, _ = bodies.centre.shape
        axes = self._whole_axes.transpose(1, 0, 2).reshape(3, -1)
        middle = (self._whole_centre[:, None] @ self._whole_axes).ravel()
        outside = bodies.centre.reshape(-1, 3) @ axes
        outside -= middle
        np.abs(outside, out=outside)
        outside -= self._whole_half.ravel()
        np.maximum(outside, 0, out=outside)
        outside *= outside
        squares = (outside @ self._of_whole).reshape(rows, count, -1)
        row, body, whole = np.nonzero((squares < self._envelope.near_squares[:, None]) & counted)
        return row, body, whole

    def _nearest(
        self,
        bodies: Bodies,
        best: Gap,
        row: NDArray[np.intp],
        body: NDArray[np.intp],
        solid: NDArray[np.intp],
        bound: Array,
    ) -> Gap:
        """Measure pairs of a body at a row and a solid, those of the least bound first; whichever is less, ``best`` or these."""
        envelope = self._envelope
        for number in np.argsort(bound, kind="stable"):
            if bound[number] >= best.distance_m or best.distance_m <= DEEPEST_M:
                break
            n, b, s = int(row[number]), int(body[number]), int(solid[number])
            distance = envelope.distance(b, bodies.pose(n, b), self._solids[s], self._poses[s], CAP_M)
            if distance < best.distance_m:
                other = self._names[self._owner[s]]
                best = Gap(distance, envelope.names[b], other, n, envelope.on_arm(b))
        return best

    def _against_itself(self, bodies: Bodies) -> Gap:
        """How deeply the robot overlaps itself, if it does."""
        envelope = self._envelope
        best = Gap(CAP_M)
        first, second = envelope.pairs
        count = len(bodies.centre)
        looked = np.array([n for n in range(count) if n % _SELF_EVERY == 0 or n == count - 1])
        centre = bodies.centre[looked]
        apart = centre.take(first, axis=1)
        apart -= centre.take(second, axis=1)
        row, pair = np.nonzero(np.einsum("npi,npi->np", apart, apart) < envelope.pair_squares)
        if not len(row):
            return best
        row = looked[row]
        bound = lower_bound(bodies.boxes(row, first[pair]), bodies.boxes(row, second[pair]))
        deepest = 0.0
        for number in np.argsort(bound):
            if bound[number] >= deepest or deepest <= DEEPEST_M:
                break
            n, a, b = int(row[number]), int(first[pair[number]]), int(second[pair[number]])
            distance = envelope.self_distance(b, bodies.pose(n, b), a, bodies.pose(n, a), 0.0)
            if distance < deepest:
                deepest = distance
                best = Gap(distance, envelope.names[b], envelope.names[a], n, arm=True)
        return best


class _Shape(NamedTuple):
    """What of an object does not depend on where it is, in its own frame.

    Attributes:
        solids: (S, 4, 4) of its solids [m].
        halves: (S, 3) half lengths of the boxes about them [m].
        middle: (3,) of the box about all of it [m].
        half: (3,) half lengths of that [m].
    """

    solids: Array
    halves: Array
    middle: Array
    half: Array


@lru_cache(maxsize=256)
def _shape_of(model: ObjectModel) -> _Shape:
    """Kept for the model: scene after scene is made of the same few objects."""
    low, high = model.bounds_m
    return _Shape(
        np.array([s.T_object_solid for s in model.solids]),
        np.array([half_lengths(s) for s in model.solids]),
        (low + high) / 2,
        (high - low) / 2,
    )
