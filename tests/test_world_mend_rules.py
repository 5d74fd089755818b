"""One set of rules for both executors: their clocks, verdicts, refusals, factors and regions."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from sagehand.errors import InputError
from sagehand.world.analytic.executor import AnalyticExecutor
from sagehand.world.analytic.statics import weight_force
from sagehand.world.antipodal import region_of
from sagehand.world.executor import Attempt, Executor, PutCommand
from sagehand.world.failures import Failure, Terminal
from sagehand.world.frames import Pose, axis_rotation, pose, translation
from sagehand.world.grasp import GraspCommand, GraspType
from sagehand.world.noise import ExecutionNoise
from sagehand.world.objects.load import load_object, object_names
from sagehand.world.objects.model import Turn
from sagehand.world.objects.regions import distance_to_region
from sagehand.world.objects.shapes import Box, Sphere, solids_of
from sagehand.world.physics.executor import PhysicsExecutor
from sagehand.world.refuse import ITSELF, depth_between, meets_itself
from sagehand.world.rules import LIMIT_S, spill_angle, terminal_of
from sagehand.world.scene import CAMERA, Placed, Scene
from sagehand.world.sight import in_view
from world_physics_things import DOWN, block, post

pytest.importorskip("mujoco")
pytest.importorskip("frankik")

HAND = AnalyticExecutor(reach=False)


@cache
def executor(name: str) -> Executor:
    return AnalyticExecutor() if name == "analytic" else PhysicsExecutor()


def above(z: float = 0.02, x: float = 0.5, y: float = 0.0) -> Pose:
    return pose((x, y, z), DOWN)


def tried(which: str | Executor, scene: Scene, command: GraspCommand, noise: ExecutionNoise | None = None) -> Attempt:
    with (executor(which) if isinstance(which, str) else which).start(scene, noise) as trial:
        return trial.grasp(command)


def alone(model: object, filled: float = 0.0) -> Scene:
    return Scene((Placed("it", model, translation(0.5), filled),))  # type: ignore[arg-type]


# one clock

RIM = load_object("cup")
AT_RIM = translation(0.5) @ RIM.regions["rim"].T_object_region @ np.diag([1.0, -1.0, -1.0, 1.0])
PLAIN = {
    "rim": (RIM, GraspCommand("it", AT_RIM, 0.03, 12.0)),
    "cube": (load_object("cube"), GraspCommand("it", above(0.02), 0.06, 10.0)),
    "apple": (load_object("apple"), GraspCommand("it", above(0.037), 0.08, 12.0)),
    "post": (post(0.02, 0.10), GraspCommand("it", above(0.07), 0.06, 12.0)),
    "dice": (load_object("dice", "large"), GraspCommand("it", above(0.012), 0.04, 5.0)),
    "block": (block(0.03, 0.05, 0.06), GraspCommand("it", above(0.04), 0.05, 12.0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 0.2, 0.06])
@pytest.mark.parametrize("name", PLAIN)
def test_both_take_the_same_time_for_a_plain_success_and_call_the_same_ones_too_long(name: str, scale: float) -> None:
    model, plain = PLAIN[name]
    command = GraspCommand("it", plain.T_world_grasp, plain.width_m, plain.force_n, speed_scale=scale)
    here, there = (tried(which, alone(model), command) for which in ("analytic", "physics"))
    assert here.truth.failure == there.truth.failure, (here.truth.why, there.truth.why)
    assert here.truth.success or scale < 0.1
    assert here.truth.failure in {None, Failure.TIMEOUT}
    assert here.observation.clock_s == pytest.approx(there.observation.clock_s, rel=0.1)


def test_a_whole_second_pair_is_too_long_in_both_and_says_the_same() -> None:
    command = GraspCommand("it", above(), 0.06, 10.0, speed_scale=0.05)
    one, other = (tried(which, alone(block(0.04)), command) for which in ("analytic", "physics"))
    assert one.truth.failure is other.truth.failure is Failure.TIMEOUT
    assert one.truth.why == other.truth.why
    assert one.observation.clock_s == other.observation.clock_s == LIMIT_S


def test_a_snails_pace_is_no_way_to_put_down_in_either() -> None:
    for which in ("analytic", "physics"):
        with executor(which).start(alone(block(0.04))) as trial:
            assert trial.grasp(GraspCommand("it", above(), 0.06, 10.0)).truth.success
            put = trial.put(PutCommand(above(0.022), speed_scale=0.02))
            assert "allowed are 60" in put.truth.why
            assert trial.held == "it"


def test_putting_down_takes_as_long_in_both() -> None:
    clocks = []
    for which in ("analytic", "physics"):
        with executor(which).start(alone(block(0.04))) as trial:
            trial.grasp(GraspCommand("it", above(), 0.06, 10.0))
            put = trial.put(PutCommand(above(0.0205, 0.45, 0.15)))
            assert put.truth.success, put.truth.why
            clocks.append(put.observation.clock_s)
    assert clocks[0] == pytest.approx(clocks[1], rel=0.1)


def test_the_worst_that_happened_is_what_counts() -> None:
    assert terminal_of(broken=True, spilt=True, toppled=True) is Terminal.BROKEN
    assert terminal_of(broken=False, spilt=True, toppled=True) is Terminal.SPILT
    assert terminal_of(broken=False, spilt=False, toppled=True) is Terminal.TOPPLED
    assert terminal_of(broken=False, spilt=False, toppled=False) is None


def test_a_fuller_vessel_spills_at_less_tilt() -> None:
    angles = [spill_angle(Placed("it", RIM, translation(0.5), share)) for share in (0.2, 0.5, 0.9)]
    assert angles == sorted(angles, reverse=True)


# the factors


def test_security_counts_the_whole_moment_of_the_centre_of_mass() -> None:
    tool = load_object("screwdriver")
    com = float(tool.com_m[0])
    where = above(0.015, 0.5 + com + 0.06)
    held = tried(HAND, alone(tool), GraspCommand("it", where, 0.06, 4.0)).truth
    weight = weight_force(tool.mass_kg, tool.friction, 2.0)
    quality = held.quality
    assert quality is not None
    assert held.required_n is not None
    assert held.required_n > 3 * weight  # its moment included, though it swings in the fingers and needs less then
    assert quality.security == pytest.approx(4.0 / held.required_n / 2, rel=1e-6)
    centred = tried(HAND, alone(tool), GraspCommand("it", above(0.015, 0.5 + com), 0.06, 4.0)).truth.quality
    assert centred is not None
    assert centred.security > 1.5 * quality.security


def test_where_there_is_no_way_clearance_is_nought_and_the_rest_is_as_if_the_hand_were_there() -> None:
    cube = load_object("cube")
    near = tried("analytic", alone(cube), GraspCommand("it", above(), 0.06, 10.0)).truth.quality
    far_scene = Scene((Placed("it", cube, translation(1.3)),))
    far = tried("analytic", far_scene, GraspCommand("it", above(x=1.3), 0.06, 10.0)).truth
    assert far.failure is Failure.UNREACHABLE
    assert near is not None
    assert far.quality is not None
    assert far.quality.clearance == 0.0
    for name in ("position", "width", "force", "type", "difficulty", "security"):
        assert getattr(far.quality, name) == pytest.approx(getattr(near, name), rel=1e-3), name
    assert far.quality.total < near.total


# the faithful reading


def test_after_a_faithful_success_the_target_is_in_the_hand_and_can_be_put_down() -> None:
    faithful = AnalyticExecutor(faithful=True, reach=False)
    heavy = block(0.04, friction=0.3, mass_kg=0.5)
    found = 0
    for force in np.linspace(3.0, 30.0, 28):
        with HAND.start(alone(heavy)) as plain, faithful.start(alone(heavy)) as trial:
            command = GraspCommand("it", above(), 0.06, float(force), lift_acceleration=0.5)
            by_statics, truth = plain.grasp(command).truth, trial.grasp(command).truth
            assert trial.held == ("it" if truth.success else None)
            assert truth.lifted == trial.held
            if truth.success:
                assert truth.why == "no factor below 0.4 (faithful reading)"
                assert trial.put(PutCommand(above())).truth.success
                assert trial.held is None
            found += truth.success != by_statics.success
    assert found


def test_what_statics_lose_and_the_factors_pass_is_in_the_hand_too() -> None:
    # force enough for φ3, and within 0.8 of what the moment of the rim needs for φ7, but not all of it
    command = GraspCommand("it", AT_RIM, 0.024, 3.7, type=GraspType.PINCH, region="rim")
    with HAND.start(alone(RIM)) as plain:
        assert plain.grasp(command).truth.failure in {Failure.DROP, Failure.SLIP}
    with AnalyticExecutor(faithful=True, reach=False).start(alone(RIM)) as trial:
        attempt = trial.grasp(command)
        assert attempt.truth.success
        assert attempt.truth.why == "no factor below 0.4 (faithful reading)"
        assert attempt.truth.lifted == trial.held == "it"
        assert attempt.observation.held_in_view
        assert trial.scene["it"].T_world_object[2, 3] == pytest.approx(0.15, abs=0.02)
        assert trial.put(PutCommand(AT_RIM)).truth.success
        assert trial.held is None


# regions


@pytest.mark.parametrize("name", object_names())
def test_a_round_region_is_as_far_at_every_angle_and_nought_on_it(name: str) -> None:
    model = load_object(name)
    rng = np.random.default_rng(5)
    for region in model.regions.values():
        origin = region.T_object_region[:3, 3]
        assert distance_to_region(region, origin) == 0.0
        if region.turn is not Turn.ROUND:
            continue
        for point in rng.uniform(-0.1, 0.1, (8, 3)):
            turned = [axis_rotation("z", a)[:3, :3] @ point for a in rng.uniform(0, 2 * math.pi, 5)]
            gaps = [distance_to_region(region, p) for p in turned]
            assert np.ptp(gaps) < 1e-9
            plain = _plain_distance(region, point)
            assert gaps[0] <= plain + 1e-6
            angles = np.linspace(0, 2 * math.pi, 721)
            sampled = min(_plain_distance(region, axis_rotation("z", a)[:3, :3] @ point) for a in angles)
            assert gaps[0] == pytest.approx(sampled, abs=6e-4)
        for a in rng.uniform(0, 2 * math.pi, 5):
            on = axis_rotation("z", a)[:3, :3] @ origin
            assert distance_to_region(region, on) < 1e-6
            assert region_of(model, on) is not None


def _plain_distance(region: object, point: np.ndarray) -> float:
    T = region.T_object_region  # type: ignore[attr-defined]
    local = T[:3, :3].T @ (point - T[:3, 3])
    return float(np.linalg.norm(np.maximum(np.abs(local) - np.asarray(region.size_m) / 2, 0)))  # type: ignore[attr-defined]


# what the robot knows


@pytest.mark.parametrize("which", ["analytic", "physics"])
def test_what_the_arm_knows_of_its_reach_does_not_depend_on_the_noise(which: str) -> None:
    scene, command = alone(block(0.04)), GraspCommand("it", above(), 0.06, 10.0)
    seen = [tried(which, scene, command, ExecutionNoise(seed)).observation for seed in range(3)]
    plain = tried(which, scene, command).observation
    assert {(s.ik_error_m, s.ik_error_rad) for s in seen} == {(plain.ik_error_m, plain.ik_error_rad)}
    assert len({s.finger_width_m for s in seen} | {s.effort_n for s in seen}) > 2  # the motion itself has noise


def test_at_the_edge_of_its_reach_noise_does_not_decide_whether_a_plan_is_made() -> None:
    cube = load_object("cube")
    edges = []
    for x in np.linspace(0.60, 0.90, 61):
        scene = Scene((Placed("it", cube, translation(float(x))),))
        command = GraspCommand("it", above(x=float(x)), 0.06, 10.0)
        reached = tried("analytic", scene, command).truth.failure is not Failure.UNREACHABLE
        noisy = [
            tried("analytic", scene, command, ExecutionNoise(seed)).truth.failure is not Failure.UNREACHABLE
            for seed in range(2)
        ]
        assert noisy == [reached] * 2
        edges.append(reached)
    assert any(edges)
    assert not all(edges)


def test_a_path_is_nudged_to_where_the_motion_really_ends() -> None:
    from sagehand.world.nudge import nudged
    from sagehand.world.robot.kinematics import Kinematics

    kinematics = Kinematics()
    T = above(0.1)
    path = kinematics.straight(kinematics.inverse(T).q, T, above(0.2), 20)
    assert path is not None
    path = path[::-1]
    motion = ExecutionNoise(3, scale=2.0).motion()
    moved = nudged(kinematics, path, T @ motion.T_grasp_actual)
    assert kinematics.forward(moved[-1]) == pytest.approx(T @ motion.T_grasp_actual, abs=2e-5)
    assert kinematics.within_limits(moved)
    start = kinematics.forward(moved[0])[:3, 3] - kinematics.forward(path[0])[:3, 3]
    assert np.linalg.norm(start) < 0.012  # the whole stretch is shifted, about alike
    kept = nudged(kinematics, path, T @ motion.T_grasp_actual, whole=False)
    assert kept[0] == pytest.approx(path[0])


# what is seen


def test_a_camera_sees_what_is_raised_within_its_picture() -> None:
    assert in_view(CAMERA, (0.5, 0.0, 0.1), 0.05)
    assert not in_view(CAMERA, (0.5, 0.0, 0.1), 0.01)
    assert not in_view(CAMERA, (50.0, 0.0, 0.1), 0.05)


def test_what_is_lifted_out_of_the_picture_is_not_seen_in_the_analytic_one_either() -> None:
    from dataclasses import replace

    narrow = replace(CAMERA, look_at_m=(0.5, 2.0, 0.0))
    scene = replace(alone(block(0.04)), camera=narrow)
    for which in ("analytic", "physics"):
        attempt = tried(which, scene, GraspCommand("it", above(), 0.06, 10.0))
        assert attempt.truth.success
        assert not attempt.observation.lifted_in_view
        assert not attempt.observation.held_in_view


def test_what_the_turned_hand_cannot_bear_is_lost_on_the_way_and_is_felt() -> None:
    heavy = block(0.04, friction=0.3, mass_kg=0.5)
    with HAND.start(alone(heavy)) as trial:
        assert trial.grasp(GraspCommand("it", above(), 0.06, 12.0)).truth.success
        put = trial.put(PutCommand(above(0.021)))
        assert put.observation.contact
    with HAND.start(alone(heavy)) as trial:
        trial.grasp(GraspCommand("it", above(), 0.06, 12.0))
        held = trial._in_hand
        assert held is not None
        object.__setattr__(held.grip, "force_n", 1.0)  # what could no longer bear it
        put = trial.put(PutCommand(above(0.021)))
        assert not put.observation.contact
        assert put.truth.why == "lost on the way"
        assert trial.held is None


# what is refused


@pytest.mark.parametrize("which", ["analytic", "physics"])
def test_a_closed_trial_does_nothing_more(which: str) -> None:
    with executor(which).start(alone(block(0.04))) as trial:
        pass
    with pytest.raises(InputError, match="was closed"):
        trial.grasp(GraspCommand("it", above(), 0.06, 10.0))
    with pytest.raises(InputError, match="was closed"):
        trial.put(PutCommand(above()))


@pytest.mark.parametrize("which", ["analytic", "physics"])
def test_things_in_one_another_and_in_the_table_are_refused(which: str) -> None:
    cube = block(0.04)
    for T, other in ((translation(0.52), "one"), (translation(0.7, 0, -0.01), "table")):
        scene = Scene((Placed("one", cube, translation(0.5)), Placed("two", cube, T)))
        with pytest.raises(InputError, match=f"mm deep in {other}"):
            executor(which).start(scene)
    executor(which).start(Scene((Placed("one", cube, translation(0.5)), Placed("two", cube, translation(0.537)))))


def test_a_ball_in_a_bowl_is_not_in_the_way_of_it() -> None:
    bowl, ball = load_object("bowl"), load_object("ball", "golf")
    scene = Scene((Placed("bowl", bowl, translation(0.5)), Placed("ball", ball, translation(0.5, 0, 0.01))))
    with HAND.start(scene) as trial:
        assert [placed.name for placed in trial.scene.objects] == ["bowl", "ball"]


@pytest.mark.parametrize("depth", [0.001, 0.01, 0.03])
def test_the_depth_of_two_solids_is_how_far_they_must_part(depth: float) -> None:
    (one,), (other,) = solids_of(Box((0.1, 0.1, 0.1)), np.eye(4)), solids_of(Sphere(0.05), np.eye(4))
    assert depth_between(one, np.eye(4), other, translation(0.1 - depth)) == pytest.approx(depth)
    (two,) = solids_of(Box((0.1, 0.1, 0.1)), np.eye(4))
    turned = translation(0.05 + 0.05 * math.sqrt(2) - depth) @ axis_rotation("z", math.pi / 4)
    assert depth_between(one, np.eye(4), two, turned) == pytest.approx(depth)
    assert depth_between(other, np.eye(4), other, translation(0.06, 0.06, 0.06)) < 0


@pytest.mark.parametrize("which", ["analytic", "physics"])
def test_a_plan_in_which_the_arm_meets_itself_is_refused(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from sagehand.world import approach
    from sagehand.world.clearance import Gap

    scene = alone(block(0.04))
    for other in ("table", "it"):
        assert not meets_itself(Gap(-0.01, "link6", other, arm=True), scene)
    own = Gap(-0.01, "link6", "link2", 0, arm=True)
    assert meets_itself(own, scene)
    real = approach.plan_approach

    def folded(*args: object, **rest: object) -> approach.Approach:
        from dataclasses import replace

        return replace(real(*args, **rest), gap=own)  # type: ignore[arg-type]

    monkeypatch.setattr(approach, "plan_approach", folded)
    monkeypatch.setattr("sagehand.world.physics.reach.plan_approach", folded)
    attempt = tried(which, scene, GraspCommand("it", above(), 0.06, 10.0, type=GraspType.PINCH))
    assert attempt.truth.failure is Failure.UNREACHABLE
    assert attempt.truth.why == ITSELF
    assert not attempt.observation.reached
    assert attempt.observation.clock_s == 0.0
