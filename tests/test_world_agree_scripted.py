"""The scripted executor: answers as told, holds what it lifted, puts it where it is told."""

from __future__ import annotations

import numpy as np
import pytest

from sagehand.errors import InputError
from sagehand.world.agree.outcome import Outcome, outcome_of, plain
from sagehand.world.agree.plan import Item
from sagehand.world.agree.sample import Sample
from sagehand.world.executor import Attempt, Executor, Observation, PutCommand, Trial, Truth, blind
from sagehand.world.failures import Failure
from sagehand.world.frames import pose, translation
from sagehand.world.grasp import GraspCommand
from sagehand.world.objects.load import load_object
from sagehand.world.scene import Placed, Scene
from sagehand.world.scripted import ScriptedExecutor

CUBE = load_object("cube")
SCENE = Scene((Placed("target", CUBE, translation(0.5, 0.1)),))
COMMAND = GraspCommand("target", pose((0.5, 0.1, 0.02), np.diag([1.0, -1.0, -1.0])), 0.05, 8.0)


def test_it_is_an_executor_and_answers_in_order() -> None:
    executor: Executor = ScriptedExecutor([True, Truth(False, Failure.SLIP)], "mine")
    with executor.start(SCENE) as trial:
        assert isinstance(trial, Trial)
        assert trial.grasp(COMMAND).truth.success
        assert trial.held == "target"
    with executor.start(SCENE) as trial:
        assert trial.grasp(COMMAND).truth.failure is Failure.SLIP
        assert trial.held is None
        with pytest.raises(InputError, match="no answer left"):
            trial.grasp(COMMAND)


def test_a_planner_sees_observations_alone() -> None:
    said = Attempt(Observation(True, 0.0, 0.0, finger_width_m=0.04), Truth(True, lifted="target"))
    hand, kept = blind(ScriptedExecutor([said]).start(SCENE))
    assert hand.grasp(COMMAND) == said.observation
    assert kept == [said]


def test_what_is_put_down_stands_where_the_hand_was() -> None:
    trial = ScriptedExecutor([True]).start(SCENE)
    trial.grasp(COMMAND)
    put = trial.put(PutCommand(COMMAND.T_world_grasp + pose((0.1, 0, 0)) - np.eye(4)))
    assert put.truth.success
    assert trial.scene["target"].T_world_object[:3, 3] == pytest.approx([0.6, 0.1, 0.0])
    assert trial.held is None
    with pytest.raises(InputError, match="nothing is in the hand"):
        trial.put(PutCommand(COMMAND.T_world_grasp))


def sample() -> Sample:
    return Sample(
        Item(4, "cube", "good", 0),
        "",
        {"target": ("cube", SCENE["target"].T_world_object, None)},
        COMMAND,
        True,
        1.0,
        {"target": CUBE},
    )


def test_an_outcome_survives_plain_data() -> None:
    truth = Truth(False, Failure.DROP, why="it fell", details={"margin": 0.25, "at": np.array([1.0, np.nan])})
    made = outcome_of(ScriptedExecutor([truth], "physics"), sample())
    assert (made.verdict, made.margin, made.number) == ("drop", 0.25, 4)
    assert made.truth["details"]["at"] == [1.0, None]
    assert Outcome.from_dict(made.to_dict()).to_dict() == made.to_dict()
    assert made.seconds > 0


def test_ctrl_c_is_no_outcome() -> None:
    def answer(scene: Scene, command: GraspCommand) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        outcome_of(ScriptedExecutor(answer), sample())


def test_plain_data() -> None:
    assert plain({"a": (np.float64(1.25), np.int64(3), None, True, Failure.SLIP)}) == {
        "a": [1.25, 3, None, True, "slip"]
    }
