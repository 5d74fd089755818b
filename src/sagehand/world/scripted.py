"""An executor that answers as it is told: for tests of what stands on executors, without physics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from sagehand.errors import InputError
from sagehand.world.executor import Attempt, Observation, Put, PutCommand, PutTruth, Truth
from sagehand.world.grasp import GraspCommand
from sagehand.world.noise import ExecutionNoise
from sagehand.world.scene import Scene
from sagehand.world.trial import InHand, OneHand

__all__ = ["ScriptedExecutor", "ScriptedTrial"]

Answer = Truth | Attempt | bool


class ScriptedExecutor:
    """Answers grasps from a list, one after the other over all trials, or by a function of scene and command."""

    def __init__(
        self, answers: Iterable[Answer] | Callable[[Scene, GraspCommand], Answer], name: str = "scripted"
    ) -> None:
        """Take the answers: a whole attempt, only what was true, or just whether it succeeded."""
        self._ask: Callable[[Scene, GraspCommand], Answer]
        if callable(answers):
            self._ask = answers
        else:
            left: Iterator[Answer] = iter(answers)
            self._ask = lambda scene, command: _next(left)
        self._name = name
        self.commands: list[GraspCommand] = []

    @property
    def name(self) -> str:
        """As it was called."""
        return self._name

    def start(self, scene: Scene, noise: ExecutionNoise | None = None) -> ScriptedTrial:
        """Begin a trial; noise moves nothing."""
        return ScriptedTrial(self, scene)

    def answer(self, scene: Scene, command: GraspCommand) -> Attempt:
        """The next answer.

        Raises:
            InputError: The list is used up.
        """
        self.commands.append(command)
        told = self._ask(scene, command)
        if isinstance(told, Attempt):
            return told
        truth = told if isinstance(told, Truth) else Truth(told, lifted=command.target if told else None)
        done = truth.success
        seen = Observation(True, 0.0, 0.0, contact=done, lifted_in_view=done, held_in_view=done)
        return Attempt(seen, truth)


class ScriptedTrial(OneHand[InHand]):
    """A scene in which nothing moves but what is held, and that goes where it is put; it answers after its end, too."""

    def __init__(self, executor: ScriptedExecutor, scene: Scene) -> None:
        """Begin with an empty hand."""
        super().__init__()
        self._executor, self._scene = executor, scene

    @property
    def scene(self) -> Scene:
        """How things are."""
        return self._scene

    def grasp(self, command: GraspCommand) -> Attempt:
        """Answer as told; what was lifted is in the hand."""
        attempt = self._executor.answer(self._scene, command)
        if attempt.truth.success:
            placed = self._scene[command.target]
            self._in_hand = InHand(placed.name, np.linalg.inv(command.T_world_grasp) @ placed.T_world_object)
        return attempt

    def put(self, command: PutCommand) -> Put:
        """Put down what is in the hand, exactly where told.

        Raises:
            InputError: Nothing is in the hand.
        """
        held = self._what_is_held()
        T = np.asarray(command.T_world_grasp @ held.T_tcp_object)
        self._scene = self._scene.with_objects(o.at(T) if o.name == held.name else o for o in self._scene.objects)
        self._in_hand = None
        return Put(Observation(True, 0.0, 0.0), PutTruth(True, T, 0.0, 0.0))


def _next(answers: Iterator[Answer]) -> Answer:
    try:
        return next(answers)
    except StopIteration:
        raise InputError("the script has no answer left", hint="give one for each grasp") from None
