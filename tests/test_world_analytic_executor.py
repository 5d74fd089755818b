"""The analytic executor: every failure by a scene that has it, every terminal outcome, what is seen, and putting down."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from sagehand.errors import InputError, UnknownName
from sagehand.world.analytic.executor import AnalyticExecutor
from sagehand.world.analytic.jaws import jaws_of
from sagehand.world.analytic.reach import Reached
from sagehand.world.analytic.setup import Setup
from sagehand.world.analytic.stretch import arrive
from sagehand.world.executor import Attempt, Executor, PutCommand, Trial, Truth, blind
from sagehand.world.failures import Failure, Terminal
from sagehand.world.frames import Pose, axis_rotation, pose, translation
from sagehand.world.grasp import Grasp, GraspCommand, GraspType
from sagehand.world.noise import ExecutionNoise
from sagehand.world.objects.model import Affordance, Cavity, ObjectModel, Region
from sagehand.world.objects.shapes import Box, Cylinder, Shape, Shell, Sphere, solids_of
from sagehand.world.scene import Placed, Scene

HAND = AnalyticExecutor(reach=False)
"""A free-flying hand: what needs no arm is judged without."""
HERE = pose((0.5, 0.0, 0.0))


def thing(
    shape: Shape,
    height: float,
    *,
    mass: float = 0.2,
    mu: float = 0.5,
    safe: float = 60.0,
    fragility: float = 0.0,
    **rest,
) -> ObjectModel:
    solids = solids_of(shape, np.eye(4) if isinstance(shape, Shell) else translation(z=height / 2))
    return ObjectModel(
        "thing", "thing", "block", "wood", fragility, mass, mu, safe, tuple(solids), **({"regions": {}} | rest)
    )


def cube(**rest) -> ObjectModel:
    return thing(Box((0.04, 0.04, 0.04)), 0.04, **rest)


MUG = thing(Shell(0.03, 0.03, 0.08, 0.003, 0.004), 0.08, mass=0.1, cavity=Cavity(0.027, 0.004, 0.08))


def scene(model: ObjectModel, *others: Placed, T: Pose = HERE, filled: float = 0.0) -> Scene:
    return Scene((Placed("target", model, T, filled), *others))


def down(
    x: float = 0.5,
    y: float = 0.0,
    z: float = 0.02,
    *,
    yaw: float = 0.0,
    width: float = 0.08,
    force: float = 20.0,
    **rest,
) -> GraspCommand:
    """A grasp straight down with the TCP at (x, y, z) of the world, closing along y turned by ``yaw``."""
    T = pose((x, y, z), (axis_rotation("z", yaw) @ axis_rotation("x", math.pi))[:3, :3])
    return GraspCommand("target", T, width, force, **rest)


def level(x: float, z: float, **rest) -> GraspCommand:
    """A grasp level from the robot's side, along +x, closing along y."""
    g = Grasp.from_axes(
        (x, 0, z), (1, 0, 0), (0, 1, 0), width_m=rest.pop("width", 0.08), force_n=rest.pop("force", 20.0)
    )
    return g.at(np.eye(4), "target", **rest)


def tried(s: Scene, command: GraspCommand, executor: AnalyticExecutor = HAND) -> Attempt:
    return executor.start(s).grasp(command)


def test_it_is_an_executor() -> None:
    executor: Executor = HAND
    assert executor.name == "analytic"
    assert isinstance(HAND.start(scene(cube())), Trial)


def test_a_good_grasp_succeeds_and_is_seen_to() -> None:
    attempt = tried(scene(cube()), down())
    truth, seen = attempt.truth, attempt.observation
    assert truth.success
    assert truth.failure is None
    assert truth.lifted == "target"
    assert math.isclose(truth.required_n or 0, 0.2 * 11.81, rel_tol=0.01)
    # the shake's 2 m/s² along the closing axis are shared by the two fingers
    assert math.isclose(truth.applied_n, 20 + 0.2 * 2.0 / 2, abs_tol=0.005)
    assert seen.contact
    assert seen.lifted_in_view
    assert seen.held_in_view
    assert math.isclose(seen.finger_width_m, 0.04, abs_tol=1e-6)
    assert seen.hold_width_m == seen.finger_width_m
    assert seen.effort_n == 20
    assert truth.quality is not None
    assert truth.quality.security == 1


EGG = thing(Sphere(0.02), 0.04, mass=0.05, safe=15, fragility=0.9)
POST = thing(Cylinder(0.012, 0.16), 0.16, mass=0.1)
FAILS: dict[str, tuple[Scene, GraspCommand, Failure, Terminal | None]] = {
    "closed beside it": (scene(cube()), down(0.6), Failure.POSITION_ERROR, None),
    "wider than the opening": (scene(thing(Box((0.1, 0.1, 0.1)), 0.1)), down(z=0.07), Failure.WIDTH_MISMATCH, None),
    "a tip on its top": (scene(cube()), down(y=0.03), Failure.COLLISION, None),
    "above the widest part": (scene(thing(Sphere(0.035), 0.07, mu=0.3)), down(z=0.065), Failure.ORIENTATION, None),
    "too little for its weight": (scene(cube()), down(force=1.0), Failure.SLIP, None),
    "too little for its moment": (
        scene(thing(Shell(0.05, 0.05, 0.05, 0.003, 0.004), 0.05, mass=0.3)),
        down(y=0.0485, z=0.045, width=0.03, force=5.0),
        Failure.DROP,
        None,
    ),
    "harder than is safe": (scene(cube(safe=15)), down(force=20), Failure.DEFORMATION, None),
    "half as hard again": (scene(EGG), down(force=30), Failure.FORCE_DAMAGE, Terminal.BROKEN),
    "the one beside it": (
        scene(cube(), Placed("other", cube(), translation(0.6))),
        down(0.6),
        Failure.WRONG_OBJECT,
        None,
    ),
    "two at once": (
        scene(
            thing(Box((0.02, 0.02, 0.04)), 0.04),
            Placed("other", thing(Box((0.02, 0.02, 0.04)), 0.04), translation(0.5, 0.022)),
        ),
        down(y=0.011, width=0.08),
        Failure.UNKNOWN,
        None,
    ),
    "far too slow": (scene(cube()), down(speed_scale=0.01), Failure.TIMEOUT, None),
    "full to the brim": (
        scene(MUG, filled=0.98),
        down(y=0.0285, z=0.075, width=0.03, force=40),
        Failure.CONSTRAINT_VIOLATION,
        Terminal.SPILT,
    ),
    "a ball on top": (
        scene(
            thing(Box((0.04, 0.04, 0.1)), 0.1),
            Placed("ball", thing(Sphere(0.02), 0.04, rolling_friction=1e-4), translation(0.5, 0, 0.1)),
        ),
        down(z=0.03, pregrasp_m=0.0),
        Failure.CONSTRAINT_VIOLATION,
        None,
    ),
    "pushed over from the side": (scene(POST), level(0.52, 0.13, width=0.02), Failure.COLLISION, Terminal.TOPPLED),
}


@pytest.mark.parametrize("name", FAILS)
def test_each_failure_has_its_scene(name: str) -> None:
    s, command, failure, terminal = FAILS[name]
    truth = tried(s, command).truth
    assert (truth.failure, truth.terminal) == (failure, terminal), truth.why
    assert not truth.success
    assert truth.why


def test_every_failure_is_reached_here() -> None:
    of_the_arm = {Failure.UNREACHABLE, Failure.APPROACH_ANGLE}  # below, with the arm
    assert {row[2] for row in FAILS.values()} | of_the_arm == set(Failure)
    assert {row[3] for row in FAILS.values()} - {None} == set(Terminal)


@cache
def _arm() -> AnalyticExecutor:
    return AnalyticExecutor()


@pytest.fixture
def arm() -> AnalyticExecutor:
    """With kinematics and clearance."""
    pytest.importorskip("mujoco")
    pytest.importorskip("frankik")
    return _arm()


def test_a_good_grasp_by_the_arm_succeeds(arm: AnalyticExecutor) -> None:
    attempt = tried(scene(cube()), down(), arm)
    assert attempt.truth.success
    assert attempt.observation.reached
    assert attempt.observation.ik_error_m < 1e-4
    assert 5 < attempt.observation.clock_s < 20


def test_out_of_reach(arm: AnalyticExecutor) -> None:
    attempt = tried(scene(cube(), T=translation(1.2)), down(1.2), arm)
    assert attempt.truth.failure is Failure.UNREACHABLE
    assert not attempt.observation.reached
    assert attempt.observation.ik_error_m > 0.1


def test_from_the_side_too_near_the_table(arm: AnalyticExecutor) -> None:
    # GRASPING §1: a horizontal approach is impossible below z ≈ 0.05 m
    attempt = tried(scene(cube(), T=translation(0.5)), level(0.5, 0.015), arm)
    assert attempt.truth.failure is Failure.APPROACH_ANGLE
    assert attempt.observation.touched


def test_a_neighbour_in_the_way(arm: AnalyticExecutor) -> None:
    wall = Placed("wall", thing(Box((0.04, 0.04, 0.2)), 0.2, mass=2.0), translation(0.5, 0.055))
    assert tried(scene(cube(), wall), down(), arm).truth.failure is Failure.COLLISION
    # turned by a quarter the fingers pass beside it
    clear = Placed("wall", thing(Box((0.04, 0.04, 0.03)), 0.03, mass=2.0), translation(0.5, 0.055))
    assert tried(scene(cube(), clear), down(yaw=math.pi / 2), arm).truth.success


def test_a_guarded_descent_stops_on_the_table_and_closes_there(arm: AnalyticExecutor) -> None:
    attempt = tried(scene(thing(Box((0.06, 0.06, 0.015)), 0.015)), down(z=0.004), arm)
    assert attempt.observation.touched
    assert math.isclose(attempt.observation.touched_short_m, 0.005, abs_tol=5e-4)
    assert attempt.truth.success


def test_the_friction_test_end_to_end() -> None:
    # a 0.5 kg cube at 10 N a finger slips below μ = 0.245 at rest, and slides in a lift of 2 m/s² below 0.295
    def of(mu: float, a: float) -> Truth:
        return tried(scene(cube(mass=0.5, mu=mu)), down(force=10.0, lift_acceleration=a)).truth

    assert of(0.24, 0.01).failure is Failure.SLIP
    assert of(0.255, 0.01).success
    assert of(0.255, 0.01).slip_m == 0
    assert of(0.24, 2.0).failure is Failure.SLIP
    assert of(0.28, 2.0).slip_m > 0.001
    assert of(0.30, 2.0).success
    assert of(0.30, 2.0).slip_m == 0


def test_it_tells_nothing_to_the_planner_but_observations() -> None:
    hand, kept = blind(HAND.start(scene(cube())))
    seen = hand.grasp(down(force=1.0))
    assert not hasattr(seen, "failure")
    assert kept[0].observation is seen  # type: ignore[union-attr]


def test_more_friction_and_more_force_never_hurt_below_the_safe_force() -> None:
    wins = [
        [tried(scene(cube(mass=0.4, mu=mu)), down(force=f)).truth.success for f in (2, 4, 8, 16, 32)]
        for mu in (0.1, 0.2, 0.4, 0.8)
    ]
    for row in wins:
        assert row == sorted(row)
    for column in zip(*wins, strict=True):
        assert list(column) == sorted(column)


@pytest.mark.parametrize("yaw", [0.7, 2.0])
def test_turning_the_world_changes_nothing(yaw: float) -> None:
    turn = axis_rotation("z", yaw)
    s, c = scene(cube(), T=translation(0.5, 0.01)), down()
    one = tried(s, c).truth
    other = tried(
        s.with_objects(o.at(turn @ o.T_world_object) for o in s.objects), c.moved(turn @ c.T_world_grasp)
    ).truth
    assert one.success == other.success
    assert math.isclose(one.required_n or 0, other.required_n or 0, rel_tol=0.01)


def test_noise_is_that_of_the_motion() -> None:
    s = scene(cube())
    plain = tried(s, down()).truth
    noisy = [HAND.start(s, ExecutionNoise(seed)).grasp(down()).truth for seed in range(20)]
    again = HAND.start(s, ExecutionNoise(0)).grasp(down()).truth
    assert noisy[0].applied_n == again.applied_n
    assert len({t.applied_n for t in noisy}) == 20
    assert all(abs(t.applied_n / plain.applied_n - 1) <= 0.06 for t in noisy)


def test_a_failed_grasp_leaves_the_object_where_the_fingers_pushed_it() -> None:
    trial = HAND.start(scene(cube()))
    before = trial.scene["target"].T_world_object
    assert trial.grasp(down(y=0.01, force=1.0)).truth.failure is Failure.SLIP
    after = trial.scene["target"].T_world_object
    assert math.isclose(after[1, 3] - before[1, 3], 0.01, abs_tol=1e-4)
    assert after[2, 3] == before[2, 3]
    assert trial.held is None
    assert trial.grasp(down(y=0.01)).truth.success
    assert trial.held == "target"
    assert trial.scene["target"].T_world_object[2, 3] > 0.14


def test_nothing_is_grasped_with_a_full_hand_nor_put_with_an_empty_one() -> None:
    trial = HAND.start(scene(cube()))
    with pytest.raises(InputError, match="nothing is in the hand"):
        trial.put(PutCommand(down().T_world_grasp))
    trial.grasp(down())
    with pytest.raises(InputError, match="is in the hand"):
        trial.grasp(down())
    with pytest.raises(UnknownName):
        HAND.start(scene(cube())).grasp(replace(down(), target="cup"))


def test_put_down_where_told() -> None:
    trial = HAND.start(scene(cube()))
    trial.grasp(down())
    put = trial.put(PutCommand(down(0.4, 0.2, 0.021).T_world_grasp))
    assert put.truth.success, put.truth.why
    assert trial.held is None
    assert np.allclose(trial.scene["target"].T_world_object, translation(0.4, 0.2), atol=1e-6)
    assert math.isclose(put.truth.off_m, 0.001, abs_tol=1e-6)


def test_put_too_low_it_stands_on_the_table() -> None:
    trial = HAND.start(scene(cube()))
    trial.grasp(down())
    put = trial.put(PutCommand(down(0.4, 0.2, 0.015).T_world_grasp))
    assert put.observation.touched
    assert math.isclose(put.observation.touched_short_m, 0.005, abs_tol=1e-6)
    assert put.truth.success


def test_put_at_a_slant_it_falls_over_beyond_its_base() -> None:
    post = thing(Cylinder(0.02, 0.16), 0.16)  # tips at atan(20 / 80) = 14°
    for tilt, stands in ((10, True), (20, False)):
        trial = HAND.start(scene(post))
        assert trial.grasp(down(z=0.13)).truth.success
        slant = pose((0.4, 0, 0)) @ axis_rotation("y", math.radians(tilt)) @ pose((-0.5, 0, 0))
        put = trial.put(PutCommand(slant @ down(z=0.14).T_world_grasp))
        assert put.truth.success == stands, put.truth.why
        assert (put.truth.terminal is Terminal.TOPPLED) == (not stands)


def test_dropped_from_a_height_it_was_not_put_down() -> None:
    trial = HAND.start(scene(cube()))
    trial.grasp(down())
    put = trial.put(PutCommand(down(0.4, 0.2, 0.10).T_world_grasp))
    assert not put.truth.success
    assert "moved by 80 mm" in put.truth.why


def test_put_onto_another() -> None:
    trial = HAND.start(scene(cube(), Placed("block", thing(Box((0.1, 0.1, 0.05)), 0.05), translation(0.4, 0.2))))
    trial.grasp(down())
    put = trial.put(PutCommand(down(0.4, 0.2, 0.072).T_world_grasp))
    assert put.truth.success
    assert math.isclose(put.truth.T_world_object[2, 3], 0.05, abs_tol=1e-6)


TOP = Region("top", translation(z=0.02), (0.02, 0.04, 0.02), Affordance.GRASPABLE_BODY, (GraspType.PINCH,))


def test_faithful_success_is_that_no_factor_is_below_its_threshold() -> None:
    faithful = AnalyticExecutor(reach=False, faithful=True)
    model = cube(regions={"top": TOP})
    good = tried(scene(model), down(type=GraspType.PINCH), faithful).truth
    assert good.success
    # 0.3 N too little room: physics holds it, φ2 does not let it pass
    tight = down(width=0.042, type=GraspType.PINCH)
    assert tried(scene(model), tight).truth.success
    assert tried(scene(model), tight, faithful).truth.failure is Failure.WIDTH_MISMATCH
    near = down(force=2.6, type=GraspType.PINCH)
    assert tried(scene(model), near).truth.success
    assert tried(scene(model), near, faithful).truth.failure is Failure.SLIP
    hard = down(force=58, type=GraspType.PINCH)
    assert tried(scene(model), hard, faithful).truth.failure is Failure.DEFORMATION
    assert tried(scene(model), down(type=GraspType.SIDE), faithful).truth.failure is Failure.APPROACH_ANGLE
    assert tried(scene(model), down(0.53), faithful).truth.failure is Failure.POSITION_ERROR
    assert tried(scene(model), down(speed_scale=0.01), faithful).truth.failure is Failure.TIMEOUT


@pytest.mark.slow
def test_a_hundred_grasps_a_second() -> None:
    pytest.importorskip("mujoco")
    pytest.importorskip("frankik")
    import time

    arm = AnalyticExecutor()
    s = scene(cube())
    tried(s, down(), arm)
    best = math.inf
    for _ in range(5):
        begun = time.process_time()
        for k in range(20):
            tried(s, down(0.5 + 0.0001 * k), arm)
        best = min(best, (time.process_time() - begun) / 20)
    assert best < 0.020  # a loaded machine is allowed twice the time


@pytest.mark.parametrize(("mass", "stops"), [(0.1, False), (10.0, True)])
def test_a_hand_that_comes_against_the_side_of_a_neighbour_pushes_it_unless_it_is_too_heavy(
    mass: float, stops: bool
) -> None:
    """It slides at μ·m·g: 0.15 N, or 14.7 N where 10 N stop a guarded motion; and as far as the hand still comes."""
    command = level(0.5, 0.10)
    post = Placed("neighbour", thing(Box((0.04, 0.04, 0.14)), 0.14, mass=mass, mu=0.15), pose((0.43, 0.09, 0.0)))
    setup = Setup(command, 0.08, 20.0, jaws_of(HAND.robot), HAND.caster)
    met = Reached(True, gap_m=-0.002, part="palm", other="neighbour")
    tall = thing(Box((0.04, 0.04, 0.12)), 0.12)
    arrival = arrive(setup, scene(tall, post), command.T_world_grasp, 0.0, met)
    ahead = setup.descend(command.T_world_grasp, post, command.pregrasp_m)
    assert not ahead.wedged
    assert ahead.part == "palm"
    if stops:
        assert arrival.short_m == ahead.short_m
        assert arrival.failure is Failure.COLLISION
    else:
        assert arrival.short_m == 0
        assert math.isclose(arrival.neighbours_m["neighbour"], ahead.short_m)
