"""Robots from their description files: what ships, what is refused, one of one's own."""

from __future__ import annotations

import copy
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

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
        (drop("joints", "upper_rad"), "upper_rad"),
        (drop("hand", "tcp_m"), "tcp_m"),
        (drop("gripper", "pad"), "pad"),
        (drop("ik"), "ik"),
        (put([0.0] * 6, "joints", "lower_rad"), r"joints\.lower_rad is .*; it must hold 7 finite numbers"),
        (put([math.nan] * 7, "joints", "velocity_rad_s"), r"joints\.velocity_rad_s is"),
        (put([3.0] * 7, "joints", "lower_rad"), r"joints: lower_rad of joint 1 is 3; it must be below"),
        (put([0.0] * 7, "joints", "home_rad"), r"joints: home_rad of joint 4 is 0; it must be within"),
        (put([[0, 0, 0]] * 7, "dh"), "dh must hold 8 rows"),
        (put("magic", "ik"), "frankik, numeric"),
        (put([0.08], "gripper", "width_m"), r"gripper\.width_m is \[0\.08\]; it must hold 2 finite numbers"),
        (put([0.08, 0.02], "gripper", "width_m"), r"gripper\.width_m is .*below the second"),
        (put({"centre_m": [0, 0, 0], "half_m": [0.1, 0.1, 0]}, "gripper", "pad"), r"gripper\.pad\.half_m is .*above 0"),
        (put({"centre_m": [0, 0], "half_m": [0.1, 0.1, 0.1]}, "gripper", "pad"), "must hold 3 finite numbers"),
        (put(3, "envelope"), "envelope is 3; it must hold fields: hand, finger"),
        (put([3], "envelope", "hand"), r"envelope\.hand\[0\] is 3; it must hold fields: centre_m, half_m"),
        (put({"centre_m": [0, 0, 0], "half_m": [0.1, 0.1, 0.1]}, "gripper", "pad"), "inner face is not y = 0"),
        (put(0, "gripper", "finger_speed_m_s"), r"gripper\.finger_speed_m_s is 0; it must be above 0"),
        (put([-1.0] * 7, "joints", "velocity_rad_s"), "velocity_rad_s of joint 1 is -1; it must be above 0"),
        (put([0.0] * 7, "joints", "torque_nm"), "torque_nm of joint 1 is 0; it must be above 0"),
        (put(0.08, "gripper", "margin_m"), r"gripper\.margin_m is 0\.08; it must be from 0 to below"),
        (put(1, "gripper", "speed"), "unknown field of .*gripper 'speed'"),
        (put(1, "payload"), "unknown field of .* 'payload'"),
        (put([0.0] * 7, "joints", "lower"), "unknown field of .*joints 'lower'.*did you mean 'lower_rad'"),
        (put(True, "hand", "tcp_m"), r"hand\.tcp_m is True; it must be a finite number"),
        (put(10**400, "hand", "tcp_m"), r"hand\.tcp_m is 10+; it must be a finite number"),
        (put("../x", "model", "package"), "names no Python package"),
        (put(["one"], "fingers"), "names of two bodies"),
        (put(2, "format"), "format is 2: it was written for a newer version; this one reads 1"),
        (put("1", "format"), "format is '1'; it must be 1"),
    ],
)
def test_what_is_wrong_is_named(
    write: Callable[..., str], change: Callable[[dict[str, Any]], None], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        load_robot(write(change))


@pytest.mark.parametrize("text", ["", "- 1\n- 2\n", "just words"])
def test_what_is_no_description_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "robot.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="no robot description"):
        load_robot(str(path))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"name: caf\xe9\n", "cannot be read: it is not UTF-8 text"),
        (b"a: 1\nb: [1, 2\n", r"robot\.YAML, line [23]: this is no YAML"),
        (b"name: !!timestamp soon", "this is no YAML"),
        (b"name: 2026-13-45", "this is no YAML"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path: Path, data: bytes, told: str) -> None:
    path = tmp_path / "robot.YAML"  # an ending counts in any case
    path.write_bytes(data)
    with pytest.raises(InputError, match=told):
        load_robot(str(path))


def test_a_file_that_changed_is_read_again(write: Callable[..., str]) -> None:
    path = write()
    first = load_robot(path)
    assert load_robot(path) is first  # what is compiled for a robot is kept by it
    doc = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    doc["gripper"]["force_n"] = [0.0, 20.0]
    Path(path).write_text(yaml.safe_dump(doc), encoding="utf-8")
    assert load_robot(path).force_n == (0.0, 20.0)
    assert first.force_n == (0.0, 70.0)


def test_the_closed_form_is_for_seven_joints(write: Callable[..., str]) -> None:
    def change(doc: dict[str, Any]) -> None:
        doc["joints"] = {key: values[:6] for key, values in doc["joints"].items()}

    with pytest.raises(InputError, match="there are 6; ik: frankik is for seven"):
        load_robot(write(change))


def test_a_model_without_what_is_named_is_told(write: Callable[..., str]) -> None:
    pytest.importorskip("mujoco")
    pytest.importorskip("dm_robotics.panda")
    from sagehand.errors import MissingExtra
    from sagehand.world.model import build_model
    from sagehand.world.scene import Scene

    for change, error, told in (
        (put("panda_link9", "flange"), UnknownName, "body of the arm of panda 'panda_link9'"),
        (put(["panda_leftfinger", "thumb"], "fingers"), UnknownName, "body of the hand of panda 'thumb'"),
        (put("none.xml", "model", "arm"), InputError, "has no file none.xml"),
        (put("nowhere.at.all", "model", "package"), MissingExtra, "the model of panda"),
    ):
        with pytest.raises(error, match=told):
            build_model(Scene(()), load_robot(write(change)))


def leaves(doc: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of everything in a document, the whole of it last."""
    rows = doc.items() if isinstance(doc, dict) else enumerate(doc) if isinstance(doc, list) else ()
    return [leaf for key, value in rows for leaf in leaves(value, (*path, key))] + [path]


DOC = yaml.safe_load(PANDA.read_text(encoding="utf-8"))
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


@given(path=st.sampled_from(leaves(DOC)), value=junk, how=st.sampled_from(["put", "drop", "add"]), name=st.text())
@settings(max_examples=120, deadline=None)
def test_a_mutated_file_loads_whole_or_is_an_input_error(
    path: tuple[Any, ...], value: Any, how: str, name: str
) -> None:
    """And what loads is sound: finite, inside its limits."""
    doc = copy.deepcopy(DOC)
    at: Any = doc
    for key in path[:-1]:
        at = at[key]
    if how == "add" and isinstance(at, dict):
        at[name] = value
    elif how == "drop" and path:
        del at[path[-1]]
    elif path:
        at[path[-1]] = value
    else:
        doc = value
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "r.yaml"
        file.write_text(yaml.safe_dump(doc, allow_unicode=True), encoding="utf-8", errors="replace")
        told = ""
        try:
            robot = load_robot(str(file))
        except InputError as error:
            told = error.message
    if told:
        assert "r.yaml" in told
        return
    assert np.isfinite([*robot.home, *robot.velocity, *robot.dh.ravel(), robot.finger_speed, *robot.width_m]).all()
    assert np.all((robot.lower <= robot.home) & (robot.home <= robot.upper) & (robot.velocity > 0))
    assert robot.finger_speed > 0
    assert 0 <= robot.width_m[0] < robot.width_m[1]


@given(text=st.text(max_size=200))
@settings(max_examples=100, deadline=None)
def test_any_text_is_an_input_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_text(text, encoding="utf-8", errors="replace")
    with pytest.raises(InputError):
        load_robot(str(file))


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
            "lower_rad": [-math.pi] * 6,
            "upper_rad": [math.pi] * 6,
            "velocity_rad_s": [math.pi] * 6,
            "torque_nm": [150, 150, 150, 28, 28, 28],
            "home_rad": [0, -half, half, -half, -half, 0],
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
