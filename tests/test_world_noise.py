"""Noise: the same name gives the same numbers, and nothing that is drawn elsewhere moves them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagehand.errors import InputError
from sagehand.world.frames import angle_between, axis_rotation, pose
from sagehand.world.noise import ExecutionNoise, PerceptionNoise, stream
from sagehand.world.scene import CAMERA

T_CUP = pose((0.5, 0.1, 0.0), axis_rotation("z", 0.4)[:3, :3])


@given(seed=st.integers(0, 2**31), name=st.text(max_size=8))
@settings(max_examples=30, deadline=None)
def test_the_same_name_gives_the_same_numbers_and_another_name_others(seed: int, name: str) -> None:
    one, same, other = (stream(seed, *n).normal(size=4) for n in ((name, 1), (name, 1), (name, 2)))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_another_seed_gives_other_numbers() -> None:
    assert not np.array_equal(stream(0, "a").normal(size=4), stream(1, "a").normal(size=4))
    with pytest.raises(InputError, match="must not be negative"):
        stream(-1, "a")


def test_motions_have_the_stated_spread() -> None:
    noise = ExecutionNoise(3, "trial", 0)
    motions = [noise.motion() for _ in range(2000)]
    shifts = np.array([m.T_grasp_actual[:3, 3] for m in motions])
    assert np.allclose(shifts.std(axis=0), 0.001, rtol=0.06)
    # three independent turns of 0.5° make one of √3 · 0.5° in the root of the mean square
    turns = np.array([angle_between(np.eye(3), m.T_grasp_actual) for m in motions])
    assert math.isclose(math.sqrt(float((turns**2).mean())), math.radians(0.5) * math.sqrt(3), rel_tol=0.05)
    forces = np.array([m.force_factor for m in motions])
    assert 0.95 <= forces.min() < 0.951
    assert 1.049 < forces.max() <= 1.05


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_scale_multiplies_the_same_draws(scale: float) -> None:
    one, more = ExecutionNoise(3, "t").motion(), ExecutionNoise(3, "t", scale=scale).motion()
    assert np.allclose(more.T_grasp_actual[:3, 3], scale * one.T_grasp_actual[:3, 3])
    assert math.isclose(more.force_factor - 1, scale * (one.force_factor - 1))
    see, blur = PerceptionNoise(3, "t"), PerceptionNoise(3, "t", scale=scale)
    shift = see.look().place("cup", T_CUP, CAMERA.T_world_camera)[:3, 3] - T_CUP[:3, 3]
    blurred = blur.look().place("cup", T_CUP, CAMERA.T_world_camera)[:3, 3] - T_CUP[:3, 3]
    assert np.allclose(blurred, scale * shift)


def test_no_noise_changes_nothing() -> None:
    look = PerceptionNoise(0, scale=0).look()
    assert np.array_equal(look.place("cup", T_CUP, CAMERA.T_world_camera), T_CUP)
    assert look.size_factor("cup") == 1
    assert look.category("cup", "cup", ["bowl", "vase"]) == "cup"
    assert look.sees_relation("On_Top_Of", "a", "b")
    assert look.sees_neighbour("a")
    motion = ExecutionNoise(0, scale=0).motion()
    assert np.array_equal(motion.T_grasp_actual, np.eye(4))
    assert motion.force_factor == 1
    for kind in (ExecutionNoise, PerceptionNoise):
        with pytest.raises(InputError, match="from 0 to 100"):
            kind(0, scale=-1)


def test_the_bias_stays_for_a_trial_and_the_rest_is_new_each_look() -> None:
    noise = PerceptionNoise(5, "trial", 7)
    first, second = noise.look(), noise.look()
    assert np.array_equal(first.bias_m, second.bias_m)
    camera = CAMERA.T_world_camera
    assert not np.allclose(first.place("cup", T_CUP, camera), second.place("cup", T_CUP, camera))
    again = PerceptionNoise(5, "trial", 7).look()
    assert np.array_equal(first.place("cup", T_CUP, camera), again.place("cup", T_CUP, camera))


def test_what_one_question_draws_moves_no_other_answer() -> None:
    plain, asked = PerceptionNoise(5, "trial").look(), PerceptionNoise(5, "trial").look()
    for k in range(20):
        asked.sees_relation("Touching", "a", str(k))
        asked.sees_neighbour(str(k))
        asked.category("bowl", "bowl", ["cup"])
    camera = CAMERA.T_world_camera
    assert np.array_equal(plain.place("cup", T_CUP, camera), asked.place("cup", T_CUP, camera))
    assert plain.size_factor("cup") == asked.size_factor("cup")
    # nor do the motions of the arm depend on how often the camera looked
    assert np.array_equal(
        ExecutionNoise(5, "trial").motion().T_grasp_actual, ExecutionNoise(5, "trial").motion().T_grasp_actual
    )


def test_a_retry_that_does_not_look_again_sees_the_same() -> None:
    look = PerceptionNoise(1, "t").look()
    camera = CAMERA.T_world_camera
    assert np.array_equal(look.place("cup", T_CUP, camera), look.place("cup", T_CUP, camera))
    assert look.category("cup", "cup", ["bowl"]) == look.category("cup", "cup", ["bowl"])


def test_looks_have_the_stated_spread() -> None:
    camera = CAMERA.T_world_camera
    rows, yaws, sizes = [], [], []
    for trial in range(1500):
        look = PerceptionNoise(2, trial).look()
        T = look.place("cup", T_CUP, camera)
        rows.append(camera[:3, :3].T @ (T[:3, 3] - T_CUP[:3, 3]))
        yaws.append(math.atan2(T[1, 0], T[0, 0]) - 0.4)
        sizes.append(look.size_factor("cup"))
    # bias and look add in squares: √(2² + 3²) to the sides, √(2² + 4²) along the line of sight
    assert np.allclose(np.std(rows, axis=0), np.array([13, 13, 20]) ** 0.5 / 1000, rtol=0.06)
    assert math.isclose(float(np.std(yaws)), math.radians(3), rel_tol=0.06)
    assert math.isclose(float(np.std(sizes)), 0.03, rel_tol=0.06)


def test_chances_are_as_stated() -> None:
    looks = [PerceptionNoise(4, trial).look() for trial in range(3000)]
    confused = [look.category("x", "cup", ["bowl", "cup", "vase"]) for look in looks]
    wrong = [c for c in confused if c != "cup"]
    assert 0.04 < len(wrong) / 3000 < 0.06
    assert {"bowl", "vase"} == set(wrong)
    assert 0.04 < np.mean([look.affordance("rim", "Pinchable", ["Fragile"]) == "Fragile" for look in looks]) < 0.06
    assert 0.02 < np.mean([not look.sees_relation("Touching", "a", "b") for look in looks]) < 0.04
    assert 0.012 < np.mean([not look.sees_neighbour("a") for look in looks]) < 0.028
    assert all(look.category("x", "cup", ["cup"]) == "cup" for look in looks)  # nothing to be taken for
