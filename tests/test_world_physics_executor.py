"""Grasps tried in physics: what each kind of mistake leads to, trials that go on, putting down."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from sagehand.errors import InputError, UnknownName
from sagehand.world.approach import plan_approach
from sagehand.world.clearance import Clearance
from sagehand.world.executor import Attempt, Executor, PutCommand, Trial
from sagehand.world.failures import Failure, Terminal
from sagehand.world.frames import Pose, angle_between, axis_rotation, pose, translation
from sagehand.world.grasp import GraspCommand
from sagehand.world.noise import ExecutionNoise
from sagehand.world.objects.load import load_object
from sagehand.world.objects.model import ObjectModel
from sagehand.world.physics.executor import PhysicsExecutor, settle
from sagehand.world.physics.reach import line_up, plan_reach
from sagehand.world.physics.setup import physics_model
from sagehand.world.scene import Placed, Scene
from world_physics_things import DOWN, ball, block, post

pytest.importorskip("mujoco")
pytest.importorskip("frankik")

PHYSICS = PhysicsExecutor()


def at(model: ObjectModel, x: float = 0.5, y: float = 0.0, name: str = "it", filled: float = 0.0) -> Placed:
    """An object on the table."""
    return Placed(name, model, translation(x, y), filled)


def above(x: float = 0.5, y: float = 0.0, z: float = 0.02, yaw: float = 0.0) -> Pose:
    """A grasp from above."""
    return pose((x, y, z), axis_rotation("z", yaw)[:3, :3] @ DOWN)


def attempt(
    *placed: Placed, T: Pose | None = None, width_m: float = 0.06, force_n: float = 15.0, **rest: float
) -> Attempt:
    """One grasp of the first object, by default of a cube from above."""
    command = GraspCommand(placed[0].name, above() if T is None else T, width_m, force_n, **rest)
    with PHYSICS.start(Scene(placed)) as trial:
        return trial.grasp(command)


def test_it_is_an_executor_with_trials() -> None:
    executor: Executor = PHYSICS
    trial = executor.start(Scene((at(block(0.04)),)))
    assert isinstance(trial, Trial)
    assert executor.name == "physics"


def test_a_cube_is_lifted_held_and_shaken() -> None:
    seen, truth = (tried := attempt(at(block(0.04)))).observation, tried.truth
    assert truth.success
    assert truth.failure is None
    assert truth.lifted == "it"
    assert truth.applied_n == pytest.approx(15.0, rel=0.05)
    assert truth.slip_m < 0.002
    assert math.degrees(truth.turn_rad) < 1
    assert seen.reached
    assert not seen.touched
    assert seen.contact
    assert seen.lifted_in_view
    assert seen.held_in_view
    assert seen.finger_width_m == pytest.approx(0.04, abs=0.0005)
    assert seen.effort_n == pytest.approx(15.0, rel=0.05)
    assert 5 < seen.clock_s < 15


MARBLE = ball(0.008, mass_kg=0.005, rolling_friction=0.0001)
SIDE = np.column_stack([(0, 0, -1), (0, 1, 0), (1, 0, 0)])
FAILURES = {
    Failure.UNREACHABLE: lambda: attempt(at(block(0.04)), T=above(x=1.2)),
    Failure.TIMEOUT: lambda: attempt(at(block(0.04)), speed_scale=0.01),
    Failure.APPROACH_ANGLE: lambda: attempt(at(block(0.04, height_m=0.19)), T=pose((0.5, 0, 0.03), SIDE)),
    Failure.COLLISION: lambda: attempt(at(block(0.04)), T=above(z=-0.02)),
    Failure.WIDTH_MISMATCH: lambda: attempt(at(block(0.07))),
    Failure.POSITION_ERROR: lambda: attempt(at(block(0.04)), T=above(y=0.1)),
    Failure.ORIENTATION: lambda: attempt(at(ball(0.03, friction=0.2)), T=above(z=0.0575), width_m=0.07),
    Failure.SLIP: lambda: attempt(at(block(0.04, mass_kg=0.5)), force_n=3.0),
    Failure.DROP: lambda: attempt(at(block(0.03, 0.2, 0.03, mass_kg=0.3)), T=above(x=0.58, z=0.015), force_n=8.0),
    Failure.DEFORMATION: lambda: attempt(at(block(0.04, f_safe_n=20.0)), force_n=24.0),
    Failure.FORCE_DAMAGE: lambda: attempt(at(block(0.04, f_safe_n=20.0)), force_n=40.0),
    Failure.WRONG_OBJECT: lambda: attempt(at(block(0.04), y=-0.12), at(block(0.04), name="other")),
    Failure.CONSTRAINT_VIOLATION: lambda: attempt(
        at(block(0.06, 0.06)), Placed("on", MARBLE, translation(0.527, 0, 0.04)), T=above(z=0.03), width_m=0.08
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_every_kind_of_failure_comes_from_its_cause(failure: Failure) -> None:
    truth = FAILURES[failure]().truth
    assert not truth.success
    assert truth.failure == failure, truth.why
    assert truth.why


def test_all_failures_but_an_unknown_one_are_reached() -> None:
    assert set(FAILURES) == set(Failure) - {Failure.UNKNOWN}


def test_a_simulation_that_breaks_down_is_unknown_and_leaves_all_as_it_was() -> None:
    trial = PHYSICS.start(Scene((at(block(0.04)),)))
    trial.cell.data.qvel[trial.cell.world.object_dof["it"]] = np.nan
    attempted = trial.grasp(GraspCommand("it", above(), 0.06, 15.0))
    assert attempted.truth.failure == Failure.UNKNOWN
    assert trial.scene["it"].T_world_object == pytest.approx(translation(0.5), abs=1e-3)
    assert trial.grasp(GraspCommand("it", above(), 0.06, 15.0)).truth.success


def test_an_arm_that_would_stand_in_a_neighbour_at_once_does_not_throw_it_about() -> None:
    tall = at(block(0.04, height_m=0.2, mass_kg=0.3), y=0.06, name="tall")
    attempted = attempt(at(block(0.04)), tall)
    assert attempted.truth.failure == Failure.COLLISION
    assert attempted.observation.touched
    assert attempted.observation.touched_short_m == pytest.approx(0.1, abs=0.005)
    assert not attempted.truth.neighbours_m


def test_a_ball_rolls_into_the_jaws_and_a_turned_cube_turns_with_them() -> None:
    assert attempt(at(ball(0.0325, friction=0.7)), T=above(y=0.006, z=0.03), width_m=0.08, force_n=12.0).truth.success
    turned = attempt(at(block(0.04)), T=above(yaw=0.3), width_m=0.08)
    assert turned.truth.success
    assert turned.truth.details["turned_deg"]["it"] == pytest.approx(math.degrees(0.3), abs=6)


def test_what_the_guarded_descent_touched_last_is_grasped_where_it_stopped() -> None:
    flat = attempt(at(block(0.07, 0.147, 0.008)), T=above(z=0.006), width_m=0.08)  # the tips stand 9 mm below the TCP
    assert flat.observation.touched
    assert 0 < flat.observation.touched_short_m < 0.01
    assert flat.truth.success


def test_a_filled_cup_that_hangs_askew_spills_and_an_empty_one_does_not() -> None:
    cup = load_object("cup")
    rim = cup.regions["rim"].T_object_region @ axis_rotation("x", math.pi)
    T = translation(0.5) @ rim
    empty = attempt(at(cup), T=T, width_m=0.03, force_n=20.0).truth
    full = attempt(at(cup, filled=1.0), T=T, width_m=0.03, force_n=30.0).truth
    assert empty.success
    assert full.failure == Failure.CONSTRAINT_VIOLATION
    assert full.terminal == Terminal.SPILT


def test_a_tall_post_pushed_high_up_is_toppled() -> None:
    tall = at(post(0.015, 0.2, friction=0.8, mass_kg=0.1))
    truth = attempt(tall, T=pose((0.54, 0.0, 0.17), SIDE), width_m=0.01, force_n=5.0).truth
    assert not truth.success
    assert truth.terminal == Terminal.TOPPLED


def test_what_failed_stays_where_it_fell_and_can_be_tried_again() -> None:
    command = GraspCommand("it", above(), 0.06, 3.0)
    with PHYSICS.start(Scene((at(block(0.04, mass_kg=0.5)),))) as trial:
        first = trial.grasp(command)
        assert first.truth.failure == Failure.SLIP
        assert trial.held is None
        T = trial.scene["it"].T_world_object
        assert T[2, 3] == pytest.approx(0, abs=1e-3)
        assert trial.grasp(GraspCommand("it", T @ above(x=0.0), 0.06, 15.0)).truth.success
        assert trial.held == "it"
        assert trial.scene["it"].T_world_object[2, 3] == pytest.approx(0.15, abs=0.005)


def test_it_is_put_down_where_told_and_the_hand_is_empty_then() -> None:
    with PHYSICS.start(Scene((at(block(0.04)),))) as trial:
        with pytest.raises(InputError, match="nothing is in the hand"):
            trial.put(PutCommand(above()))
        trial.grasp(GraspCommand("it", above(), 0.06, 15.0))
        with pytest.raises(InputError, match="the it is in the hand"):
            trial.grasp(GraspCommand("it", above(), 0.06, 15.0))
        far = trial.put(PutCommand(above(x=1.3)))
        assert not far.truth.success
        assert not far.observation.reached
        assert trial.held == "it"
        put = trial.put(PutCommand(above(x=0.45, y=0.15, z=0.021, yaw=0.4)))
        assert put.truth.success, put.truth.why
        assert put.truth.off_m < 0.005
        assert put.truth.tilt_rad < 0.01
        assert trial.held is None
        T = trial.scene["it"].T_world_object
        assert T[:3, 3] == pytest.approx((0.45, 0.15, 0.0), abs=0.004)
        turn = axis_rotation("z", 0.4)
        assert angle_between(T, turn) < math.radians(3)


def test_let_go_in_the_air_it_falls_and_that_is_no_putting_down() -> None:
    with PHYSICS.start(Scene((at(block(0.04)),))) as trial:
        trial.grasp(GraspCommand("it", above(), 0.06, 15.0))
        put = trial.put(PutCommand(above(z=0.12)))
    assert not put.truth.success
    assert "after the hand had let go" in put.truth.why
    assert not put.observation.touched


def test_put_down_on_an_edge_a_post_topples() -> None:
    with PHYSICS.start(Scene((at(post(0.02, 0.15)),))) as trial:
        assert trial.grasp(GraspCommand("it", above(z=0.13), 0.06, 15.0)).truth.success
        tilted = above(x=0.5, z=0.15) @ axis_rotation("x", math.radians(35))
        put = trial.put(PutCommand(tilted))
    assert not put.truth.success
    assert put.truth.terminal == Terminal.TOPPLED


def test_the_same_commands_in_the_same_scene_come_out_the_same_whatever_was_tried_between() -> None:
    def once() -> Attempt:
        return attempt(at(load_object("cup")), T=above(y=0.043, z=0.07), width_m=0.04)

    first = once()
    attempt(at(block(0.04)))
    again = once()
    assert again.truth.slip_m == first.truth.slip_m
    assert again.observation == first.observation


def test_noise_moves_the_motion_and_the_force_by_its_draws() -> None:
    noise = ExecutionNoise(3, "trial")
    drawn = ExecutionNoise(3, "trial").motion()
    with PHYSICS.start(Scene((at(block(0.04)),)), noise) as trial:
        seen = trial.grasp(GraspCommand("it", above(), 0.06, 20.0)).observation
    assert drawn.force_factor != 1
    assert seen.effort_n == pytest.approx(20.0 * drawn.force_factor, rel=0.01)


def test_no_force_is_laid_on_that_the_hand_does_not_have() -> None:
    assert attempt(at(block(0.04, f_safe_n=500.0)), force_n=300.0).observation.effort_n == pytest.approx(70.0, rel=0.02)


def test_an_unknown_target_is_named() -> None:
    with pytest.raises(UnknownName, match="cube"):
        PHYSICS.start(Scene((at(block(0.04)),))).grasp(GraspCommand("cube", above(), 0.06, 15.0))


def test_a_trial_that_was_closed_does_nothing_more_but_says_how_things_are() -> None:
    with PHYSICS.start(Scene((at(block(0.04)),))) as trial:
        trial.grasp(GraspCommand("it", above(), 0.06, 15.0))
    assert trial.scene["it"].T_world_object[2, 3] == pytest.approx(0.15, abs=0.005)
    with pytest.raises(InputError, match="closed"):
        trial.grasp(GraspCommand("it", above(), 0.06, 15.0))
    with pytest.raises(InputError, match="closed"):
        trial.put(PutCommand(above()))


@pytest.mark.parametrize(
    ("name", "value"),
    [("width_m", -0.01), ("width_m", math.nan), ("width_m", math.inf), ("force_n", -5.0), ("force_n", math.nan)]
    + [("speed_scale", v) for v in (0.0, -1.0, 5.0, math.nan)]
    + [("lift_m", v) for v in (0.0, -0.1, math.nan)]
    + [("lift_acceleration", v) for v in (0.0, -2.0, math.inf)]
    + [("pregrasp_m", -0.1)],
)
def test_a_command_with_a_number_that_means_nothing_is_refused(name: str, value: float) -> None:
    values: dict[str, Any] = {"width_m": 0.06, "force_n": 15.0, name: value}
    with pytest.raises(InputError, match=name):
        GraspCommand("it", above(), **values)


@pytest.mark.parametrize(("name", "value"), [("speed_scale", 0.0), ("speed_scale", math.nan), ("retreat_m", -0.1)])
def test_so_is_one_to_put_down(name: str, value: float) -> None:
    with pytest.raises(InputError, match=name):
        PutCommand(above(), **{name: value})
    with pytest.raises(InputError, match="rigid"):
        PutCommand(np.full((4, 4), math.nan))


def test_things_that_stand_in_one_another_are_no_scene() -> None:
    two = (at(block(0.04)), at(block(0.04), y=0.02, name="other"))
    with pytest.raises(InputError, match="other stands 20 mm deep in it"):
        PHYSICS.start(Scene(two))
    with pytest.raises(InputError, match="30 mm deep in table"):
        PHYSICS.start(Scene((Placed("it", block(0.04), translation(0.5, 0, -0.03)),)))


@pytest.mark.parametrize("force_n", [0.0, 1e-6])
def test_without_a_force_the_fingers_do_not_close_and_that_is_no_wrong_place(force_n: float) -> None:
    tried = attempt(at(block(0.04)), force_n=force_n)
    assert tried.truth.failure == Failure.SLIP
    assert "did not close" in tried.truth.why
    assert not tried.observation.contact


def test_odd_commands_come_to_an_honest_end() -> None:
    assert attempt(at(block(0.04)), width_m=0.2).truth.success  # no wider than the hand opens
    assert attempt(at(block(0.04)), width_m=0.0).truth.failure == Failure.WIDTH_MISMATCH
    assert attempt(at(block(0.04), x=3.0), T=above(x=3.0)).truth.failure == Failure.UNREACHABLE
    assert attempt(at(block(0.04), x=3.0)).truth.failure == Failure.POSITION_ERROR  # it is not where the hand goes
    assert attempt(at(block(0.04)), lift_m=5.0).truth.failure == Failure.UNREACHABLE


def test_it_can_be_put_onto_something_and_not_where_something_stands() -> None:
    for height, on_it in ((0.03, True), (0.2, False)):
        there = at(block(0.1, 0.1, height, mass_kg=0.8), y=0.2, name="there")
        with PHYSICS.start(Scene((at(block(0.04)), there))) as trial:
            assert trial.grasp(GraspCommand("it", above(), 0.06, 15.0)).truth.success
            put = trial.put(PutCommand(above(y=0.2, z=0.051)))
            assert put.truth.success is on_it, put.truth.why
            assert trial.held is None
            assert bool(abs(trial.scene["it"].T_world_object[2, 3] - height) < 0.002) is on_it


def test_to_put_down_at_a_snails_pace_is_not_begun() -> None:
    with PHYSICS.start(Scene((at(block(0.04)),))) as trial:
        trial.grasp(GraspCommand("it", above(), 0.06, 15.0))
        put = trial.put(PutCommand(above(), speed_scale=0.001))
        assert "would take" in put.truth.why
        assert trial.held == "it"


def test_a_posture_that_can_lift_is_preferred_to_the_nearest_one() -> None:
    T = pose((0.5, -0.25, 0.12), axis_rotation("z", -0.6)[:3, :3] @ SIDE)
    scene = Scene((at(post(0.02, 0.2), y=-0.25),))
    command = GraspCommand("it", T, 0.06, 15.0)
    kinematics = PHYSICS.kinematics
    clearance = Clearance(scene, PHYSICS.robot)
    nearest = plan_approach(kinematics, clearance, command.T_world_pregrasp, T, 0.06, ("it",))
    assert nearest.path is not None
    assert line_up(kinematics, nearest.path[-1], 0.15) is None
    way = plan_reach(kinematics, scene, command, 0.06)
    assert way.path is not None
    assert line_up(kinematics, way.path[-1], 0.15) is not None
    with PHYSICS.start(scene) as trial:
        truth = trial.grasp(command).truth
    assert truth.success
    assert truth.details["rise_m"] == pytest.approx(0.15, abs=0.005)


def test_what_slides_in_the_fingers_slips_by_as_much_as_it_stays_behind() -> None:
    slippery = attempt(at(block(0.04, height_m=0.1, mass_kg=0.5, friction=0.40)), T=above(z=0.07), force_n=7.0).truth
    firm = attempt(at(block(0.04, height_m=0.1, mass_kg=0.5, friction=0.50)), T=above(z=0.07), force_n=7.0).truth
    assert slippery.success  # 7 N need 0.35 to hold and 0.42 to lift it
    assert slippery.slip_m == pytest.approx(firm.details["rise_m"] - slippery.details["rise_m"], abs=0.001)
    assert slippery.slip_m > 0.01
    assert firm.slip_m < 0.001
    assert max(slippery.turn_rad, firm.turn_rad) < math.radians(1)


def test_a_finger_presses_on_a_rim_with_the_commanded_force() -> None:
    bowl = load_object("bowl")
    rim = bowl.regions["rim"].T_object_region @ axis_rotation("x", math.pi)
    truth = attempt(at(bowl), T=translation(0.5) @ rim, width_m=0.03, force_n=10.0).truth
    assert truth.success
    assert truth.applied_n == pytest.approx(10.0, rel=0.15)  # its points, added up as numbers, press with 22 N


def test_fingers_that_close_over_an_edge_do_not_jam_between_arm_and_table() -> None:
    truth = attempt(at(block(0.06, height_m=0.1, mass_kg=0.4)), T=above(y=0.03, z=0.105)).truth
    assert truth.failure == Failure.WIDTH_MISMATCH
    assert truth.applied_n < 12.0  # an arm that does not give way presses with 47 N


def test_a_scene_comes_to_rest() -> None:
    scene = Scene(
        (Placed("it", block(0.04), translation(0.5, 0, 0.01)), Placed("on", block(0.03), translation(0.5, 0, 0.052)))
    )
    rested = settle(scene)
    assert rested["it"].T_world_object == pytest.approx(translation(0.5), abs=1e-3)
    assert rested["on"].T_world_object == pytest.approx(translation(0.5, 0, 0.04), abs=1e-3)
    assert settle(rested)["on"].T_world_object == pytest.approx(rested["on"].T_world_object, abs=1e-4)


def test_a_model_is_compiled_once_for_the_same_objects_wherever_they_stand() -> None:
    model = block(0.04)
    one = physics_model(Scene((at(model),)), PHYSICS.robot)
    assert physics_model(Scene((at(model, y=0.2),)), PHYSICS.robot) is one
    assert physics_model(Scene((at(model, name="other"),)), PHYSICS.robot) is not one


def test_who_watches_is_called_thirty_times_a_second() -> None:
    times: list[float] = []

    def watch(data: object, model: object, time: float) -> None:
        times.append(time)

    executor = PhysicsExecutor(watch=watch)
    with executor.start(Scene((at(block(0.04)),))) as trial:
        seconds = trial.grasp(GraspCommand("it", above(), 0.06, 15.0)).observation.clock_s
    gaps = np.diff(sorted(set(times)))
    assert gaps.max() < 0.06
    assert 15 * seconds < len(times) < 35 * seconds


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cube", "apple", "ball", "bottle", "box", "phone", "screwdriver", "banana", "egg"])
def test_an_object_is_lifted_by_one_of_its_regions(name: str) -> None:
    model = load_object(name)
    scene = settle(Scene((Placed(name, model, translation(0.5)),)))
    for region in model.regions.values():
        T = scene[name].T_world_object @ region.T_object_region @ axis_rotation("x", math.pi)
        command = GraspCommand(name, T, min(region.width_m + 0.01, 0.08), min(0.7 * model.f_safe_n, 30.0))
        with PHYSICS.start(scene) as trial:
            if trial.grasp(command).truth.success:
                return
    pytest.fail("no region will do")
