"""One try: a grasp of one object of a scene, in one executor, and everything that was noticed and true."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sagehand.errors import InputError, UnknownName
from sagehand.world.executor import Attempt, Executor
from sagehand.world.frames import Pose, axis_rotation, pose, quat_xyzw
from sagehand.world.grasp import Grasp, GraspCommand
from sagehand.world.natural import auto_grasp, grasp_for
from sagehand.world.noise import ExecutionNoise
from sagehand.world.robot.description import Robot
from sagehand.world.robot.kinematics import Kinematics
from sagehand.world.scene import Scene

__all__ = ["EXECUTORS", "TryResult", "adjusted", "chosen_grasp", "executor_for", "grasp_for", "read_grasp", "try_grasp"]

EXECUTORS = ("analytic", "physics")
"""Where a grasp can be tried."""
_SHAPE = "it holds position_m [m], quat_xyzw, width_m [m] and force_n [N]"


@dataclass(frozen=True, eq=False)
class TryResult:
    """What became of a grasp.

    Attributes:
        scene: The scene as it was before.
        target: Name of the object that was to be grasped.
        executor: Where it was tried.
        grasp: In the object's frame.
        command: In the world's.
        attempt: What the robot noticed, and what was true.
        seconds: Time that the try took on this machine [s].
        setup_seconds: Time that it took before, to set up the scene [s].
    """

    scene: Scene
    target: str
    executor: str
    grasp: Grasp
    command: GraspCommand
    attempt: Attempt
    seconds: float
    setup_seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """As plain data, lengths in metres, forces in newtons, angles in radians.

        ``observation.clock_s`` is the robot's time, ``run_s`` and ``setup_s`` that of this machine.
        """
        truth, placed = self.attempt.truth, self.scene[self.target]
        return {
            "target": self.target,
            "object": placed.model.name,
            "executor": self.executor,
            "success": truth.success,
            "failure": None if truth.failure is None else str(truth.failure),
            "terminal": None if truth.terminal is None else str(truth.terminal),
            "why": truth.why,
            "quality": None if truth.quality is None else truth.quality.to_dict(),
            "required_n": _plain(truth.required_n),
            "applied_n": _plain(truth.applied_n),
            "safe_n": _plain(placed.model.f_safe_n),
            "slip_m": _plain(truth.slip_m),
            "turn_rad": _plain(truth.turn_rad),
            "lifted": truth.lifted,
            "neighbours_m": _plain(dict(truth.neighbours_m)),
            "details": _plain(dict(truth.details)),
            "observation": _plain(asdict(self.attempt.observation)),
            "grasp": _plain(self.grasp.to_dict()),
            "T_world_object": _plain(placed.T_world_object),
            "run_s": round(self.seconds, 4),
            "setup_s": round(self.setup_seconds, 4),
        }


def executor_for(
    name: str, robot: Robot, *, faithful: bool = False, watch: Callable[..., None] | None = None
) -> Executor:
    """The executor of a name.

    Args:
        name: "analytic" or "physics".
        robot: Whose arm and hand.
        faithful: The analytic one judges by the paper's factors alone (GRASPING §2).
        watch: Called by the physics every few steps with its data, its model and the time.

    Raises:
        UnknownName: There is none of this name.
        InputError: ``faithful`` was asked of the physics, which knows no factors.
    """
    if name == "analytic":
        from sagehand.world.analytic.executor import AnalyticExecutor

        return AnalyticExecutor(robot, faithful=faithful)
    if name == "physics":
        if faithful:
            raise InputError("the physics cannot be faithful to the paper's factors", hint="use the analytic executor")
        from sagehand.world.physics.executor import PhysicsExecutor

        return PhysicsExecutor(robot, watch=watch)
    raise UnknownName("executor", name, EXECUTORS)


def chosen_grasp(scene: Scene, target: str, wanted: str, robot: Robot, force_n: float | None = None) -> Grasp:
    """The grasp that is asked for: of a region by name, the first that suits ("auto"), or of a file (``*.json``).

    Raises:
        UnknownName: The scene has no such object, or the object no such region.
        InputError: The file cannot be used.
    """
    placed = scene[target]
    if force_n is not None:
        _within("the force", force_n, robot.force_n, robot, 1, "N")
    if Path(wanted).suffix == ".json":
        grasp = read_grasp(Path(wanted))
        return grasp if force_n is None else replace(grasp, force_n=force_n)
    rest: dict[str, Any] = {"kinematics": Kinematics(robot), "force_n": force_n, "scene": scene, "target": target}
    if wanted == "auto":
        return auto_grasp(placed.model, placed.T_world_object, robot, **rest)
    if wanted not in placed.model.regions:
        raise UnknownName(
            f"region of {placed.model.name}", wanted, placed.model.regions, hint="or `auto`, or a grasp file, *.json"
        )
    return grasp_for(placed.model, wanted, placed.T_world_object, robot, **rest)


def read_grasp(path: Path) -> Grasp:
    """A grasp from a JSON file: the fields of :class:`~sagehand.world.grasp.Grasp`, or what ``world try --json`` printed.

    Raises:
        InputError: It cannot be read, or holds no grasp.
    """
    try:
        doc = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}", hint="name a grasp file, *.json") from error
    except ValueError as error:
        raise InputError(f"{path}: this is no JSON: {error}") from error
    if isinstance(doc, dict) and isinstance(doc.get("grasp"), dict):
        doc = doc["grasp"]
    if not isinstance(doc, dict):
        raise InputError(f"{path}: this is no grasp", hint=f"{_SHAPE}; `world try --json` prints one")
    try:
        return Grasp.from_dict(doc)
    except InputError as error:
        raise InputError(f"{path}: {error.message}", hint=error.hint or _SHAPE) from error


def adjusted(
    grasp: Grasp,
    robot: Robot,
    *,
    width_m: float | None = None,
    yaw_rad: float = 0.0,
    offset_m: Sequence[float] = (0.0, 0.0, 0.0),
) -> Grasp:
    """The grasp otherwise opened, turned about the object's z, and moved in the object's frame.

    Raises:
        InputError: The opening or the force is beyond the hand's limits.
    """
    turned: Pose = pose(np.asarray(offset_m, dtype=np.float64)) @ axis_rotation("z", yaw_rad) @ grasp.T_object_grasp
    width = grasp.width_m if width_m is None else width_m
    _within("the opening", width, robot.width_m, robot, 1000, "mm")
    _within("the force", grasp.force_n, robot.force_n, robot, 1, "N")
    place = (float(turned[0, 3]), float(turned[1, 3]), float(turned[2, 3]))
    # unturned, the same four numbers: q and −q are one rotation
    quat = quat_xyzw(turned) if yaw_rad else grasp.quat_xyzw
    return replace(grasp, position_m=place, quat_xyzw=quat, width_m=width)


def try_grasp(
    scene: Scene,
    target: str,
    grasp: Grasp,
    executor: Executor,
    *,
    noise: ExecutionNoise | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> TryResult:
    """Try a grasp on an object of a scene, once.

    Args:
        scene: The scene.
        target: Name of the object in it.
        grasp: In that object's frame.
        executor: Where.
        noise: Moves what the robot does; none by default.
        clock: Tells the time [s]; one that stands still while a film is drawn leaves that out.

    Raises:
        UnknownName: The scene has no such object.
    """
    command = grasp.at(scene[target].T_world_object, target)
    begun = clock()
    with executor.start(scene, noise) as trial:
        ready = clock()
        attempt = trial.grasp(command)
        done = clock()
    return TryResult(scene, target, executor.name, grasp, command, attempt, done - ready, ready - begun)


def _within(what: str, value: float, limits: tuple[float, float], robot: Robot, scale: float, unit: str) -> None:
    low, high = limits
    if not low <= value <= high:  # what is no number, too
        raise InputError(
            f"{what} is {value * scale:g} {unit}; the hand of {robot.name} goes from "
            f"{low * scale:g} to {high * scale:g} {unit}",
            hint="give one in between, or leave it out",
        )


def _plain(value: Any) -> Any:
    """As JSON has it: no arrays, and nothing that is not finite."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, float | np.floating):
        return round(float(value), 6) if math.isfinite(value) else None
    if isinstance(value, int | np.integer):
        return int(value)
    return value if value is None or isinstance(value, str) else str(value)
