"""Gaps between robot and scene: known ones, every pair measured the long way round, what is measured on the Panda."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagehand.errors import InputError, UnknownName
from sagehand.world.clearance import CAP_M, DEEPEST_M, Clearance
from sagehand.world.envelope import Boxes, Envelope, lower_bound
from sagehand.world.frames import Pose, axis_rotation, rotation_of, rpy, translation
from sagehand.world.model import build_model
from sagehand.world.objects.model import ObjectModel
from sagehand.world.objects.shapes import Box, Capsule, Cylinder, Ellipsoid, Shape, Shell, Sphere, solids_of
from sagehand.world.robot.description import load_robot
from sagehand.world.robot.kinematics import Kinematics
from sagehand.world.scene import Placed, Scene

mujoco = pytest.importorskip("mujoco")
pytest.importorskip("dm_robotics.panda")
pytest.importorskip("frankik")

PANDA = load_robot("panda")
KINEMATICS = Kinematics(PANDA)
DOWN = axis_rotation("x", math.pi)


def thing(name: str, shape: Shape, T: Pose, lift: float = 0.0) -> Placed:
    solids = tuple(solids_of(shape, translation(z=lift)))
    return Placed(name, ObjectModel(name, name, "thing", "wood", 0.0, 0.1, 0.5, 50.0, solids, {}), T)


def joints(T: Pose) -> Any:
    answer = KINEMATICS.inverse(T)
    assert answer.q is not None
    return answer.q


def the_long_way(scene: Scene, q: Any, width: float, ignore: tuple[str, ...] = ()) -> float:
    """Every geom of the robot against every geom of the scene in a compiled model of both."""
    world = build_model(scene, PANDA)
    model = world.model
    data = mujoco.MjData(model)
    mujoco.mj_resetData(model, data)
    data.qpos[:7] = q
    for name in ("hand/panda_finger_joint1", "hand/panda_finger_joint2"):
        data.qpos[model.joint(name).qposadr[0]] = width / 2
    mujoco.mj_kinematics(model, data)
    robot, others = [], []
    for geom in range(model.ngeom):
        body = model.body(int(model.geom_bodyid[geom])).name
        if not model.geom_contype[geom] or body == "panda_link0" or body in ignore:
            continue
        (others if body in {"world", *world.names} else robot).append(geom)
    gaps = [mujoco.mj_geomDistance(model, data, a, b, 1.0, None) for a in robot for b in others]
    return float(min(gaps))


def test_bodies_are_where_mujoco_has_them() -> None:
    envelope = Envelope.of(PANDA)
    model = build_model(Scene(()), PANDA).model
    data = mujoco.MjData(model)
    geoms = [g for g in range(model.ngeom) if model.geom_contype[g] and model.geom_bodyid[g]]
    assert len(geoms) == len(envelope.geoms) >= 16
    rng = np.random.default_rng(0)
    Q = rng.uniform(PANDA.lower, PANDA.upper, (20, 7))
    placed = envelope.place(Q, 0.05)
    places = np.array([[placed.pose(row, number) for number in range(len(geoms))] for row in range(len(Q))])
    rows, bodies = (n.ravel() for n in np.indices(places.shape[:2]))
    about = placed.boxes(rows, bodies)
    np.testing.assert_allclose(about.axes, places[rows, bodies, :3, :3], atol=1e-12)
    for row, q in enumerate(Q):
        data.qpos[:7] = q
        data.qpos[7:9] = 0.025
        mujoco.mj_kinematics(model, data)
        np.testing.assert_allclose(places[row, :, :3, 3], data.geom_xpos[geoms], atol=1e-9)
        turns = data.geom_xmat[geoms].reshape(-1, 3, 3)
        np.testing.assert_allclose(places[row, :, :3, :3], turns, atol=1e-9)
        middles = data.geom_xpos[geoms] + np.matmul(turns, model.geom_aabb[geoms, :3, None])[..., 0]
        np.testing.assert_allclose(placed.centre[row], middles, atol=1e-9)


@given(
    st.tuples(*[st.floats(-0.3, 0.3)] * 3),
    st.tuples(*[st.floats(0.005, 0.1)] * 6),
    st.tuples(*[st.floats(-1, 1)] * 8).filter(lambda v: math.hypot(*v[:4]) > 0.1 and math.hypot(*v[4:]) > 0.1),
)
@settings(deadline=None, max_examples=80)
def test_a_lower_bound_is_one(
    shift: tuple[float, float, float], halves: tuple[float, ...], turns: tuple[float, ...]
) -> None:
    spec = mujoco.MjSpec()
    for name, half in (("a", halves[:3]), ("b", halves[3:])):
        spec.worldbody.add_geom(name=name, type=mujoco.mjtGeom.mjGEOM_BOX, size=list(half))
    model = spec.compile()
    data = mujoco.MjData(model)
    R = [rotation_of(turns[:4]), rotation_of(turns[4:])]
    data.geom_xpos[1] = shift
    data.geom_xpos[0] = 0
    data.geom_xmat[:] = [r.ravel() for r in R]
    measured = mujoco.mj_geomDistance(model, data, 0, 1, 5.0, None)
    first = Boxes(np.zeros((1, 3)), R[0][None], np.array([halves[:3]]))
    second = Boxes(np.array([shift]), R[1][None], np.array([halves[3:]]))
    assert lower_bound(first, second)[0] <= measured + 1e-6
    assert lower_bound(second, first)[0] == pytest.approx(lower_bound(first, second)[0])


@pytest.mark.parametrize("gap", [0.04, 0.01, 0.001, -0.001, -0.005])
def test_a_known_gap_below_the_tips(gap: float) -> None:
    """The tips stand 9 mm beyond the TCP (8.9 mm by the pads' box): what is under them is that much nearer."""
    height = 0.2
    width = 0.02
    block = thing("block", Box((0.02, 0.2, 0.1)), translation(0.5, 0, height - 0.0089 - gap - 0.05))
    found = Clearance(Scene((block,)), PANDA).at(joints(translation(0.5, 0, height) @ DOWN), width)
    assert found.distance_m == pytest.approx(gap, abs=1e-5)
    assert found.other == "block"
    assert found.robot_part in {"pad0", "pad1"}
    assert not found.arm
    assert found.free == (gap > 0)


@pytest.mark.parametrize("gap", [0.03, 0.002, -0.004])
@pytest.mark.parametrize(
    ("shape", "reach"), [(Box((0.06, 0.06, 0.06)), 0.03), (Sphere(0.03), 0.03), (Cylinder(0.03, 0.06), 0.03)]
)
def test_a_known_gap_beside_the_palm(gap: float, shape: Shape, reach: float) -> None:
    """The palm reaches 104 mm to each side along the closing axis."""
    T = translation(0.5, 0, 0.3) @ DOWN
    palm = T @ np.linalg.inv(PANDA.T_hand_tcp) @ translation(*PANDA.hand_boxes[0].centre)
    side = np.array([*(palm[:3, 3] + palm[:3, 1] * (PANDA.hand_boxes[0].half[1] + gap + reach))])
    found = Clearance(Scene((thing("it", shape, translation(*side)),)), PANDA).at(joints(T), 0.08)
    assert found.distance_m == pytest.approx(gap, abs=2e-5)
    assert (found.robot_part, found.other) == ("palm", "it")


@pytest.mark.parametrize("seed", range(6))
def test_the_least_of_all_pairs_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shapes: list[tuple[Shape, float]] = [
        (Shell(0.035, 0.045, 0.08, 0.003, 0.004), 0.0),
        (Box((0.05, 0.08, 0.12)), 0.06),
        (Capsule(0.02, 0.1), 0.05),
        (Ellipsoid((0.04, 0.03, 0.035)), 0.035),
        (Cylinder(0.03, 0.1), 0.05),
    ]
    objects = []
    for number, (shape, lift) in enumerate(shapes):
        T = translation(*rng.uniform((0.4, -0.15), (0.6, 0.15)), 0) @ axis_rotation("z", rng.uniform(-3, 3))
        objects.append(thing(f"thing{number}", shape, T, lift))
    scene = Scene(tuple(objects))
    clearance = Clearance(scene, PANDA)
    width = float(rng.uniform(0, 0.08))
    path = []
    for _ in range(4):
        T = translation(*rng.uniform((0.4, -0.15, 0.1), (0.6, 0.15, 0.25))) @ rpy(math.pi, *rng.uniform(-0.5, 0.5, 2))
        path.append(joints(T))
    wanted = [the_long_way(scene, q, width) for q in path]
    for q, gap in zip(path, wanted, strict=True):
        found = clearance.at(q, width).distance_m
        if gap > DEEPEST_M:
            assert found == pytest.approx(min(gap, CAP_M), abs=1e-5)
        else:
            assert found <= DEEPEST_M
    least = clearance.along(np.array(path), width)
    if min(wanted) > DEEPEST_M:
        assert least.distance_m == pytest.approx(min(*wanted, CAP_M), abs=1e-5)
        if least.other:
            assert wanted[least.row] == pytest.approx(min(wanted), abs=1e-5)
    ignored = ("thing0", "thing1")
    gap = the_long_way(scene, path[0], width, ignored)
    if gap > DEEPEST_M:
        assert clearance.at(path[0], width, ignored).distance_m == pytest.approx(min(gap, CAP_M), abs=1e-5)


def test_what_is_ignored_or_moved_away_is_not_met() -> None:
    T = translation(0.5, 0, 0.05) @ DOWN
    q = joints(T)
    block = thing("block", Box((0.05, 0.05, 0.1)), translation(0.5, 0, 0.05))
    clearance = Clearance(Scene((block,)), PANDA)
    assert clearance.at(q, 0.03).other == "block"
    assert not clearance.at(q, 0.03).free
    without = clearance.at(q, 0.03, ignore=("block",))
    assert without.other == "table"
    assert without.distance_m == pytest.approx(0.05 - 0.0089, abs=1e-4)
    assert clearance.at(q, 0.03, ignore=("block", "table")).distance_m == CAP_M
    clearance.move("block", translation(0.75, 0.3, 0.05))
    assert clearance.at(q, 0.03).other == "table"
    clearance.move("block", translation(0.5, 0, 0.05))
    assert clearance.at(q, 0.03).other == "block"


def test_far_from_everything_is_the_cap() -> None:
    found = Clearance(Scene(()), PANDA).at(PANDA.home, 0.08)
    assert (found.distance_m, found.robot_part, found.other, found.free) == (CAP_M, "", "", True)


def test_an_opened_hand_needs_more_room() -> None:
    q = joints(translation(0.5, 0, 0.1) @ DOWN)
    wall = thing("wall", Box((0.2, 0.02, 0.12)), translation(0.5, 0.065, 0.04))  # its near face is at y = 0.055
    clearance = Clearance(Scene((wall,)), PANDA)
    opened, closed = clearance.at(q, 0.08), clearance.at(q, 0.0)
    assert closed.distance_m - opened.distance_m > 0.005
    assert opened.robot_part[:3] in {"pad", "fin"}


def test_the_arm_over_itself_overlaps_and_home_does_not() -> None:
    clearance = Clearance(Scene(()), PANDA)
    assert clearance.at(PANDA.home, 0.08).free
    folded = PANDA.home.copy()
    folded[5] = PANDA.lower[5]  # the hand folded back onto the forearm
    found = clearance.at(folded, 0.08)
    assert not found.free
    assert {found.robot_part, found.other} & {"palm", "panda_link5", "panda_link7"}
    model = build_model(Scene(()), PANDA).model
    data = mujoco.MjData(model)
    data.qpos[:7] = folded
    data.qpos[7:9] = 0.04
    mujoco.mj_forward(model, data)
    assert data.ncon > 0  # the physics calls it a contact, too
    data.qpos[:7] = PANDA.home
    mujoco.mj_forward(model, data)
    assert data.ncon == 0


def test_bad_questions_are_refused() -> None:
    clearance = Clearance(Scene((thing("block", Box((0.05, 0.05, 0.1)), translation(0.5, 0, 0.05)),)), PANDA)
    with pytest.raises(UnknownName, match="block"):
        clearance.at(PANDA.home, 0.08, ignore=("blok",))
    with pytest.raises(UnknownName, match="block"):
        clearance.move("table", np.eye(4))
    with pytest.raises(InputError, match="rigid"):
        clearance.move("block", np.zeros((4, 4)))
    with pytest.raises(InputError, match="7 finite"):
        clearance.at([0.0] * 6, 0.08)


def test_threads_do_not_disturb_each_other() -> None:
    scenes = [Scene((thing("it", Sphere(0.02 + 0.001 * n), translation(0.5, 0, 0.05 + 0.002 * n)),)) for n in range(6)]
    q = joints(translation(0.5, 0, 0.1) @ DOWN)

    def gap(scene: Scene) -> list[float]:
        clearance = Clearance(scene, PANDA)
        return [clearance.at(q, 0.02).distance_m for _ in range(10)]

    alone = [gap(scene) for scene in scenes]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(gap, scenes)) == alone


def lowest(tilt_deg: float) -> float:
    """The lowest TCP at which some posture keeps the robot off the table, leaning by so much below horizontal."""
    clearance = Clearance(Scene(()), PANDA)
    turn = axis_rotation("y", math.radians(90 + tilt_deg))
    for z in np.arange(0.006, 0.08, 0.002):
        for x in (0.45, 0.65):
            for q in KINEMATICS.all_inverse(translation(x, 0, z) @ turn, 6):
                if clearance.at(q, 0.04).free:
                    return float(z)
    return math.inf


@pytest.mark.parametrize(("tilt_deg", "height_m"), [(0, 0.05), (10, 0.033), (20, 0.015)])
def test_how_low_a_flat_approach_can_be(tilt_deg: float, height_m: float) -> None:  # GRASPING §1
    assert lowest(tilt_deg) == pytest.approx(height_m, abs=0.0105)


def test_the_tips_meet_the_table_9_mm_below_the_tcp() -> None:  # GRASPING §1
    clearance = Clearance(Scene(()), PANDA)
    assert not clearance.at(joints(translation(0.5, 0, 0.008) @ DOWN), 0.04).free
    assert clearance.at(joints(translation(0.5, 0, 0.010) @ DOWN), 0.04).free
