"""The way to a grasp: free, blocked, by another posture, out of reach; lift and transit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sagehand.errors import InputError, UnknownName
from sagehand.world.approach import ENOUGH_M, STEP_M, plan_approach, plan_lift, plan_straight, plan_transit
from sagehand.world.clearance import Clearance
from sagehand.world.frames import Pose, axis_rotation, translation
from sagehand.world.objects.model import ObjectModel
from sagehand.world.objects.shapes import Box, solids_of
from sagehand.world.robot.description import load_robot
from sagehand.world.robot.kinematics import Kinematics
from sagehand.world.scene import Placed, Scene

pytest.importorskip("mujoco")
pytest.importorskip("dm_robotics.panda")
pytest.importorskip("frankik")

PANDA = load_robot("panda")
KINEMATICS = Kinematics(PANDA)
DOWN = axis_rotation("x", math.pi)


def block(name: str, size: tuple[float, float, float], x: float, y: float) -> Placed:
    solids = tuple(solids_of(Box(size), translation(z=size[2] / 2)))
    return Placed(name, ObjectModel(name, name, "thing", "wood", 0.0, 0.1, 0.5, 50.0, solids, {}), translation(x, y, 0))


def before(T: Pose, way: float = 0.1) -> Pose:
    return np.asarray(T @ translation(z=-way))


def test_a_free_way_ends_in_the_grasp() -> None:
    scene = Scene((block("cube", (0.04, 0.04, 0.04), 0.5, 0),))
    T = translation(0.5, 0, 0.03) @ DOWN
    found = plan_approach(KINEMATICS, Clearance(scene, PANDA), before(T), T, 0.08, ("cube",))
    assert found.free
    assert found.why == ""
    assert found.ik.reached
    assert found.path is not None
    assert found.q_pre is not None
    assert found.gap is not None
    np.testing.assert_array_equal(found.path[0], found.q_pre)
    np.testing.assert_allclose(KINEMATICS.forward(found.q_pre), before(T), atol=2e-4)
    np.testing.assert_allclose(KINEMATICS.forward(found.path[-1]), T, atol=2e-4)
    heights = [KINEMATICS.forward(q)[2, 3] for q in found.path]
    assert np.all(np.diff(heights) < 0)
    assert np.abs(np.diff(heights)).max() <= STEP_M + 1e-6
    assert found.gap.distance_m == pytest.approx(0.03 - 0.0089, abs=1e-4)  # the tips above the table
    assert found.gap.other == "table"


def test_the_target_counts_unless_it_is_told() -> None:
    scene = Scene((block("slab", (0.1, 0.1, 0.05), 0.5, 0),))
    T = translation(0.5, 0, 0.03) @ DOWN
    clearance = Clearance(scene, PANDA)
    blocked = plan_approach(KINEMATICS, clearance, before(T), T, 0.08)
    assert (blocked.why, blocked.free) == ("collision", False)
    assert blocked.gap is not None
    assert blocked.gap.other == "slab"
    assert blocked.path is not None  # the physics carries it out to see what happens
    assert plan_approach(KINEMATICS, clearance, before(T), T, 0.08, ("slab",)).free


def test_a_neighbour_blocks_the_hand() -> None:
    scene = Scene((block("cube", (0.04, 0.04, 0.04), 0.5, 0), block("tower", (0.06, 0.06, 0.25), 0.5, 0.11)))
    T = translation(0.5, 0, 0.03) @ DOWN
    clearance = Clearance(scene, PANDA)
    blocked = plan_approach(KINEMATICS, clearance, before(T), T, 0.08, ("cube",))
    assert blocked.why == "collision"
    assert blocked.gap is not None
    assert (blocked.gap.other, blocked.gap.arm) == ("tower", False)
    turned = T @ axis_rotation("z", math.pi / 2)  # the palm's short side towards it
    assert plan_approach(KINEMATICS, clearance, before(turned), turned, 0.08, ("cube",)).free


def test_another_posture_is_taken_where_the_arm_would_meet_something() -> None:
    """A mast beside the elbow of the posture nearest home: the arm goes there otherwise, the hand alike."""
    T = translation(0.5, 0, 0.3) @ DOWN
    alone = plan_approach(KINEMATICS, Clearance(Scene(()), PANDA), before(T), T, 0.08)
    assert alone.free
    assert alone.path is not None
    elbow = KINEMATICS.links(alone.path[-1])[3, :3, 3]
    mast = block("mast", (0.04, 0.04, 1.2), float(elbow[0]), float(elbow[1]))
    clearance = Clearance(Scene((mast,)), PANDA)
    assert not clearance.along(alone.path, 0.08).free
    found = plan_approach(KINEMATICS, clearance, before(T), T, 0.08)
    assert found.path is not None
    assert found.gap is not None
    assert np.abs(found.path[-1] - alone.path[-1]).max() > 0.29
    assert found.gap.distance_m > clearance.along(alone.path, 0.08).distance_m


def test_the_posture_nearest_home_is_kept_where_it_has_room() -> None:
    T = translation(0.5, 0.1, 0.3) @ DOWN
    found = plan_approach(KINEMATICS, Clearance(Scene(()), PANDA), before(T), T, 0.08)
    assert found.path is not None
    assert found.gap is not None
    assert found.gap.distance_m >= ENOUGH_M
    np.testing.assert_allclose(found.path[-1], KINEMATICS.all_inverse(T, 1)[0], atol=1e-4)


def test_what_cannot_be_reached_says_why() -> None:
    clearance = Clearance(Scene(()), PANDA)
    far = translation(1.3, 0, 0.1) @ DOWN
    found = plan_approach(KINEMATICS, clearance, before(far), far, 0.08)
    assert (found.path, found.q_pre, found.gap, found.why) == (None, None, None, "out of reach")
    assert not found.ik.reached
    assert found.ik.position_error_m > 0.1
    near = translation(0.5, 0, 0.3) @ DOWN
    found = plan_approach(KINEMATICS, clearance, translation(1.3, 0, 0.3) @ DOWN, near, 0.08)
    assert (found.path, found.why, found.ik.reached) == (None, "no straight path", True)


def test_a_lift_goes_straight_up() -> None:
    clearance = Clearance(Scene(()), PANDA)
    q = KINEMATICS.all_inverse(translation(0.5, 0, 0.05) @ DOWN, 1)[0]
    found = plan_lift(KINEMATICS, clearance, q, 0.15, 0.04)
    assert found.free
    assert found.path is not None
    places = np.array([KINEMATICS.forward(row)[:3, 3] for row in found.path])
    np.testing.assert_allclose(places[:, :2], np.tile((0.5, 0), (len(places), 1)), atol=2e-4)
    assert places[-1, 2] - places[0, 2] == pytest.approx(0.15, abs=2e-4)
    np.testing.assert_allclose(found.path[0], q, atol=1e-5)
    assert plan_lift(KINEMATICS, clearance, q, 1.5, 0.04).why == "no straight path"


def test_a_posture_that_can_lift_is_preferred() -> None:
    clearance = Clearance(Scene(()), PANDA)
    rng = np.random.default_rng(3)
    mended = hopeless = 0
    for _ in range(60):
        x, y, z = rng.uniform((0.3, -0.3, 0.06), (0.65, 0.3, 0.2))
        lean = axis_rotation("z", math.atan2(y, x) + rng.uniform(-1, 1)) @ axis_rotation("y", -math.radians(80))
        T = translation(x, y, z) @ lean @ axis_rotation("z", rng.choice([0, math.pi / 2])) @ DOWN
        plain = plan_approach(KINEMATICS, clearance, before(T), T, 0.06)
        if not plain.free or plain.path is None:
            continue
        assert plain.lift is None  # nobody asked
        if plan_lift(KINEMATICS, clearance, plain.path[-1], 0.15, 0.06).path is not None:
            continue
        found = plan_approach(KINEMATICS, clearance, before(T), T, 0.06, lift_m=0.15)
        assert found.free
        if found.lift is None:
            hopeless += 1
            continue
        mended += 1
        top = KINEMATICS.forward(found.lift[-1])
        np.testing.assert_allclose(top[:3, 3], T[:3, 3] + (0, 0, 0.15), atol=2e-4)
        np.testing.assert_allclose(found.lift[0], np.asarray(found.path)[-1], atol=1e-5)
    assert mended >= 2
    assert mended >= hopeless


def test_a_straight_way_into_the_table_is_a_collision() -> None:
    clearance = Clearance(Scene(()), PANDA)
    q = KINEMATICS.all_inverse(translation(0.5, 0, 0.1) @ DOWN, 1)[0]
    found = plan_straight(KINEMATICS, clearance, q, translation(0.5, 0, 0.0) @ DOWN, 0.04)
    assert found.why == "collision"
    assert found.gap is not None
    assert found.path is not None
    assert found.gap.other == "table"
    assert found.gap.row == len(found.path) - 1
    assert found.gap.distance_m == pytest.approx(-0.0089, abs=3e-4)


def test_the_way_there_moves_all_joints_evenly() -> None:
    clearance = Clearance(Scene((block("tower", (0.05, 0.05, 0.6), 0.45, 0.0),)), PANDA)
    left = KINEMATICS.all_inverse(translation(0.45, 0.3, 0.3) @ DOWN, 1)[0]
    right = left.copy()
    right[0] -= 1.1
    found = plan_transit(clearance, left, right, 0.04)
    assert found.path is not None
    np.testing.assert_array_equal(found.path[[0, -1]], [left, right])
    assert np.abs(np.diff(found.path, axis=0)).max() <= 0.05 + 1e-9
    assert found.why == "collision"
    assert found.gap is not None
    assert found.gap.other == "tower"
    assert plan_transit(clearance, left, right, 0.04, ("tower",)).free
    with pytest.raises(InputError, match="make no way"):
        plan_transit(clearance, left, right[:6], 0.04)
    with pytest.raises(UnknownName, match="tower"):
        plan_transit(clearance, left, right, 0.04, ("towr",))


def test_poses_that_are_none_are_refused() -> None:
    scene = Scene((block("cube", (0.04, 0.04, 0.04), 0.5, 0),))
    T = translation(0.5, 0, 0.03) @ DOWN
    clearance = Clearance(scene, PANDA)
    for pregrasp, grasp in ((before(T), np.eye(4) * 2), (np.eye(4) * 2, T)):
        with pytest.raises(InputError, match="no rigid pose"):
            plan_approach(KINEMATICS, clearance, pregrasp, grasp, 0.08, ("cube",))
    with pytest.raises(InputError, match="no rigid pose"):
        plan_straight(KINEMATICS, clearance, PANDA.home, np.eye(4) * 2, 0.08)
    with pytest.raises(InputError, match="no rigid pose"):
        plan_straight(KINEMATICS, clearance, PANDA.home, np.full((4, 4), np.nan), 0.08)
