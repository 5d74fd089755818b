"""Physics against nature's laws: force against command, Coulomb's friction, weight, the law of a motion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sagehand.world.frames import pose, translation
from sagehand.world.objects.model import ObjectModel
from sagehand.world.objects.shapes import Shell, solids_of
from sagehand.world.physics.control import Cell
from sagehand.world.physics.monitor import FIXED, Pushes, force_on_robot
from sagehand.world.physics.motion import shake, timed
from sagehand.world.physics.reach import line_up
from sagehand.world.physics.setup import TIMESTEP, physics_model
from sagehand.world.robot.description import load_robot
from sagehand.world.robot.kinematics import Kinematics
from sagehand.world.rules import SHAKE_M, duration
from sagehand.world.scene import Placed, Scene
from world_physics_things import DOWN, block

pytest.importorskip("mujoco")
pytest.importorskip("frankik")

ROBOT = load_robot()
KINEMATICS = Kinematics(ROBOT)
GRAVITY = 9.81


def closed_on(model: ObjectModel, force_n: float, peaks: list[float] | None = None) -> Cell:
    """The fingers, closed with a force on an object on the table."""
    scene = Scene((Placed("it", model, translation(0.5)),))
    cell = Cell(physics_model(scene, ROBOT), scene)
    answer = KINEMATICS.inverse(pose((0.5, 0.0, 0.02), DOWN))
    assert answer.q is not None
    cell.place(answer.q, 0.08)

    def look(touches: object) -> bool:
        if peaks is not None:
            peaks.append(max(cell.touches().grip(2)))
        return False

    cell.close(force_n, 0.05, look)
    return cell


def lift(cell: Cell, height_m: float, acceleration: float) -> list[float]:
    """Lift, and the TCP's height every 10 ms [m]."""
    path = line_up(KINEMATICS, cell.q, height_m)
    assert path is not None
    heights: list[float] = []

    def look(touches: object) -> bool:
        heights.append(float(cell.T_world_tcp[2, 3]))
        return False

    cell.run(timed(path, duration(height_m, acceleration=acceleration), ROBOT.velocity), look)
    return heights


def slid(cell: Cell, before: np.ndarray) -> float:
    """How far the object slid down in the hand since then [m]."""
    return float(cell.T_tcp("it")[2, 3] - before[2, 3])  # the TCP's z points down


@pytest.mark.parametrize("width_m", [0.003, 0.036, 0.075])
@pytest.mark.parametrize("force_n", [5.0, 15.0, 30.0, 60.0])
def test_a_finger_presses_with_the_commanded_force_at_every_width(width_m: float, force_n: float) -> None:
    peaks: list[float] = []
    cell = closed_on(block(width_m), force_n, peaks)
    assert cell.touches().grip(2) == pytest.approx((force_n, force_n), rel=0.05)
    assert cell.width_m == pytest.approx(width_m, abs=0.001)
    assert max(peaks) < 1.05 * force_n  # closing by itself harms nothing


def test_the_force_falls_on_the_object_even_where_it_stands_off_the_middle() -> None:
    model = block(0.036)
    scene = Scene((Placed("it", model, translation(0.5, 0.012)),))
    cell = Cell(physics_model(scene, ROBOT), scene)
    answer = KINEMATICS.inverse(pose((0.5, 0.0, 0.02), DOWN))
    assert answer.q is not None
    cell.place(answer.q, 0.08)
    cell.close(20.0, 0.05, lambda _: False)
    assert cell.touches().grip(2) == pytest.approx((20.0, 20.0), rel=0.05)
    assert cell.T_world("it")[1, 3] == pytest.approx(0.0, abs=0.001)  # and it is pushed to the middle


def test_the_force_on_a_ring_is_that_of_its_points_together() -> None:
    solids = tuple(solids_of(Shell(0.03, 0.03, 0.06, 0.004, 0.004), np.eye(4)))
    ring = replace(block(0.04), solids=solids)
    scene = Scene((Placed("it", ring, translation(0.5, 0.028)),))
    cell = Cell(physics_model(scene, ROBOT), scene)
    answer = KINEMATICS.inverse(pose((0.5, 0.0, 0.05), DOWN))
    assert answer.q is not None
    cell.place(answer.q, 0.04)
    cell.close(10.0, 0.05, lambda _: False)
    touches = cell.touches()
    assert touches.grip(2) == pytest.approx((10.0, 10.0), rel=0.01)
    for finger in (0, 1):
        owners = np.sort(cell.world.owner[cell.data.contact.geom], axis=1)
        rows = np.flatnonzero((owners == (finger, 2)).all(axis=1) & (cell.data.contact.efc_address >= 0))
        forces = cell.data.efc_force[cell.data.contact.efc_address[rows]]
        along = cell.data.contact.frame[rows, :3] @ cell.T_world_tcp[:3, 1]
        assert np.linalg.norm(touches.push_n[finger, 2][0]) == pytest.approx(np.abs(forces * along).sum(), rel=0.02)


def test_a_mean_over_steps_is_their_impulse() -> None:
    cell = closed_on(block(0.036), 20.0)
    pushes, steps = Pushes(cell.world), []
    for number in range(25):
        cell.press_fingers(20.0 + 10.0 * (number % 2))
        cell.rest(0.002)
        pushes.add(cell.data)
        steps.append(cell.touches().push_n[0, 2])
    assert pushes.take()[0, 2] == pytest.approx(np.mean(steps, axis=0), abs=0.01)
    assert np.ptp([s[0] for s in steps], axis=0).max() > 0.5
    assert pushes.take() == {}


def test_fingers_do_not_swing_open_and_shut_on_what_they_hold() -> None:
    cell = closed_on(block(0.022, 0.26, 0.019, mass_kg=0.27), 55.0)
    half = cell.width_m
    cell.data.qvel[cell.world.finger_dof] = 0.02  # as if something had knocked them open
    widths: list[float] = []
    for _ in range(150):
        cell.rest(0.002)
        widths.append(cell.width_m - half)
    assert max(np.abs(widths[50:])) < 2e-5  # within 0.1 s they are at rest again


@pytest.mark.parametrize(("friction", "holds"), [(0.235, False), (0.255, True)])
def test_at_rest_friction_holds_half_a_kilogram_from_its_coefficient_of_0_245(friction: float, holds: bool) -> None:
    cell = closed_on(block(0.04, mass_kg=0.5, friction=1.0), 10.0)  # 0.5·g / (2·10 N) = 0.245
    lift(cell, 0.10, 0.5)
    cell.rest(0.3)
    cell.model.geom_friction[cell.world.owner == 2, 0] = friction
    before = cell.T_tcp("it")
    cell.rest(1.0)
    assert (abs(slid(cell, before)) < 0.0005) is holds
    assert bool(cell.T_world("it")[2, 3] > 0.09) is holds


@pytest.mark.parametrize(("friction", "slides"), [(0.28, True), (0.31, False)])
def test_lifting_at_2_m_s2_takes_a_coefficient_of_0_295(friction: float, slides: bool) -> None:
    cell = closed_on(block(0.04, mass_kg=0.5, friction=friction), 10.0)  # 0.5·(g + 2) / (2·10 N) = 0.295
    before = cell.T_tcp("it")
    lift(cell, 0.15, 2.0)
    assert (slid(cell, before) > 0.005) is slides
    assert slides or abs(slid(cell, before)) < 0.001


def test_a_light_cube_does_not_creep_in_three_seconds() -> None:
    cell = closed_on(block(0.04, mass_kg=0.05), 5.0)
    lift(cell, 0.15, 2.0)
    before = cell.T_tcp("it")
    cell.rest(3.0)
    assert float(np.linalg.norm((cell.T_tcp("it") - before)[:3, 3])) < 0.002


def test_without_friction_nothing_is_lifted() -> None:
    cell = closed_on(block(0.04, mass_kg=0.05, friction=0.0), 60.0)
    lift(cell, 0.15, 2.0)
    cell.rest(0.3)
    assert cell.T_world("it")[2, 3] < 0.001


def test_the_tcp_sags_by_less_than_a_millimetre_under_600_g_and_torques_stay_in_their_limits() -> None:
    cell = closed_on(block(0.04, mass_kg=0.6), 30.0)
    lift(cell, 0.15, 2.0)
    cell.rest(0.5)
    off = cell.T_world_tcp[:3, 3] - (0.5, 0.0, 0.17)
    assert float(np.linalg.norm(off)) < 0.001
    assert np.all(np.abs(cell.data.actuator_force[:7]) <= ROBOT.torque)


def test_the_lift_begins_as_hard_as_commanded() -> None:
    heights = lift(closed_on(block(0.04), 15.0), 0.15, 2.0)
    acceleration = np.diff(heights, n=2) / 0.01**2
    assert acceleration.max() == pytest.approx(2.0, rel=0.06)
    assert heights[-1] - heights[0] == pytest.approx(0.15, abs=0.001)


def test_what_rests_presses_with_its_weight_and_what_is_held_hangs_on_the_robot() -> None:
    cell = closed_on(block(0.04, mass_kg=0.5), 30.0)
    scene = Scene((Placed("it", block(0.04, mass_kg=0.5), translation(0.5)),))
    alone = Cell(physics_model(scene, ROBOT), scene)
    alone.settle(1.0)
    assert alone.touches().between(2, FIXED) == pytest.approx(0.5 * GRAVITY, rel=1e-3)
    assert not force_on_robot(alone.world, alone.data).any()
    lift(cell, 0.1, 1.0)
    cell.rest(0.5)
    assert force_on_robot(cell.world, cell.data) == pytest.approx((0, 0, -0.5 * GRAVITY), abs=0.02)
    assert not cell.touches().rests(2)


def test_a_filled_cup_weighs_what_is_in_it() -> None:
    from sagehand.world.objects.load import load_object

    empty = Placed("it", load_object("cup"), translation(0.5))
    full = replace(empty, filled=0.8)
    assert full.content_kg > 0.1
    cell = Cell(physics_model(Scene((full,)), ROBOT), Scene((full,)))
    cell.settle(1.0)
    assert cell.touches().between(2, FIXED) == pytest.approx(full.mass_kg * GRAVITY, rel=1e-3)
    assert cell.com("it")[2] == pytest.approx(full.com_m[2], abs=1e-3)


def test_a_motion_keeps_its_speed_and_its_acceleration() -> None:
    path = np.linspace(0, 1, 30)[:, None] * np.array([[0.3, -0.2]])  # 0.3 rad is the length that counts
    seconds = duration(0.3, speed=0.5, acceleration=1.0)
    motion = timed(path, seconds, np.full(2, 10.0))
    rate = np.gradient(motion.q, TIMESTEP, axis=0)
    assert motion.rate[5:-5] == pytest.approx(rate[5:-5], abs=2e-3)  # the rates are those of the angles
    assert np.abs(rate[:, 0]).max() <= 0.5 * 1.001
    assert np.abs(np.gradient(rate[:, 0], TIMESTEP)[5:-5]).max() <= 1.0 * 1.01
    assert motion.q[-1] == pytest.approx(path[-1])
    assert motion.rate[-1] == pytest.approx(np.zeros(2), abs=1e-9)


def test_a_motion_takes_longer_where_a_joint_would_be_too_fast() -> None:
    path = np.linspace(0, 1, 10)[:, None] * np.array([[2.0, 0.1]])
    motion = timed(path, 0.1, np.array([1.0, 1.0]))
    assert np.abs(motion.rate).max() <= 1.0 + 1e-9
    assert motion.seconds > 3.0


def test_a_shake_begins_and_ends_at_rest_and_accelerates_by_2_m_s2() -> None:
    q = ROBOT.home
    motion = shake(q, KINEMATICS.jacobian(q), 1)
    y = np.array([KINEMATICS.forward(row)[1, 3] for row in motion.q[::2]]) - KINEMATICS.forward(q)[1, 3]
    assert np.abs(y).max() == pytest.approx(SHAKE_M, rel=0.02)
    assert np.abs(np.diff(y, n=2)).max() / (2 * TIMESTEP) ** 2 == pytest.approx(2.0, rel=0.1)
    assert motion.q[-1] == pytest.approx(q, abs=1e-6)
    assert np.abs(motion.rate[-1]).max() < 0.01
