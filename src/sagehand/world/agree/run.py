"""Run an agreement study: every sample in both executors, by several processes; run it again to go on where it stopped."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sagehand.errors import InputError, MissingExtra
from sagehand.interrupt import held_interrupt
from sagehand.world.agree.digest import answer_digest, data_digest, file_digests, versions
from sagehand.world.agree.measure import mismatched
from sagehand.world.agree.plan import plan_items
from sagehand.world.agree.report import AgreementReport, write_report
from sagehand.world.agree.store import Records
from sagehand.world.agree.subjects import chosen_objects
from sagehand.world.agree.work import Make, Task, Work, in_turn, side_by_side
from sagehand.world.executor import Executor
from sagehand.world.model import mujoco_module
from sagehand.world.robot.description import Robot, load_robot

__all__ = ["EXECUTORS", "run_agreement"]

_FORMAT = 2
Progress = Callable[[int, int], None]


def _analytic(robot: str = "panda") -> Executor:
    from sagehand.world.analytic.executor import AnalyticExecutor

    return AnalyticExecutor(robot)


def _physics(robot: str = "panda") -> Executor:
    from sagehand.world.physics.executor import PhysicsExecutor

    return PhysicsExecutor(robot)


EXECUTORS: Mapping[str, Callable[[str], Executor]] = {"analytic": _analytic, "physics": _physics}
"""The two that are compared, made for a robot by name; the second is taken for nature."""


def run_agreement(
    out: str | Path,
    *,
    grasps: int = 1000,
    seed: int = 0,
    jobs: int | None = None,
    objects: Sequence[str] | str | None = None,
    robot: str = "panda",
    resume: bool = True,
    pictures: int = 12,
    executors: Mapping[str, Make] | None = None,
    on_progress: Progress | None = None,
) -> AgreementReport:
    """Try grasps from good to hopeless in the analytic executor and in the physics, and report how far the two agree.

    The folder holds ``records.jsonl`` (one line an outcome, on disk as soon as it is there), ``agreement.json`` (what was
    asked, versions, digests) and the report. Run again, only what is missing is tried, and what depends on code, packages or
    files of your own that have changed since. With more than one job a script must call this under
    ``if __name__ == "__main__"``, for the processes are spawned.

    Args:
        out: The folder; new, empty, or begun with the same seed, robot, objects and data files.
        grasps: How many samples; a smaller study is the beginning of a larger one.
        seed: Root seed; another seed, other samples.
        jobs: Processes; default: one a processor.
        objects: "cup" (with its instances), "cup/small", a group, files; default: all.
        robot: One that ships, by name, or a description file.
        resume: Go on in a folder that was begun.
        pictures: Render so many of the worst disagreements.
        executors: "analytic" and "physics" → makes that executor; picklable with more than one job.
        on_progress: Called with (samples done, samples in all).

    Raises:
        InputError: A parameter is out of range, or the folder holds something else or another study.
        UnknownName: There is no object or robot of a name.
        MissingExtra: MuJoCo, frankik or the robot's model is not installed.
        KeyboardInterrupt: Ctrl-C; what was under way is finished and written first. A second one does not wait.
    """
    jobs = len(os.sched_getaffinity(0)) if jobs is None else jobs
    _check(grasps=(grasps, 1), jobs=(jobs, 1), seed=(seed, 0), pictures=(pictures, 0))
    begun = time.perf_counter()
    folder, names = Path(out), chosen_objects(objects)
    makers = _makers(executors, robot)
    work = Work(names, seed, robot, makers, {name: answer_digest(name, (*names, robot)) for name in makers})
    header = _header(work)
    with Records(folder, header, resume=resume) as records:
        tasks = _missing(records, work, grasps)
        _carry_out(records, work, tasks, grasps, jobs, on_progress)
        entries = [e for e in records.entries.values() if e.outcome.number < grasps]
    return write_report(
        folder,
        entries,
        header | {"code": dict(work.code), "grasps": grasps},
        pictures=pictures,
        robot=robot,
        made=len(tasks),
        seconds=time.perf_counter() - begun,
    )


def _check(**least: tuple[int, int]) -> None:
    for name, (value, low) in least.items():
        if value < low:
            raise InputError(f"{name} is {value}; it must be at least {low}")


def _makers(executors: Mapping[str, Make] | None, robot: str) -> dict[str, Make]:
    arm = load_robot(robot)  # a wrong name is told before anything is begun
    if executors is None:
        _check_installed(arm)
        return {name: partial(make, robot) for name, make in EXECUTORS.items()}
    if set(executors) != set(EXECUTORS):
        raise InputError(f"executors are {sorted(executors)}; they must be {sorted(EXECUTORS)}")
    return dict(executors)


def _check_installed(robot: Robot) -> None:
    """What is missing is told before a folder is made; of a process that ends while it starts, nothing is heard."""
    mujoco_module("the agreement study")
    for which in ("arm", "hand"):
        robot.model_file(which)
    if robot.ik == "frankik":
        try:
            importlib.import_module("frankik")
        except ImportError as error:
            raise MissingExtra(f"inverse kinematics of {robot.name}", "world") from error


def _header(work: Work) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "seed": work.seed,
        "robot": work.robot,
        "objects": list(work.objects),
        "executors": sorted(work.makers),
        "data": data_digest(),
        "files": file_digests((*work.objects, work.robot)),
        "versions": versions(),
    }


def _missing(records: Records, work: Work, grasps: int) -> list[Task]:
    """Samples that an executor has still to answer, or to answer again."""
    stale = set(mismatched(records.entries.values()))
    there = {
        key
        for key, entry in records.entries.items()
        if entry.code == work.code[entry.outcome.executor] and entry.outcome.number not in stale
    }
    return [
        (item, todo)
        for item in plan_items(work.objects, range(grasps), work.seed)
        if (todo := tuple(e for e in sorted(work.makers) if (item.number, e) not in there))
    ]


def _carry_out(
    records: Records, work: Work, tasks: Sequence[Task], grasps: int, jobs: int, on_progress: Progress | None
) -> None:
    """Try what is missing and write it down; after Ctrl-C, only what is under way."""
    done = grasps - len(tasks)
    _tell(on_progress, done, grasps)
    jobs = min(jobs, max(len(tasks), 1))
    results = in_turn(work, tasks) if jobs == 1 else side_by_side(work, tasks, jobs)
    with held_interrupt() as asked:
        for made in results(asked):
            records.append(made)
            done += 1
            _tell(on_progress, done, grasps)
    if asked.is_set() and done < grasps:
        raise KeyboardInterrupt


def _tell(on_progress: Progress | None, done: int, total: int) -> None:
    if on_progress is not None:
        on_progress(done, total)
