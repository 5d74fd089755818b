"""How many reachable poses over the table the Panda's inverse kinematics solves, how exactly, how quickly; then a way to a grasp.

Run: ``python bench/world_ik.py [--poses 2000] [--every 1] [--seed 0] [--json]``. A pose is reachable if it was made from random
legal joint angles, or lies on a grid and is solved by something: by what is measured, or by a far longer search (a fine sweep
of the seventh joint, then Newton's method from 128 starts). Top-down: the approach is within 20° of straight down; side: 45° to
100° from it; both with the TCP over the table, 0.02 to 0.5 m above it. Every answer is checked against MuJoCo's own kinematics
of the packaged model. The way to a grasp is the straight last stretch of 100 mm over a cup of 25 solids, beside two other
objects: inverse kinematics, joint path, gaps of all collision bodies at each of its 21 rows.
"""

from __future__ import annotations

import importlib
import itertools
import math
import time
from collections.abc import Iterator

import numpy as np
from figures import Figure, Report, in_turn, milliseconds, parser_for, processors, show
from numpy.typing import NDArray

from sagehand.world.approach import plan_approach
from sagehand.world.clearance import Clearance
from sagehand.world.frames import Pose, axis_rotation, invert, translation
from sagehand.world.model import build_model, mujoco_module
from sagehand.world.objects.model import ObjectModel
from sagehand.world.objects.shapes import Box, Shape, Shell, Sphere, solids_of
from sagehand.world.robot.ik import numeric
from sagehand.world.robot.kinematics import POSITION_TOLERANCE_M, ROTATION_TOLERANCE_RAD, IkAnswer, Kinematics
from sagehand.world.robot.newton import pose_error
from sagehand.world.scene import TABLE, Placed, Scene

Array = NDArray[np.float64]
KINDS = {"top-down": (0.0, 20.0), "side": (45.0, 100.0)}


def from_joints(kinematics: Kinematics, kind: str, count: int, rng: np.random.Generator) -> list[Pose]:
    """Poses over the table that random legal joint angles make."""
    low, high = KINDS[kind]
    robot, found = kinematics.robot, []
    while len(found) < count:
        T = kinematics.chain.forward(rng.uniform(robot.lower, robot.upper, (20000, len(robot.home))))
        x, y, z = T[:, 0, 3], T[:, 1, 3], T[:, 2, 3]
        tilt = np.degrees(np.arccos(np.clip(-T[:, 2, 2], -1, 1)))
        over = (TABLE.x_m[0] <= x) & (x <= TABLE.x_m[1]) & (TABLE.y_m[0] <= y) & (y <= TABLE.y_m[1])
        found += list(T[over & (z >= 0.02) & (z <= 0.5) & (tilt >= low) & (tilt <= high)])
    return found[:count]


def grid(kind: str) -> Iterator[Pose]:
    """Poses on a grid over the table: place, yaw, tilt; yaw is that of the direction in which the hand leans."""
    down = axis_rotation("x", math.pi)
    for x, y, z in itertools.product(np.linspace(0.25, 0.8, 5), (-0.3, 0, 0.2), (0.02, 0.08, 0.2, 0.4)):
        for lean in np.radians((0, 15) if kind == "top-down" else (50, 75, 90)):
            for about, roll in itertools.product(np.radians((-80, 10, 100, 190)), np.radians((0, 90))):
                turn = axis_rotation("z", about) @ axis_rotation("y", -lean) @ axis_rotation("z", roll - about)
                yield translation(x, y, z) @ turn @ down


def by_brute_force(kinematics: Kinematics, T: Pose) -> bool:
    """Whether a search without regard to time finds joint angles within the limits."""
    robot = kinematics.robot
    frankik = importlib.import_module("frankik")
    flange = T @ invert(robot.T_flange_tcp)
    sweep = np.arange(robot.lower[6], robot.upper[6], 0.005)
    rows = np.concatenate([frankik.ik_full(flange, robot.home, float(q7), False) for q7 in sweep])
    rows = rows[np.isfinite(rows).all(axis=1)]
    inside = rows[((rows >= robot.lower) & (rows <= robot.upper)).all(axis=1)]
    if len(inside):
        error = pose_error(kinematics.chain.forward(inside), T[None])
        if np.any((np.abs(error[:, :3]).max(axis=1) < 1e-6) & (np.abs(error[:, 3:]).max(axis=1) < 1e-6)):
            return True
    found = numeric(kinematics.chain, T, robot.home, starts=128, steps=80)
    return bool(np.any((found.position_m < POSITION_TOLERANCE_M) & (found.rotation_rad < ROTATION_TOLERANCE_RAD)))


class Checker:
    """Holds answers against MuJoCo's kinematics of the packaged model."""

    def __init__(self, kinematics: Kinematics) -> None:
        self._mj = mujoco_module()
        self._robot = kinematics.robot
        self._model = build_model(Scene(()), kinematics.robot).model
        self._data = self._mj.MjData(self._model)
        self._hand = self._model.body("hand/panda_hand").id
        self.position_m = self.rotation_rad = 0.0
        self.outside = 0

    def take(self, answer: IkAnswer, T: Pose) -> None:
        """Note how far an answer is off, and whether it is inside the limits."""
        q = answer.q
        if q is None:
            return
        self.outside += bool(np.any((q < self._robot.lower) | (q > self._robot.upper)))
        self._data.qpos[: len(q)] = q
        self._mj.mj_kinematics(self._model, self._data)
        at = np.eye(4)
        at[:3, :3] = self._data.xmat[self._hand].reshape(3, 3)
        at[:3, 3] = self._data.xpos[self._hand]
        error = pose_error((at @ self._robot.T_hand_tcp)[None], T[None])[0]
        self.position_m = max(self.position_m, float(np.linalg.norm(error[:3])))
        self.rotation_rad = max(self.rotation_rad, float(np.linalg.norm(error[3:])))


def way_to_a_grasp(kinematics: Kinematics, rounds: int) -> list[Figure]:
    """How long the gaps along a path take, and all of an approach."""
    shapes: dict[str, tuple[Shape, float, float, float]] = {
        "cup": (Shell(0.04, 0.045, 0.08, 0.003, 0.004), 0.5, 0.0, 0.0),
        "box": (Box((0.05, 0.05, 0.1)), 0.5, 0.16, 0.05),
        "ball": (Sphere(0.03), 0.4, -0.1, 0.03),
    }
    scene = Scene(
        tuple(
            Placed(
                name,
                ObjectModel(name, name, "", "", 0.0, 0.1, 0.5, 50.0, tuple(solids_of(shape, translation(z=z))), {}),
                translation(x, y, 0),
            )
            for name, (shape, x, y, z) in shapes.items()
        )
    )
    clearance = Clearance(scene, kinematics.robot)
    T = translation(0.5, 0, 0.1) @ axis_rotation("x", math.pi)
    before = T @ translation(z=-0.1)
    path = plan_approach(kinematics, clearance, before, T, 0.08, ("cup",)).path
    if path is None:
        raise SystemExit("there is no way to the cup")
    times = in_turn(
        {
            "gaps, the cup the target": lambda: clearance.along(path, 0.08, ("cup",)),
            "gaps, the cup an obstacle": lambda: clearance.along(path, 0.08),
            "approach planned": lambda: plan_approach(kinematics, clearance, before, T, 0.08, ("cup",)),
            "scene made ready": lambda: Clearance(scene, kinematics.robot),
        },
        rounds,
    )
    targets = {"gaps, the cup the target": 3.0, "gaps, the cup an obstacle": 3.0}
    return [Figure(f"{name}, median", milliseconds(t), "ms", targets.get(name)) for name, t in times.items()]


def measure(poses: int, every: int, seed: int) -> Report:
    kinematics = Kinematics("panda")
    checker = Checker(kinematics)
    rng = np.random.default_rng(seed)
    figures, seconds = [], []
    for kind in KINDS:
        answers = []
        for T in from_joints(kinematics, kind, poses, rng):
            started = time.perf_counter()
            answers.append(kinematics.inverse(T))
            seconds.append(time.perf_counter() - started)
            checker.take(answers[-1], T)
        share = 100 * float(np.mean([a.reached for a in answers]))
        figures.append(Figure(f"{kind} poses from random joints solved", share, "%", 99.5, at_most=False))
        solved = missed = 0
        unreachable = []
        for T in itertools.islice(grid(kind), 0, None, every):
            started = time.perf_counter()
            answer = kinematics.inverse(T)
            one = time.perf_counter() - started
            checker.take(answer, T)
            if answer.reached:
                solved += 1
                seconds.append(one)
            elif by_brute_force(kinematics, T):
                missed += 1
                seconds.append(one)
            else:
                unreachable.append(one)
        share = 100 * solved / max(solved + missed, 1)
        taken = milliseconds(np.array(unreachable)) if unreachable else 0.0
        figures += [
            Figure(f"{kind} grid poses that something solves", solved + missed),
            Figure(f"{kind} grid poses solved", share, "%", 99.5, at_most=False),
            Figure(f"{kind} grid poses named unreachable", len(unreachable)),
            Figure(f"time for an unreachable one, {kind}", taken, "ms"),
        ]
    times = np.array(seconds)
    far = kinematics.inverse(translation(1.5, 0, 0.3) @ axis_rotation("x", math.pi))
    figures += [
        Figure("answers outside the limits", checker.outside, "", 0),
        Figure("largest position error of an answer", checker.position_m * 1e3, "mm", 0.1),
        Figure("largest rotation error of an answer", math.degrees(checker.rotation_rad), "°", 0.05),
        Figure("time an answer, median of all reachable", milliseconds(times), "ms", 1.0),
        Figure("time an answer, 95th percentile", milliseconds(times, 0.95), "ms"),
        *way_to_a_grasp(kinematics, min(poses, 200)),
    ]
    setup = {"poses a kind from joints": poses, "grid, every": every, "seed": seed, "processors": processors()}
    return Report("Inverse kinematics of the Panda", setup, figures, [f"a pose at 1.5 m: {far.why}"])


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--poses", type=int, default=2000, help="poses of each kind made from random joints")
    parser.add_argument("--every", type=int, default=1, help="take every N-th pose of the grid")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    show(measure(arguments.poses, arguments.every, arguments.seed), arguments.json)


if __name__ == "__main__":
    main()
