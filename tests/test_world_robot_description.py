"""Robots from their description files: what ships, what is refused, one of one's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import sagehand.world.robot.description as description
from sagehand.errors import InputError, UnknownName
from sagehand.world.frames import angle_between, axis_rotation, rpy, translation
from sagehand.world.robot.description import load_robot, robot_names
from sagehand.world.robot.kinematics import Kinematics

PANDA = Path(description.__file__).with_name("panda.yaml")


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """A copy of the Panda's file with something changed, its path."""

    def written(change: Callable[[dict[str, Any]], None] = lambda doc: None) -> str:
        doc = yaml.safe_load(PANDA.read_text(encoding="utf-8"))
        change(doc)
        path = tmp_path / f"robot{len(list(tmp_path.iterdir()))}.yaml"
        path.write_text(yaml.safe_dump(doc), encoding="utf-8")
        return str(path)

    return written


def test_the_panda_ships() -> None:
    assert "panda" in robot_names()
    panda = load_robot("panda")
    assert panda is load_robot("panda")
    assert panda.widest_m == pytest.approx(0.078)  # GRASPING §2
    assert panda.force_n == (0.0, 70.0)
    assert len(panda.home) == 7
    assert np.all((panda.lower < panda.home) & (panda.home < panda.upper))


def test_the_pads_tips_stand_9_mm_beyond_the_tcp() -> None:  # GRASPING §1
    panda = load_robot("panda")
    end_of_pad = panda.finger_root_m + panda.pad.centre[2] + panda.pad.half[2]
    assert end_of_pad - panda.T_hand_tcp[2, 3] == pytest.approx(panda.tips_m, abs=2e-4)
    assert panda.tips_m == pytest.approx(0.009, abs=5e-4)
    assert panda.pad.centre[1] == pytest.approx(panda.pad.half[1])  # its inner face is y = 0


def test_an_unknown_robot_names_those_that_ship() -> None:
    with pytest.raises(UnknownName, match="panda"):
        load_robot("pandaa")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_robot(str(tmp_path / "none.yaml"))


def drop(*keys: str) -> Callable[[dict[str, Any]], None]:
    def change(doc: dict[str, Any]) -> None:
        for key in keys[:-1]:
            doc = doc[key]
        del doc[keys[-1]]

    return change


def put(value: Any, *keys: str) -> Callable[[dict[str, Any]], None]:
    def change(doc: dict[str, Any]) -> None:
        for key in keys[:-1]:
            doc = doc[key]
        doc[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop("joints"), "joints"),
        (drop("joints", "upper"), "upper"),
        (drop("hand", "tcp"), "tcp"),
        (drop("gripper", "pad"), "pad"),
        (drop("ik"), "ik"),
        (put([0.0] * 6, "joints", "lower"), "joints.lower must hold 7"),
        (put([math.nan] * 7, "joints", "velocity"), "joints.velocity"),
        (put([3.0] * 7, "joints", "lower"), r"joints\.lower must be below"),
        (put([0.0] * 7, "joints", "home"), r"joints\.home must be within"),
        (put([[0, 0, 0]] * 7, "dh"), "dh must hold 8 rows"),
        (put("magic", "ik"), "frankik, numeric"),
        (put([0.08], "gripper", "width"), "not enough values"),
        (put([0.08, 0.02], "gripper", "width"), "gripper.width"),
        (put({"centre": [0, 0, 0], "half": [0.1, 0.1, 0]}, "gripper", "pad"), "half above 0"),
        (put({"centre": [0, 0], "half": [0.1, 0.1, 0.1]}, "gripper", "pad"), "no box"),
        (put(3, "envelope"), "no robot description"),
    ],
)
def test_what_is_wrong_is_named(
    write: Callable[..., str], change: Callable[[dict[str, Any]], None], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        load_robot(write(change))


@pytest.mark.parametrize("text", ["", "- 1\n- 2\n", "just words", "a: [1, 2"])
def test_what_is_no_description_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "robot.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="no robot description"):
        load_robot(str(path))


def test_newton_alone_finds_what_the_closed_form_finds(write: Callable[..., str]) -> None:
    """The same arm, described as one without a closed form."""
    numeric = Kinematics(write(put("numeric", "ik")))
    rng = np.random.default_rng(0)
    solved = 0
    for _ in range(25):
        q = rng.uniform(numeric.robot.lower, numeric.robot.upper)
        T = numeric.forward(q)
        answer = numeric.inverse(T)
        if answer.q is not None:
            solved += 1
            assert numeric.within_limits(answer.q)
            np.testing.assert_allclose(numeric.forward(answer.q), T, atol=2e-4)
    assert solved >= 24
    far = numeric.inverse(translation(1.5, 0, 0.3) @ axis_rotation("x", math.pi))
    assert (far.reached, far.why) == (False, "out of reach")


def test_another_arm_can_be_described(write: Callable[..., str]) -> None:
    """A six-joint arm: the UR5e, by its maker's table of DH parameters, put into the modified form."""
    d, a = (0.1625, 0.1333, 0.0997, 0.0996), (-0.425, -0.3922)
    half = math.pi / 2
    rows = [[0, d[0], 0], [0, 0, half], [a[0], 0, 0], [a[1], d[1], 0], [0, d[2], half], [0, d[3], -half], [0, 0, 0]]

    def change(doc: dict[str, Any]) -> None:
        doc |= {"name": "ur5e", "ik": "numeric", "dh": rows}
        doc["joints"] = {
            "lower": [-math.pi] * 6,
            "upper": [math.pi] * 6,
            "velocity": [math.pi] * 6,
            "torque": [150, 150, 150, 28, 28, 28],
            "home": [0, -half, half, -half, -half, 0],
        }

    arm = Kinematics(write(change))
    # stretched out along x at zero, the flange is where the maker's tables add up to
    flange = arm.links(np.zeros(6))[-1]
    np.testing.assert_allclose(flange[:3, 3], (a[0] + a[1], -d[1] - d[3], d[0] - d[2]), atol=1e-9)
    q = np.array([0.3, -1.2, 1.4, -1.5, -1.4, 0.5])
    T = arm.forward(q)
    step = 1e-6
    for joint in range(6):
        moved = q.copy()
        moved[joint] += step
        slope = (arm.forward(moved)[:3, 3] - T[:3, 3]) / step
        np.testing.assert_allclose(arm.jacobian(q)[:3, joint], slope, atol=1e-5)
    answer = arm.inverse(T)
    assert answer.q is not None
    np.testing.assert_allclose(arm.forward(answer.q), T, atol=2e-4)
    assert len(arm.all_inverse(T, 8)) >= 2
    path = arm.straight(q, T, translation(0, 0, 0.05) @ T, 10)
    assert path is not None
    at = arm.forward(path[-1])
    np.testing.assert_allclose(at[:3, 3], T[:3, 3] + (0, 0, 0.05), atol=1e-4)
    assert angle_between(at, T) < 1e-3
    assert not arm.inverse(translation(1.5, 0, 0) @ rpy(0, 0, 0)).reached
