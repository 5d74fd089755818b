"""A robot from its description file: joints, hand, gripper, envelope. ``panda`` ships; a path names one of your own."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import InputError, MissingExtra, UnknownName
from sagehand.world.frames import Pose, axis_rotation, translation

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
        """
        spec = None
        package = str(self.model["package"])
        if importlib.util.find_spec(package.split(".")[0]) is not None:
            spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            error = MissingExtra(f"the model of {self.name}", "world")
            error.hint = f"pip install --no-deps {self.model['distribution']}"
            raise error
        return Path(next(iter(spec.submodule_search_locations))) / str(self.model[which])


def robot_names() -> list[str]:
    """Robots that ship."""
    return sorted(
        p.name.removesuffix(".yaml") for p in files("sagehand.world.robot").iterdir() if p.name.endswith(".yaml")
    )


@cache
def load_robot(name: str = "panda") -> Robot:
    """A robot that ships, by name, or one of your own, by the path of its YAML file.

    Raises:
        UnknownName: There is none of this name.
        InputError: The file cannot be read, or a field is missing or wrong.
    """
    import yaml

    if name in robot_names():
        text = (files("sagehand.world.robot") / f"{name}.yaml").read_text(encoding="utf-8")
    elif Path(name).suffix in {".yaml", ".yml"}:
        try:
            text = Path(name).read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(f"{name}: cannot be read: {error.strerror}") from error
    else:
        raise UnknownName("robot", name, robot_names(), hint="or give the path of a description file, *.yaml")
    try:
        return _robot(yaml.safe_load(text))
    except KeyError as error:
        raise InputError(f"{name}: this is no robot description: it has no {error}", hint=_EXAMPLE) from error
    except (AttributeError, IndexError, TypeError, ValueError, yaml.YAMLError) as error:
        raise InputError(f"{name}: this is no robot description: {error}", hint=_EXAMPLE) from error


_EXAMPLE = "panda.yaml in sagehand/world/robot shows every field"
_SOLVERS = ("frankik", "numeric")


def _robot(doc: dict[str, Any]) -> Robot:
    joints, hand, gripper, envelope = doc["joints"], doc["hand"], doc["gripper"], doc["envelope"]
    arrays = {k: np.array(joints[k], dtype=np.float64) for k in ("lower", "upper", "velocity", "torque", "home")}
    count = len(arrays["home"].ravel())
    for key, array in arrays.items():
        if array.shape != (count,) or not np.isfinite(array).all():
            raise ValueError(f"joints.{key} must hold {count} finite numbers, as joints.home does")
    if np.any(arrays["lower"] >= arrays["upper"]):
        raise ValueError("joints.lower must be below joints.upper")
    if np.any(arrays["home"] < arrays["lower"]) or np.any(arrays["home"] > arrays["upper"]):
        raise ValueError("joints.home must be within joints.lower and joints.upper")
    if doc["ik"] not in _SOLVERS:
        raise ValueError(f"ik is {doc['ik']!r}; it must be one of {', '.join(_SOLVERS)}")
    dh = np.array(doc["dh"], dtype=np.float64)
    if dh.shape != (len(arrays["home"]) + 1, 3) or not math.isfinite(float(dh.sum())):
        raise ValueError(f"dh must hold {len(arrays['home']) + 1} rows of a, d, alpha")
    return Robot(
        name=str(doc["name"]),
        **arrays,
        dh=dh,
        ik=str(doc["ik"]),
        T_flange_hand=axis_rotation("z", float(hand["flange_yaw"])),
        T_hand_tcp=translation(z=float(hand["tcp"])),
        finger_root_m=float(hand["finger_root"]),
        tips_m=float(hand["tips"]),
        width_m=_range("gripper.width", gripper["width"]),
        margin_m=float(gripper["margin"]),
        force_n=_range("gripper.force", gripper["force"]),
        finger_speed=float(gripper["finger_speed"]),
        pad=_box(gripper["pad"]),
        hand_boxes=tuple(_box(b) for b in envelope["hand"]),
        finger_boxes=tuple(_box(b) for b in envelope["finger"]),
        model={**doc["model"], "flange": doc["flange"], "fingers": tuple(doc["fingers"])},
    )


def _range(name: str, values: Any) -> tuple[float, float]:
    low, high = (float(v) for v in values)
    if not 0 <= low < high < math.inf:
        raise ValueError(f"{name} is {values}; it must be two numbers, the first at least 0 and below the second")
    return low, high


def _box(row: dict[str, Any]) -> EnvelopeBox:
    centre, half = np.array(row["centre"], dtype=np.float64), np.array(row["half"], dtype=np.float64)
    if centre.shape != (3,) or half.shape != (3,) or np.any(half <= 0):
        raise ValueError(f"{row} is no box: centre and half are three numbers each, half above 0")
    return EnvelopeBox(centre, half)
