"""The data files against what is published, against GRASPING, and against the hand and the table."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from sagehand.world.frames import translation
from sagehand.world.grasp import GraspType
from sagehand.world.objects.instances import HARMLESS_N
from sagehand.world.objects.load import instance_names, load_object, load_spec, object_names
from sagehand.world.objects.model import FRAGILE, Affordance, ObjectModel, Region, Turn
from sagehand.world.objects.rays import first_hits
from sagehand.world.objects.shapes import signed_distance
from sagehand.world.objects.shell import shell_force_n
from sagehand.world.robot.description import EnvelopeBox, Robot, load_robot
from sagehand.world.scene import Placed, Scene, Table

_SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "make_object_table.py"
_spec = importlib.util.spec_from_file_location("make_object_table", _SCRIPT)
assert _spec is not None
assert _spec.loader is not None
made = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(made)

EACH = [(name, instance) for name in object_names() for instance in (None, *instance_names(name))]
LIFT = 9.81 + 2.0


@pytest.mark.parametrize("name", object_names())
def test_the_shape_has_the_published_size(name: str) -> None:
    model, published = load_object(name), np.array(load_spec(name).size_m.value)
    assert np.all(np.abs(model.size_m - published) <= np.maximum(0.002, 0.02 * published)), model.size_m


@pytest.mark.parametrize("name", object_names())
def test_the_frame_is_that_of_the_contract(name: str) -> None:
    """The origin in the middle of the base, z up, x along the long side; a handle does not move a vessel's axis."""
    model = load_object(name)
    low, high = model.bounds_m
    assert abs(low[2]) < 1e-4
    middle = (low + high)[:2] / 2
    assert np.all(np.abs(middle) < 0.002) or (model.cavity is not None and abs(middle[1]) < 0.002)
    assert model.size_m[0] >= model.size_m[1] - 1e-3


@pytest.mark.parametrize(
    ("name", "force"),
    [
        ("cup", 1.4),
        ("apple", 2.1),
        ("bottle", 7.9),
        ("banana", 1.8),
        ("bowl", 1.7),
        ("cube", 0.5),
        ("vase", 5.9),
        ("ball", 0.5),
        ("box", 7.6),
        ("phone", 2.6),
        ("wine-glass", 2.0),
        ("screwdriver", 1.1),
    ],
)
def test_the_force_by_weight_is_that_of_grasping(name: str, force: float) -> None:
    """M (g + 2) / (2 μ), the column of GRASPING §8; banana and apple weigh 2 g less and more than there."""
    model = load_object(name)
    assert model.mass_kg * LIFT / (2 * model.friction) == pytest.approx(force, abs=0.065)


def test_only_some_windows_are_narrow() -> None:
    """Those objects test knowledge of forces: a force guessed from the weight alone can break them."""
    narrow = set()
    for name in object_names():
        model = load_object(name)
        required = model.mass_kg * LIFT / (2 * model.friction)
        assert model.f_safe_n > 1.5 * required, f"{name} can be lifted unharmed"
        if model.f_safe_n < 20:
            narrow.add(name)
    assert {"wine-glass", "banana", "egg", "strawberry", "paper-cup", "pet-bottle", "crisp-bag"} <= narrow


def test_fragility_agrees_with_the_safe_force() -> None:
    for name in object_names():
        model = load_object(name)
        if Affordance.FRAGILE in model.affordances:
            assert model.fragility >= FRAGILE - 0.1, name
        if model.fragility == 0:
            assert model.f_safe_n >= HARMLESS_N, name


@pytest.mark.parametrize(
    ("name", "instance", "wall_m", "radius_m"),
    [
        ("light-bulb", None, 0.0005, 0.030),
        ("jar", None, 0.003, 0.034),
        ("bowl", "ceramic", 0.003, 0.0777),
        ("cup", "porcelain", 0.004, 0.043),
    ],
)
def test_thin_shells_have_the_formulas_force(name: str, instance: str | None, wall_m: float, radius_m: float) -> None:
    assert load_object(name, instance).f_safe_n == pytest.approx(min(shell_force_n(wall_m, radius_m), 70), rel=0.005)


def test_a_beech_cube_weighs_what_beech_weighs() -> None:
    cube = load_object("cube")
    assert 640 < cube.mass_kg / sum(s.volume_m3 for s in cube.solids) < 720


def test_water_has_its_volume_in_a_cavity() -> None:
    """The cavity is the vessel's inside: no more water than the box of the vessel, no less than half of it."""
    for model in map(load_object, object_names()):
        cavity, name = model.cavity, model.name
        if cavity is None:
            continue
        hollow = np.pi * cavity.radius_m**2 * (cavity.rim_m - cavity.floor_m)
        low, high = model.bounds_m
        rng = np.random.default_rng(1)
        points = rng.uniform(low, high, (4_000, 3))
        solid = np.min([signed_distance(s, points) for s in model.solids], axis=0) < 0
        radial = np.linalg.norm(points[:, :2], axis=1)
        up = first_hits(model.solids, points, np.array([0.0, 0, 1])).any
        down = first_hits(model.solids, points, np.array([0.0, 0, -1])).any
        out = first_hits(model.solids, points, outwards(points)).any
        inside = ~solid & ~up & down & out & (points[:, 2] > cavity.floor_m) & (radial < high[1])
        measured = inside.mean() * float(np.prod(high - low))
        assert hollow == pytest.approx(measured, rel=0.15), name


def outwards(points: np.ndarray) -> np.ndarray:
    flat = points * (1, 1, 0)
    return np.asarray(flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-9))


@pytest.mark.parametrize(("name", "instance"), EACH, ids=lambda v: v or "-")
def test_regions_are_where_the_object_is(name: str, instance: str | None) -> None:
    """Fingers that close on a region meet as much of the object as it says, in its middle, within the friction cone."""
    model = load_object(name, instance)
    for region in model.regions.values():
        span, off, cosine = met(model, region)
        assert span == pytest.approx(region.width_m, abs=max(0.001, 0.06 * region.width_m)), region.name
        assert abs(off) < 0.0015, region.name
        assert cosine > np.cos(np.arctan(model.friction)), region.name


def met(model: ObjectModel, region: Region) -> tuple[float, float, float]:
    """How much fingers find between them along a pad's length, how far off the middle it is, and the worse normal's cosine."""
    T, half = region.T_object_region, region.width_m / 2 + 0.006
    y = T[:3, 1]
    at = T[:3, 3] - np.arange(-0.009, 0.0095, 0.001)[:, None] * T[:3, 2]
    starts = np.stack([at + half * y, at - half * y])
    outside = np.min([signed_distance(s, starts.reshape(-1, 3)) for s in model.solids], axis=0).reshape(2, -1) >= 0
    one, two = (first_hits(model.solids, starts[k], sign * y) for k, sign in ((0, -1), (1, 1)))
    good = outside.all(axis=0) & (np.maximum(one.distance, two.distance) < region.width_m + 0.01)
    span = np.where(good, (one.point - two.point) @ y, 0)
    best = int(np.argmax(span))
    off = float(((one.point + two.point)[best] / 2 - at[best]) @ y)
    return float(span[best]), off, float(min(one.normal[best] @ y, -two.normal[best] @ y))


@pytest.mark.parametrize(("name", "instance"), EACH, ids=lambda v: v or "-")
def test_the_hand_fits_at_some_region(name: str, instance: str | None) -> None:
    """The natural grasp of each region that is narrow enough: palm and fingers are free of the object and of the table."""
    robot, model = load_robot(), load_object(name, instance)
    fits = [region for region in model.regions.values() if region.width_m <= robot.widest_m]
    assert fits, "nothing of it fits into the hand"
    for region in fits:
        palm, fingers = hand_points(robot, region)
        free = min(float(signed_distance(s, np.vstack([palm, fingers])).min()) for s in model.solids)
        assert free > 0, region.name
        assert fingers[:, 2].min() > 0.0005, region.name
        assert palm[:, 2].min() > 0.0005, region.name
    high = [r for r in fits if GraspType.SIDE not in r.types or r.T_object_region[2, 3] >= 0.05]
    assert high, "a level approach is impossible below 50 mm (GRASPING §1)"


def test_the_natural_grasp_is_of_the_first_type_named() -> None:
    """Power: tips reach 30 mm into the object or more; pinch: 8 to 30 mm; side: 45° or more from vertical (GRASPING §1)."""
    robot = load_robot()
    for model in map(load_object, object_names()):
        for region in model.regions.values():
            T = region.T_object_region
            across = np.linspace(-0.5, 0.5, 15)[:, None] * region.width_m * T[:3, 1]
            along = np.linspace(-0.0088, 0.0088, 7)[:, None] * T[:3, 0]
            above = T[:3, 3] + 0.3 * T[:3, 2] + (across[:, None] + along[None]).reshape(-1, 3)
            deep = 0.3 + robot.tips_m - first_hits(model.solids, above, -T[:3, 2]).distance.min()
            if T[2, 2] <= np.cos(np.pi / 4):
                natural = GraspType.SIDE
            elif deep >= 0.03:
                natural = GraspType.POWER
            else:
                natural = GraspType.PINCH
                assert deep >= 0.008 or model.size_m[2] < 0.012, (
                    f"{model.name}: {region.name} is {deep * 1000:.1f} mm deep"
                )
            assert region.types[0] is natural, f"{model.name}: {region.name} is {deep * 1000:.1f} mm deep"


def hand_points(robot: Robot, region: Region) -> tuple[np.ndarray, np.ndarray]:
    """Points of palm and of fingers in the object's frame, the hand open by 5 mm more at each side, where it can be."""
    T = region.T_object_region
    y, z = T[:3, 1], -T[:3, 2]
    R = np.column_stack([np.cross(y, z), y, z])
    tcp = robot.T_hand_tcp[2, 3]
    half = min(region.width_m + 0.01, robot.width_m[1]) / 2
    palm = np.vstack([lattice(box, 5) for box in robot.hand_boxes]) - (0, 0, tcp)
    finger = np.vstack([lattice(b, 4) for b in (*robot.finger_boxes, robot.pad)])
    finger += (0, half, robot.finger_root_m - tcp)
    fingers = np.vstack([finger, finger * (-1, -1, 1)])
    return palm @ R.T + T[:3, 3], fingers @ R.T + T[:3, 3]


def lattice(box: EnvelopeBox, count: int) -> np.ndarray:
    line = np.linspace(-1, 1, count)
    return np.asarray(box.centre + box.half * np.stack(np.meshgrid(line, line, line), axis=-1).reshape(-1, 3))


def test_regions_that_go_round_are_about_the_axis() -> None:
    for name in object_names():
        model = load_object(name)
        for region in model.regions.values():
            if region.turn is Turn.ROUND:
                radius = np.linalg.norm(region.T_object_region[:2, 3])
                assert radius < model.size_m[1] / 2, name


def test_the_body_that_physics_makes_has_mass_centre_and_rest() -> None:
    """MuJoCo's body has the mass and centre of mass of the model, and stands by itself for a second."""
    mj = pytest.importorskip("mujoco")
    pytest.importorskip("dm_robotics.panda")
    from sagehand.world.model import build_model

    names = object_names()
    places = [translation(1.0 + 0.4 * (n % 6), 0.4 * (n // 6), 0.0005) for n in range(len(names))]
    objects = tuple(Placed(n, load_object(n), T) for n, T in zip(names, places, strict=True))
    world = build_model(Scene(objects, Table(x_m=(0.5, 4), y_m=(-1, 4))), load_robot())
    data = mj.MjData(world.model)
    mj.mj_forward(world.model, data)
    for placed in objects:
        body = world.model.body(placed.name)
        assert body.mass[0] == pytest.approx(placed.model.mass_kg, rel=1e-6)
        assert np.allclose(data.xipos[body.id] - placed.T_world_object[:3, 3], placed.model.com_m, atol=1e-6)
    data.qpos[: len(load_robot().home)] = load_robot().home
    for _ in range(500):
        mj.mj_step(world.model, data)
    for placed in objects:
        body = data.body(placed.name)
        up = body.xmat.reshape(3, 3)[2, 2]
        moved = np.linalg.norm(body.xpos - placed.T_world_object[:3, 3])
        assert up > np.cos(np.radians(3)), f"{placed.name} does not stand"
        assert moved < 0.004, f"{placed.name} wanders by {moved * 1000:.1f} mm"


def test_the_table_of_objects_is_current() -> None:
    assert made.PAGE.read_text(encoding="utf-8") == made.page(), "run scripts/make_object_table.py"
