"""Scaled, of another material, drawn at random."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagehand.errors import InputError
from sagehand.world.noise import stream
from sagehand.world.objects.instances import HARMLESS_N, instance_of, perturbed, stretched
from sagehand.world.objects.load import load_object, load_spec, object_names
from sagehand.world.objects.shapes import signed_distance
from sagehand.world.objects.spec import Constant, InstanceSpec

factor = st.floats(0.3, 3)


@given(name=st.sampled_from(object_names()), scale=factor, seed=st.integers(0, 999))
@settings(max_examples=30, deadline=None)
def test_one_factor_scales_every_distance(name: str, scale: float, seed: int) -> None:
    """A point k times as far is k times as far from a body k times as large."""
    model = load_object(name)
    other = stretched(model, scale)
    points = np.random.default_rng(seed).uniform(-0.2, 0.3, (50, 3))
    for small, large in zip(model.solids, other.solids, strict=True):
        assert np.allclose(signed_distance(large, points * scale), signed_distance(small, points) * scale, atol=1e-9)
        assert large.volume_m3 == pytest.approx(small.volume_m3 * scale**3)
    assert np.allclose(other.size_m, model.size_m * scale)
    assert np.allclose(other.com_m, model.com_m * scale)
    for region in model.regions.values():
        assert np.allclose(other.region(region.name).T_object_region[:3, 3], region.T_object_region[:3, 3] * scale)
        assert other.region(region.name).width_m == pytest.approx(region.width_m * scale)
    assert (other.mass_kg, other.f_safe_n) == (model.mass_kg, model.f_safe_n)


@given(name=st.sampled_from(["cube", "box", "phone", "egg", "book", "vase", "can"]), wide=factor, high=factor)
@settings(max_examples=30, deadline=None)
def test_factors_along_the_axes_are_exact_where_solids_stand_along_them(name: str, wide: float, high: float) -> None:
    model = load_object(name)
    other = stretched(model, (wide, wide, high))
    assert np.allclose(other.size_m, model.size_m * (wide, wide, high), rtol=1e-9)


def test_what_lies_is_stretched_along_its_own_axis() -> None:
    screwdriver = load_object("screwdriver")
    longer = stretched(screwdriver, (2, 1, 1))
    assert np.allclose(longer.size_m, screwdriver.size_m * (2, 1, 1), rtol=0.08)  # the round end keeps its radius
    assert longer.size_m[1] == pytest.approx(screwdriver.size_m[1])
    assert longer.region("handle").size_m == pytest.approx((0.12, 0.031, 0.031))


def test_the_cavity_and_its_content_scale() -> None:
    cup = load_object("cup")
    assert cup.cavity is not None
    half = stretched(cup, 0.5).cavity
    assert half is not None
    assert (half.radius_m, half.floor_m, half.rim_m) == pytest.approx(
        (cup.cavity.radius_m / 2, cup.cavity.floor_m / 2, cup.cavity.rim_m / 2)
    )


def test_the_box_is_measured_anew() -> None:
    """The box is kept once measured; a stretched object must not keep that of the old one."""
    cube = load_object("cube")
    assert np.allclose(cube.size_m, 0.04)
    assert np.allclose(stretched(cube, 2).size_m, 0.08)


@pytest.mark.parametrize("scale", [0, -1, math.nan, (1, 1, 0)])
def test_a_scale_is_above_0(scale: float) -> None:
    with pytest.raises(InputError, match="it must be above 0"):
        stretched(load_object("cube"), scale)


def test_mass_goes_with_volume_and_density_and_force_with_area() -> None:
    egg = load_object("egg")
    made = instance_of(egg, "half", InstanceSpec("half", scale=0.5, density=2.0))
    assert made.mass_kg == pytest.approx(egg.mass_kg / 8 * 2)
    assert made.f_safe_n == pytest.approx(egg.f_safe_n / 4)
    assert (made.name, made.base, made.category) == ("egg-half", "egg", "egg")


def test_what_the_hand_cannot_harm_stays_so() -> None:
    cube = load_object("cube")
    assert cube.f_safe_n == HARMLESS_N
    assert instance_of(cube, "small", InstanceSpec("small", scale=0.5)).f_safe_n == HARMLESS_N
    big = instance_of(load_object("bottle"), "big", InstanceSpec("big", scale=3.0))
    assert big.f_safe_n == HARMLESS_N


def test_an_instance_may_say_it_all() -> None:
    spec = InstanceSpec(
        "steel",
        material="steel",
        fragility=0.2,
        mass_kg=Constant(0.5, "x"),
        friction=Constant(0.3, "x"),
        f_safe_n=Constant(33, "x"),
        color="#00ff0080",
    )
    made = instance_of(load_object("cube"), "steel", spec)
    assert (made.material, made.fragility, made.mass_kg, made.friction, made.f_safe_n) == ("steel", 0.2, 0.5, 0.3, 33)
    assert made.solids[0].rgba == pytest.approx((0, 1, 0, 128 / 255))


def test_the_noise_of_the_world() -> None:
    """Means and spreads of GRASPING §3 over 1,500 draws, each within four standard errors."""
    cube = load_object("cube")
    drawn = [perturbed(cube, stream(7, "world", n)) for n in range(1500)]
    size = np.array([d.size_m[2] / cube.size_m[2] for d in drawn])
    mass = np.array([d.mass_kg / cube.mass_kg for d in drawn])
    friction = np.array([d.friction / cube.friction for d in drawn])
    force = np.log([d.f_safe_n / cube.f_safe_n for d in drawn])
    root = math.sqrt(1500)
    assert size.mean() == pytest.approx(1, abs=4 * 0.03 / root)
    assert size.std() == pytest.approx(0.03, rel=0.09)
    for uniform in (mass, friction):
        assert 0.8 <= uniform.min() < 0.82
        assert 1.18 < uniform.max() <= 1.2
        assert uniform.mean() == pytest.approx(1, abs=4 * 0.4 / math.sqrt(12) / root)
    assert force.mean() == pytest.approx(0, abs=4 * 0.2 / root)
    assert force.std() == pytest.approx(0.2, rel=0.09)
    for one, two in ((size, mass), (size, friction), (mass, friction), (friction, force), (mass, force)):
        assert abs(np.corrcoef(one, two)[0, 1]) < 4 / root, "independent"


def test_regions_and_cavity_go_with_the_size() -> None:
    cup = load_object("cup")
    drawn = perturbed(cup, stream(3, "world"))
    ratio = drawn.size_m[2] / cup.size_m[2]
    assert ratio != 1
    assert drawn.region("rim").width_m == pytest.approx(cup.region("rim").width_m * ratio)
    assert drawn.cavity is not None
    assert cup.cavity is not None
    assert drawn.cavity.rim_m == pytest.approx(cup.cavity.rim_m * ratio)
    assert drawn.rolling_friction == cup.rolling_friction == 0


def test_the_draws_are_paired() -> None:
    """The same stream gives the same draws to every object and scale, in one order, so that configurations are paired."""
    rng = stream(5, "world")
    size, mass, friction, force = rng.normal(), rng.uniform(-1, 1), rng.uniform(-1, 1), rng.normal()
    for name in ("cube", "vase"):
        for scale in (0.5, 1.0, 2.0):
            base, drawn = load_object(name), perturbed(load_object(name), stream(5, "world"), scale)
            assert drawn.size_m[2] / base.size_m[2] == pytest.approx(1 + 0.03 * scale * size)
            assert drawn.mass_kg / base.mass_kg == pytest.approx(1 + 0.2 * scale * mass)
            assert drawn.friction / base.friction == pytest.approx(1 + 0.2 * scale * friction)
            assert drawn.f_safe_n / base.f_safe_n == pytest.approx(math.exp(0.2 * scale * force))
    used = stream(5, "world")
    perturbed(load_object("cube"), used, 0.0)
    assert used.normal() == rng.normal(), "without noise it draws all the same"


def test_no_noise_changes_nothing() -> None:
    cup = load_object("cup")
    same = perturbed(cup, stream(1, "world"), 0.0)
    assert (same.mass_kg, same.friction, same.f_safe_n) == (cup.mass_kg, cup.friction, cup.f_safe_n)
    assert np.allclose(same.size_m, cup.size_m)
    with pytest.raises(InputError, match="noise scale"):
        perturbed(cup, stream(1), -1)


def test_instances_load_and_are_others() -> None:
    for name in object_names():
        base = load_object(name)
        for instance in load_spec(name).instances:
            made = load_object(name, instance)
            differs = (
                not np.allclose(made.size_m, base.size_m)
                or made.friction != base.friction
                or made.mass_kg != base.mass_kg
                or made.f_safe_n != base.f_safe_n
            )
            assert differs, f"{name}/{instance} is the same as {name}"
            assert abs(made.bounds_m[0][2]) < 1e-3, "it stands on z = 0"
            assert sum(s.mass_share for s in made.solids) == pytest.approx(1)
