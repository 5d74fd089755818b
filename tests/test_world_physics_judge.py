"""What the judge of the physics measures: heights, spans, falls, water."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagehand.world.failures import Terminal
from sagehand.world.frames import axis_rotation, invert, pose, rotation_of, translation
from sagehand.world.grasp import GraspCommand
from sagehand.world.objects.model import Cavity, ObjectModel
from sagehand.world.objects.shapes import Shell, solids_of
from sagehand.world.physics.aftermath import height_along, measure
from sagehand.world.physics.control import Cell
from sagehand.world.physics.judge import judge, span_between
from sagehand.world.physics.monitor import Touches
from sagehand.world.physics.record import Record
from sagehand.world.physics.setup import physics_model
from sagehand.world.robot.description import load_robot
from sagehand.world.rules import spill_angle
from sagehand.world.scene import Placed, Scene
from world_physics_things import DOWN, ball, block, post

pytest.importorskip("mujoco")

COMMAND = GraspCommand("it", pose((0.5, 0, 0.02), DOWN), 0.06, 10.0)


def beaker(height_m: float = 0.1, radius_m: float = 0.04) -> ObjectModel:
    """A straight vessel."""
    solids = tuple(solids_of(Shell(radius_m, radius_m, height_m, 0.003, 0.003), np.eye(4)))
    cavity = Cavity(radius_m - 0.003, 0.003, height_m)
    return ObjectModel("beaker", "beaker", "vessel", "glass", 0.8, 0.1, 0.5, 30.0, solids, {}, cavity)


def recorded(*placed: Placed) -> Record:
    """A record that begins with these objects."""
    scene = Scene(placed)
    return Record(Cell(physics_model(scene, load_robot()), scene), scene)


def moved(record: Record, name: str, T: np.ndarray) -> None:
    """Put an object elsewhere."""
    from sagehand.world.model import set_pose

    set_pose(record.cell.model, record.cell.data, name, T)
    record.cell._mj.mj_forward(record.cell.model, record.cell.data)


@given(st.lists(st.floats(-1, 1), min_size=4, max_size=4).filter(lambda q: math.hypot(*q) > 0.1))
def test_a_height_is_the_reach_of_points_of_the_surface(quat: list[float]) -> None:
    direction = rotation_of(quat)[:, 2]
    model = block(0.03, 0.05, 0.11)
    corners = np.array([(x, y, z) for x in (-0.025, 0.025) for y in (-0.015, 0.015) for z in (0, 0.11)]) @ direction
    assert height_along(model, direction) == pytest.approx(float(np.ptp(corners)))
    angles = np.linspace(0, 2 * np.pi, 721)
    rim = np.column_stack([0.02 * np.cos(angles), 0.02 * np.sin(angles), 0 * angles])
    ends = np.concatenate([rim, rim + np.array((0, 0, 0.2))]) @ direction
    assert height_along(post(0.02, 0.2), direction) == pytest.approx(float(np.ptp(ends)), abs=1e-5)
    assert height_along(ball(0.03), direction) == pytest.approx(0.06)


def test_water_comes_to_the_rim_of_a_half_full_beaker_at_the_angle_of_its_diagonal() -> None:
    model = beaker()
    scene = Scene((Placed("it", model, translation(0.5), filled=0.5),))
    cavity = model.cavity
    assert cavity is not None
    assert math.tan(spill_angle(scene["it"])) == pytest.approx((0.097 / 2) / 0.037)
    assert spill_angle(Placed("it", model, translation(0.5))) == math.pi


@pytest.mark.parametrize(("degrees", "spilt"), [(30, False), (50, False), (56, True), (90, True)])
def test_a_vessel_that_is_held_tilted_spills_beyond_that_angle(degrees: float, spilt: bool) -> None:
    record = recorded(Placed("it", beaker(), translation(0.5), filled=0.5))  # 52.7°
    for _ in range(6):
        moved(record, "it", translation(0.5, 0, 0.3) @ axis_rotation("x", math.radians(degrees)))
        record.look(record.cell.touches())
    assert ("it" in record.spilt) is spilt


def test_a_vessel_that_falls_freely_or_is_jerked_spills() -> None:
    record = recorded(Placed("it", beaker(), translation(0.5), filled=0.9))
    dof = record.cell.world.object_dof["it"]
    for number in range(6):
        record.cell.data.qvel[dof] = 0.05 * number  # 5 m/s² sideways: 27°, and the rim is reached at 15°
        record.look(record.cell.touches())
    assert record.spilt == {"it"}


def test_what_lies_is_toppled_but_a_cube_on_another_face_stands_and_a_ball_has_no_upright() -> None:
    lying = axis_rotation("x", math.pi / 2)
    for model, toppled in ((post(0.02, 0.2), True), (beaker(), True), (block(0.04), False), (ball(0.03), False)):
        record = recorded(Placed("it", model, translation(0.5)))
        moved(record, "it", translation(0.5, 0, 0.03) @ lying)
        end = measure(record, "it", record.cell.touches(), ())
        assert (end.toppled == ("it",)) is toppled, model.name
        assert judge(COMMAND, record, end).terminal == (Terminal.TOPPLED if toppled else None)


def test_what_is_carried_is_measured_on_what_carries_it() -> None:
    record = recorded(
        Placed("it", block(0.1, 0.1, 0.02), translation(0.5)), Placed("on", block(0.03), translation(0.5, 0, 0.02))
    )
    record.cell.settle(0.3)
    apart = measure(record, "it", record.cell.touches(), ())
    assert apart.moved_m["on"] < 0.001
    for name, z in (("it", 0.15), ("on", 0.17)):
        moved(record, name, translation(0.5, 0, z - 1e-5))
    carried = measure(record, "it", record.cell.touches(), ("it",))
    assert carried.moved_m["it"] == pytest.approx(0.15, abs=1e-3)
    assert carried.moved_m["on"] < 0.001


def test_what_pivots_at_the_fingers_turns_and_does_not_slip_and_what_slides_slips() -> None:
    record = recorded(Placed("it", block(0.03, 0.2, 0.03), translation(0.5)))
    cell = record.cell
    tcp = cell.T_world_tcp
    before = tcp @ translation(0, 0.08, 0.05)  # its origin is far from the fingers
    record.in_tcp["it"] = invert(tcp) @ before
    turn = axis_rotation("y", math.radians(12))
    for motion, slip, turned in ((turn, 0.0, 12), (translation(0.006, 0.002, 0.003), 0.007, 0)):
        moved(record, "it", tcp @ motion @ invert(tcp) @ before)
        end = measure(record, "it", cell.touches(), ("it",))
        assert end.slip_m == pytest.approx(slip, abs=1e-9)
        assert math.degrees(end.turn_rad) == pytest.approx(turned, abs=1e-5)


def test_the_points_of_a_rim_count_together_and_friction_that_holds_a_wedge_counts_against_it() -> None:
    record = recorded(Placed("it", block(0.04), translation(0.5)))
    pair = (0, record.owner("it"))
    for points, whole, counted in (
        ([(0, 10, 0), (0, 5, 0)], (0, 15, 3), 15.0),  # a flat side, which friction carries: its normal force
        ([(6, 8, 0), (-6, 8, 0)], (0, 16, 0), 16.0),  # a curved side: 20 N in all, of which 12 press each other
        ([(0, 10, 0), (-9, 4, 0)], (0, 10, 0), 10.0),  # an edge wedged in, held by friction of the same finger
    ):
        record.look(Touches({}, {}))
        record.pressed_n.clear()
        touches = Touches({}, {}, {pair: np.array([np.sum(points, axis=0), whole], dtype=float)})
        record.look(touches)
        record.look(touches)
        assert record.pressed_n["it"] == pytest.approx(counted)


def test_what_is_pressed_too_hard_is_broken_and_what_is_durable_bears_a_knock() -> None:
    record = recorded(Placed("it", block(0.04, f_safe_n=20.0), translation(0.5)))
    record.met_n["it"] = 100.0
    assert not measure(record, "it", record.cell.touches(), ()).broken
    record.pressed_n["it"] = 29.0
    assert not measure(record, "it", record.cell.touches(), ()).broken
    record.pressed_n["it"] = 31.0
    end = measure(record, "it", record.cell.touches(), ())
    assert "31.0 N" in end.broken["it"]
    assert judge(COMMAND, record, end).terminal == Terminal.BROKEN


def test_glass_that_falls_from_the_height_of_a_lift_breaks_and_wood_does_not() -> None:
    for fragility, breaks in ((0.8, True), (0.0, False)):
        record = recorded(Placed("it", block(0.04, fragility=fragility, f_safe_n=10.0), translation(0.5, 0, 0.15)))
        record.cell.settle(1.0, record.look)  # 1.7 m/s · 50 g / 5 ms = 17 N
        assert bool(measure(record, "it", record.cell.touches(), ()).broken) is breaks
        if breaks:
            assert record.fall_speed["it"] == pytest.approx(math.sqrt(2 * 9.81 * 0.15), rel=0.1)


@pytest.mark.parametrize("turn", [0.0, 0.3])
def test_a_span_is_the_width_between_the_pads(turn: float) -> None:
    record = recorded(Placed("it", post(0.03, 0.1), translation(0.5)))
    T = pose((0.5, 0, 0.08), DOWN) @ axis_rotation("z", turn)
    assert span_between(record, GraspCommand("it", T, 0.08, 10.0)) == pytest.approx(0.06, abs=1e-6)
    beside = GraspCommand("it", translation(0.1) @ T, 0.08, 10.0)
    assert span_between(record, beside) == 0.0
