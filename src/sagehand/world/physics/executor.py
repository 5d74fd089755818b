"""Grasps tried in MuJoCo: the executor, its trials, and scenes that come to rest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sagehand.world.approach import Approach
from sagehand.world.executor import Attempt, Observation, Put, PutCommand, Truth
from sagehand.world.failures import Failure
from sagehand.world.grasp import GraspCommand
from sagehand.world.noise import ExecutionNoise
from sagehand.world.nudge import nudged
from sagehand.world.physics.attempt import Try, clock_of
from sagehand.world.physics.control import Cell, Watch
from sagehand.world.physics.put import put_down
from sagehand.world.physics.reach import plan_reach
from sagehand.world.physics.setup import physics_model
from sagehand.world.refuse import ITSELF, meets_itself, refuse_overlap
from sagehand.world.robot.description import Robot, load_robot
from sagehand.world.robot.kinematics import Kinematics
from sagehand.world.rules import LIMIT_S
from sagehand.world.scene import Scene
from sagehand.world.trial import InHand, OneHand

__all__ = ["PhysicsExecutor", "PhysicsTrial", "settle"]


class PhysicsExecutor:
    """Tries grasps in MuJoCo."""

    def __init__(self, robot: Robot | str | None = None, watch: Watch | None = None) -> None:
        """Take a robot or the name of one.

        Args:
            robot: Default: the Panda.
            watch: Called as ``watch(data, model, time)`` thirty times in a second of the simulation, for pictures.
        """
        self.robot = robot if isinstance(robot, Robot) else load_robot(robot or "panda")
        self.kinematics = Kinematics(self.robot)
        self.watch = watch

    @property
    def name(self) -> str:
        """It is "physics"."""
        return "physics"

    def start(self, scene: Scene, noise: ExecutionNoise | None = None) -> PhysicsTrial:
        """Begin a trial in a scene whose objects are at rest (see :func:`settle`).

        Raises:
            MissingExtra: MuJoCo or the robot's model is not installed.
            InputError: Two objects, or one and the table, stand in one another.
        """
        return PhysicsTrial(scene, self.kinematics, noise, self.watch)


class PhysicsTrial(OneHand[InHand]):
    """One scene, in which grasps are tried one after the other."""

    def __init__(
        self, scene: Scene, kinematics: Kinematics, noise: ExecutionNoise | None = None, watch: Watch | None = None
    ) -> None:
        """Begin with the arm at home."""
        super().__init__(noise)
        self.kinematics = kinematics
        refuse_overlap(scene)
        self.cell = Cell(physics_model(scene, kinematics.robot), scene, watch)
        self._scene = scene

    @property
    def scene(self) -> Scene:
        """How things are now."""
        return self._scene.with_objects(o.at(self.cell.T_world(o.name)) for o in self._scene.objects)

    def grasp(self, command: GraspCommand) -> Attempt:
        """Carry out a grasp.

        Raises:
            InputError: Something is in the hand, or the trial was closed.
            UnknownName: The scene has no such object.
        """
        self._refuse_closed()
        self._refuse_full()
        scene, robot = self.scene, self.kinematics.robot
        scene[command.target]
        motion = self._motion()
        aim = command.moved(command.T_world_grasp @ motion.T_grasp_actual)
        force = min(command.force_n * motion.force_factor, robot.force_n[1])
        opening = float(np.clip(command.width_m, *robot.width_m))
        way = plan_reach(self.kinematics, scene, command, opening)
        if way.path is None:
            return _never(way, Failure.UNREACHABLE, way.why, 0.0)
        if meets_itself(way.gap, scene):
            return _never(way, Failure.UNREACHABLE, ITSELF, 0.0)
        clock = clock_of(robot, way.path, command)
        if why := clock.too_long(opening):
            return _never(way, Failure.TIMEOUT, why, LIMIT_S)
        if self._noise is not None:
            way = replace(way, path=nudged(self.kinematics, way.path, aim.T_world_grasp))
        attempt = Try(self.cell, self.kinematics, scene, aim, way, clock, opening, force)
        outcome = attempt.run()
        if attempt.held is not None and attempt.in_tcp is not None:
            self._in_hand = InHand(attempt.held, attempt.in_tcp)
        return outcome

    def put(self, command: PutCommand) -> Put:
        """Put down what is in the hand.

        Raises:
            InputError: Nothing is in the hand, or the trial was closed.
        """
        self._refuse_closed()
        held = self._what_is_held()
        put, still_held = put_down(
            self.cell, self.kinematics, self.scene, held.name, held.T_tcp_object, command, self._motion()
        )
        if not still_held:
            self._in_hand = None
        return put


def settle(scene: Scene, robot: Robot | str | None = None, longest_s: float = 3.0) -> Scene:
    """The scene with its objects where they come to rest, the arm at home.

    Args:
        scene: Objects near where they would rest; what stands in the air falls.
        robot: Default: the Panda.
        longest_s: What is not at rest after this time is taken as it is then [s].
    """
    which = robot if isinstance(robot, Robot) else load_robot(robot or "panda")
    cell = Cell(physics_model(scene, which), scene)
    cell.settle(longest_s)
    return scene.with_objects(o.at(cell.T_world(o.name)) for o in scene.objects)


def _never(way: Approach, failure: Failure, why: str, clock_s: float) -> Attempt:
    """A grasp that was not begun."""
    seen = Observation(False, way.ik.position_error_m, way.ik.rotation_error_rad, clock_s=clock_s)
    return Attempt(seen, Truth(False, failure, why=why))
