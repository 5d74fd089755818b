"""Grasps and commands: axes, transforms, plain data, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagehand.errors import InputError, UnknownName
from sagehand.world.frames import axis_rotation, pose, rpy, translation
from sagehand.world.grasp import LIFT_ACCELERATION, Grasp, GraspCommand, GraspType

direction = st.tuples(*[st.floats(-1, 1)] * 3).filter(lambda v: math.hypot(*v) > 0.05)
TOP = {"width_m": 0.08, "force_n": 20.0}


@given(direction, direction, st.tuples(*[st.floats(-1, 1)] * 3))
@settings(deadline=None, max_examples=60)
def test_axes_become_a_frame(
    approach: tuple[float, float, float], closing: tuple[float, float, float], place: tuple[float, float, float]
) -> None:
    if np.linalg.norm(np.cross(approach, closing)) < 1e-2:
        return
    grasp = Grasp.from_axes(place, approach, closing, **TOP)
    T = grasp.T_object_grasp
    z = np.array(approach) / math.hypot(*approach)
    np.testing.assert_allclose(T[:3, 2], z, atol=1e-9)
    assert abs(T[:3, 1] @ z) < 1e-9
    assert T[:3, 1] @ np.array(closing) > 0
    np.testing.assert_allclose(T[:3, 0], np.cross(T[:3, 1], T[:3, 2]), atol=1e-9)
    np.testing.assert_allclose(T[:3, 3], place)


def test_a_top_down_grasp_comes_from_above_and_closes_as_given() -> None:  # G04
    grasp = Grasp.from_axes((0, 0, 0.02), (0, 0, -1), (0, 1, 0), **TOP)
    command = grasp.at(translation(0.5, 0.1, 0), "cube")
    np.testing.assert_allclose(command.approach, (0, 0, -1), atol=1e-12)
    np.testing.assert_allclose(command.closing, (0, 1, 0), atol=1e-12)
    np.testing.assert_allclose(command.T_world_grasp[:3, 3], (0.5, 0.1, 0.02), atol=1e-12)
    np.testing.assert_allclose(command.T_world_pregrasp[:3, 3], (0.5, 0.1, 0.12), atol=1e-12)
    turned = grasp.at(translation(0.5, 0.1, 0) @ axis_rotation("z", math.pi / 2), "cube")
    np.testing.assert_allclose(turned.approach, (0, 0, -1), atol=1e-12)
    np.testing.assert_allclose(turned.closing, (-1, 0, 0), atol=1e-12)


@given(st.floats(-3, 3), st.floats(-1, 1), st.floats(0, 1), st.floats(0, 100))
@settings(deadline=None, max_examples=40)
def test_plain_data_makes_the_round_trip(yaw: float, tilt: float, width: float, force: float) -> None:
    grasp = Grasp.from_pose(
        translation(0.1, 0.2, 0.3) @ rpy(math.pi, tilt, yaw),
        width_m=width,
        force_n=force,
        type=GraspType.SIDE,
        speed_scale=0.5,
        region="rim",
    )
    assert Grasp.from_dict(grasp.to_dict()) == grasp


def test_a_command_keeps_what_the_grasp_says() -> None:
    grasp = Grasp((0, 0, 0), (1, 0, 0, 0), 0.05, 12.0, GraspType.POWER, 0.7, 0.06, "body")
    command = grasp.at(np.eye(4), "apple", lift_m=0.2)
    assert (command.width_m, command.force_n, command.type) == (0.05, 12.0, GraspType.POWER)
    assert (command.speed_scale, command.pregrasp_m, command.region, command.lift_m) == (0.7, 0.06, "body", 0.2)
    assert command.lift_acceleration == LIFT_ACCELERATION == 2.0
    assert grasp.at(np.eye(4), "apple", region="stem").region == "stem"
    elsewhere = command.moved(translation(1, 0, 0))
    assert elsewhere.T_world_grasp[0, 3] == 1
    assert elsewhere.force_n == command.force_n


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width_m": -0.01}, "width_m is -0.01"),
        ({"width_m": 1.2}, "from 0 to 1"),
        ({"force_n": math.nan}, "not finite"),
        ({"force_n": -1.0}, "force_n is -1.0"),
        ({"speed_scale": 0.0}, "above 0"),
        ({"speed_scale": 1.1}, "at most 1"),
        ({"pregrasp_m": -0.1}, "pregrasp_m"),
        ({"quat_xyzw": (0.0, 0.0, 0.0, 0.9)}, "unit length"),
        ({"position_m": (0.0, math.inf, 0.0)}, "not finite"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, object], message: str) -> None:
    fields: dict[str, object] = {"position_m": (0, 0, 0), "quat_xyzw": (0, 0, 0, 1), "width_m": 0.05, "force_n": 10.0}
    with pytest.raises(InputError, match=message):
        Grasp(**(fields | change))  # type: ignore[arg-type]


def test_parallel_axes_are_refused() -> None:
    with pytest.raises(InputError, match="no direction"):
        Grasp.from_axes((0, 0, 0), (0, 0, -1), (0, 0, 2), **TOP)
    with pytest.raises(InputError, match="approach"):
        Grasp.from_axes((0, 0, 0), (0, 0, 0), (0, 1, 0), **TOP)


@pytest.mark.parametrize(
    "change",
    [{"force_n": None}, {"quat_xyzw": [0, 0, 1]}, {"position_m": "abc"}, {"colour": "red"}, {"width_m": "wide"}],
)
def test_bad_data_is_refused(change: dict[str, object]) -> None:
    good = Grasp((0, 0, 0), (0, 0, 0, 1), 0.05, 10.0).to_dict()
    with pytest.raises(InputError):
        Grasp.from_dict(good | change)


def test_an_unknown_type_names_the_known_ones() -> None:
    good = Grasp((0, 0, 0), (0, 0, 0, 1), 0.05, 10.0).to_dict()
    with pytest.raises(UnknownName, match=r"squeeze.*") as caught:
        Grasp.from_dict(good | {"type": "squeeze"})
    assert "power" in str(caught.value)


def test_a_command_needs_a_rigid_pose() -> None:
    with pytest.raises(InputError, match="rigid"):
        GraspCommand("cube", pose() * 2, 0.05, 10.0)
