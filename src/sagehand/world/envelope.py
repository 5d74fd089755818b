"""The robot's collision bodies, placed for many joint angles at once, and the exact distance of one of them from a solid.

Where they sit on the links is read from the MuJoCo model once; their places then come from the arm's own kinematics. MuJoCo
measures single distances (``mj_geomDistance``) on a model of the robot alone, with one spare geom of every kind that takes the
size and place of whatever is measured against: no model is compiled for a scene.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import InputError
from sagehand.world.frames import Pose, invert
from sagehand.world.model import build_model, mujoco_module
from sagehand.world.objects.shapes import Solid, SolidKind
from sagehand.world.robot.chain import Chain
from sagehand.world.robot.description import Robot
from sagehand.world.scene import Scene

__all__ = ["Bodies", "Boxes", "Envelope", "lower_bound"]

Array = NDArray[np.float64]

CAP_M = 0.05
"""Larger gaps count as this [m]; a quality factor asks for 20 mm (GRASPING §2)."""

_local = threading.local()


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes at any angle.

    Attributes:
        centre: (..., 3) [m].
        axes: (..., 3, 3) their axes as columns.
        half: (..., 3) half lengths [m].
    """

    centre: Array
    axes: Array
    half: Array


def lower_bound(first: Boxes, second: Boxes) -> Array:
    """(M,) what the distance of boxes (M,) is at least [m]: the widest gap along any of their six face normals.

    Below 0 it is the shallowest overlap along these, and no pair overlaps more deeply than that.
    """
    shift = second.centre - first.centre
    mixed = np.matmul(first.axes.transpose(0, 2, 1), second.axes)  # [i, j]: first's axis i · second's axis j
    mixed_abs = np.abs(mixed)
    on_first = np.abs(np.matmul(shift[:, None, :], first.axes)[:, 0])
    on_second = np.abs(np.matmul(shift[:, None, :], second.axes)[:, 0])
    gap_first = on_first - first.half - np.matmul(mixed_abs, second.half[:, :, None])[:, :, 0]
    gap_second = on_second - second.half - np.matmul(first.half[:, None, :], mixed_abs)[:, 0]
    return np.asarray(np.maximum(gap_first.max(axis=1), gap_second.max(axis=1)))


class Bodies:
    """A robot's collision bodies at N sets of joint angles: the middles of all, whole poses of those alone that are asked for.

    Attributes:
        centre: (N, G, 3) middles of the boxes about the bodies [m].
    """

    def __init__(self, frames: Array, link: NDArray[np.intp], local: Array, middle: Array, half: Array) -> None:
        """Place the bodies.

        Args:
            frames: (N, L, 4, 4) what they ride on [m].
            link: (G,) which of these each does.
            local: (G, 4, 4) where they are on it [m].
            middle: (G, 3) of the boxes about them, there [m].
            half: (G, 3) half lengths of these boxes [m].
        """
        self._frames, self._link, self._local, self._half = frames, link, local, half
        self._links = link.tolist()
        rows, count = frames.shape[:2]
        place = np.zeros((count, 4, len(link)))
        place[link, :3, np.arange(len(link))] = middle
        place[link, 3, np.arange(len(link))] = 1.0
        flat = frames[:, :, :3].transpose(0, 2, 1, 3).reshape(3 * rows, -1)
        centre = (flat @ place.reshape(4 * count, -1)).reshape(rows, 3, -1)  # one product instead of one a body
        self.centre = np.ascontiguousarray(centre.transpose(0, 2, 1))

    def pose(self, row: int, body: int) -> Pose:
        """(4, 4) pose of one body at one row [m]."""
        T: Pose = self._frames[row, self._links[body]].dot(self._local[body])
        return T

    def boxes(self, row: NDArray[np.intp], body: NDArray[np.intp]) -> Boxes:
        """(M,) boxes about bodies (M,) at rows (M,)."""
        axes = np.matmul(self._frames[row, self._link[body], :3, :3], self._local[body, :3, :3])
        return Boxes(self.centre[row, body], axes, self._half[body])


class Envelope:
    """Collision bodies of a robot: arm links from the second on, palm, fingers, pads; the base counts for self-collision alone.

    It writes into a MuJoCo model of its own while it measures: :meth:`of` gives each thread another.
    """

    def __init__(self, robot: Robot) -> None:
        """Compile the robot and find its bodies.

        Raises:
            MissingExtra: MuJoCo or the robot's model is not installed.
            InputError: The model has no body of a name that the description gives.
        """
        mj = mujoco_module("checking for collisions")
        self._mj = mj
        spec = build_model(Scene(()), robot).spec
        for kind in SolidKind:
            shape = getattr(mj.mjtGeom, f"mjGEOM_{kind.upper()}")
            spec.worldbody.add_geom(name=f"spare/{kind}", type=shape, size=[0.01] * 3, contype=0, conaffinity=0)
        self._model: Any = spec.compile()
        self._data: Any = mj.MjData(self._model)
        self._sizes = self._model.geom_size  # views of what MuJoCo reads
        self._spots = self._data.geom_xpos
        self._turns = self._data.geom_xmat.reshape(-1, 3, 3)
        self._spare = {kind: int(self._model.geom(f"spare/{kind}").id) for kind in SolidKind}
        self.robot = robot
        self.chain = Chain(robot)
        self._read()

    @classmethod
    def of(cls, robot: Robot) -> Self:
        """This thread's envelope of a robot."""
        kept: dict[int, Self] = _local.__dict__.setdefault("envelopes", {})
        if id(robot) not in kept:
            kept[id(robot)] = cls(robot)
        return kept[id(robot)]

    def _read(self) -> None:
        model, data, robot = self._model, self._data, self.robot
        moving = [int(j) for j in range(model.njnt) if model.jnt_type[j] == self._mj.mjtJoint.mjJNT_HINGE]
        arm = moving[: len(robot.home)]
        fingers = [int(model.joint(int(model.body_jntadr[self._body(name)])).id) for name in robot.model["fingers"]]
        data.qpos[:] = 0
        data.qpos[[int(model.jnt_qposadr[j]) for j in arm]] = robot.home
        self._mj.mj_kinematics(model, data)
        links = self.chain.links(robot.home[None])
        where = np.concatenate([links.frames[0, :-1], links.tcp])  # of links 1 to n, then of the hand as a whole
        flange = self._body(robot.model["flange"])
        geoms, link, names, bodies, slides = [], [], [], [], []
        for geom in range(model.ngeom):
            body = int(model.geom_bodyid[geom])
            if not model.geom_contype[geom] or not body:
                continue
            above = self._above(body)
            of = [n for n, joint in enumerate(arm) if int(model.jnt_bodyid[joint]) in above]
            on_hand = flange in above and body != flange
            geoms.append(geom)
            bodies.append(body)
            link.append(len(arm) if on_hand else (of[-1] if of else -1))
            names.append(self._part(geom, body))
            slide = np.zeros(3)
            for joint in fingers:
                if int(model.jnt_bodyid[joint]) in above:
                    slide = data.xaxis[joint] / 2  # each finger moves half of the opening
            slides.append(slide)
        self.geoms = np.array(geoms)
        self._numbers: list[int] = self.geoms.tolist()
        self.names = tuple(names)
        self.link = np.array(link)
        """(G,) number of the link that each rides on, from 0; n for the hand's; −1 for the base."""
        pose = np.tile(np.eye(4), (len(geoms), 1, 1))
        pose[:, :3, :3] = data.geom_xmat[geoms].reshape(-1, 3, 3)
        pose[:, :3, 3] = data.geom_xpos[geoms]
        on = np.array([np.eye(4) if n < 0 else invert(where[n]) for n in link])
        self._place = on @ pose
        self._slide = np.einsum("gij,gj->gi", on[:, :3, :3], np.array(slides))
        self._middle = np.einsum("gij,gj->gi", self._place[:, :3, :3], model.geom_aabb[geoms, :3])
        self._middle += self._place[:, :3, 3]
        self.half: Array = model.geom_aabb[geoms, 3:].copy()
        self.radius: Array = np.linalg.norm(self.half, axis=1)
        """(G,) of the balls about those boxes [m]."""
        self.near_squares: Array = np.where(self.link >= 0, (CAP_M + self.radius) ** 2, -1.0)
        """(G,) of the distance from which such a ball is no nearer than counts [m²]; the base never is."""
        joint = np.minimum(self.link, len(arm) - 1)  # the hand rides on the last link
        first, second = np.nonzero(joint[None, :] - joint[:, None] > 1)
        self.pairs = first, second
        """Numbers of the bodies, the one nearer to the base first, that may meet each other."""
        self.pair_squares: Array = (self.radius[first] + self.radius[second]) ** 2
        """Of each pair, the radii of the two balls together, squared [m²]."""

    def _body(self, name: str) -> int:
        for prefix in ("", "hand/"):
            found = self._mj.mj_name2id(self._model, self._mj.mjtObj.mjOBJ_BODY, prefix + name)
            if found >= 0:
                return int(found)
        raise InputError(
            f"the model of {self.robot.name} has no body {name!r}",
            hint="flange and fingers of its description name bodies",
        )

    def _above(self, body: int) -> set[int]:
        found = set()
        while body:
            found.add(body)
            body = int(self._model.body_parentid[body])
        return found

    def _part(self, geom: int, body: int) -> str:
        name = str(self._model.geom(geom).name)
        return name.split("/")[1] if name.startswith("hand/") else str(self._model.body(body).name)

    def on_arm(self, body: int) -> bool:
        """Whether a body is part of the arm, not of the hand."""
        return bool(self.link[body] < self.chain.joints)

    def place(self, Q: Array, width_m: float) -> Bodies:
        """The bodies at joint angles Q (N, n) [rad], the fingers opened to ``width_m`` [m]."""
        links = self.chain.links(Q)
        frames = np.empty((len(Q), self.chain.joints + 2, 4, 4))
        frames[:, :-2], frames[:, -2], frames[:, -1] = links.frames[:, :-1], links.tcp, np.eye(4)
        slide = self._slide * width_m
        local = self._place.copy()
        local[:, :3, 3] += slide
        return Bodies(frames, self.link, local, self._middle + slide, self.half)

    def distance(self, body: int, pose: Array, solid: Solid, T_world_solid: Array, cap_m: float) -> float:
        """Distance [m] of one body at a pose (4, 4) from a solid at a pose, negative inside, at most ``cap_m``."""
        spare = self._spare[solid.kind]
        self._sizes[spare] = solid.size
        self._put(spare, T_world_solid)
        return self._measure(body, pose, spare, cap_m)

    def self_distance(self, first: int, first_pose: Array, second: int, second_pose: Array, cap_m: float) -> float:
        """Distance [m] of two bodies of the robot at poses (4, 4), negative inside, at most ``cap_m``."""
        geom = self._numbers[second]
        self._put(geom, second_pose)
        return self._measure(first, first_pose, geom, cap_m)

    def _put(self, geom: int, pose: Array) -> None:
        self._spots[geom] = pose[:3, 3]
        self._turns[geom] = pose[:3, :3]

    def _measure(self, body: int, pose: Array, other: int, cap_m: float) -> float:
        geom = self._numbers[body]
        self._put(geom, pose)
        return float(self._mj.mj_geomDistance(self._model, self._data, geom, other, cap_m, None))
