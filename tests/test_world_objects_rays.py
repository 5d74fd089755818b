"""Rays against closed forms and against the signed distance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagehand.world.frames import Pose, pose, translation
from sagehand.world.objects.rays import cross, first_hits, normals_at
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
from test_world_objects_shapes import one, place, shape


def ray(origin: tuple[float, float, float], direction: tuple[float, float, float]) -> tuple[np.ndarray, np.ndarray]:
    d = np.array([direction], dtype=float)
    return np.array([origin], dtype=float), d / np.linalg.norm(d)


@pytest.mark.parametrize(
    ("what", "origin", "direction", "enter", "leave", "normal"),
    [
        (Box((2, 4, 6)), (-5, 0.5, 0.5), (1, 0, 0), 4, 6, (-1, 0, 0)),
        (Box((2, 4, 6)), (0, 0, 9), (0, 0, -1), 6, 12, (0, 0, 1)),
        (Sphere(2), (0, -5, 0), (0, 1, 0), 3, 7, (0, -1, 0)),
        (Sphere(5), (-10, 3, 0), (1, 0, 0), 6, 14, (-0.8, 0.6, 0)),
        (Cylinder(1, 4), (0, 0, 9), (0, 0, -1), 7, 11, (0, 0, 1)),
        (Cylinder(5, 4), (-10, 3, 1), (1, 0, 0), 6, 14, (-0.8, 0.6, 0)),
        (Capsule(1, 6), (0, 0, 9), (0, 0, -1), 6, 12, (0, 0, 1)),
        (Capsule(1, 6), (-4, 0, 1), (1, 0, 0), 3, 5, (-1, 0, 0)),
        (Ellipsoid((1, 2, 3)), (0, 9, 0), (0, -1, 0), 7, 11, (0, 1, 0)),
    ],
)
def test_rays_by_hand(
    what: Shape,
    origin: tuple[float, float, float],
    direction: tuple[float, float, float],
    enter: float,
    leave: float,
    normal: tuple[float, float, float],
) -> None:
    o, d = ray(origin, direction)
    crossed = cross([one(what)], o, d)
    assert (crossed.enter[0, 0], crossed.leave[0, 0]) == (pytest.approx(enter), pytest.approx(leave))
    hits = first_hits([one(what)], o, d)
    assert hits.any.all()
    assert hits.distance[0] == pytest.approx(enter)
    assert np.allclose(hits.normal[0], normal)


@pytest.mark.parametrize(
    ("what", "origin", "direction"),
    [
        (Box((2, 4, 6)), (-5, 2.1, 0), (1, 0, 0)),
        (Sphere(2), (0, -5, 2.1), (0, 1, 0)),
        (Cylinder(1, 4), (1.1, 0, 9), (0, 0, -1)),
        (Cylinder(1, 4), (-5, 0, 2.1), (1, 0, 0)),
        (Capsule(1, 6), (1.1, 0, 9), (0, 0, -1)),
        (Ellipsoid((1, 2, 3)), (-5, 0, 3.1), (1, 0, 0)),
    ],
)
def test_misses(what: Shape, origin: tuple[float, float, float], direction: tuple[float, float, float]) -> None:
    o, d = ray(origin, direction)
    crossed = cross([one(what)], o, d)
    assert (crossed.enter[0, 0], crossed.leave[0, 0]) == (math.inf, -math.inf)
    hits = first_hits([one(what)], o, d)
    assert (hits.solid[0], hits.distance[0]) == (-1, math.inf)
    assert np.allclose(hits.normal, 0)


@given(what=shape, T=place, seed=st.integers(0, 999))
@settings(max_examples=80, deadline=None)
def test_a_ray_goes_in_and_out_where_the_distance_is_zero(what: Shape, T: Pose, seed: int) -> None:
    solid = one(what, T)
    rng = np.random.default_rng(seed)
    aim = T[:3, 3] + rng.uniform(-0.15, 0.15, (60, 3))
    origins = T[:3, 3] + 2 * unit(rng.normal(size=(60, 3)))
    directions = unit(aim - origins)
    crossed = cross([solid], origins, directions)
    enter, leave = crossed.enter[0], crossed.leave[0]
    hit = np.isfinite(enter)
    for t in (enter[hit], leave[hit]):
        at = origins[hit] + t[:, None] * directions[hit]
        assert np.abs(signed_distance(solid, at)).max(initial=0) < 1e-6
    middle = origins[hit] + ((enter[hit] + leave[hit]) / 2)[:, None] * directions[hit]
    assert signed_distance(solid, middle).max(initial=-1) <= 1e-9
    # a ray that misses stays outside: no point of it is inside
    along = origins[~hit][:, None] + np.linspace(1, 3, 300)[None, :, None] * directions[~hit][:, None]
    if along.size:
        assert signed_distance(solid, along.reshape(-1, 3)).min() > -1e-4


@given(what=shape, T=place, seed=st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_normals_are_the_slope_of_the_distance(what: Shape, T: Pose, seed: int) -> None:
    solid = one(what, T)
    rng = np.random.default_rng(seed)
    origins = T[:3, 3] + 2 * unit(rng.normal(size=(40, 3)))
    hits = first_hits([solid], origins, unit(T[:3, 3] - origins))
    assert hits.any.all()
    step = 1e-7
    slope = np.column_stack(
        [
            signed_distance(solid, hits.point + step * e) - signed_distance(solid, hits.point - step * e)
            for e in np.eye(3)
        ]
    )
    slope = unit(slope)
    agree = (slope * hits.normal).sum(axis=1)
    assert np.mean(agree > 0.999) > 0.9  # all but those within a step of an edge
    assert np.allclose(np.linalg.norm(hits.normal, axis=1), 1)
    assert np.all((hits.normal * (T[:3, 3] - origins)).sum(axis=1) < 0), "a normal looks against the ray"


def test_the_first_of_several_is_hit() -> None:
    near, far = one(Sphere(1), translation(x=3)), one(Sphere(1), translation(x=6))
    hits = first_hits([far, near], *ray((0, 0, 0), (1, 0, 0)))
    assert (hits.solid[0], hits.distance[0]) == (1, pytest.approx(2))
    assert np.allclose(hits.point, [[2, 0, 0]])


def test_what_a_ray_starts_in_does_not_count() -> None:
    """So a ray from inside a vessel's wall meets the wall across, not the one it is in."""
    hits = first_hits([one(Sphere(1)), one(Sphere(1), translation(x=5))], *ray((0, 0, 0), (1, 0, 0)))
    assert (hits.solid[0], hits.distance[0]) == (1, pytest.approx(4))


def test_a_vessel_is_hit_from_inside_at_its_inner_wall() -> None:
    shell = solids_of(Shell(0.04, 0.04, 0.1, 0.003, 0.004), np.eye(4))
    hits = first_hits(shell, *ray((0, 0, 0.05), (0, 1, 0)))
    assert hits.distance[0] == pytest.approx(0.037, abs=1e-6)
    assert np.allclose(hits.normal, [[0, -1, 0]], atol=1e-6)
    down = first_hits(shell, *ray((0.01, 0, 0.2), (0, 0, -1)))
    assert down.distance[0] == pytest.approx(0.196)


def test_nothing_is_hit_where_there_is_nothing() -> None:
    empty: list[Solid] = []
    hits = first_hits(empty, np.zeros((3, 3)), np.array([1.0, 0, 0]))
    assert not hits.any.any()
    assert cross(empty, np.zeros((3, 3)), np.array([1.0, 0, 0])).enter.shape == (0, 3)


def test_one_direction_serves_all_origins() -> None:
    solid = one(Box((0.2, 0.2, 0.2)), pose((0, 0, 0)))
    origins = np.array([[-1.0, 0, 0], [-1.0, 0.05, 0.02], [-1.0, 0.2, 0]])
    assert np.allclose(first_hits([solid], origins, np.array([1.0, 0, 0])).distance, [0.9, 0.9, np.inf])
    assert np.allclose(normals_at(solid, np.array([[0.1, 0, 0.03]])), [[1, 0, 0]])


def unit(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))
