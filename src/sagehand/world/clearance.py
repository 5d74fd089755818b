"""How far the robot stays from table, objects and itself: the smallest gap of its collision bodies, at one place or along a path.

Boxes about the bodies give what a distance is at least, for all places, bodies and solids at once; the pairs that may hold the
smallest gap are then measured exactly, nearest first, until no other can be smaller.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sagehand.errors import InputError, UnknownName
from sagehand.world.envelope import Boxes, Envelope, lower_bound
from sagehand.world.frames import Pose, is_pose, pose
from sagehand.world.objects.shapes import Solid, SolidKind, half_lengths
from sagehand.world.robot.description import Robot
from sagehand.world.scene import Scene

__all__ = ["CAP_M", "DEEPEST_M", "Clearance", "Gap"]

Array = NDArray[np.float64]

CAP_M = 0.05
"""Larger gaps count as this [m]; a quality factor asks for 20 mm (GRASPING §2)."""
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
        self._local = np.array([s.T_object_solid for s in self._solids])
        self._half = np.array([half_lengths(s) for s in self._solids])
        self._poses = self._local.copy()
        self._whole = [(np.zeros(3), size), *(_middle_and_half(o.model.bounds_m) for o in scene.objects)]
        self._whole_half = np.array([half for _, half in self._whole])
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
        poses = envelope.place(Q, width_m)
        boxes = envelope.boxes(poses)
        return self._least(poses, boxes, self._against_itself(poses, boxes), counted)

    def _number(self, name: str) -> int:
        try:
            return self._names.index(name, 1) - 1
        except ValueError:
            raise UnknownName("object of the scene", name, self._names[1:]) from None

    def _set(self, number: int, T: Pose) -> None:
        rows = slice(int(self._first[number]), int(self._first[number + 1]))
        self._poses[rows] = T @ self._local[rows]
        middle, _ = self._whole[number]
        self._whole_centre[number] = T[:3, :3] @ middle + T[:3, 3]
        self._whole_axes[number] = T[:3, :3]

    def _least(self, poses: Array, boxes: Boxes, best: Gap, counted: NDArray[np.bool_]) -> Gap:
        """Whichever is less: ``best``, or the smallest gap between robot and scene."""
        envelope = self._envelope
        moving = envelope.moving
        centre = boxes.centre[:, moving]  # (N, G, 3)
        radius = envelope.radius[moving]
        # whole objects first: distance of the middle of each body from the box about each object
        axes = self._whole_axes.transpose(1, 0, 2).reshape(3, -1)
        local = centre @ axes - np.einsum("oi,oij->oj", self._whole_centre, self._whole_axes).ravel()
        outside = np.maximum(np.abs(local) - self._whole_half.ravel(), 0)
        near = np.sqrt((outside * outside).reshape(*centre.shape[:2], -1, 3).sum(axis=-1)) - radius[:, None]
        row, body, whole = np.nonzero((near < CAP_M) & counted)
        if not len(row):
            return best
        body = moving[body]
        bound = lower_bound(
            _rows(boxes, row, body),
            Boxes(self._whole_centre[whole], self._whole_axes[whole], self._whole_half[whole]),
        )
        keep = bound < min(CAP_M, best.distance_m)
        row, body, whole, bound = row[keep], body[keep], whole[keep], bound[keep]
        if not whole.any():  # only the table, which is one solid
            return self._nearest(poses, best, row, body, whole, bound)
        # then the solids of the objects that are left: of the nearest few, and of whatever may be nearer still than these
        order = np.argsort(bound, kind="stable")
        for some in (order[:_FEW], order[_FEW:]):
            some = some[bound[some] < best.distance_m]
            if len(some) and best.distance_m > DEEPEST_M:
                best = self._among(poses, boxes, best, row[some], body[some], whole[some])
        return best

    def _among(
        self,
        poses: Array,
        boxes: Boxes,
        best: Gap,
        row: NDArray[np.intp],
        body: NDArray[np.intp],
        whole: NDArray[np.intp],
    ) -> Gap:
        """Whichever is less: ``best``, or the smallest gap between bodies at rows and the solids of objects."""
        counts = self._first[whole + 1] - self._first[whole]
        solid = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        solid += np.repeat(self._first[whole], counts)
        row, body = np.repeat(row, counts), np.repeat(body, counts)
        bound = lower_bound(
            _rows(boxes, row, body),
            Boxes(self._poses[solid, :3, 3], self._poses[solid, :3, :3], self._half[solid]),
        )
        return self._nearest(poses, best, row, body, solid, bound)

    def _nearest(
        self,
        poses: Array,
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
            distance = envelope.distance(b, poses[n, b], self._solids[s], self._poses[s], CAP_M)
            if distance < best.distance_m:
                other = self._names[self._owner[s]]
                best = Gap(distance, envelope.names[b], other, n, envelope.on_arm(b))
        return best

    def _against_itself(self, poses: Array, boxes: Boxes) -> Gap:
        """How deeply the robot overlaps itself, if it does."""
        envelope = self._envelope
        best = Gap(CAP_M)
        first, second = envelope.pairs
        count = len(boxes.centre)
        looked = np.array([n for n in range(count) if n % _SELF_EVERY == 0 or n == count - 1])
        centre = boxes.centre[looked]
        apart = centre[:, first] - centre[:, second]
        row, pair = np.nonzero(np.einsum("npi,npi->np", apart, apart) < envelope.pair_radius**2)
        if not len(row):
            return best
        row = looked[row]
        bound = lower_bound(_rows(boxes, row, first[pair]), _rows(boxes, row, second[pair]))
        deepest = 0.0
        for number in np.argsort(bound):
            if bound[number] >= deepest or deepest <= DEEPEST_M:
                break
            n, a, b = int(row[number]), int(first[pair[number]]), int(second[pair[number]])
            distance = envelope.self_distance(b, poses[n, b], a, poses[n, a], 0.0)
            if distance < deepest:
                deepest = distance
                best = Gap(distance, envelope.names[b], envelope.names[a], n, arm=True)
        return best


def _rows(boxes: Boxes, row: NDArray[np.intp], body: NDArray[np.intp]) -> Boxes:
    return Boxes(boxes.centre[row, body], boxes.axes[row, body], boxes.half[row, body])


def _middle_and_half(bounds: tuple[Array, Array]) -> tuple[Array, Array]:
    low, high = bounds
    return (low + high) / 2, (high - low) / 2
