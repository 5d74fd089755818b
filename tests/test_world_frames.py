"""Frames: group laws, quaternions against SciPy and MuJoCo, angles near 0 and π."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagehand.errors import InputError
from sagehand.world.frames import (
    Pose,
    angle_between,
    axis_rotation,
    invert,
    is_pose,
    pose,
    pose_of,
    quat_wxyz,
    quat_xyzw,
    rotation_of,
    rpy,
    translation,
)

relaxed = settings(deadline=None, max_examples=60)  # the machine may be busy
unit = st.floats(-1, 1)
quats = st.tuples(unit, unit, unit, unit).filter(lambda q: math.hypot(*q) > 1e-3)
places = st.tuples(*[st.floats(-10, 10)] * 3)
poses = st.builds(pose_of, places, quats)
angles = st.floats(-math.pi, math.pi)


@given(poses, poses, poses)
@relaxed
def test_poses_are_a_group(A: Pose, B: Pose, C: Pose) -> None:
    np.testing.assert_allclose((A @ B) @ C, A @ (B @ C), atol=1e-9)
    np.testing.assert_allclose(A @ invert(A), np.eye(4), atol=1e-9)
    np.testing.assert_allclose(invert(A) @ A, np.eye(4), atol=1e-9)
    np.testing.assert_allclose(invert(A @ B), invert(B) @ invert(A), atol=1e-9)
    assert is_pose(A @ B @ C, 1e-6)


@given(poses, places)
@relaxed
def test_a_rigid_motion_keeps_lengths_and_handedness(T: Pose, point: tuple[float, float, float]) -> None:
    moved = T[:3, :3] @ np.array(point)
    assert np.linalg.norm(moved) == pytest.approx(math.hypot(*point), abs=1e-9)
    assert np.linalg.det(T[:3, :3]) == pytest.approx(1, abs=1e-9)


@given(quats)
@relaxed
def test_a_rotation_is_scipys(q: tuple[float, float, float, float]) -> None:
    rotation = pytest.importorskip("scipy.spatial.transform").Rotation
    np.testing.assert_allclose(rotation_of(q), rotation.from_quat(q).as_matrix(), atol=1e-12)


@given(quats)
@relaxed
def test_a_quaternion_makes_the_round_trip(q: tuple[float, float, float, float]) -> None:
    back = quat_xyzw(rotation_of(q))
    assert math.hypot(*back) == pytest.approx(1, abs=1e-12)
    assert back[3] >= 0
    np.testing.assert_allclose(rotation_of(back), rotation_of(q), atol=1e-12)
    np.testing.assert_allclose(np.abs(np.dot(back, np.array(q) / math.hypot(*q))), 1, atol=1e-12)


@pytest.mark.parametrize("axis", ["x", "y", "z"])
def test_half_turns_have_a_quaternion(axis: str) -> None:
    for angle in (math.pi, math.pi - 1e-9, -math.pi + 1e-9):
        R = axis_rotation(axis, angle)[:3, :3]
        np.testing.assert_allclose(rotation_of(quat_xyzw(R)), R, atol=1e-12)


@given(quats)
@relaxed
def test_wxyz_is_xyzw_with_w_first(q: tuple[float, float, float, float]) -> None:
    R = rotation_of(q)
    x, y, z, w = quat_xyzw(R)
    assert quat_wxyz(R) == (w, x, y, z)


def test_45_degrees_about_z_is_the_same_matrix_through_ros_and_mujoco() -> None:  # G11
    mujoco = pytest.importorskip("mujoco")
    half = math.radians(45) / 2
    ros = (0.0, 0.0, math.sin(half), math.cos(half))  # a ROS message holds x, y, z, w
    want = np.array([[math.sqrt(0.5), -math.sqrt(0.5), 0], [math.sqrt(0.5), math.sqrt(0.5), 0], [0, 0, 1]])
    np.testing.assert_allclose(rotation_of(ros), want, atol=1e-12)
    spec = mujoco.MjSpec()
    body = spec.worldbody.add_body(name="b", quat=list(quat_wxyz(rotation_of(ros))))
    body.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[0.1, 0, 0])
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    np.testing.assert_allclose(data.body("b").xmat.reshape(3, 3), want, atol=1e-12)


@given(st.sampled_from("xyz"), angles, angles)
@relaxed
def test_turns_about_one_axis_add_up(axis: str, first: float, second: float) -> None:
    both = axis_rotation(axis, first) @ axis_rotation(axis, second)
    np.testing.assert_allclose(both, axis_rotation(axis, first + second), atol=1e-12)


@given(angles, angles, angles)
@relaxed
def test_rpy_is_scipys_xyz_about_fixed_axes(roll: float, pitch: float, yaw: float) -> None:
    rotation = pytest.importorskip("scipy.spatial.transform").Rotation
    want = rotation.from_euler("xyz", [roll, pitch, yaw]).as_matrix()
    np.testing.assert_allclose(rpy(roll, pitch, yaw)[:3, :3], want, atol=1e-12)


@pytest.mark.parametrize("angle", [0, 1e-12, 1e-9, 1e-6, 1e-3, 1, 3, math.pi - 1e-6, math.pi - 1e-9, math.pi])
def test_angles_are_exact_near_zero_and_near_a_half_turn(angle: float) -> None:
    T = rpy(0.3, -0.8, 2.0)
    assert angle_between(T, T @ axis_rotation("y", angle)) == pytest.approx(angle, abs=1e-14 + angle * 1e-9)


@given(poses, poses)
@relaxed
def test_an_angle_has_no_direction(A: Pose, B: Pose) -> None:
    assert angle_between(A, B) == pytest.approx(angle_between(B, A), abs=1e-9)
    assert 0 <= angle_between(A, B) <= math.pi


def test_what_is_no_pose() -> None:
    assert is_pose(np.eye(4))
    assert is_pose(translation(1, 2, 3) @ rpy(1, 2, 3))
    mirrored, scaled, sheared, unfinished, tail = (np.eye(4) for _ in range(5))
    mirrored[0, 0] = -1
    scaled[:3, :3] *= 1.001
    sheared[0, 1] = 0.01
    unfinished[0, 3] = math.nan
    tail[3, 0] = 0.1
    for bad in (mirrored, scaled, sheared, unfinished, tail, np.eye(3), np.zeros((4, 4))):
        assert not is_pose(bad)
    assert is_pose(scaled, 0.01)


def test_a_pose_is_of_its_parts() -> None:
    R = rpy(0.1, 0.2, 0.3)[:3, :3]
    T = pose((1, 2, 3), R)
    np.testing.assert_array_equal(T[:3, :3], R)
    np.testing.assert_array_equal(T[:3, 3], (1, 2, 3))
    np.testing.assert_array_equal(T[3], (0, 0, 0, 1))


@pytest.mark.parametrize("bad", [(0, 0, 0, 0), (0, 0, 1), (math.nan, 0, 0, 1), (math.inf, 0, 0, 1)])
def test_what_is_no_rotation_is_refused(bad: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="x, y, z, w"):
        rotation_of(bad)
