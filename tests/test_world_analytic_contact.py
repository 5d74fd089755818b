"""What the pads meet: rays, descent, and how an object moves between the fingers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagehand.world.analytic.cast import Caster
from sagehand.world.analytic.contact import Closing, close, extent
from sagehand.world.analytic.descent import Descent, _wedged, descend
from sagehand.world.analytic.jaws import jaws_of
from sagehand.world.analytic.support import support_points
from sagehand.world.frames import Pose, axis_rotation, invert, pose, rpy, translation
from sagehand.world.objects.rays import first_hits
from sagehand.world.objects.shapes import (
    Box,
    Capsule,
    Cylinder,
    Ellipsoid,
    Shape,
    Shell,
    Solid,
    Sphere,
    signed_distance,
    solids_of,
)
from sagehand.world.robot.description import load_robot

SHAPES: list[Shape] = [
    Box((0.04, 0.06, 0.08)),
    Cylinder(0.03, 0.1),
    Sphere(0.035),
    Ellipsoid((0.03, 0.02, 0.04)),
    Capsule(0.015, 0.12),
    Shell(0.03, 0.04, 0.08, 0.003, 0.004),
]
ROBOT = load_robot()
JAWS = jaws_of(ROBOT)


def on_table(shape: Shape, height: float) -> list[Solid]:
    """Its solids, standing at z = 0."""
    return solids_of(shape, translation(z=height / 2) if not isinstance(shape, Shell) else np.eye(4))


def top_down(x: float, y: float, z: float, yaw: float = 0.0, roll: float = 0.0) -> Pose:
    """(4, 4) the object in the frame of a grasp that points straight down at (x, y, z) of the object."""
    grasp = translation(x, y, z) @ axis_rotation("z", yaw) @ axis_rotation("x", math.pi + roll)
    return invert(grasp)


def closed(solids: list[Solid], T: Pose, width: float = 0.08, mu: float = 0.5) -> Closing:
    return close(Caster(solids), T, JAWS, width, mu, T[:3, :3] @ np.array([0, 0, -1.0]))


def lowered(solids: list[Solid], T: Pose, width: float = 0.08, mu: float = 0.5) -> Descent:
    return descend(Caster(solids), T, JAWS, width, 0.1, mu)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: type(s).__name__)
@given(seed=st.integers(0, 2**16))
@settings(max_examples=15, deadline=None)
def test_bundles_hit_what_single_rays_hit(shape: Shape, seed: int) -> None:
    rng = np.random.default_rng(seed)
    solids = solids_of(shape, rpy(*rng.uniform(-3, 3, 3)))
    direction = rng.normal(size=3)
    direction /= np.linalg.norm(direction)
    origins = rng.uniform(-0.05, 0.05, (60, 3)) - 0.3 * direction
    bundle, known = Caster(solids).first(origins, direction, 0.6), first_hits(solids, origins, direction)
    assert np.allclose(bundle.distance, known.distance, atol=1e-9)
    hit = known.any
    assert np.array_equal(bundle.solid >= 0, hit)
    normal = Caster(solids).normals(origins[hit] + bundle.distance[hit, None] * direction, bundle.solid[hit])
    # where two solids are hit at once either normal will do
    same = np.isclose(normal, known.normal[hit], atol=1e-6).all(axis=1)
    assert not hit.any() or same.mean() > 0.9


def test_rays_end_at_their_reach() -> None:
    hits = Caster(on_table(Box((0.1, 0.1, 0.1)), 0.1)).first(np.array([[0, 0, 0.3]]), np.array([0, 0, -1.0]), 0.15)
    assert np.isinf(hits.distance[0])


def test_the_jaws_are_those_of_the_hand() -> None:
    # GRASPING §1: tips 9 mm beyond the TCP; pads 17.6 mm wide
    assert math.isclose(JAWS.pad_z_m[1], 0.009, abs_tol=2e-4)
    assert math.isclose(JAWS.pad_x_m, 0.0088, abs_tol=1e-6)
    assert JAWS.palm_z_m < -0.03


@given(y=st.floats(-0.015, 0.015), yaw=st.floats(-0.3, 0.3))
@settings(max_examples=15, deadline=None)
def test_a_box_is_centred_and_turned_to_lie_flat(y: float, yaw: float) -> None:
    grip = closed(on_table(Box((0.04, 0.04, 0.04)), 0.04), top_down(0, y, 0.02, yaw), mu=0.3)
    assert grip.held
    # the last degree is within the softness of the pads
    assert math.isclose(grip.turn_rad, abs(yaw), abs_tol=math.radians(1.5))
    assert math.isclose(grip.width_m, 0.04, abs_tol=5e-4)
    middle = grip.T_grasp_object @ np.array([0, 0, 0.02, 1])
    assert abs(middle[1]) < 2e-4
    assert grip.statics is not None
    assert grip.statics.stable


def test_a_leaning_box_is_turned_upright_between_the_pads() -> None:
    # the hand leans 8° about its x: the box comes to lie flat on the pads
    grip = closed(on_table(Box((0.06, 0.03, 0.1)), 0.1), top_down(0, 0, 0.06, 0, math.radians(8)))
    assert grip.held
    assert math.isclose(grip.turn_rad, math.radians(8), abs_tol=math.radians(0.5))
    assert math.isclose(grip.width_m, 0.03, abs_tol=3e-4)


@pytest.mark.parametrize(("above", "held"), [(0.0, True), (0.010, True), (0.026, False)])
def test_a_ball_is_held_where_its_slope_is_under_the_friction_angle(above: float, held: bool) -> None:
    # radius 35 mm; the tips reach 9 mm below the TCP, so they touch at height above − 9 mm; μ 0.3 holds to 16.7°,
    # which is 10 mm above the middle
    grip = closed(on_table(Sphere(0.035), 0.07), top_down(0, 0, 0.035 + above), mu=0.3)
    assert grip.held == held
    if not held:
        assert grip.pressed_down


def test_a_ball_touched_below_its_middle_rises_into_the_fingers() -> None:
    # pads wholly below the middle: it is squeezed up until friction holds it
    grip = closed(on_table(Sphere(0.03), 0.06), top_down(0, 0, 0.005), mu=0.3)
    assert grip.held
    assert grip.slid_m > 0.001
    assert grip.T_grasp_object[2, 3] < top_down(0, 0, 0.005)[2, 3]  # nearer to the palm


def test_a_ball_held_at_its_edge_is_squeezed_out_sideways() -> None:
    grip = closed(on_table(Sphere(0.035), 0.07), top_down(0.03, 0, 0.035), mu=0.3)
    assert not grip.held


def test_nothing_between_the_fingers_is_nothing() -> None:
    grip = closed(on_table(Box((0.04, 0.04, 0.04)), 0.04), top_down(0.1, 0, 0.02))
    assert grip.statics is None
    assert grip.width_m == 0


def test_the_wall_of_a_vessel_is_pinched_and_no_more_than_it() -> None:
    shell = on_table(Shell(0.04, 0.04, 0.08, 0.003, 0.004), 0.08)
    grip = closed(shell, top_down(0, 0.0385, 0.075))
    assert grip.held
    # the ring has 24 flats, so a flat pad inside touches two edges: a little more than the wall
    assert 0.003 <= grip.width_m < 0.0045


@pytest.mark.parametrize(("width", "part", "both"), [(0.08, "", False), (0.05, "tip", True)])
def test_what_is_wider_than_the_opening_stops_both_tips(width: float, part: str, both: bool) -> None:
    way = lowered(on_table(Box((0.06, 0.06, 0.06)), 0.06), top_down(0, 0, 0.04), width)
    assert (way.part, way.both) == (part, both)
    if both:
        assert math.isclose(way.short_m, 0.06 - 0.031, abs_tol=3e-4)  # tips at 31 mm, the top at 60


def test_a_tip_on_a_flat_top_stops_there() -> None:
    way = lowered(on_table(Box((0.05, 0.05, 0.05)), 0.05), top_down(0, 0.03, 0.03))
    assert way.part == "tip"
    assert not way.both
    assert math.isclose(way.short_m, 0.05 - 0.021, abs_tol=3e-4)


def test_a_tip_on_a_steep_slope_pushes_the_ball_aside() -> None:
    # GRASPING §9. Radius 35 mm, tip at 32 mm from the middle: slope 66°, over 2 atan 0.5 = 53°
    ball = on_table(Sphere(0.035), 0.07)
    aside = lowered(ball, top_down(0, 0.008, 0.035))
    assert aside.part == ""
    assert abs(aside.pushed_m) > 0
    wedged = lowered(ball, top_down(0, 0.008, 0.035), mu=0.9)
    assert wedged.part == "tip"


def test_the_palm_bottoms_out_on_what_is_too_high() -> None:
    way = lowered(on_table(Cylinder(0.02, 0.1), 0.1), top_down(0, 0, 0.05))
    assert way.part == "palm"
    assert math.isclose(way.short_m, 0.05 + JAWS.palm_z_m, abs_tol=1e-3)


def test_extent_is_the_width_at_the_pads() -> None:
    box = on_table(Box((0.04, 0.12, 0.05)), 0.05)
    assert math.isclose(extent(Caster(box), top_down(0, 0, 0.03), JAWS), 0.12, abs_tol=1e-9)
    assert math.isclose(extent(Caster(box), top_down(0, 0, 0.03, math.pi / 2), JAWS), 0.04, abs_tol=1e-9)
    assert extent(Caster(box), top_down(0.5, 0, 0.03), JAWS) == 0


def test_the_frame_of_the_object_does_not_matter() -> None:
    solids = on_table(Box((0.04, 0.03, 0.04)), 0.04)
    T = top_down(0.003, 0.004, 0.02, 0.1)
    move = pose((0.2, -0.1, 0.3), rpy(0.3, 1.0, -2.0)[:3, :3])
    moved = [Solid(s.kind, s.size, move @ s.T_object_solid, s.volume_m3, s.part, s.rgba, s.mass_share) for s in solids]
    one = closed(solids, T)
    other = close(Caster(moved), T @ invert(move), JAWS, 0.08, 0.5, T[:3, :3] @ np.array([0, 0, -1.0]))
    assert math.isclose(one.width_m, other.width_m, abs_tol=1e-6)
    assert math.isclose(one.turn_rad, other.turn_rad, abs_tol=1e-6)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: type(s).__name__)
def test_inside_is_a_negative_distance(shape: Shape) -> None:
    points = np.random.default_rng(1).uniform(-0.05, 0.09, (300, 3))
    solids = solids_of(shape, translation(0.01, 0.0, 0.02))
    distance = np.min([signed_distance(s, points) for s in solids], axis=0)
    clear = np.abs(distance) > 1e-4
    assert np.array_equal(Caster(solids).inside(points)[clear], distance[clear] < 0)


def test_what_the_open_hand_begins_in_stops_it_at_once() -> None:
    tower = on_table(Box((0.06, 0.06, 0.4)), 0.4)
    way = lowered(tower, top_down(0, 0.03, 0.1))
    assert math.isclose(way.short_m, 0.1)


@pytest.mark.parametrize("mu", [0.2, 0.35, 0.5])
def test_a_tip_wedges_a_ball_up_to_twice_the_friction_angle(mu: float) -> None:
    """The line from the tip to the ball's foot lies at half the slope from both normals (the nip of two rollers)."""
    radius, nip = 0.03, 2 * math.atan(mu)
    for slope, wedged in ((0.9 * nip, True), (1.1 * nip, False)):
        point = radius * np.array([0.0, math.sin(slope), 1 + math.cos(slope)])
        normal = np.array([0.0, math.sin(slope), math.cos(slope)])
        ball = Caster(on_table(Sphere(radius), 2 * radius))
        assert _wedged(ball, point, normal, np.array([0, 0, -1.0]), mu) is wedged


@pytest.mark.parametrize("mu", [0.2, 0.35, 0.5])
def test_what_is_tall_and_narrow_is_wedged_only_up_to_the_friction_angle(mu: float) -> None:
    """Its foot lies straight below the tip, so the slope itself must be within the cone; on a flat top it always is."""
    post = Caster(solids_of(Box((0.02, 0.02, 0.2)), translation(z=0.1)))
    down, point = np.array([0, 0, -1.0]), np.array([0.0, 0.008, 0.19])
    for slope, wedged in ((0.0, True), (0.9 * math.atan(mu), True), (1.1 * math.atan(mu), False)):
        assert _wedged(post, point, np.array([0.0, math.sin(slope), math.cos(slope)]), down, mu) is wedged
    side = np.array([0.0, 1.0, 0.0])
    assert not _wedged(post, np.array([0.0, 0.01, 0.15]), side, down, mu)


@given(seed=st.integers(0, 2**16))
@settings(max_examples=30, deadline=None)
def test_support_points_hold_the_farthest_point(seed: int) -> None:
    rng = np.random.default_rng(seed)
    T = pose(rng.uniform(-0.1, 0.1, 3), rpy(*rng.uniform(-3, 3, 3))[:3, :3])
    direction = rng.normal(size=3)
    direction /= np.linalg.norm(direction)
    points = rng.uniform(-0.2, 0.2, (4000, 3)) + T[:3, 3]
    for shape in SHAPES[:5]:
        solid = solids_of(shape, T)[0]
        inside = points[signed_distance(solid, points) < 0]
        far = (support_points(solid, direction) @ direction).max()
        assert (inside @ direction <= far + 1e-9).all()
        assert signed_distance(solid, support_points(solid, direction)).max() < 1e-9
