"""What all trials share: open until closed, one thing in the hand or none; and grasps that tell what they move."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sagehand.errors import InputError
from sagehand.world.analytic.executor import AnalyticExecutor
from sagehand.world.analytic.setup import Cell
from sagehand.world.analytic.tries import Try
from sagehand.world.executor import Executor, PutCommand, Trial
from sagehand.world.frames import pose, translation
from sagehand.world.grasp import GraspCommand
from sagehand.world.scene import Placed, Scene
from sagehand.world.scripted import ScriptedExecutor
from world_physics_things import DOWN, block

SCENE = Scene((Placed("it", block(0.04), translation(0.5)),))
GOOD = GraspCommand("it", pose((0.5, 0.0, 0.02), DOWN), 0.06, 10.0)
PUT = PutCommand(pose((0.5, 0.0, 0.021), DOWN))


def physics() -> Executor:
    pytest.importorskip("mujoco")
    pytest.importorskip("frankik")
    from sagehand.world.physics.executor import PhysicsExecutor

    return PhysicsExecutor()


EXECUTORS: dict[str, Callable[[], Executor]] = {
    "analytic": lambda: AnalyticExecutor(reach=False),
    "physics": physics,
    "scripted": lambda: ScriptedExecutor([True, True]),
}


@pytest.mark.parametrize("name", EXECUTORS)
def test_a_hand_is_empty_then_full_then_empty(name: str) -> None:
    with EXECUTORS[name]().start(SCENE) as trial:
        assert isinstance(trial, Trial)
        assert trial.held is None
        with pytest.raises(InputError, match="nothing is in the hand"):
            trial.put(PUT)
        assert trial.grasp(GOOD).truth.success
        assert trial.held == "it"
        assert trial.put(PUT).truth.success
        assert trial.held is None


@pytest.mark.parametrize("name", ["analytic", "physics"])
def test_a_full_hand_and_a_closed_trial_grasp_nothing(name: str) -> None:
    with EXECUTORS[name]().start(SCENE) as trial:
        assert trial.grasp(GOOD).truth.success
        with pytest.raises(InputError, match="the it is in the hand"):
            trial.grasp(GOOD)
    for again in (lambda: trial.grasp(GOOD), lambda: trial.put(PUT)):
        with pytest.raises(InputError, match="this trial was closed"):
            again()
    assert trial.held == "it"
    assert trial.scene["it"].T_world_object[2, 3] > 0.1


def test_a_scripted_trial_answers_after_its_end() -> None:
    with ScriptedExecutor([True]).start(SCENE) as trial:
        pass
    assert trial.grasp(GOOD).truth.success


def test_a_grasp_by_itself_tells_what_it_moves_and_moves_nothing() -> None:
    hand = AnalyticExecutor(reach=False)
    cell = Cell(SCENE, hand.robot, hand.caster)
    good = Try(cell, GOOD).run()
    assert good.in_hand is not None
    assert good.in_hand.name == "it"
    assert list(good.moved) == ["it"]
    assert good.moved["it"][2, 3] == pytest.approx(GOOD.lift_m, abs=1e-6)
    beside = Try(cell, GOOD.moved(translation(0.1) @ GOOD.T_world_grasp)).run()
    assert beside.in_hand is None
    assert beside.moved == {}
    assert np.array_equal(cell.scene["it"].T_world_object, translation(0.5))
