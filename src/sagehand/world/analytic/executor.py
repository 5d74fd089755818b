"""Grasps judged by geometry and statics: hundreds a second, and every failure has its reason.

The same phases as in physics: reach, the guarded last stretch, closing, lifting, holding, shaking; each is decided by a law
instead of being simulated (:mod:`~sagehand.world.analytic.descent`, :mod:`~sagehand.world.analytic.contact`,
:mod:`~sagehand.world.analytic.statics`, :mod:`~sagehand.world.analytic.lift`), and their order is
:mod:`~sagehand.world.analytic.tries`'s.
"""

from __future__ import annotations

from typing import Any

from sagehand.world.analytic.burden import InGrip
from sagehand.world.analytic.cast import Caster
from sagehand.world.analytic.put import put_down
from sagehand.world.analytic.reach import Reacher
from sagehand.world.analytic.setup import Cell
from sagehand.world.analytic.tries import Try
from sagehand.world.executor import Attempt, Put, PutCommand
from sagehand.world.frames import Pose
from sagehand.world.grasp import GraspCommand
from sagehand.world.noise import ExecutionNoise
from sagehand.world.objects.model import ObjectModel
from sagehand.world.refuse import refuse_overlap
from sagehand.world.robot.description import Robot, load_robot
from sagehand.world.scene import Scene
from sagehand.world.trial import OneHand

__all__ = ["AnalyticExecutor", "AnalyticTrial"]


class AnalyticExecutor:
    """Judges grasps by geometry and statics."""

    def __init__(self, robot: Robot | str | None = None, faithful: bool = False, *, reach: bool = True) -> None:
        """Take a robot.

        Args:
            robot: Its description, or name; default the Panda.
            faithful: Success is that no φ is below its threshold, as paper B has it (GRASPING §2).
            reach: Whether the arm has to come there, free of obstacles; without, a free-flying hand is judged.
        """
        self.robot = robot if isinstance(robot, Robot) else load_robot(robot or "panda")
        self.faithful = faithful
        self.reacher = Reacher(self.robot) if reach else None
        self._casters: dict[int, tuple[ObjectModel, Caster]] = {}

    @property
    def name(self) -> str:
        """As in a table of executors."""
        return "analytic"

    def start(self, scene: Scene, noise: ExecutionNoise | None = None) -> AnalyticTrial:
        """Begin a trial in a scene whose objects are at rest.

        Raises:
            InputError: Two objects, or one and the table, stand in one another.
        """
        refuse_overlap(scene)
        return AnalyticTrial(self, scene, noise)

    def caster(self, model: ObjectModel) -> Caster:
        """Rays against an object; made once."""
        kept = self._casters.get(id(model))
        if kept is None or kept[0] is not model:
            if len(self._casters) > 512:
                self._casters.clear()
            kept = self._casters[id(model)] = (model, Caster(model.solids))
        return kept[1]


class AnalyticTrial(OneHand[InGrip]):
    """One scene, in which grasps are tried one after the other."""

    def __init__(self, executor: AnalyticExecutor, scene: Scene, noise: ExecutionNoise | None = None) -> None:
        """Begin with the arm at home."""
        super().__init__(noise)
        self.executor = executor
        self._scene = scene
        self._clearance: Any = None

    @property
    def scene(self) -> Scene:
        """How things are now."""
        return self._scene

    @property
    def clearance(self) -> Any:
        """Gaps of the robot in the scene as it is; None for a free-flying hand."""
        if self._clearance is None and self.executor.reacher is not None:
            self._clearance = self.executor.reacher.clearance(self._scene)
        return self._clearance

    def grasp(self, command: GraspCommand) -> Attempt:
        """Carry out a grasp.

        Raises:
            InputError: Something is in the hand, or the trial was closed.
            UnknownName: The scene has no such object.
        """
        self._refuse_closed()
        self._refuse_full()
        self._scene[command.target]
        executor = self.executor
        motion = None if self._noise is None else self._noise.motion()
        cell = Cell(self._scene, executor.robot, executor.caster, executor.reacher, self.clearance)
        outcome = Try(cell, command, motion, executor.faithful).run()
        self._in_hand = outcome.in_hand
        for name, T_world_object in outcome.moved.items():
            self._move(name, T_world_object)
        return outcome.attempt

    def put(self, command: PutCommand) -> Put:
        """Put down what is in the hand.

        Raises:
            InputError: Nothing is in the hand, or the trial was closed.
        """
        self._refuse_closed()
        held, reacher = self._what_is_held(), self.executor.reacher
        kinematics = None if reacher is None else reacher.kinematics
        put, let_go = put_down(self._scene, kinematics, held, command, self._motion())
        if let_go:
            self._in_hand = None
            self._move(held.name, put.truth.T_world_object)
        return put

    def _move(self, name: str, T_world_object: Pose) -> None:
        """An object is elsewhere now."""
        self._scene = self._scene.with_objects(
            o.at(T_world_object) if o.name == name else o for o in self._scene.objects
        )
        if self._clearance is not None:
            self._clearance.move(name, T_world_object)
