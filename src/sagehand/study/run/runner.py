"""Run a study: every arm, seed and fold of a plan, one record an item, on disk as soon as it is there.

To go on with a run that was stopped, however it was stopped, run it again: what has a record is not asked again. A
model's failure and a sample that cannot be answered are records, too: they stay in every denominator.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sagehand.errors import InputError, UnknownName
from sagehand.settings import Settings
from sagehand.study.dataset.sample import StudyData
from sagehand.study.methods.base import Bench, Method
from sagehand.study.methods.registry import check_arm
from sagehand.study.run.ground import Ground, OpenVlm
from sagehand.study.run.plan import Arm, Plan
from sagehand.study.run.session import Progress, Session
from sagehand.study.run.store import MANIFEST, PLAN, RECORDS, RunFiles, in_order, totals

if TYPE_CHECKING:
    from sagehand.vlm.ask import Vlm

__all__ = ["OpenVlm", "Progress", "RunInterrupted", "RunReport", "run_study"]


@dataclass(frozen=True)
class RunReport:
    """What a run did.

    Attributes:
        folder: The run folder.
        arms: Arm → what its records add up to, those of earlier sessions included (:func:`~.store.totals`).
        answered: Items answered in this session.
        missing: Items of the chosen units that have no record yet.
        seconds: How long this session took [s].
        notes: What the user should know, a line each.
    """

    folder: Path
    arms: Mapping[str, Mapping[str, Any]]
    answered: int
    missing: int
    seconds: float
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "folder": str(self.folder),
            "answered": self.answered,
            "missing": self.missing,
            "seconds": round(self.seconds, 3),
            "arms": {name: dict(arm) for name, arm in self.arms.items()},
            "notes": list(self.notes),
        }


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C stopped a run after what was under way was written; ``report`` says what is there."""

    def __init__(self, report: RunReport) -> None:
        super().__init__(f"the run was stopped; {report.missing} items are missing; run it again to go on")
        self.report = report


def run_study(
    plan: Plan,
    out: str | Path,
    *,
    data: str | Path | StudyData | None = None,
    jobs: int = 1,
    vlm: Vlm | OpenVlm | None = None,
    settings: Settings | None = None,
    only: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    retry_failed: bool = False,
    make: Callable[[Bench], Method] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_note: Callable[[str], None] | None = None,
) -> RunReport:
    """Run a plan, or go on with it.

    Args:
        plan: The plan. A run folder may be given more arms and seeds later; changed ones are refused.
        out: The run folder; made where it is not there.
        data: Folder of the labelled pictures, over the plan's; ``{seed}`` in it stands for the seed.
        jobs: Items asked at once.
        vlm: The model of the VLM arms, or how to open one by an arm's model name.
        settings: Limits, prompts and the like, taken as they are; by default the defaults with the plan's ``vlm`` over them.
        only: Names of the arms to run now; all by default.
        seeds: Seeds to run now; all by default.
        retry_failed: Ask those again whose newest record has a failure or an error.
        make: Makes the method of a bench; :func:`~sagehand.study.methods.registry.make_method` by default.
        on_progress: Called at the start, and after every record.
        on_note: Called with what the user should know, a line each, as soon as it is known.

    Raises:
        InputError: Plan, pictures, actions and run folder do not fit together, or another run writes there.
        UnknownName: There is no such arm, or an arm has an option that its method does not have.
        NeedsVlm: An arm asks a model, and there is none.
        MissingExtra: A package that an arm needs is not installed.
        RunInterrupted: Ctrl-C was pressed; everything that was answered is on disk.
        Exception: What a method raised that is no error of one sample, with a note of where; what was answered before is
            on disk.
    """
    started = time.perf_counter()
    if jobs < 1:
        raise InputError(f"jobs is {jobs}, not a whole number above 0", hint="leave it out for one at a time")
    out = Path(out)
    arms = _chosen_arms(plan, only)
    numbers = _chosen_seeds(plan, seeds)
    notes: list[str] = []

    def note(line: str) -> None:
        if line not in notes:
            notes.append(line)
            if on_note:
                on_note(line)

    with Ground(plan, data, settings, vlm, jobs, note) as ground:
        ground.check(arms, numbers)
        for arm in arms if make is None else ():  # a mistake in the last arm is told now, not after hours
            check_arm(arm)
        _refuse_stranger(out)
        with RunFiles(out) as files:
            for line in files.notes:
                note(line)
            session = Session(plan, out, ground, files, jobs, make, on_progress)
            units = session.units(arms, numbers)
            whole = session.claim(arms, numbers)
            asked = {"jobs": jobs, "arms": [a.name for a in arms], "seeds": numbers, "retry_failed": retry_failed}
            state = session.ask(units, asked, retry_failed)
            report = RunReport(
                folder=out,
                arms=totals(in_order(files.latest.values(), whole)),
                answered=files.appended,
                missing=sum(key not in files.latest for unit in units for key in unit.keys),
                seconds=time.perf_counter() - started,
                notes=tuple(notes),
            )
    if state == "interrupted":
        raise RunInterrupted(report)
    return report


def _chosen_arms(plan: Plan, only: Sequence[str] | None) -> list[Arm]:
    named = {arm.name: arm for arm in plan.arms}
    for name in only or ():
        if name not in named:
            raise UnknownName("arm", name, named)
    return [arm for arm in plan.arms if only is None or arm.name in only]


def _chosen_seeds(plan: Plan, seeds: Sequence[int] | None) -> list[int]:
    for seed in seeds or ():
        if seed not in plan.seeds:
            raise InputError(
                f"seed {seed} is not in the plan; valid: {', '.join(map(str, plan.seeds))}", hint="add it to `seeds:`"
            )
    return [seed for seed in plan.seeds if seeds is None or seed in seeds]


def _refuse_stranger(out: Path) -> None:
    """A folder that holds something else is not written into."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is no folder", hint="name a folder with --out")
    if (out / PLAN).exists() or not out.exists():
        return
    ours = (
        {".lock", MANIFEST}
        if (out / RECORDS).exists() and (out / RECORDS).stat().st_size
        else {".lock", MANIFEST, RECORDS}
    )
    strangers = sorted(entry.name for entry in out.iterdir() if entry.name not in ours)
    if strangers:
        raise InputError(
            f"{out}: is no run folder and is not empty: it holds {', '.join(strangers[:3])}",
            hint="name another with --out",
        )
