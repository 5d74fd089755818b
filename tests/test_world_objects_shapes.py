"""Solids against closed forms, sampled points and each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagehand.errors import InputError
from sagehand.world.frames import Pose, pose, rpy, translation
from sagehand.world.objects.model import ObjectModel
from sagehand.world.objects.shapes import (
    Box,
    Capsule,
    Cylinder,
    Ellipsoid,
    Shape,
    Shell,
    Solid,
    SolidKind,
    Sphere,
    reach,
    signed_distance,
    solids_of,
)
from sagehand.world.objects.shell import shell_force_n

length = st.floats(0.005, 0.2)
angle = st.floats(-math.pi, math.pi)
place = st.builds(
    lambda x, y, z, a, b, c: pose((x, y, z), rpy(a, b, c)[:3, :3]),
    *[st.floats(-0.3, 0.3)] * 3,
    *[angle] * 3,
)
shape = st.one_of(
    st.builds(lambda a, b, c: Box((a, b, c)), length, length, length),
    st.builds(Cylinder, length, length),
    st.builds(Sphere, length),
    st.builds(lambda a, b, c: Ellipsoid((a, b, c)), length, length, length),
    st.builds(lambda r, more: Capsule(r, 2 * r + more), length, length),
)


def one(what: Shape, T: Pose | None = None) -> Solid:
    (solid,) = solids_of(what, np.eye(4) if T is None else T)
    return solid


def cloud(solid: Solid, seed: int, count: int = 400) -> np.ndarray:
    """Points about a solid, in the object's frame."""
    most = np.array([solid.size.max() + (solid.size[1] if solid.kind is SolidKind.CAPSULE else 0)] * 3)
    own = np.random.default_rng(seed).uniform(-1.6, 1.6, (count, 3)) * most
    return np.asarray(own @ solid.T_object_solid[:3, :3].T + solid.T_object_solid[:3, 3])


@pytest.mark.parametrize(
    ("what", "point", "distance"),
    [
        (Box((2, 4, 6)), (2, 0, 0), 1),
        (Box((2, 4, 6)), (0, 0, 0), -1),
        (Box((2, 4, 6)), (4, 6, 3), 5),
        (Sphere(2), (0, 3, 4), 3),
        (Cylinder(1, 4), (0, 0, 5), 3),
        (Cylinder(1, 4), (4, 0, 6), 5),
        (Cylinder(1, 4), (0.75, 0, 0), -0.25),
        (Cylinder(1, 4), (0, 0, 1.9), -0.1),
        (Capsule(1, 6), (0, 0, 4), 1),
        (Capsule(1, 6), (3, 0, 2), 2),
        (Capsule(1, 6), (0, 0, 0), -1),
        (Ellipsoid((1, 2, 3)), (0, 0, 4), 1),
        (Ellipsoid((1, 2, 3)), (0, 5, 0), 3),
        (Ellipsoid((1, 2, 3)), (0, 0, 0), -1),
    ],
)
def test_distances_by_hand(what: Shape, point: tuple[float, float, float], distance: float) -> None:
    assert signed_distance(one(what), np.array([point], dtype=float))[0] == pytest.approx(distance)


@pytest.mark.parametrize("what", [Box((0.1, 0.2, 0.3)), Sphere(0.1), Cylinder(0.1, 0.3), Capsule(0.05, 0.3)])
def test_a_distance_grows_by_one_per_metre(what: Shape) -> None:
    """An exact distance has a gradient of length 1 wherever it is smooth (the eikonal equation)."""
    solid = one(what, pose((0.1, -0.2, 0.05), rpy(0.4, -0.7, 1.1)[:3, :3]))
    points, step = cloud(solid, 3), 1e-6
    slope = np.column_stack(
        [signed_distance(solid, points + step * e) - signed_distance(solid, points - step * e) for e in np.eye(3)]
    ) / (2 * step)
    norms = np.linalg.norm(slope, axis=1)
    assert np.mean(np.abs(norms - 1) < 1e-4) > 0.97  # all but those within a step of a ridge
    assert norms.max() < 1 + 1e-4


@given(half=st.tuples(length, length, length), T=place, seed=st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_the_sign_is_that_of_the_ellipsoid(half: tuple[float, float, float], T: Pose, seed: int) -> None:
    solid = one(Ellipsoid(half), T)
    points = cloud(solid, seed)
    own = (points - T[:3, 3]) @ T[:3, :3]
    inside = ((own / np.array(half)) ** 2).sum(axis=1) < 1
    assert np.array_equal(signed_distance(solid, points) < 0, inside)


@given(what=shape, T=place, seed=st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_volume_and_bounds_against_points(what: Shape, T: Pose, seed: int) -> None:
    """The share of points inside is that of the volume; no point inside lies outside the box."""
    solid = one(what, T)
    model = ObjectModel("it", "it", "it", "it", 0, 1, 0.5, 10, (solid,), {})
    low, high = model.bounds_m
    points = np.random.default_rng(seed).uniform(low - 0.02, high + 0.02, (8_000, 3))
    inside = signed_distance(solid, points) < 0
    kept = points[inside]
    assert np.all(kept > low - 1e-9)
    assert np.all(kept < high + 1e-9)
    space = float(np.prod(high - low + 0.04))
    share = solid.volume_m3 / space
    assert abs(inside.mean() - share) < 5 * math.sqrt(share * (1 - share) / 8_000) + 1e-4


@given(what=shape, T=place)
@settings(max_examples=60, deadline=None)
def test_the_box_is_tight(what: Shape, T: Pose) -> None:
    """Each face of the box is touched: the point furthest along each axis lies on it."""
    solid = one(what, T)
    model = ObjectModel("it", "it", "it", "it", 0, 1, 0.5, 10, (solid,), {})
    low, high = model.bounds_m
    for axis in range(3):
        for face, sign in ((low, -1.0), (high, 1.0)):
            direction = sign * np.eye(3)[axis]
            assert face[axis] == pytest.approx(support(solid, direction)[axis], abs=1e-9)


@given(what=shape, T=place, turn=place)
@settings(max_examples=60, deadline=None)
def test_the_reach_along_any_axes_is_that_of_the_furthest_points(what: Shape, T: Pose, turn: Pose) -> None:
    solid, R = one(what, T), turn[:3, :3]
    middle = solid.T_object_solid[:3, 3]
    furthest = [(support(solid, R[axis]) - middle) @ R[axis] for axis in range(3)]
    np.testing.assert_allclose(reach(solid, R), furthest, atol=1e-9)
    np.testing.assert_allclose(reach(solid), reach(solid, np.eye(3)), atol=1e-12)
    assert reach(solid, R[:1]) == pytest.approx(furthest[:1], abs=1e-9)  # one direction alone


def test_the_reach_along_its_own_axes_by_hand() -> None:
    T = pose((0.1, -0.2, 0.05), rpy(0.4, -0.7, 1.1)[:3, :3])
    for what, half in (
        (Box((2, 4, 6)), (1, 2, 3)),
        (Sphere(2), (2, 2, 2)),
        (Cylinder(1, 4), (1, 1, 2)),
        (Capsule(1, 6), (1, 1, 3)),
        (Ellipsoid((1, 2, 3)), (1, 2, 3)),
    ):
        np.testing.assert_allclose(reach(one(what, T), T[:3, :3].T), half, atol=1e-7)


def support(solid: Solid, direction: np.ndarray) -> np.ndarray:
    """The point of a solid furthest along a direction (in the object's frame)."""
    R, size = solid.T_object_solid[:3, :3], solid.size
    d = R.T @ direction
    flat = np.array([d[0], d[1], 0.0])
    round_ = flat / max(float(np.linalg.norm(flat)), 1e-12)
    match solid.kind:
        case SolidKind.BOX:
            own = np.sign(d) * size
        case SolidKind.SPHERE:
            own = d * size[0]
        case SolidKind.ELLIPSOID:
            own = size**2 * d / np.linalg.norm(size * d)
        case SolidKind.CAPSULE:
            own = d * size[0] + np.array([0, 0, np.sign(d[2]) * size[1]])
        case SolidKind.CYLINDER:
            own = round_ * size[0] + np.array([0, 0, np.sign(d[2]) * size[1]])
    return np.asarray(R @ own + solid.T_object_solid[:3, 3])


@pytest.mark.parametrize(("bottom", "top"), [(0.0375, 0.0375), (0.04, 0.0465), (0.028, 0.04), (0.05, 0.03)])
def test_a_shell_is_a_ring_on_its_cone(bottom: float, top: float) -> None:
    shell = Shell(bottom, top, 0.1, 0.003, 0.004, sides=24)
    disc, *ring = solids_of(shell, np.eye(4))
    assert (disc.kind, len(ring)) == (SolidKind.CYLINDER, 24)
    assert sum(s.mass_share for s in (disc, *ring)) == pytest.approx(1)
    for number in range(24):
        at = 2 * math.pi * number / 24
        out = np.array([math.cos(at), math.sin(at), 0])
        z = np.array([0.02, 0.05, 0.08])
        radius = bottom + (top - bottom) * z / 0.1
        outer = radius[:, None] * out + z[:, None] * (0, 0, 1)
        nearest = np.min([signed_distance(s, outer) for s in ring], axis=0)
        assert np.allclose(nearest, 0, atol=2e-5), "the flats lie on the outer cone"
        lean = math.atan2(top - bottom, 0.1)
        inner = outer - 0.003 / math.cos(lean) * out
        assert np.allclose(np.min([signed_distance(s, inner) for s in ring], axis=0), 0, atol=2e-4)
    middle = np.column_stack([np.zeros((5, 2)), np.linspace(0.01, 0.095, 5)])
    assert np.min([signed_distance(s, middle) for s in (disc, *ring)]) > 0, "it is hollow"
    assert signed_distance(disc, np.array([[0, 0, 0.002]]))[0] < 0, "and has a floor"


def test_a_ring_has_no_gap() -> None:
    ring = solids_of(Shell(0.03, 0.045, 0.08, 0.002, 0.003), np.eye(4))[1:]
    at = np.linspace(0, 2 * math.pi, 500)
    for z in (0.01, 0.04, 0.075):
        radius = 0.03 + 0.015 * z / 0.08 - 0.001
        points = np.column_stack([radius * np.cos(at), radius * np.sin(at), np.full(500, z)])
        assert np.min([signed_distance(s, points) for s in ring], axis=0).max() < 0


def test_mass_shares_are_by_volume() -> None:
    disc, *ring = solids_of(Shell(0.03, 0.03, 0.08, 0.002, 0.003), translation(z=0.1))
    total = disc.volume_m3 + sum(s.volume_m3 for s in ring)
    assert disc.mass_share == pytest.approx(disc.volume_m3 / total)
    assert disc.T_object_solid[2, 3] == pytest.approx(0.1015)


def test_the_thin_shell_by_hand() -> None:
    """30 MPa · 30 mm · (3 mm)² / (6 · 0.318 · 34 mm) = 8.1 / 0.064872 = 124.86 N (GRASPING §8)."""
    assert shell_force_n(0.003, 0.034) == pytest.approx(124.86, abs=0.01)
    assert shell_force_n(0.0005, 0.030) == pytest.approx(3.931, abs=0.001)


def test_the_thin_shell_goes_with_the_square_of_the_wall() -> None:
    assert shell_force_n(0.002, 0.04) == pytest.approx(4 * shell_force_n(0.001, 0.04))
    assert shell_force_n(0.002, 0.04) == pytest.approx(2 * shell_force_n(0.002, 0.08))
    with pytest.raises(InputError, match="wall_m is 0"):
        shell_force_n(0, 0.04)
