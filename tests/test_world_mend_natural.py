"""Natural grasps: the force that nature needs and bears, and a way that the arm can go."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from sagehand.world.analytic.executor import AnalyticExecutor
from sagehand.world.failures import Failure
from sagehand.world.force import grasping_force, needed_force
from sagehand.world.frames import translation
from sagehand.world.grasp import Grasp
from sagehand.world.grip import grip, holding_force
from sagehand.world.natural import auto_grasp, grasp_for
from sagehand.world.objects.load import instance_names, object_names, resolve
from sagehand.world.objects.model import ObjectModel
from sagehand.world.objects.shapes import Box, solids_of
from sagehand.world.robot.description import load_robot
from sagehand.world.robot.kinematics import Kinematics
from sagehand.world.scene import Placed, Scene
from sagehand.world.scenes import load_scene, scene_names, single
from sagehand.world.tries import chosen_grasp, executor_for, try_grasp

pytest.importorskip("frankik")
pytest.importorskip("mujoco")

ROBOT = load_robot()
ARM = Kinematics(ROBOT)
MIDDLE = translation(0.5, 0.0)
UP = np.array([0.0, 0.0, 1.0])
ALONE = AnalyticExecutor(ROBOT, reach=False)
"""A hand without an arm: contact and statics alone."""


def natural() -> Iterator[tuple[str, ObjectModel, Grasp]]:
    """The natural grasps of every region that fits the hand, of every object."""
    for name in object_names():
        model = resolve(name)
        for region in model.regions.values():
            if region.width_m <= ROBOT.widest_m:
                yield f"{name}, {region.name}", model, grasp_for(model, region.name, MIDDLE, ROBOT, kinematics=ARM)


GRASPS = {name: (model, grasp) for name, model, grasp in natural()}


def required(model: ObjectModel, grasp: Grasp) -> float | None:
    """What the executor says that the lift needs [N], tried with all that the hand has, on a thing that nothing harms."""
    hard = replace(model, f_safe_n=1e3)
    with ALONE.start(Scene((Placed("it", hard, MIDDLE),))) as trial:
        strong = replace(grasp, force_n=ROBOT.force_n[1])
        return trial.grasp(strong.at(MIDDLE, "it")).truth.required_n


def test_the_force_needed_is_that_of_the_executors_statics() -> None:
    compared = 0
    for name, (model, grasp) in GRASPS.items():
        true = required(model, grasp)
        if true is not None and math.isfinite(true):
            compared += 1
            assert needed_force(model, grasp, UP, ROBOT) == pytest.approx(true, rel=0.01), name
    assert compared > 0.8 * len(GRASPS)


def test_the_searchs_law_asks_for_no_less_than_the_statics() -> None:
    """Two laws for one thing: the coarse one is never more than 20 % below GripStatics, so what it finds holds."""
    ratios = {}
    for name, (model, grasp) in GRASPS.items():
        true = required(model, grasp)
        if true is None or not math.isfinite(true):
            continue
        T = grasp.T_object_grasp[None]
        touched = grip(model, T, np.array([grasp.width_m]), ROBOT)
        ratios[name] = float(holding_force(model, T, touched, UP)[0]) / true
    low = {name: round(ratio, 2) for name, ratio in ratios.items() if ratio < 0.8}
    assert not low
    assert len(ratios) > 0.8 * len(GRASPS)
    assert float(np.median(list(ratios.values()))) < 2.0


def test_no_natural_grasp_presses_more_than_is_safe() -> None:
    for name, (model, grasp) in GRASPS.items():
        with ALONE.start(Scene((Placed("it", model, MIDDLE),))) as trial:
            truth = trial.grasp(grasp.at(MIDDLE, "it")).truth
        assert truth.applied_n <= model.f_safe_n + 1e-9, name
        assert truth.failure not in {Failure.DEFORMATION, Failure.FORCE_DAMAGE}, name


def test_what_needs_more_than_is_safe_is_held_with_what_is_safe() -> None:
    solids = tuple(solids_of(Box((0.04, 0.04, 0.04)), translation(z=0.02)))
    needs = 0.5 * 11.81 / (2 * 0.4)
    tender = ObjectModel("c", "c", "c", "fruit", 0, 0.5, 0.4, 0.5 * needs, solids, {})
    grasp = Grasp.from_axes((0, 0, 0.02), (0, 0, -1), (0, 1, 0), width_m=0.05, force_n=1)
    force = grasping_force(tender, grasp, UP, ROBOT)
    assert force <= 0.5 * needs
    assert force > 0.5 * needs - 0.5 * 0.5 * 2 * math.sqrt(2) - 1e-9  # the shake along the closing axis comes on top
    with ALONE.start(Scene((Placed("c", tender, MIDDLE),))) as trial:
        assert trial.grasp(replace(grasp, force_n=force).at(MIDDLE, "c")).truth.failure is Failure.SLIP


@pytest.mark.parametrize("name", ["light-bulb", "bottle", "crisp-bag"])
def test_these_failed_as_they_come_out_of_the_box(name: str) -> None:
    scene = single(name)
    grasp = chosen_grasp(scene, name, "auto", ROBOT)
    truth = try_grasp(scene, name, grasp, executor_for("analytic", ROBOT)).attempt.truth
    assert truth.success, truth.why
    assert truth.required_n is not None
    assert grasp.force_n == pytest.approx(1.5 * truth.required_n, rel=0.02)


def test_a_region_that_the_arm_cannot_come_to_is_passed_over() -> None:
    """Inverse kinematics reaches the bottle's first region, but no straight way leads there."""
    model = resolve("bottle")
    regions = list(model.regions)
    grasp = auto_grasp(model, MIDDLE, ROBOT, kinematics=ARM)
    assert grasp.region != regions[0]
    assert ARM.inverse(MIDDLE @ grasp.T_object_grasp).reached


def test_in_a_scene_the_turn_is_chosen_by_what_stands_in_the_way() -> None:
    """A can taken from the side; a wall stands where the arm would come from by itself."""
    can, wall = resolve("can"), tuple(solids_of(Box((0.02, 0.10, 0.20)), translation(z=0.10)))
    post = ObjectModel("wall", "wall", "wall", "wood", 0, 1.0, 0.4, 70, wall, {})
    free = grasp_for(can, "body", MIDDLE, ROBOT, kinematics=ARM)
    scene = Scene((Placed("can", can, MIDDLE), Placed("wall", post, translation(0.42, 0.0))))
    grasp = grasp_for(can, "body", MIDDLE, ROBOT, kinematics=ARM, scene=scene)
    executor = AnalyticExecutor(ROBOT)

    def tried(what: Grasp) -> bool:
        return try_grasp(scene, "can", what, executor).attempt.truth.success

    assert tried(grasp)
    assert not tried(free)


def test_water_counts_in_the_force() -> None:
    cup = resolve("cup")
    forces = []
    for filled in (0.0, 0.8):
        scene = Scene((Placed("mine", cup, MIDDLE, filled),))
        forces.append(grasp_for(cup, "rim", MIDDLE, ROBOT, kinematics=ARM, scene=scene, target="mine").force_n)
    assert forces[1] > 1.5 * forces[0]


def check(name: str, seed: int | None) -> None:
    scene = load_scene(name, seed)
    target = scene.objects[0].name
    grasp = chosen_grasp(scene, target, "auto", ROBOT)
    truth = try_grasp(scene, target, grasp, executor_for("analytic", ROBOT)).attempt.truth
    assert truth.success, (name, seed, grasp.region, truth.why)


@pytest.mark.slow
@pytest.mark.parametrize("name", object_names())
def test_every_object_is_taken_as_it_comes_out_of_the_box(name: str) -> None:
    check(name, None)
    for instance in instance_names(name):
        check(f"{name}/{instance}", None)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*object_names("tasks"), *scene_names()])
def test_and_wherever_it_stands(name: str) -> None:
    for seed in (None, 1, 2):
        check(name, seed)
