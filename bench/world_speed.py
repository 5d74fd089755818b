"""How many grasps a second the two executors carry out on one core: the analytic one by statics, the physics by simulation.

Run: ``python bench/world_speed.py [--grasps 200] [--physics 60] [--rounds 3] [--seed 2] [--json]``. The mix is that of the
agreement study, from good to hopeless, with its neighbours (``sagehand.world.agree.sample``; the published studies have other
seeds). A grasp is its scene, inverse kinematics, the way there checked against table, neighbours and the robot itself, closing,
lift, hold and shake. Carried out are those whose hand came to close; one that is found out of reach costs little. Time is the
processor's, of all threads together; a grasp's is the median over the rounds, and the rate is one over the mean of all grasps.
Start-up is apart: imports, the robot's model, the first grasp.
"""

from __future__ import annotations

import math
import time

import numpy as np
from figures import Figure, Report, parser_for, processors, show
from numpy.typing import NDArray

from sagehand.world.executor import Attempt, Executor
from sagehand.world.frames import axis_rotation, translation
from sagehand.world.grasp import GraspCommand
from sagehand.world.scene import Placed, Scene

Array = NDArray[np.float64]
TARGETS = {"analytic": 100.0, "physics": 2.0}


def make(name: str) -> Executor:
    """An executor by name, imported only here: that belongs to its start-up."""
    if name == "analytic":
        from sagehand.world.analytic.executor import AnalyticExecutor

        return AnalyticExecutor()
    from sagehand.world.physics.executor import PhysicsExecutor

    return PhysicsExecutor()


def timed(executor: Executor, scene: Scene, command: GraspCommand) -> tuple[float, Attempt]:
    """Processor seconds of one grasp in a scene made for it, and what came of it."""
    started = time.process_time()
    with executor.start(scene) as trial:
        attempt = trial.grasp(command)
    return time.process_time() - started, attempt


def started(name: str) -> tuple[Executor, float]:
    """An executor that has tried its first grasp, of a cube, and how long all that took."""
    from sagehand.world.objects.load import load_object

    scene = Scene((Placed("cube", load_object("cube"), translation(0.5, 0.0, 0.0)),))
    command = GraspCommand("cube", translation(0.5, 0.0, 0.02) @ axis_rotation("x", math.pi), 0.06, 10.0)
    before = time.process_time()
    executor = make(name)
    timed(executor, scene, command)
    return executor, time.process_time() - before


def figures_of(name: str, taken: Array, carried: NDArray[np.bool_], start_up: float) -> list[Figure]:
    """Rates and times of one executor; ``taken`` (N,) [s], ``carried`` (N,) whether the hand came to close."""
    own = taken[carried]
    rate = 1 / float(own.mean()) if len(own) else None
    return [
        Figure(f"{name}: grasps carried out a second", rate, "1/s", TARGETS[name], at_most=False),
        Figure(f"{name}: grasps a second, all", 1 / float(taken.mean()), "1/s"),
        Figure(f"{name}: a grasp carried out, median", 1e3 * float(np.median(own)) if len(own) else None, "ms"),
        Figure(f"{name}: 95th percentile of all", 1e3 * float(np.quantile(taken, 0.95)), "ms"),
        Figure(f"{name}: carried out", int(carried.sum()), f"of {len(taken)}"),
        Figure(f"{name}: start-up", start_up, "s"),
    ]


def measure(grasps: int, physics: int, rounds: int, seed: int) -> Report:
    executors, start_up = {}, {}
    for name in TARGETS:
        executors[name], start_up[name] = started(name)
    from sagehand.world.agree.sample import agreement_grasps

    samples = agreement_grasps(None, grasps, seed)
    taken = {"analytic": np.empty((rounds, grasps)), "physics": np.empty((1, physics))}
    carried = {name: np.zeros(times.shape[1], dtype=bool) for name, times in taken.items()}
    for number, sample in enumerate(samples):
        for name, times in taken.items():
            for turn in range(len(times) if number < times.shape[1] else 0):
                times[turn, number], attempt = timed(executors[name], sample.scene, sample.command)
                carried[name][number] = attempt.observation.reached
    figures = [
        figure
        for name, times in taken.items()
        for figure in figures_of(name, np.median(times, axis=0), carried[name], start_up[name])
    ]
    setup = {"grasps": grasps, "in physics": physics, "rounds": rounds, "seed": seed, "processors": processors()}
    return Report("Grasps a second on one core", setup, figures, ["the first to start up also imports MuJoCo"])


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--grasps", type=int, default=200, help="grasps of the mix")
    parser.add_argument("--physics", type=int, default=60, help="how many of them in physics, too")
    parser.add_argument("--rounds", type=int, default=3, help="times each is tried by the analytic executor")
    parser.add_argument("--seed", type=int, default=2)
    arguments = parser.parse_args()
    physics = min(arguments.physics, arguments.grasps)
    show(measure(arguments.grasps, physics, arguments.rounds, arguments.seed), arguments.json)


if __name__ == "__main__":
    main()
