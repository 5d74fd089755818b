"""Grasps judged by geometry and statics: hundreds a second, and every failure has its reason.

The same phases as in physics: reach, the guarded last stretch, closing, lifting, holding, shaking; each is decided by a law
instead of being simulated (:mod:`~sagehand.world.analytic.descent`, :mod:`~sagehand.world.analytic.contact`,
:mod:`~sagehand.world.analytic.statics`, :mod:`~sagehand.world.analytic.lift`).
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import InputError
from sagehand.world.analytic.burden import Carried
from sagehand.world.analytic.cast import Caster
from sagehand.world.analytic.put import put_down
from sagehand.world.analytic.reach import Reacher
from sagehand.world.analytic.tries import Try
from sagehand.world.executor import Attempt, Put, PutCommand
from sagehand.world.frames import Pose
from sagehand.world.grasp import GraspCommand
from sagehand.world.noise import ExecutionNoise, Motion
from sagehand.world.objects.model import ObjectModel
from sagehand.world.refuse import refuse_overlap
from sagehand.world.robot.description import Robot, load_robot
from sagehand.world.scene import Scene

__all__ = ["AnalyticExecutor", "AnalyticTrial"]

Array = NDArray[np.float64]


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


class AnalyticTrial:
    """One scene, in which grasps are tried one after the other."""

    def __init__(self, executor: AnalyticExecutor, scene: Scene, noise: ExecutionNoise | None = None) -> None:
        """Begin with the arm at home."""
        self.executor = executor
        self._scene, self._noise = scene, noise
        self._held: str | None = None
        self._grip: Carried | None = None
        self._closed = False
        self._in_tcp: Pose = np.eye(4)
        self._felt = (0.0, 0.0)
        self._T_world_tcp: Pose = np.eye(4)
        self._clearance: Any = None

    @property
    def scene(self) -> Scene:
        """How things are now."""
        return self._scene

    @property
    def held(self) -> str | None:
        """Name of what is in the hand."""
        return self._held

    @property
    def clearance(self) -> Any:
        """Gaps of the robot in the scene as it is; None for a free-flying hand."""
        if self._clearance is None and self.executor.reacher is not None:
            self._clearance = self.executor.reacher.clearance(self._scene)
        return self._clearance

    def close(self) -> None:
        """End the trial; where things are can still be asked."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def grasp(self, command: GraspCommand) -> Attempt:
        """Carry out a grasp.

        Raises:
            InputError: Something is in the hand, or the trial was closed.
            UnknownName: The scene has no such object.
        """
        self._refuse_closed()
        if self._held is not None:
            raise InputError(f"the {self._held} is in the hand", hint="put it down first")
        self._scene[command.target]
        return Try(self, command, self._noise.motion() if self._noise is not None else None).run()

    def put(self, command: PutCommand) -> Put:
        """Put down what is in the hand.

        Raises:
            InputError: Nothing is in the hand, or the trial was closed.
        """
        self._refuse_closed()
        if self._held is None:
            raise InputError("nothing is in the hand", hint="grasp something first")
        grip, in_tcp, felt = self._grip, self._in_tcp, self._felt
        put, let_go = put_down(self, self._held, grip, in_tcp, self._T_world_tcp, command, self._motion(), felt)
        if let_go:
            self._held = self._grip = None
        return put

    def moved(self, name: str, T_world_object: Pose) -> None:
        """An object is elsewhere now."""
        self._scene = self._scene.with_objects(
            o.at(T_world_object) if o.name == name else o for o in self._scene.objects
        )
        if self._clearance is not None:
            self._clearance.move(name, T_world_object)

    def hold(
        self,
        name: str,
        T_grasp_object: Pose,
        T_world_tcp: Pose,
        grip: Carried | None = None,
        felt: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        """An object is in the hand, which is at a pose.

        Args:
            name: Which.
            T_grasp_object: (4, 4) where it is in the grasp frame [m].
            T_world_tcp: (4, 4) where the hand is [m].
            grip: What bears it, if that is known.
            felt: Width between the fingers [m] and force of each [N].
        """
        self._grip, self._felt = grip, felt
        self._held, self._in_tcp, self._T_world_tcp = name, T_grasp_object, T_world_tcp
        self.moved(name, T_world_tcp @ T_grasp_object)

    def _refuse_closed(self) -> None:
        if self._closed:
            raise InputError("this trial was closed", hint="start another one in its scene")

    def _motion(self) -> Motion:
        return self._noise.motion() if self._noise is not None else Motion(np.eye(4), 1.0)
