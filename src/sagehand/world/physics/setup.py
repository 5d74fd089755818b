"""The compiled model that physics runs in: scene and robot, with motors; made once for a set of objects.

What differs from the model that pictures and collision checks use: motors on the joints, contacts stiff enough for a pinch, and
no collisions within the arm.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import InputError
from sagehand.world.model import build_model, mujoco_module
from sagehand.world.robot.description import Robot
from sagehand.world.scene import Scene

__all__ = ["ROBOT", "TABLE_NAME", "TIMESTEP", "PhysicsModel", "physics_model"]

TIMESTEP = 0.002
"""Of the physics [s]."""
SOLREF = (2 * TIMESTEP, 1.0)
"""Time constant [s] and damping ratio of a contact: the stiffest that MuJoCo's documentation allows, twice the time step. At its
default of 20 ms a pad sinks centimetres into a light object under 30 N."""
SOLIMP = (0.95, 0.99, 0.001, 0.5, 2.0)
"""Impedance of a contact, MuJoCo's for a stiff constraint (as the hand's model has it for the coupling of its fingers)."""
STIFFNESS = {"strong": 4500.0, "weak": 2000.0}
"""Of the joint servos [Nm/rad], with joint torque from 50 Nm and below: MuJoCo Menagerie, franka_emika_panda."""
DAMPING_RATIO = 0.1
"""Damping over stiffness of the joint servos [s]: MuJoCo Menagerie, franka_emika_panda."""
ARMATURE = 0.1
"""Inertia of the rotor of a joint, as the joint feels it [kg m²]: MuJoCo Menagerie, franka_emika_panda. Without it the light
wrist trembles against stiff contacts, and what is held creeps out of the fingers."""
FINGER_STIFFNESS = 1e4
"""Of a finger told to keep its place [N/m]."""
FINGER_DAMPING = 200.0
"""And its damping [N s/m]."""

TABLE_NAME = "table"
"""What touches are said to be with, where it is the table."""
ROBOT = "robot"
_OBJECTS, _ROBOT, _FINGERS = 1, 2, 4
_KEPT = 16
_cache: OrderedDict[tuple[Any, ...], tuple[Scene, PhysicsModel]] = OrderedDict()


@dataclass(frozen=True, eq=False)
class PhysicsModel:
    """A compiled model with its indices.

    Attributes:
        model: ``mujoco.MjModel``; never changed after it is compiled, but for motors (see ``control``), so take a copy.
        robot: The robot in it.
        names: The objects' names, in the scene's order.
        arm_qpos: (n,) where the arm's joints are in ``qpos``.
        arm_dof: (n,) where in ``qvel``.
        finger_qpos: (2,) where the fingers are in ``qpos``.
        finger_dof: (2,) where in ``qvel``.
        object_qpos: Name → first of its seven places in ``qpos``.
        object_dof: Name → first of its six places in ``qvel``.
        object_body: Name → its body's number.
        hand_body: The hand's body.
        finger_bodies: The fingers' bodies.
        owner: (ngeom,) to whom each geom belongs: −3 table or anything fixed, −2 arm, −1 palm, 0 and 1 the fingers,
            2 + the object's number.
    """

    model: Any
    robot: Robot
    names: tuple[str, ...]
    arm_qpos: NDArray[np.int64]
    arm_dof: NDArray[np.int64]
    finger_qpos: NDArray[np.int64]
    finger_dof: NDArray[np.int64]
    object_qpos: Mapping[str, int]
    object_dof: Mapping[str, int]
    object_body: Mapping[str, int]
    hand_body: int
    finger_bodies: tuple[int, int]
    owner: NDArray[np.int64]


def physics_model(scene: Scene, robot: Robot) -> PhysicsModel:
    """The model of a scene's objects; one that was compiled for the same objects before is given again, wherever they stood.

    Raises:
        MissingExtra: MuJoCo or the robot's model is not installed.
        InputError: The robot has no two fingers on slides.
    """
    key = (
        id(robot),
        scene.table,
        scene.camera,
        *((o.name, id(o.model), o.filled) for o in scene.objects),
    )
    if key not in _cache:
        _cache[key] = (scene, _compile(scene, robot))  # the scene keeps what the ids stand for alive
        if len(_cache) > _KEPT:
            _cache.popitem(last=False)
    _cache.move_to_end(key)
    return _cache[key][1]


def _compile(scene: Scene, robot: Robot) -> PhysicsModel:
    mj = mujoco_module()
    world = build_model(scene, robot, timestep=TIMESTEP)
    spec = world.spec
    for geom in spec.geoms:
        geom.solref, geom.solimp = list(SOLREF), list(SOLIMP)
    arm = [_movable(mj, j) for j in _joints_of(spec, robot)]
    for joint, torque in zip(arm, robot.torque, strict=True):
        joint.armature = ARMATURE
        stiffness = STIFFNESS["strong" if torque >= 50 else "weak"]
        _servo(mj, spec, joint.name, stiffness, stiffness * DAMPING_RATIO, float(torque))
    fingers = [f"hand/{name}" for name in robot.model["fingers"]]
    slides = [spec.body(name).joints[0].name for name in fingers]
    for slide in slides:
        _servo(mj, spec, slide, FINGER_STIFFNESS, FINGER_DAMPING, None)
    hand = spec.body(fingers[0]).parent.name
    _filter(spec, scene, fingers)
    return _indexed(spec.compile(), robot, scene, [j.name for j in arm], slides, hand, fingers)


def _joints_of(spec: Any, robot: Robot) -> list[Any]:
    hand = spec.body(f"hand/{robot.model['fingers'][0]}").parent
    chain, body = [], hand
    while body is not None and body.name != "world":
        chain += list(body.joints)
        body = body.parent
    if len(chain) != len(robot.home):
        raise InputError(f"the model of {robot.name} has {len(chain)} joints, its description {len(robot.home)}")
    return chain[::-1]


def _movable(mj: Any, joint: Any) -> Any:
    if joint.type != mj.mjtJoint.mjJNT_HINGE:
        raise InputError(f"joint {joint.name!r} of the robot does not turn", hint="an arm of hinges is expected")
    return joint


def _servo(mj: Any, spec: Any, joint: str, stiffness: float, damping: float, limit: float | None) -> None:
    actuator = spec.add_actuator(name=joint, target=joint, trntype=mj.mjtTrn.mjTRN_JOINT)
    if limit is not None:
        actuator.forcelimited, actuator.forcerange = True, [-limit, limit]
    actuator.gaintype, actuator.biastype = mj.mjtGain.mjGAIN_FIXED, mj.mjtBias.mjBIAS_AFFINE
    actuator.gainprm[0] = stiffness
    actuator.biasprm[1], actuator.biasprm[2] = -stiffness, -damping


def _filter(spec: Any, scene: Scene, fingers: list[str]) -> None:
    """The arm meets objects and the table, and the fingers each other; it does not meet itself."""
    names = {o.name for o in scene.objects}
    for geom in spec.geoms:
        if geom.contype == 0 and geom.conaffinity == 0:
            continue
        owner = geom.parent.name
        if owner in names or geom.name == TABLE_NAME:
            geom.contype, geom.conaffinity = _OBJECTS, _OBJECTS | _ROBOT
        elif owner in fingers:
            geom.contype, geom.conaffinity = _ROBOT | _FINGERS, _FINGERS
        else:
            geom.contype, geom.conaffinity = _ROBOT, 0


def _indexed(
    model: Any, robot: Robot, scene: Scene, arm: list[str], slides: list[str], hand: str, fingers: list[str]
) -> PhysicsModel:
    names = tuple(o.name for o in scene.objects)
    bodies = {name: int(model.body(name).id) for name in names}
    finger_bodies = (int(model.body(fingers[0]).id), int(model.body(fingers[1]).id))
    hand_body = int(model.body(hand).id)
    of_body = {b: number for number, b in enumerate(finger_bodies)}
    of_body |= {b: 2 + number for number, b in enumerate(bodies.values())} | {hand_body: -1, 0: -3}
    return PhysicsModel(
        model=model,
        robot=robot,
        names=names,
        arm_qpos=np.array([int(model.joint(j).qposadr[0]) for j in arm]),
        arm_dof=np.array([int(model.joint(j).dofadr[0]) for j in arm]),
        finger_qpos=np.array([int(model.joint(j).qposadr[0]) for j in slides]),
        finger_dof=np.array([int(model.joint(j).dofadr[0]) for j in slides]),
        object_qpos={name: int(model.joint(f"{name}/free").qposadr[0]) for name in names},
        object_dof={name: int(model.joint(f"{name}/free").dofadr[0]) for name in names},
        object_body=bodies,
        hand_body=hand_body,
        finger_bodies=finger_bodies,
        owner=np.array([of_body.get(int(b), -2) for b in model.geom_bodyid]),
    )
