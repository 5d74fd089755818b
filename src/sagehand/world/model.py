"""A scene and a robot as one MuJoCo model: the same for collision checks, physics and pictures.

Geoms are named ``<object>/<number>`` for objects, ``table``, ``hand/pad0``, ``hand/finger0/0``, ``hand/palm/0`` and so on;
the arm's links keep the names of their bodies. An object's friction is that of its own geoms: pads and table have next to
none, and MuJoCo takes the larger of two (GRASPING §9: a pad with priority would hide the object's).
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import InputError, MissingExtra, UnknownName
from sagehand.gl import choose_gl
from sagehand.world.frames import Pose, quat_wxyz
from sagehand.world.objects.model import ObjectModel
from sagehand.world.objects.shapes import Solid, SolidKind
from sagehand.world.robot.description import EnvelopeBox, Robot
from sagehand.world.scene import Placed, Scene

__all__ = ["BARE_FRICTION", "WorldModel", "build_model", "mujoco_module", "set_pose"]

_LOG = logging.getLogger(__name__)
BARE_FRICTION = 0.001
"""Sliding friction of pads and table by themselves: the object's counts."""
_GEOM = {
    SolidKind.BOX: "mjGEOM_BOX",
    SolidKind.CYLINDER: "mjGEOM_CYLINDER",
    SolidKind.SPHERE: "mjGEOM_SPHERE",
    SolidKind.ELLIPSOID: "mjGEOM_ELLIPSOID",
    SolidKind.CAPSULE: "mjGEOM_CAPSULE",
}


@dataclass(frozen=True, eq=False)
class WorldModel:
    """A compiled model.

    Attributes:
        spec: What it was compiled from (``mujoco.MjSpec``).
        model: ``mujoco.MjModel``.
        robot: The robot in it.
        names: The objects' names, in the scene's order.
    """

    spec: Any
    model: Any
    robot: Robot
    names: tuple[str, ...]


def mujoco_module(what: str = "physics") -> Any:
    """MuJoCo, without pictures: a GL driver that ``MUJOCO_GL`` names and that is not there does not keep it from loading.

    Args:
        what: What it is for, for the error.

    Raises:
        MissingExtra: It is not installed.
    """
    if importlib.util.find_spec("mujoco") is None:
        raise MissingExtra(what, "world")
    choose_gl()  # whoever imports it first settles which driver later pictures use
    try:
        mj = importlib.import_module("mujoco")
    except Exception:  # what a missing driver raises differs by back end, down to AttributeError
        asked = os.environ.get("MUJOCO_GL")
        os.environ["MUJOCO_GL"] = "disable"
        try:
            mj = importlib.import_module("mujoco")
        finally:
            if asked is None:
                del os.environ["MUJOCO_GL"]
            else:
                os.environ["MUJOCO_GL"] = asked
    if mj.get_mju_user_warning() is None:
        mj.set_mju_user_warning(_LOG.info)  # else it writes a file into the folder that one happens to be in
    return mj


def build_model(scene: Scene, robot: Robot, *, detailed: bool = False, timestep: float = 0.002) -> WorldModel:
    """Compile a scene with a robot.

    Args:
        scene: Objects, table, camera.
        robot: The robot; its base is the origin.
        detailed: Draw the robot's meshes as they are; else their hulls, which compile fifty times faster.
        timestep: Of the physics [s].

    Raises:
        MissingExtra: MuJoCo or the robot's model is not installed.
        InputError: An object is called as a part of the robot is, or the robot's model lacks what its description names.
    """
    mj = mujoco_module()
    spec = _robot_spec(robot, detailed).copy()
    taken = {body.name for body in spec.bodies}
    for placed in scene.objects:
        if placed.name in taken:
            raise InputError(
                f"an object of the scene is called {placed.name!r}, as a body of {robot.name} is",
                hint="give it another `name`",
            )
    spec.option.timestep = timestep
    table = scene.table
    spec.worldbody.add_geom(
        name="table",
        type=mj.mjtGeom.mjGEOM_BOX,
        pos=[sum(table.x_m) / 2, sum(table.y_m) / 2, -table.thickness_m / 2],
        size=[(table.x_m[1] - table.x_m[0]) / 2, (table.y_m[1] - table.y_m[0]) / 2, table.thickness_m / 2],
        rgba=[0.55, 0.5, 0.45, 1],
        friction=[BARE_FRICTION, 0, 0],
        condim=4,
    )
    for placed in scene.objects:
        _add_object(mj, spec, placed)
    camera = scene.camera
    R = camera.T_world_camera[:3, :3] @ np.diag([1.0, -1.0, -1.0])  # MuJoCo's cameras look along −z, y up
    spec.worldbody.add_camera(name="cell", pos=list(camera.eye_m), quat=list(quat_wxyz(R)), fovy=camera.fovy_deg)
    spec.visual.global_.offwidth = max(camera.width, 1280)
    spec.visual.global_.offheight = max(camera.height, 960)
    return WorldModel(spec, spec.compile(), robot, tuple(o.name for o in scene.objects))


def set_pose(model: Any, data: Any, name: str, T_world_object: Pose) -> None:
    """Put an object's free joint at a pose, at rest."""
    joint = model.joint(f"{name}/free")
    at, speed = int(joint.qposadr[0]), int(joint.dofadr[0])
    data.qpos[at : at + 3] = T_world_object[:3, 3]
    data.qpos[at + 3 : at + 7] = quat_wxyz(T_world_object)
    data.qvel[speed : speed + 6] = 0


def _add_object(mj: Any, spec: Any, placed: Placed) -> None:
    T = placed.T_world_object
    body = spec.worldbody.add_body(name=placed.name, pos=list(T[:3, 3]), quat=list(quat_wxyz(T)))
    body.add_freejoint(name=f"{placed.name}/free")
    for number, solid in enumerate(placed.model.solids):
        _add_solid(mj, body, f"{placed.name}/{number}", solid, placed.model)
    if placed.content_kg:
        _add_content(mj, body, placed)


def _add_solid(mj: Any, body: Any, name: str, solid: Solid, model: ObjectModel) -> None:
    body.add_geom(
        name=name,
        type=getattr(mj.mjtGeom, _GEOM[solid.kind]),
        size=list(solid.size),
        pos=list(solid.T_object_solid[:3, 3]),
        quat=list(quat_wxyz(solid.T_object_solid)),
        mass=model.mass_kg * solid.mass_share,
        friction=[model.friction, 0.005, model.rolling_friction],
        condim=6 if model.rolling_friction else 4,
        rgba=list(solid.rgba),
        group=1,
    )


def _add_content(mj: Any, body: Any, placed: Placed) -> None:
    """Water, as a block that touches nothing: it weighs, and is seen."""
    cavity = placed.model.cavity
    if cavity is None:
        return
    height = placed.filled * (cavity.rim_m - cavity.floor_m)
    body.add_geom(
        name=f"{placed.name}/content",
        type=mj.mjtGeom.mjGEOM_CYLINDER,
        size=[0.85 * cavity.radius_m, height / 2, 0],  # its radius is that of equal volume, and the foot is narrower
        pos=[0, 0, cavity.floor_m + height / 2],
        mass=placed.content_kg,
        contype=0,
        conaffinity=0,
        rgba=[0.3, 0.5, 0.8, 0.6],
        group=1,
    )


@cache
def _robot_spec(robot: Robot, detailed: bool) -> Any:
    """The arm with its hand, fingers and pads; made once a process and copied."""
    mj = mujoco_module()
    arm = mj.MjSpec.from_file(str(robot.model_file("arm")))
    hand = mj.MjSpec.from_file(str(robot.model_file("hand")))
    fingers = [_body(hand, robot, "hand", name) for name in robot.model["fingers"]]
    flange = _body(arm, robot, "arm", robot.model["flange"])
    for part, which in ((arm, "arm"), (hand, "hand")):
        if not detailed:
            _hulls_only(part, robot.model_file(which).parent)
        for geom in part.geoms:
            geom.friction = [BARE_FRICTION, 0, 0]
    for geom in list(hand.geoms):
        if geom.type == mj.mjtGeom.mjGEOM_BOX:
            hand.delete(geom)  # the package's boxes are twice as thick as the fingers
        else:
            geom.contype = geom.conaffinity = 0  # seen only; boxes below collide
    _add_boxes(mj, fingers[0].parent, "palm", robot.hand_boxes)
    for number, finger in enumerate(fingers):
        _add_boxes(mj, finger, f"finger{number}", robot.finger_boxes)
        _add_boxes(mj, finger, f"pad{number}", (robot.pad,))
    for actuator in list(hand.actuators):
        hand.delete(actuator)
    for tendon in list(hand.tendons):
        hand.delete(tendon)
    arm.attach(hand, prefix="hand/", frame=flange.add_frame(quat=list(quat_wxyz(robot.T_flange_hand))))
    arm.option.cone = mj.mjtCone.mjCONE_ELLIPTIC
    arm.option.impratio = 10
    arm.option.integrator = mj.mjtIntegrator.mjINT_IMPLICITFAST
    return arm


def _body(spec: Any, robot: Robot, which: str, name: str) -> Any:
    body = spec.body(name)
    if body is None:
        known = [b.name for b in spec.bodies if b.name != "world"]
        raise UnknownName(f"body of the {which} of {robot.name}", name, known, hint="mend `flange` or `fingers`")
    return body


def _add_boxes(mj: Any, body: Any, name: str, boxes: tuple[EnvelopeBox, ...]) -> None:
    for number, box in enumerate(boxes):
        body.add_geom(
            name=name if len(boxes) == 1 else f"{name}/{number}",
            type=mj.mjtGeom.mjGEOM_BOX,
            pos=list(box.centre),
            size=list(box.half),
            friction=[BARE_FRICTION, 0, 0],
            condim=4,
            group=5,
            rgba=[0.2, 0.2, 0.2, 1],
            mass=0,
        )


def _hulls_only(spec: Any, folder: Any) -> None:
    from scipy.spatial import ConvexHull

    for mesh in spec.meshes:
        vertices = _vertices((folder / mesh.file).read_text(encoding="utf-8"))
        mesh.uservert = vertices[ConvexHull(vertices).vertices].ravel()
        mesh.file, mesh.maxhullvert = "", 64
    for material in spec.materials:
        material.textures[1] = ""
    for texture in list(spec.textures):
        spec.delete(texture)


def _vertices(obj: str) -> NDArray[np.float64]:
    return np.array([[float(v) for v in line.split()[1:4]] for line in obj.splitlines() if line.startswith("v ")])
