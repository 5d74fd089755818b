"""The antipodal search: friction cones, widths, the table, rims, stems; and that physics can lift every object by it."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagehand.world.antipodal import antipodal_grasps, force_window, grasp_type, region_of
from sagehand.world.frames import Pose, axis_rotation, pose, translation
from sagehand.world.grasp import Grasp, GraspType
from sagehand.world.grip import GRAVITY, grip, holding_force
from sagehand.world.objects.load import load_object, object_names
from sagehand.world.objects.model import ObjectModel
from sagehand.world.objects.shapes import Box, Cylinder, Shape, Shell, Sphere, signed_distance, solids_of
from sagehand.world.robot.description import load_robot
from sagehand.world.surface import distance_from, material, surface_normals, surface_points

ROBOT = load_robot()


def thing(*parts: tuple[Shape, Pose], mass: float = 0.1, friction: float = 0.5, safe: float = 60.0) -> ObjectModel:
    solids = [s for shape, T in parts for s in solids_of(shape, T)]
    total = sum(s.volume_m3 for s in solids)
    shared = tuple(replace(s, mass_share=s.volume_m3 / total) for s in solids)
    return ObjectModel("thing", "thing", "thing", "wood", 0, mass, friction, safe, shared, {})


def cuboid(x: float, y: float, z: float, **rest: float) -> ObjectModel:
    return thing((Box((x, y, z)), translation(z=z / 2)), **rest)


CUBE = cuboid(0.04, 0.04, 0.04)
BOWL = thing((Shell(0.04, 0.0795, 0.053, 0.003, 0.004), np.eye(4)), mass=0.147)
GOBLET = thing(
    (Cylinder(0.035, 0.004), translation(z=0.002)),
    (Cylinder(0.004, 0.070), translation(z=0.039)),
    (Shell(0.020, 0.0445, 0.063, 0.002, 0.002), translation(z=0.074)),
    mass=0.133,
    friction=0.4,
    safe=5.0,
)


@cache
def found(model: ObjectModel) -> list[Grasp]:
    return antipodal_grasps(model, robot=ROBOT)


def slopes(model: ObjectModel, grasp: Grasp) -> list[float]:
    """Angles between the closing axis and the surface's normals where the fingers' middles first meet it."""
    T = grasp.T_object_grasp
    angles = []
    for sign in (-1.0, 1.0):
        origin = T[:3, 3] + sign * grasp.width_m / 2 * T[:3, 1]
        distance = np.linspace(0, grasp.width_m, 1001)
        line = origin - sign * distance[:, None] * T[:3, 1]
        inside = distance_from(model, line) <= 1e-4
        if inside.any():
            normal = surface_normals(model, line[np.argmax(inside)][None])[0]
            angles.append(math.acos(np.clip(sign * normal @ T[:3, 1], -1, 1)))
    return angles


@pytest.mark.parametrize("model", [CUBE, BOWL, GOBLET, thing((Sphere(0.0375), translation(z=0.0375)))])
def test_both_normals_lie_in_the_friction_cone(model: ObjectModel) -> None:
    grasps = found(model)
    assert len(grasps) > 50
    cone = math.atan(model.friction)
    met = [slopes(model, g) for g in grasps[::17]]
    assert sum(len(m) == 2 for m in met) > 0.8 * len(met)
    # the middle of a pad need not be where its patch is: on an edge it may meet another face
    within = [max(m) <= cone + 0.06 for m in met if len(m) == 2]
    assert np.mean(within) > 0.9


def test_a_cube_is_held_by_its_four_sides_from_above_first() -> None:
    best = found(CUBE)[0]
    T = best.T_object_grasp
    assert np.allclose(T[:3, 2], (0, 0, -1), atol=1e-6)  # G04: straight down is −z
    assert np.abs(T[:3, 1]).max() > 0.999
    assert abs(T[2, 1]) < 1e-6
    assert best.width_m == pytest.approx(0.050)
    assert np.hypot(*T[:2, 3]) < 0.008


@pytest.mark.parametrize(
    ("wide_mm", "found"), [(77.0, True), (77.9, True), (78.5, False), (79.0, False), (80.0, False), (110.0, False)]
)
def test_nothing_wider_than_78_mm_is_grasped(wide_mm: float, found: bool) -> None:  # G08
    grasps = antipodal_grasps(cuboid(0.10, wide_mm / 1000, 0.10), robot=ROBOT)
    assert bool(grasps) is found
    assert all(g.width_m <= ROBOT.width_m[1] for g in grasps)


def test_no_grasp_comes_from_below_or_reaches_into_the_table() -> None:  # G06
    for model in (CUBE, GOBLET, cuboid(0.147, 0.072, 0.008)):
        for grasp in found(model):
            T = grasp.T_object_grasp
            assert T[2, 2] <= 0.01
            x, y, z = ROBOT.pad.half[0], grasp.width_m / 2 + 2 * ROBOT.pad.half[1], ROBOT.tips_m
            corners = np.array([(a, b, z) for a in (-x, x) for b in (-y, y)]) @ T[:3, :3].T + T[:3, 3]
            assert corners[:, 2].min() >= 0.0005


def test_the_hand_meets_the_object_nowhere_but_between_the_pads() -> None:
    for model in (BOWL, GOBLET):
        for grasp in found(model)[::23]:
            T, shift = grasp.T_object_grasp, float(ROBOT.T_hand_tcp[2, 3])
            palm = [(translation(*(b.centre - (0, 0, shift))), b.half) for b in ROBOT.hand_boxes]
            for box, half in palm:
                inside = np.random.default_rng(0).uniform(-1, 1, (500, 3)) * (half - 0.003)
                points = inside @ (T @ box)[:3, :3].T + (T @ box)[:3, 3]
                assert distance_from(model, points).min() > 0


def test_a_bowl_is_held_by_its_rim_with_a_finger_in_it() -> None:
    grasps = found(BOWL)
    rim = [g for g in grasps if g.width_m < 0.02]
    assert len(rim) > 50
    assert {g.width_m > 0.02 for g in grasps[:5]} == {False}
    assert all(math.hypot(*g.position_m[:2]) > 0.03 for g in rim[:50])


def test_a_goblet_is_held_by_its_stem_from_the_side() -> None:
    best = found(GOBLET)[0]
    assert best.type is GraspType.SIDE
    assert 0.01 < best.position_m[2] < 0.075
    assert best.width_m == pytest.approx(0.018, abs=0.001)
    assert best.force_n <= GOBLET.f_safe_n


def test_without_friction_or_with_nothing_to_hold_there_is_no_grasp() -> None:
    assert antipodal_grasps(replace(thing((Sphere(0.06), translation(z=0.06)))), robot=ROBOT) == []
    slippery = thing((Sphere(0.03), translation(z=0.03)), friction=0.0)
    assert all(math.isclose(g.force_n, 60.0) for g in antipodal_grasps(slippery, robot=ROBOT))


def test_the_same_seed_gives_the_same_grasps_and_a_limit_their_beginning() -> None:
    bar = cuboid(0.15, 0.03, 0.03)
    one, two = antipodal_grasps(bar, robot=ROBOT, seed=3), antipodal_grasps(bar, robot=ROBOT, seed=3)
    assert one == two
    assert antipodal_grasps(bar, robot=ROBOT, seed=3, limit=5) == one[:5]


def test_an_object_that_lies_is_searched_as_it_lies() -> None:
    bar = cuboid(0.03, 0.03, 0.20)
    lying = translation(z=0.015) @ axis_rotation("y", math.pi / 2) @ translation(z=-0.10)
    for grasp in antipodal_grasps(bar, lying, robot=ROBOT)[:100]:
        T = lying @ grasp.T_object_grasp
        assert T[2, 2] <= 0.01
        assert -0.01 < T[2, 3] < 0.04


@settings(max_examples=40, deadline=None)
@given(
    st.floats(0.01, 0.07),
    st.floats(0.01, 0.2),
    st.floats(0.01, 0.2),
    st.floats(0.2, 0.9),
)
def test_the_force_of_a_centred_grasp_is_coulombs(x: float, y: float, z: float, mu: float) -> None:
    """Held in line with its centre of mass, a box needs m(g + a)/2μ a finger, whatever its size."""
    box = cuboid(x, y, z, mass=0.3, friction=mu)
    T = pose((0, 0, z / 2), np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]]))[None]
    grips = grip(box, T, np.array([x + 0.01]), ROBOT)
    assert grips.width_m[0] == pytest.approx(x, abs=1e-9)
    assert grips.slope.max() < 1e-6
    force = holding_force(box, T, grips, np.array([0.0, 0.0, 1.0]))[0]
    weight = 0.3 * (GRAVITY + 2.0) / (2 * mu)
    assert weight - 1e-6 <= force <= 1.35 * weight + 0.05  # the patch may lie a little above or below the middle


def test_a_moment_asks_for_more_than_the_weight() -> None:
    """GRASPING §2: a rim held at the weight's force alone drops, a bowl needs several times as much."""
    rim = [g for g in found(BOWL) if g.width_m < 0.02][:20]
    T = np.array([g.T_object_grasp for g in rim])
    grips = grip(BOWL, T, np.array([g.width_m for g in rim]), ROBOT)
    needed = holding_force(BOWL, T, grips, np.array([0.0, 0.0, 1.0]))
    weight = BOWL.mass_kg * (GRAVITY + 2) / (2 * BOWL.friction)
    assert weight == pytest.approx(1.74, abs=0.01)
    assert 2.5 < np.median(needed) / weight < 12


def test_no_friction_no_touch_no_force_is_enough() -> None:
    T = pose((0, 0, 0.02), np.diag([1.0, -1.0, -1.0]))[None]
    smooth = replace(CUBE, friction=0.0)
    up = np.array([0.0, 0.0, 1.0])
    assert math.isinf(holding_force(smooth, T, grip(smooth, T, np.array([0.05]), ROBOT), up)[0])
    beside = pose((0.2, 0, 0.02), np.diag([1.0, -1.0, -1.0]))[None]
    grips = grip(CUBE, beside, np.array([0.05]), ROBOT)
    assert not grips.touches[0]
    assert math.isinf(holding_force(CUBE, beside, grips, up)[0])
    low, high = force_window(CUBE, np.array([np.inf, 2.0]), ROBOT)
    assert low[0] > high[0]
    assert (low[1], high[1]) == (pytest.approx(2.2), 60.0)


def test_types_follow_approach_and_overlap() -> None:
    assert grasp_type(1.0, 0.02) is GraspType.PINCH
    assert grasp_type(1.0, 0.03) is GraspType.POWER
    assert grasp_type(math.cos(math.radians(44)), 0.02) is GraspType.PINCH
    assert grasp_type(math.cos(math.radians(45)), 0.03) is GraspType.SIDE


def test_a_round_region_is_near_all_round() -> None:
    cup = load_object("cup")
    rim = cup.region("rim")
    radius, height = math.hypot(*rim.T_object_region[:2, 3]), rim.T_object_region[2, 3]
    for angle in np.linspace(0, 2 * math.pi, 9):
        assert region_of(cup, np.array([radius * math.cos(angle), radius * math.sin(angle), height])) is not None
    assert region_of(cup, np.array([0.5, 0.5, 0.5])) is None


class TestSurface:
    @settings(max_examples=30, deadline=None)
    @given(st.sampled_from(["cup", "apple", "banana", "screwdriver", "wine-glass"]))
    def test_points_lie_on_the_surface(self, name: str) -> None:
        model = load_object(name)
        points = surface_points(model)
        near = np.abs(np.stack([signed_distance(s, points) for s in model.solids])).min(axis=0)
        assert near.max() < 2e-4
        assert distance_from(model, points).min() > -2e-4

    def test_a_line_through_a_vessel_meets_two_walls(self) -> None:
        cup = thing((Shell(0.04, 0.04, 0.08, 0.004, 0.004), np.eye(4)))
        begins, ends = material(cup, np.array([[-0.1, 0.0, 0.05]]), np.array([1.0, 0.0, 0.0]))
        found = np.isfinite(begins[:, 0])
        assert found.sum() == 2
        assert np.allclose(ends[found, 0] - begins[found, 0], 0.004, atol=1e-6)
        assert begins[0, 0] == pytest.approx(0.06, abs=1e-6)

    def test_solids_that_touch_are_one_stretch(self) -> None:
        two = thing(
            (Box((0.02, 0.02, 0.02)), translation(z=0.01)), (Box((0.02, 0.02, 0.02)), translation(x=0.02, z=0.01))
        )
        begins, ends = material(two, np.array([[-0.1, 0.0, 0.01]]), np.array([1.0, 0.0, 0.0]))
        assert np.isfinite(begins).sum() == 1
        assert ends[0, 0] - begins[0, 0] == pytest.approx(0.04)


@pytest.mark.slow
@pytest.mark.parametrize("name", object_names())
def test_every_object_has_grasps(name: str) -> None:
    grasps = antipodal_grasps(load_object(name), robot=ROBOT, limit=20)
    assert len(grasps) == 20


@pytest.mark.slow
@pytest.mark.parametrize("name", object_names())
def test_physics_lifts_every_object_by_some_grasp_of_the_search(name: str) -> None:
    pytest.importorskip("mujoco")
    pytest.importorskip("frankik")
    from sagehand.world.physics.executor import PhysicsExecutor
    from sagehand.world.scene import Placed, Scene

    physics, model = PhysicsExecutor(ROBOT), load_object(name)
    scene = Scene((Placed("target", model, translation(0.5, 0.0)),))
    whys: list[str] = []
    for grasp in antipodal_grasps(model, robot=ROBOT, limit=30):
        with physics.start(scene) as trial:
            truth = trial.grasp(grasp.at(scene["target"].T_world_object, "target")).truth
        if truth.success:
            return
        whys.append(f"{truth.failure}: {truth.why}")
    pytest.fail(f"{name}: none of {len(whys)} lifts it: {whys}")
