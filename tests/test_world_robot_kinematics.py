"""Kinematics of the Panda: against MuJoCo and frankik, derivatives against differences, every answer inside the limits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from sagehand.errors import InputError
from sagehand.world.frames import Pose, angle_between, axis_rotation, pose, rpy, translation
from sagehand.world.robot.chain import Chain
from sagehand.world.robot.description import load_robot
from sagehand.world.robot.ik import numeric
from sagehand.world.robot.kinematics import POSITION_TOLERANCE_M, ROTATION_TOLERANCE_RAD, Kinematics
from sagehand.world.robot.line import line
from sagehand.world.robot.newton import newton, pose_error
from sagehand.world.robot.normal import least_step
from sagehand.world.robot.single import Single

DOWN = axis_rotation("x", math.pi)


@pytest.fixture(scope="module")
def panda() -> Kinematics:
    return Kinematics("panda")


def legal(kinematics: Kinematics, count: int, seed: int = 0) -> NDArray[np.float64]:
    robot = kinematics.robot
    return np.random.default_rng(seed).uniform(robot.lower, robot.upper, (count, len(robot.home)))


def test_forward_kinematics_is_mujocos(panda: Kinematics) -> None:
    mujoco = pytest.importorskip("mujoco")
    pytest.importorskip("dm_robotics.panda")
    from sagehand.world.model import build_model
    from sagehand.world.scene import Scene

    model = build_model(Scene(()), panda.robot).model
    data = mujoco.MjData(model)
    for q in legal(panda, 30):
        data.qpos[:7] = q
        mujoco.mj_kinematics(model, data)
        hand = np.eye(4)
        hand[:3, :3] = data.body("hand/panda_hand").xmat.reshape(3, 3)
        hand[:3, 3] = data.body("hand/panda_hand").xpos
        np.testing.assert_allclose(panda.forward(q), hand @ panda.robot.T_hand_tcp, atol=1e-9)
        links = panda.links(q)
        for number in range(7):
            np.testing.assert_allclose(links[number, :3, 3], data.body(f"panda_link{number + 1}").xpos, atol=1e-9)


def test_forward_kinematics_is_frankiks(panda: Kinematics) -> None:
    frankik = pytest.importorskip("frankik")
    for q in legal(panda, 30, seed=1):
        np.testing.assert_allclose(panda.forward(q), frankik.fk(q), atol=1e-6)


def test_at_home_the_hand_is_above_the_table_and_looks_down(panda: Kinematics) -> None:
    T = panda.forward(panda.robot.home)
    np.testing.assert_allclose(T[:3, 2], (0, 0, -1), atol=1e-12)
    np.testing.assert_allclose(
        T[:3, 3], (0.3069, 0, 0.4869), atol=2e-4
    )  # 0.59 m of the flange, less the hand's 0.1034 m


def test_the_jacobian_is_the_derivative(panda: Kinematics) -> None:
    step = 1e-6
    for q in legal(panda, 20, seed=2):
        J = panda.jacobian(q)
        for joint in range(7):
            ahead, behind = q.copy(), q.copy()
            ahead[joint] += step
            behind[joint] -= step
            change = pose_error(panda.forward(behind)[None], panda.forward(ahead)[None])[0] / (2 * step)
            np.testing.assert_allclose(J[:, joint], change, atol=1e-8)


def test_array_code_and_plain_numbers_are_the_same_method(panda: Kinematics) -> None:
    chain, single = Chain(panda.robot), Single(panda.robot)
    for start, goal in zip(legal(panda, 20, seed=3), legal(panda, 20, seed=4), strict=True):
        T = panda.forward(goal)
        one = single.newton(start, T, steps=8)
        many = newton(chain, start[None], T[None], steps=8)
        np.testing.assert_allclose(one.q, many.q[0], atol=1e-8)
        assert one.position_m == pytest.approx(float(many.position_m[0]), abs=1e-9)
        assert one.rotation_rad == pytest.approx(float(many.rotation_rad[0]), abs=1e-9)


@pytest.mark.parametrize("lean", [0.0, 0.3])
def test_plain_numbers_make_the_error_and_the_jacobian_of_array_code(panda: Kinematics, lean: float) -> None:
    dh = panda.robot.dh.copy()
    dh[:, 2] += lean * np.arange(len(dh))  # axes that do not stand square to each other, too
    chain, single = Chain(replace(panda.robot, dh=dh)), Single(replace(panda.robot, dh=dh))
    Q, goals = legal(panda, 30, seed=11), chain.forward(legal(panda, 30, seed=12))
    links = chain.links(Q)
    errors, jacobians = pose_error(links.tcp, goals), chain.jacobian(links)
    for row, q in enumerate(Q):
        error, axes = single.error(q.tolist(), single.goal(goals[row]))
        np.testing.assert_allclose(error, errors[row], atol=1e-12)
        np.testing.assert_allclose(np.array(single.jacobian(axes)).T, jacobians[row], atol=1e-12)
        np.testing.assert_allclose(
            single.miss(q, goals[row]), (np.linalg.norm(error[:3]), np.linalg.norm(error[3:])), rtol=1e-12
        )


@pytest.mark.parametrize("damping", [1e-6, 1e-2])
def test_a_step_is_that_of_damped_least_squares(panda: Kinematics, damping: float) -> None:
    rng = np.random.default_rng(13)
    for q in legal(panda, 20, seed=13):
        J, error = panda.jacobian(q), rng.normal(size=6)
        J[:, rng.integers(7)] = 0.0  # a joint that is held
        step = least_step([tuple(column) for column in J.T.tolist()], error.tolist(), damping)
        np.testing.assert_allclose(step, J.T @ np.linalg.solve(J @ J.T + damping * np.eye(6), error), rtol=1e-6)


def test_a_line_turns_by_half_a_circle_if_it_has_to() -> None:
    T = rpy(0.3, 0.2, 0.1)
    T[:3, 3] = 0.4, 0.1, 0.2
    for axis in "xyz":
        to = translation(0.1, 0.0, -0.1) @ axis_rotation(axis, math.pi) @ T
        poses = line(T, to, np.array([0.0, 0.5, 1.0]))
        np.testing.assert_allclose(poses[[0, 2]], [T, to], atol=1e-9)
        np.testing.assert_allclose(poses[1, :3, 3], (T[:3, 3] + to[:3, 3]) / 2, atol=1e-12)
        assert angle_between(T, poses[1]) == pytest.approx(math.pi / 2)


def test_newton_ends_where_the_error_is_none_and_never_outside(panda: Kinematics) -> None:
    rng = np.random.default_rng(5)
    Q = legal(panda, 50, seed=5)
    near = np.clip(Q + rng.normal(0, 0.02, Q.shape), panda.robot.lower, panda.robot.upper)
    found = newton(panda.chain, near, panda.chain.forward(Q), steps=12)
    assert panda.within_limits(found.q)
    assert np.quantile(found.position_m, 0.9) < 1e-9


@pytest.mark.parametrize("axis", ["x", "y", "z"])
def test_half_a_circle_is_no_miss_of_nothing(panda: Kinematics, axis: str) -> None:
    """The sines of a turn by π are 0, as those of none."""
    pytest.importorskip("frankik", reason="the closed form")
    home = panda.robot.home
    T = panda.forward(home) @ axis_rotation(axis, math.pi)
    assert panda.miss(home, T)[1] == pytest.approx(math.pi, abs=1e-6)
    answer = panda.inverse(T, home)
    if answer.reached:
        assert answer.q is not None
        assert angle_between(panda.forward(answer.q), T) < ROTATION_TOLERANCE_RAD
    else:
        assert answer.rotation_error_rad > ROTATION_TOLERANCE_RAD or answer.position_error_m > POSITION_TOLERANCE_M


def test_an_axis_that_leans_by_next_to_nothing_leans(panda: Kinematics) -> None:
    dh = panda.robot.dh.copy()
    dh[2:6, 2] += 1e-6  # a calibrated arm
    dh[0, 2] += 1e-6
    robot = replace(panda.robot, dh=dh)
    chain, single = Chain(robot), Single(robot)
    for q in legal(panda, 5, seed=4):
        position, rotation = single.miss(q, chain.forward(chain.angles(q))[0])
        assert position < 1e-11  # taken for 0, the lean would miss by 5e-7
        assert rotation < 1e-11


def test_a_turn_by_half_a_circle_has_an_axis() -> None:
    for axis in "xyz":
        T = rpy(0.3, 0.2, 0.1)
        error = pose_error(T[None], (axis_rotation(axis, math.pi) @ T)[None])[0]
        assert np.linalg.norm(error[3:]) == pytest.approx(math.pi)
        assert abs(error[3 + "xyz".index(axis)]) == pytest.approx(math.pi)


class TestInverse:
    """Inverse kinematics, with the closed form."""

    @pytest.fixture(autouse=True)
    def _closed_form(self) -> None:
        pytest.importorskip("frankik")

    def check(self, kinematics: Kinematics, T: Pose, seed: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        answer = kinematics.inverse(T, seed)
        assert answer.reached, answer
        assert answer.q is not None
        assert answer.why == ""
        assert kinematics.within_limits(answer.q)
        at = kinematics.forward(answer.q)
        off, turned = np.linalg.norm(at[:3, 3] - T[:3, 3]), angle_between(at, T)
        assert off <= POSITION_TOLERANCE_M == 1e-4
        assert turned <= ROTATION_TOLERANCE_RAD <= math.radians(0.05)
        assert answer.position_error_m == pytest.approx(off, abs=1e-9)
        assert answer.rotation_error_rad == pytest.approx(turned, abs=1e-8)
        return answer.q

    def test_poses_from_random_legal_joints_are_solved(self, panda: Kinematics) -> None:  # G12
        answers = [panda.inverse(panda.forward(q)) for q in legal(panda, 200, seed=6)]
        for answer in answers:
            if answer.q is not None:
                assert panda.within_limits(answer.q)
        assert sum(a.reached for a in answers) >= 198

    @pytest.mark.parametrize(("low", "high"), [(0, 20), (45, 100)])
    def test_reachable_poses_over_the_table_are_solved(self, panda: Kinematics, low: float, high: float) -> None:
        T = panda.chain.forward(legal(panda, 60000, seed=7))
        tilt = np.degrees(np.arccos(np.clip(-T[:, 2, 2], -1, 1)))
        over = (T[:, 0, 3] > 0.2) & (T[:, 0, 3] < 0.8) & (np.abs(T[:, 1, 3]) < 0.4)
        over &= (T[:, 2, 3] > 0.02) & (T[:, 2, 3] < 0.5) & (tilt >= low) & (tilt <= high)
        poses = T[over][:200]
        assert len(poses) > 60
        unsolved = [i for i, wanted in enumerate(poses) if not panda.inverse(wanted).reached]
        assert len(unsolved) <= 0.005 * len(poses)

    def test_every_answer_is_exact_and_legal(self, panda: Kinematics) -> None:
        for q in legal(panda, 40, seed=8):
            self.check(panda, panda.forward(q))

    def test_a_pose_too_far_away_is_named_so(self, panda: Kinematics) -> None:  # G12
        answer = panda.inverse(translation(1.5, 0, 0.3) @ DOWN)
        assert (answer.q, answer.reached, answer.why) == (None, False, "out of reach")
        # the stretched arm ends 1.2 m from the shoulder or nearer; a residual is a bound from above
        assert 0.3 < answer.position_error_m < 0.9

    @pytest.mark.parametrize("place", [(0.05, 0, 0.33), (0.1, 0.1, 0.25)])
    def test_what_the_limits_forbid_is_named_so(self, panda: Kinematics, place: tuple[float, float, float]) -> None:
        T = translation(*place) @ DOWN  # inside the arm's own column
        answer = panda.inverse(T)
        assert (answer.q, answer.reached, answer.why) == (None, False, "joint limits")
        free = numeric(panda.chain, T, panda.robot.home, limits=False)
        assert np.any((free.position_m < 1e-6) & (free.rotation_rad < 1e-6))
        within = numeric(panda.chain, T, panda.robot.home, starts=60)
        assert not np.any((within.position_m < 1e-3) & (within.rotation_rad < 1e-2))
        assert answer.position_error_m + answer.rotation_error_rad > 1e-2

    def test_the_answer_stays_near_the_seed(self, panda: Kinematics) -> None:
        rng = np.random.default_rng(9)
        for q in legal(panda, 30, seed=9):
            inside = np.clip(q, panda.robot.lower + 0.1, panda.robot.upper - 0.1)
            T = panda.forward(np.clip(inside + rng.normal(0, 0.01, 7), panda.robot.lower, panda.robot.upper))
            found = self.check(panda, T, inside)
            assert np.abs(found - inside).max() < 0.35
            nearest = min(float(np.linalg.norm(way - inside)) for way in panda.all_inverse(T, 30, seed=inside))
            assert np.linalg.norm(found - inside) <= nearest + 1e-6

    def test_all_ways_hold_and_differ_and_come_nearest_first(self, panda: Kinematics) -> None:
        T = translation(0.5, 0.1, 0.1) @ DOWN
        ways = panda.all_inverse(T, 8)
        assert len(ways) == 8
        distances = [float(np.linalg.norm(q - panda.robot.home)) for q in ways]
        assert distances == pytest.approx(sorted(distances), abs=0.02)
        for number, q in enumerate(ways):
            assert panda.within_limits(q)
            np.testing.assert_allclose(panda.forward(q), T, atol=1e-6)
            assert all(np.abs(q - other).max() >= 0.29 for other in ways[:number])

    def test_two_calls_give_the_same(self, panda: Kinematics) -> None:
        T = translation(0.45, -0.2, 0.08) @ rpy(math.pi, 0.1, 0.7)
        first, second = panda.inverse(T), panda.inverse(T)
        assert first.q is not None
        np.testing.assert_array_equal(first.q, second.q)

    def test_what_is_no_pose_is_refused(self, panda: Kinematics) -> None:
        with pytest.raises(InputError, match="no rigid pose"):
            panda.inverse(np.eye(4) * 2)
        with pytest.raises(InputError, match=r"7 finite numbers"):
            panda.inverse(translation(0.5, 0, 0.3) @ DOWN, np.zeros(6))
        with pytest.raises(InputError, match="seed"):
            panda.inverse(translation(0.5, 0, 0.3) @ DOWN, np.zeros((2, 7)))
        with pytest.raises(InputError, match=r"7 finite numbers"):
            panda.forward([math.nan] * 7)


class TestStraight:
    """Straight lines."""

    @pytest.fixture(autouse=True)
    def _closed_form(self) -> None:
        pytest.importorskip("frankik")

    def test_the_tcp_goes_straight_and_evenly(self, panda: Kinematics) -> None:
        rng = np.random.default_rng(10)
        done = 0
        for _ in range(12):
            T = translation(*rng.uniform((0.35, -0.25, 0.2), (0.6, 0.25, 0.35))) @ rpy(math.pi, 0.1, rng.uniform(-1, 1))
            answer = panda.inverse(T)
            assert answer.q is not None
            to = T @ rpy(*rng.uniform(-0.3, 0.3, 3))
            to[:3, 3] += rng.uniform((-0.08, -0.08, -0.15), (0.08, 0.08, 0.1))
            path = panda.straight(answer.q, T, to, 25)
            if path is None:
                continue
            done += 1
            assert path.shape == (26, 7)
            assert panda.within_limits(path)
            assert np.abs(np.diff(path, axis=0)).max() <= 0.2
            whole = angle_between(T, to)
            for row, q in enumerate(path):
                at = panda.forward(q)
                share = row / 25
                np.testing.assert_allclose(at[:3, 3], T[:3, 3] + share * (to[:3, 3] - T[:3, 3]), atol=1e-4)
                assert angle_between(T, at) == pytest.approx(share * whole, abs=1e-3)
                assert angle_between(at, to) == pytest.approx((1 - share) * whole, abs=1e-3)
        assert done >= 8

    def test_what_is_not_checked_is_the_same_path(self, panda: Kinematics) -> None:
        T = translation(0.5, 0, 0.2) @ DOWN
        q = panda.all_inverse(T, 1)[0]
        to = translation(0.5, 0, 0.1) @ DOWN
        checked = panda.straight(q, T, to, 20)
        assert checked is not None
        np.testing.assert_array_equal(panda.follow(q, T, to, 20), checked)

    def test_it_keeps_to_the_posture_it_begins_with(self, panda: Kinematics) -> None:
        T = translation(0.5, 0, 0.2) @ DOWN
        for q in panda.all_inverse(T, 4):
            path = panda.straight(q, T, translation(0.5, 0, 0.1) @ DOWN, 20)
            if path is not None:
                np.testing.assert_allclose(path[0], q, atol=1e-6)
                assert np.abs(path[-1] - q).max() < 0.6

    def test_a_line_out_of_reach_is_none(self, panda: Kinematics) -> None:
        T = translation(0.6, 0, 0.2) @ DOWN
        answer = panda.inverse(T)
        assert answer.q is not None
        assert panda.straight(answer.q, T, translation(1.3, 0, 0.2) @ DOWN, 100) is None

    def test_a_start_elsewhere_is_none(self, panda: Kinematics) -> None:
        far = panda.robot.lower * 0.9
        T = translation(0.5, 0, 0.2) @ DOWN
        path = panda.straight(far, T, translation(0.5, 0, 0.1) @ DOWN, 20)
        assert path is None or np.abs(np.diff(path, axis=0)).max() <= 0.2

    def test_no_steps_are_refused(self, panda: Kinematics) -> None:
        T = translation(0.5, 0, 0.2) @ DOWN
        with pytest.raises(InputError, match="steps is 0"):
            panda.straight(panda.robot.home, T, T, 0)

    def test_a_line_of_no_length_stays(self, panda: Kinematics) -> None:
        T = panda.forward(panda.robot.home)
        path = panda.straight(panda.robot.home, T, T, 3)
        assert path is not None
        np.testing.assert_allclose(path, np.tile(panda.robot.home, (4, 1)), atol=1e-8)


def test_a_robot_may_be_given_by_name_or_as_itself() -> None:
    by_name, itself = Kinematics("panda"), Kinematics(load_robot("panda"))
    assert by_name.robot is itself.robot
    np.testing.assert_allclose(pose((0, 0, 0)), np.eye(4))
