"""What a grip bears: held against closed forms, a linear programme, and the laws of statics."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sagehand.world.analytic.lift import Load, carry
from sagehand.world.analytic.statics import TORSION_M, Contacts, GripStatics, weight_force
from sagehand.world.constants import GRAVITY

Array = NDArray[np.float64]


def pads(width: float, x: float = 0.0, z: float = 0.0) -> Contacts:
    """Two patches of half lengths x and z, one point where both are 0."""
    points, inward, pad = [], [], []
    for side, sign in ((0, 1.0), (1, -1.0)):
        for a in (-x, x) if x else (0.0,):
            for b in (-z, z) if z else (0.0,):
                points.append((a, sign * width / 2, b))
                inward.append((0.0, -sign, 0.0))
                pad.append(side)
    return Contacts(np.array(points), np.array(inward), np.array(pad))


def hanging(mass: float, com: Array, acceleration: float = 2.0) -> Array:
    """Weight and inertia of a lift for a hand that points straight down: the world's down is +z."""
    force = np.array([0, 0, mass * (GRAVITY + acceleration)])
    return np.concatenate([force, np.cross(com, force)])


@given(mass=st.floats(0.01, 2), mu=st.floats(0.1, 1), width=st.floats(0.002, 0.078))
@settings(max_examples=40, deadline=None)
def test_a_centred_weight_needs_the_weight_formula(mass: float, mu: float, width: float) -> None:
    needed = GripStatics(pads(width, 0.0088, 0.0089), mu).required_force(hanging(mass, np.zeros(3)))
    assert math.isclose(needed, weight_force(mass, mu, 2.0), rel_tol=5e-3)


@pytest.mark.parametrize(("mu", "acceleration"), [(0.24525, 0.0), (0.29525, 2.0)])
def test_a_half_kilogram_cube_at_ten_newtons_needs_this_friction(mu: float, acceleration: float) -> None:
    # m (g + a) = 2 μ f
    needed = GripStatics(pads(0.04, 0.0088, 0.0089), mu).required_force(hanging(0.5, np.zeros(3), acceleration))
    assert math.isclose(needed, 10.0, rel_tol=5e-3)


@pytest.mark.parametrize("moment", [0.01, 0.05])
def test_torsion_of_two_points_adds_in_squares_to_the_weight(moment: float) -> None:
    # (F / 2μ)² + (τ / 2c)² = f² (Howe & Cutkosky)
    grip = GripStatics(pads(0.04), 0.5)
    alone = grip.required_force(np.array([0, 0, 0, 0, moment, 0]))
    assert math.isclose(alone, moment / TORSION_M / 2, rel_tol=5e-3)
    both = grip.required_force(np.array([0, 0, 1.0, 0, moment, 0]))
    assert math.isclose(both, math.hypot(1 / 0.5, moment / TORSION_M) / 2, rel_tol=5e-3)


def test_a_couple_across_a_wide_object_is_borne_by_friction() -> None:
    # two points 60 mm apart: M = 2 · μ f · w / 2
    needed = GripStatics(pads(0.06), 0.5).required_force(np.array([0, 0, 0, 0.03, 0, 0]))
    assert math.isclose(needed, 0.03 / (0.5 * 0.06), rel_tol=5e-3)


def test_a_thin_wall_is_borne_by_the_shift_of_pressure() -> None:
    # a frictionless wall of no thickness: the pressures go to opposite ends of the patches, M = f · 2h
    needed = GripStatics(pads(1e-6, 0.0, 0.005), 1e-9, torsion_m=1e-9).required_force(np.array([0, 0, 0, 0.04, 0, 0]))
    assert math.isclose(needed, 0.04 / 0.010, rel_tol=5e-3)


def test_the_rim_of_a_bowl_needs_several_times_its_weights_force() -> None:
    # GRASPING §2 and §8: 159 mm, 0.147 kg; weight formula 1.7 N, with its moment 5 to 15 N
    grip = GripStatics(pads(0.003, 0.0088, 0.0055), 0.5)
    assert math.isclose(weight_force(0.147, 0.5, 2.0), 1.7, abs_tol=0.05)
    assert 5 < grip.required_force(hanging(0.147, np.array([0, 0.078, 0.02]))) < 15


def test_a_squeeze_off_the_line_of_the_contacts_turns_the_object() -> None:
    grip = GripStatics(
        Contacts(
            np.array([[0.008, 0.02, 0], [-0.008, -0.02, 0]]), np.array([[0, -1.0, 0], [0, 1.0, 0]]), np.array([0, 1])
        ),
        0.2,
    )
    # the couple is 2 · 8 mm · 1 N about −z; friction takes 0.2 · 40 mm of it
    assert not grip.stable
    assert math.isclose(grip.residual[4] * 0.01, -(0.016 - 0.2 * 0.04), rel_tol=0.02)
    assert grip.required_force(hanging(0.1, np.zeros(3))) == math.inf
    # steeper friction than the line between the contacts holds it (Nguyen: 16 mm on 40 mm is 21.8°, μ 0.4)
    assert GripStatics(
        Contacts(
            np.array([[0.008, 0.02, 0], [-0.008, -0.02, 0]]), np.array([[0, -1.0, 0], [0, 1.0, 0]]), np.array([0, 1])
        ),
        0.41,
    ).stable


@pytest.mark.parametrize(("slope_deg", "stable"), [(26, True), (27, False)])
def test_a_wedge_is_held_up_to_the_friction_angle(slope_deg: float, stable: bool) -> None:
    s, c = math.sin(math.radians(slope_deg)), math.cos(math.radians(slope_deg))  # atan 0.5 = 26.57°
    wedge = Contacts(np.array([[0, 0.02, 0], [0, -0.02, 0.0]]), np.array([[0, -c, s], [0, c, s]]), np.array([0, 1]))
    grip = GripStatics(wedge, 0.5)
    assert grip.stable == stable
    if not stable:
        assert grip.residual[1] > 0


def test_one_pad_alone_bears_nothing() -> None:
    one = Contacts(np.array([[0, 0.02, 0.0]]), np.array([[0, -1.0, 0]]), np.array([0]))
    assert GripStatics(one, 0.5).required_force(hanging(0.1, np.zeros(3))) == math.inf


def test_no_load_needs_no_force() -> None:
    assert GripStatics(pads(0.04), 0.5).required_force(np.zeros(6)) == 0


@pytest.mark.parametrize("seed", range(8))
def test_what_a_force_bears_is_what_is_asked_for(seed: int) -> None:
    rng = np.random.default_rng(seed)
    slope = rng.normal(0, 0.2, 3)
    contacts = pads(rng.uniform(0.003, 0.06), 0.0088, rng.uniform(0.001, 0.009))
    inward = contacts.inward + slope
    contacts = Contacts(contacts.points, inward / np.linalg.norm(inward, axis=1, keepdims=True), contacts.pad)
    wrenches = rng.normal(size=(10, 6)) * [1, 1, 1, 0.03, 0.03, 0.03]
    needed = [GripStatics(contacts, 0.5).required_force(wrench) for wrench in wrenches]
    assert seed in {3, 6} or all(math.isfinite(force) for force in needed)  # of these two, the faces slope too much
    grip = GripStatics(contacts, 0.5)  # asked again and again, it goes on from its last answer
    for wrench, force in zip(wrenches, needed, strict=True):
        if force == math.inf:
            assert not grip.bears(wrench, 1e3)
            continue
        for share in (0.5, 0.999, 1.0, 1.001, 1.05, 3.0):
            assert grip.bears(wrench, share * force) == (share >= 1), share
    assert grip.required_force(wrenches[0]) == needed[0]
    assert grip.bears(np.zeros(6), 0.0)
    assert not grip.bears(wrenches[0], 0.0)


def by_linear_programme(contacts: Contacts, mu: float, wrench: Array) -> float:
    """The same by a solver, over thousands of forces on the surface of the friction ellipsoids."""
    optimize = pytest.importorskip("scipy.optimize")
    around = np.random.default_rng(0).normal(size=(1500, 3))
    around /= np.linalg.norm(around, axis=1, keepdims=True)
    columns = []
    for p, n, pad in zip(contacts.points, contacts.inward, contacts.pad, strict=True):
        one = np.cross(n, [1.0, 0, 0] if abs(n[0]) < 0.9 else [0, 0, 1.0])
        one /= np.linalg.norm(one)
        force = n + mu * (around[:, :1] * one + around[:, 1:2] * np.cross(n, one))
        moment = np.cross(p, force) + TORSION_M * around[:, 2:] * n
        share = np.zeros((len(around), 2))
        share[:, pad] = 1
        columns.append(np.hstack([force[:, [0, 2]], moment * 100, share]))
    need = np.array([wrench[0], wrench[2], *(wrench[3:] * 100), 0, 0])
    A = np.vstack([*columns, need]).T
    c = np.zeros(A.shape[1])
    c[-1] = -1
    found = optimize.linprog(c, A_eq=A, b_eq=[0] * 5 + [1, 1], method="highs")
    return float(-1 / found.fun) if found.status == 0 else math.inf


@pytest.mark.parametrize("seed", range(12))
def test_the_same_force_as_a_linear_programme(seed: int) -> None:
    rng = np.random.default_rng(seed)
    contacts = pads(rng.uniform(0.003, 0.06), rng.choice([0, 0.0088]), rng.choice([0, 0.008]))
    tilted = contacts.inward + rng.normal(0, 0.1, contacts.inward.shape)
    contacts = Contacts(contacts.points, tilted / np.linalg.norm(tilted, axis=1, keepdims=True), contacts.pad)
    wrench = rng.normal(size=6) * [1, 1, 1, 0.03, 0.03, 0.03]
    mu = rng.uniform(0.3, 0.8)
    grip, known = GripStatics(contacts, mu), by_linear_programme(contacts, mu, wrench)
    # the solver's forces are a sample of the ellipsoid's, so it can only ask for more
    assert grip.required_force(wrench) <= known * 1.004
    assert grip.required_force(wrench) >= known * 0.98


@given(scale=st.floats(0.1, 10), seed=st.integers(0, 50))
@settings(max_examples=30, deadline=None)
def test_force_is_in_proportion_to_the_load(scale: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    grip = GripStatics(pads(0.03, 0.006, 0.006), 0.5)
    wrench = rng.normal(size=6) * [1, 1, 1, 0.02, 0.02, 0.02]
    assert math.isclose(grip.required_force(scale * wrench), scale * grip.required_force(wrench), rel_tol=0.01)


def lift(
    mu: float,
    force: float,
    *,
    com: Array | None = None,
    contacts: Contacts | None = None,
    acceleration: float = 2.0,
    mass: float = 0.5,
):
    com = np.zeros(3) if com is None else com
    load = Load(mass, com, np.zeros(3), np.array([0, 0, -1.0]), np.array([[1.0, 0, 0], [0, -1.0, 0]]))
    return carry(GripStatics(contacts or pads(0.04, 0.0088, 0.0089), mu), load, force, acceleration, 0.15, 0.025)


@pytest.mark.parametrize(
    ("mu", "acceleration", "stage"),
    [(0.24, 0.01, "slip"), (0.255, 0.01, "held"), (0.24, 2.0, "slip"), (0.27, 2.0, "slip"), (0.30, 2.0, "held")],
)
def test_the_friction_test(mu: float, acceleration: float, stage: str) -> None:
    # a 0.5 kg cube at 10 N a finger slips below μ = 0.245 at rest, and needs 0.295 to be lifted at 2 m/s²
    assert lift(mu, 10.0, acceleration=acceleration).stage == stage


def test_a_little_too_little_friction_for_the_lift_slides_a_little() -> None:
    held = lift(0.293, 10.0)
    assert held.stage == "held"
    assert 0 < held.slid_m < 0.005
    # and the way grows as friction falls
    assert lift(0.290, 10.0).slid_m > held.slid_m


def test_off_its_centre_it_swings_until_it_hangs() -> None:
    held = lift(0.5, 10.0, com=np.array([0.08, 0, 0.0]), contacts=pads(0.03), mass=0.2)
    assert held.stage == "held"
    assert held.required_n > 10 > held.hanging_n
    # as far down as leaves no more moment than 10 N bear
    com = held.swing[:3, :3] @ np.array([0.08, 0, 0])
    assert com[2] > 0.05  # +z is down
    rest = GripStatics(pads(0.03), 0.5).required_force(hanging(0.2, com, 0.0))
    assert math.isclose(rest, 10.0, rel_tol=0.03)
    assert 0 < held.slid_m < 0.005


def test_a_heavier_load_slides_more_while_it_swings() -> None:
    slid = [lift(0.5, f, com=np.array([0.08, 0, 0.0]), contacts=pads(0.03), mass=0.2).slid_m for f in (3.0, 5.0, 10.0)]
    assert slid == sorted(slid, reverse=True)


def test_a_rim_held_at_the_weights_force_alone_is_lost_by_its_moment() -> None:
    held = lift(0.5, 2.0, com=np.array([0, 0.078, 0.02]), contacts=pads(0.003, 0.0088, 0.0055), mass=0.147)
    assert held.stage == "drop"
    assert "moment" in held.why
