"""The grasp frame and other tools' frames: a known top-down grasp, and there and back."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagehand.errors import InputError, UnknownName
from sagehand.world.frames import axis_rotation, rpy, translation
from sagehand.world.grasp import Grasp
from sagehand.world.robot.adapters import CONVENTIONS, from_convention, to_convention
from sagehand.world.robot.description import load_robot
from sagehand.world.robot.kinematics import Kinematics

PANDA = load_robot("panda")
AXES = {"+x": (1, 0, 0), "+y": (0, 1, 0), "+z": (0, 0, 1)}
# 30 mm above the table, closing along the world's x
GRASP = Grasp.from_axes((0, 0, 0.03), (0, 0, -1), (1, 0, 0), width_m=0.08, force_n=10).at(
    translation(0.5, 0.1, 0), "cube"
)


@pytest.mark.parametrize("name", list(CONVENTIONS))
def test_a_known_top_down_grasp_keeps_its_axes(name: str) -> None:  # G04
    convention = CONVENTIONS[name]
    T = to_convention(GRASP.T_world_grasp, name, PANDA)
    np.testing.assert_allclose(T[:3, :3] @ AXES[convention.approach], (0, 0, -1), atol=1e-12)
    if convention.closing:
        np.testing.assert_allclose(T[:3, :3] @ AXES[convention.closing], (1, 0, 0), atol=1e-12)
    assert np.linalg.det(T[:3, :3]) == pytest.approx(1)
    np.testing.assert_allclose(T[:2, 3], (0.5, 0.1), atol=1e-12)


def test_origins_are_where_they_are_said_to_be() -> None:
    for name, height in {"tcp": 0.0, "graspnet": 0.0, "gpd": 0.0, "hand": 0.1034, "flange": 0.1034}.items():
        assert to_convention(GRASP.T_world_grasp, name, PANDA)[2, 3] == pytest.approx(0.03 + height)


def test_the_flange_is_the_arms() -> None:
    kinematics = Kinematics(PANDA)
    q = PANDA.home + 0.2
    flange = to_convention(kinematics.forward(q), "flange", PANDA)
    np.testing.assert_allclose(flange, kinematics.links(q)[-1], atol=1e-9)


@given(
    st.sampled_from(list(CONVENTIONS)),
    st.tuples(*[st.floats(-1, 1)] * 3),
    st.tuples(*[st.floats(-3, 3)] * 3),
)
@settings(deadline=None, max_examples=60)
def test_there_and_back_is_the_same(
    name: str, place: tuple[float, float, float], turns: tuple[float, float, float]
) -> None:
    T = translation(*place) @ rpy(*turns)
    np.testing.assert_allclose(from_convention(to_convention(T, name, PANDA), name, PANDA), T, atol=1e-9)


def test_it_stands_on_the_right() -> None:
    """Moving the world moves both alike; a transform on the left would not."""
    move = translation(0.1, -0.2, 0.3) @ axis_rotation("z", 1.0)
    for name in CONVENTIONS:
        np.testing.assert_allclose(
            to_convention(move @ GRASP.T_world_grasp, name, PANDA),
            move @ to_convention(GRASP.T_world_grasp, name, PANDA),
            atol=1e-12,
        )


def test_two_conventions_differ_by_a_quarter_turn_not_by_nothing() -> None:
    T = GRASP.T_world_grasp
    turn = to_convention(T, "tcp", PANDA)[:3, :3].T @ to_convention(T, "graspnet", PANDA)[:3, :3]
    assert math.degrees(math.acos((np.trace(turn) - 1) / 2)) == pytest.approx(90)


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(UnknownName, match="graspnet"):
        to_convention(np.eye(4), "grasp-net", PANDA)
    with pytest.raises(InputError, match="rigid"):
        from_convention(np.ones((4, 4)), "gpd", PANDA)
