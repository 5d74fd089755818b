"""Grasps of regions, and tries: what hand and force are chosen, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from sagehand.errors import InputError, UnknownName
from sagehand.world.force import grasping_force
from sagehand.world.frames import Pose, axis_rotation, translation
from sagehand.world.grasp import Grasp
from sagehand.world.natural import auto_grasp, grasp_for
from sagehand.world.objects.load import object_names, resolve
from sagehand.world.objects.model import ObjectModel
from sagehand.world.objects.shapes import Box, solids_of
from sagehand.world.robot.description import load_robot
from sagehand.world.robot.kinematics import Kinematics
from sagehand.world.scenes import load_scene, single
from sagehand.world.tries import adjusted, chosen_grasp, executor_for, read_grasp, try_grasp

pytest.importorskip("frankik")

ROBOT = load_robot()
ARM = Kinematics(ROBOT)
MIDDLE = translation(0.5, 0.0)


def in_world(name: str, region: str, T: Pose = MIDDLE) -> Pose:
    return T @ grasp_for(resolve(name), region, T, ROBOT, kinematics=ARM).T_object_grasp


@pytest.mark.parametrize("name", object_names())
def test_every_region_gives_a_grasp_above_the_table_and_within_the_hand(name: str) -> None:
    model = resolve(name)
    for region in model.regions:
        grasp = grasp_for(model, region, MIDDLE, ROBOT, kinematics=ARM)
        assert ROBOT.width_m[0] <= grasp.width_m <= ROBOT.width_m[1]
        assert 0 < grasp.force_n <= ROBOT.force_n[1]
        assert grasp.region == region
        tip = MIDDLE @ grasp.T_object_grasp @ (0, 0, ROBOT.tips_m, 1)
        assert tip[2] >= 0.001 - 1e-9
    assert ARM.inverse(MIDDLE @ auto_grasp(model, MIDDLE, ROBOT, kinematics=ARM).T_object_grasp).reached


def test_the_natural_grasp_is_the_regions_frame() -> None:
    """Approach along −z of the region, closing along its y, TCP at its origin."""
    region = resolve("box").region("top")
    grasp = grasp_for(resolve("box"), "top", MIDDLE, ROBOT, kinematics=ARM).T_object_grasp
    assert np.allclose(grasp[:3, 2], -region.T_object_region[:3, 2])
    assert abs(float(grasp[:3, 1] @ region.T_object_region[:3, 1])) == pytest.approx(1)
    assert np.allclose(grasp[:3, 3], region.T_object_region[:3, 3])


def test_a_round_region_is_taken_on_the_robots_side() -> None:
    for yaw in (0.0, 1.0, 2.0, 3.0, -2.0):
        T = translation(0.55, 0.1) @ axis_rotation("z", yaw)
        tcp = in_world("bowl", "rim", T)[:3, 3]
        middle = T[:3, 3]
        assert np.hypot(*tcp[:2]) < np.hypot(*middle[:2]) - 0.05
    side = in_world("vase", "body")
    assert side[0, 2] > 0.9  # the hand comes from the robot


def test_a_flat_things_tips_are_kept_off_the_table() -> None:
    """GRASPING §8: the phone is taken with the TCP 10 to 14 mm above the table."""
    assert 0.0095 <= in_world("phone", "edges")[2, 3] <= 0.014


def test_the_force_is_half_again_what_is_required_by_the_law_of_friction() -> None:
    """A box held at its centre of mass: m (g + a) / 2µ, and no moment."""
    solids = tuple(solids_of(Box((0.04, 0.04, 0.04)), translation(z=0.02)))
    cube = ObjectModel("c", "c", "c", "wood", 0, 0.5, 0.4, 60, solids, {})
    grasp = Grasp.from_axes((0, 0, 0.02), (0, 0, -1), (0, 1, 0), width_m=0.05, force_n=1)
    required = 0.5 * (9.81 + 2) / (2 * 0.4)
    up = np.array([0.0, 0.0, 1.0])
    assert grasping_force(cube, grasp, up, ROBOT) == pytest.approx(1.5 * required, rel=0.02)
    tender = ObjectModel("c", "c", "c", "fruit", 0, 0.5, 0.4, 1.2 * required, solids, {})
    assert grasping_force(tender, grasp, up, ROBOT) == pytest.approx(math.sqrt(1.2) * required, rel=0.02)
    assert grasping_force(cube, grasp, up, ROBOT, mass_kg=1.0) == pytest.approx(3.0 * required, rel=0.02)


def test_a_rim_takes_more_than_its_weight() -> None:
    """GRASPING §2: the moment of the bowl's centre of mass counts, not its weight alone."""
    bowl = resolve("bowl")
    by_weight = bowl.mass_kg * 11.81 / (2 * bowl.friction)
    assert grasp_for(bowl, "rim", MIDDLE, ROBOT, kinematics=ARM).force_n > 1.5 * 2 * by_weight


def test_adjusting_moves_and_turns_in_the_objects_frame() -> None:
    grasp = grasp_for(resolve("cube"), "sides", MIDDLE, ROBOT, kinematics=ARM)
    moved = adjusted(grasp, ROBOT, width_m=0.06, yaw_rad=math.pi / 2, offset_m=(0.01, 0.0, -0.005))
    assert np.allclose(np.array(moved.position_m) - grasp.position_m, (0.01, 0, -0.005))
    closing = moved.T_object_grasp[:3, 1]
    assert abs(float(closing @ grasp.T_object_grasp[:3, 1])) < 1e-9
    assert (moved.width_m, moved.force_n, moved.region) == (0.06, grasp.force_n, "sides")
    assert adjusted(grasp, ROBOT).T_object_grasp == pytest.approx(grasp.T_object_grasp)
    with pytest.raises(InputError, match="the opening is 90 mm; the hand of panda goes from 0 to 80 mm"):
        adjusted(grasp, ROBOT, width_m=0.09)


def test_a_try_says_the_same_twice_and_can_be_told_in_json() -> None:
    scene = single("cube")
    grasp = chosen_grasp(scene, "cube", "auto", ROBOT)
    first, second = (try_grasp(scene, "cube", grasp, executor_for("analytic", ROBOT)).to_dict() for _ in range(2))
    drop = {"run_s", "setup_s"}
    assert {k: v for k, v in first.items() if k not in drop} == {k: v for k, v in second.items() if k not in drop}
    assert first["success"]
    json.dumps(first, allow_nan=False)
    beside = adjusted(grasp, ROBOT, offset_m=(0.0, 0.2, 0.0))
    assert not try_grasp(scene, "cube", beside, executor_for("analytic", ROBOT)).attempt.truth.success


def test_a_grasp_goes_through_a_file(tmp_path: Path) -> None:
    scene = single("apple", 3)
    grasp = chosen_grasp(scene, "apple", "equator", ROBOT, 4.0)
    assert grasp.force_n == 4.0
    for doc in (grasp.to_dict(), {"grasp": grasp.to_dict(), "success": True}):
        file = tmp_path / "g.json"
        file.write_text(json.dumps(doc))
        assert read_grasp(file) == grasp
        assert chosen_grasp(scene, "apple", str(file), ROBOT, 5.0).force_n == 5.0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "this is no JSON"),
        ("[1, 2]", "this is no grasp"),
        ("{}", "this is no grasp"),
        ('{"position_m": [0, 0, 0], "quat_xyzw": [0, 0, 0, 1], "width_m": 0.05}', "force_n"),
        ('{"position_m": [0, 0], "quat_xyzw": [0, 0, 0, 1], "width_m": 0.05, "force_n": 5}', "three numbers"),
        (
            '{"position_m": [0, 0, 0], "quat_xyzw": [0, 0, 0, 1], "width_m": 0.05, "force_n": 5, "type": "pinsh"}',
            "did you mean 'pinch'",
        ),
    ],
)
def test_what_is_told_of_a_bad_grasp_file(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "g.json"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        read_grasp(file)
    assert told in str(caught.value)


def test_what_is_refused() -> None:
    scene = load_scene("cup")
    with pytest.raises(UnknownName, match="did you mean 'rim'"):
        chosen_grasp(scene, "cup", "rimm", ROBOT)
    with pytest.raises(UnknownName, match="object of the scene 'vase'"):
        chosen_grasp(scene, "vase", "auto", ROBOT)
    for force in (-1.0, 71.0, math.nan):
        with pytest.raises(InputError, match="the hand of panda goes from 0 to 70 N"):
            chosen_grasp(scene, "cup", "rim", ROBOT, force)
    with pytest.raises(UnknownName, match="did you mean 'physics'"):
        executor_for("physic", ROBOT)
    with pytest.raises(InputError, match="use the analytic executor"):
        executor_for("physics", ROBOT, faithful=True)
    with pytest.raises(InputError, match="has no region to grasp"):
        auto_grasp(ObjectModel("c", "c", "c", "wood", 0, 0.1, 0.5, 50, resolve("cube").solids, {}), MIDDLE, ROBOT)
