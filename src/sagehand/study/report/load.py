"""A run as a report looks at it: records by arm, the arms that belong together, and the pictures where they are at hand.

Which arm is *the* arm of a method is settled by the plan alone, never by a result: the one that departs least from the
defaults, and of several the first. Records are put in one order, so that the report does not depend on who finished first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from sagehand.errors import InputError, UnknownName
from sagehand.study.dataset.sample import Sample, StudyData
from sagehand.study.report.cells import Share
from sagehand.study.report.compare import NEW_DEVICES, mark_of
from sagehand.study.report.comparison import Comparison
from sagehand.study.run.plan import METHODS, Arm, Plan
from sagehand.study.run.record import Record

__all__ = [
    "ASKS_A_MODEL",
    "BASELINES",
    "TRAINED",
    "Study",
    "accuracy",
    "lacks",
    "load_study",
    "model_of",
    "shown_instead",
    "top_1",
    "unasked",
    "without_top_1",
]

BASELINES = ("random", "majority", "context", "nearest")
"""What any other method has to beat."""

ASKS_A_MODEL = ("zero-shot", "single-rag", "bad-single-rag", "guided", "guided-always", "fine-tuned-vlm")
"""Methods that need a VLM."""

TRAINED = ("classifier", "fine-tuned-vlm")
"""Methods whose weights are trained."""

_MAIN = ("guided", "perceptual", "guided-always", "single-rag", "zero-shot", "bad-single-rag", *reversed(BASELINES))
_COMPARED = ("crop", "embedder", "guard", "previous", "place", "depth", "risk", "domain", "options")


@dataclass(frozen=True)
class Study:
    """A run's records, ordered, with its plan.

    Attributes:
        name: Name of the run's folder.
        plan: The plan.
        manifest: The run's manifest, as it was written.
        records: All records in the plan's order of arms, then by seed, fold, subset and item.
        data: The labelled pictures: seed → data, or None → data where all seeds share one folder. Empty where not found.
        remarks: What a reader must know of how the run was read.
        chosen: Name of the main arm, where the caller chose it.
    """

    name: str
    plan: Plan
    manifest: Mapping[str, Any]
    records: Sequence[Record]
    data: Mapping[int | None, StudyData] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    chosen: str | None = None

    @cached_property
    def arms(self) -> tuple[Arm, ...]:
        """The plan's arms that have records."""
        there = {r.arm for r in self.records}
        return tuple(a for a in self.plan.arms if a.name in there)

    @cached_property
    def _by_arm(self) -> dict[str, list[Record]]:
        order = {a.name: i for i, a in enumerate(self.plan.arms)}
        found: dict[str, list[Record]] = {a.name: [] for a in self.plan.arms}
        for record in sorted(
            (r for r in self.records if r.arm in order),
            key=lambda r: (order[r.arm], r.seed, r.fold, r.subset, r.item),
        ):
            found[record.arm].append(record)
        return found

    def of(self, arm: Arm, subset: str | None = None) -> list[Record]:
        """An arm's records of one subset, in order; of None what it was asked: queries, or of folds the test devices.

        What a trained arm was asked stands in Figures 10 and 11 alone: () here.
        """
        if subset is not None:
            return [r for r in self._by_arm.get(arm.name, ()) if r.subset == subset]
        return self.of(arm, "query") or ([] if arm.method in TRAINED else self.of(arm, "test"))

    @cached_property
    def compared(self) -> dict[tuple[str, str, str], Comparison | None]:
        """Comparisons made so far, by (first arm, second arm, task): a table may need what another has worked out."""
        return {}

    @cached_property
    def asked(self) -> tuple[Arm, ...]:
        """The arms that answered queries; trained ones answer folds instead."""
        return tuple(a for a in self.arms if self.of(a))

    def by_method(self, *methods: str) -> list[Arm]:
        """The arms of these methods that answered queries, in the order of the methods, then of the plan."""
        return [a for m in methods for a in self.asked if a.method == m]

    def departures(self, arm: Arm) -> int:
        """In how many settings an arm departs from the defaults."""
        plain = Arm(name="x", method=arm.method)
        apart = [name for name in _COMPARED if getattr(arm, name) != getattr(plain, name)]
        return len(apart) + int(self.plan.protocol_of(arm) != self.plan.protocol_of(plain))

    def mains(self, *methods: str) -> list[Arm]:
        """One arm for each method and model: the one that departs least from the defaults, of several the first."""
        found: dict[tuple[str, str | None], Arm] = {}
        for arm in self.by_method(*methods):
            key = arm.method, arm.model
            if key not in found or self.departures(arm) < self.departures(found[key]):
                found[key] = arm
        return list(found.values())

    @cached_property
    def main(self) -> Arm | None:
        """The arm the report is about: of the method that does most; the caller may choose another."""
        if self.chosen is not None:
            return next(a for a in self.arms if a.name == self.chosen)
        return next(iter(self.mains(*_MAIN)), None)

    def twin(self, arm: Arm, *methods: str) -> Arm | None:
        """The arm of these methods that differs least from this one otherwise, of several the first.

        Model and protocol are the same, and so are crop and embedder where both use them; None where there is no such arm.
        """
        best: tuple[int, Arm] | None = None
        for other in self.by_method(*methods):
            if self.plan.protocol_of(other) != self.plan.protocol_of(arm):
                continue
            if {arm.method, other.method} <= set(ASKS_A_MODEL) and arm.model != other.model:
                continue
            if not {arm.method, other.method} & _NO_PICTURES and (arm.crop, arm.embedder) != (
                other.crop,
                other.embedder,
            ):
                continue
            apart = sum(getattr(arm, n) != getattr(other, n) for n in _COMPARED)
            if best is None or apart < best[0]:
                best = apart, other
        return best[1] if best else None

    def data_of(self, seed: int) -> StudyData | None:
        """The labelled pictures of a seed."""
        return self.data.get(seed, self.data.get(None))

    def sample(self, seed: int, key: str | None) -> Sample | None:
        """A sample by its key; None where the pictures are not at hand."""
        if key is None:
            return None
        return self._samples.get(seed, self._samples.get(None, {})).get(key)

    @cached_property
    def _samples(self) -> dict[int | None, dict[str, Sample]]:
        return {seed: {s.key: s for s in data.samples} for seed, data in self.data.items()}

    def picture(self, record: Record) -> tuple[int | None, str]:
        """What makes two records be of the same picture."""
        return (record.seed if "{seed}" in (self.plan.data or "") else None), record.item


_NO_PICTURES = {"random", "majority", "context", "zero-shot"}  # neither crop nor embedder bears on their answer


def load_study(run: Path, *, data: str | Path | None = None, main: str | None = None) -> Study:
    """Read a run for a report.

    Args:
        run: The run's folder.
        data: The folder of labelled pictures; None for the plan's. "{seed}" in it stands for the seed.
        main: Name of the arm the report is about; None for the one that the plan implies.

    Raises:
        InputError: The folder holds no run, or no records; or ``data`` was named and cannot be used.
        UnknownName: There is no such arm.
    """
    from sagehand.study.run.store import read_run

    found = read_run(run)
    named = {a.name for a in found.plan.arms}
    records = [r for r in found.records if r.arm in named]
    if not records:
        raise InputError(f"{run}: has no records yet", hint="let `sagehand study run` answer first")
    there = sorted({r.arm for r in records})
    if main is not None and main not in there:
        raise UnknownName("arm", main, there)
    remarks = []
    if len(records) < len(found.records):
        gone = sorted({r.arm for r in found.records} - named)
        remarks.append(f"Records of arms that the plan no longer has are left out: {', '.join(gone)}.")
    seeds = sorted({r.seed for r in records})
    pictures, more = _pictures(data, found.plan, found.manifest, seeds)
    return Study(
        name=run.resolve().name,
        plan=found.plan,
        manifest=found.manifest,
        records=records,
        data=pictures,
        remarks=(*remarks, *more),
        chosen=main,
    )


def _pictures(
    named: str | Path | None, plan: Plan, manifest: Mapping[str, Any], seeds: Sequence[int]
) -> tuple[dict[int | None, StudyData], list[str]]:
    """The labelled pictures, from the folder that was named, else the one that was run on, where it still is."""
    where = str(named) if named is not None else manifest.get("data_folder") or plan.data
    if where is None:
        return {}, ["The run names no folder of pictures, so no picture is shown; name it with --data."]
    folders: dict[int | None, str] = (
        {seed: where.replace("{seed}", str(seed)) for seed in seeds} if "{seed}" in where else {None: where}
    )
    try:
        return {seed: StudyData.load(folder) for seed, folder in folders.items()}, []
    except InputError:
        if named is not None:
            raise
        return {}, ["The folder of pictures is not where it was, so no picture is shown; name it with --data."]


def accuracy(records: Sequence[Record], task: str = "next_action") -> Share | None:
    """Share of right answers; abstentions and failures are wrong. None where no truth is known.

    Args:
        records: Records of one arm.
        task: A name in ``compare.COMPARED``.
    """
    marks = [mark for r in records if (mark := mark_of(r, task)) is not None]
    return Share(sum(marks), len(marks)) if marks else None


def top_1(study: Study, arm: Arm, what: str = "top1") -> Share | None:
    """Share of queries whose case shows the true device and step (paper A §3.2.3).

    A query for which no case was recalled counts as wrong. None for an arm that recalls no case at all, and where the
    device is left out of the base, so that no case can show it.

    Args:
        study: The run.
        arm: The arm.
        what: "top1", or "device" for the device alone.
    """
    records = study.of(arm)
    if study.plan.protocol_of(arm) in NEW_DEVICES or all(r.case_device is None for r in records):
        return None
    return accuracy(records, what)


def without_top_1(study: Study, *methods: str) -> str:
    """The sentence for a counterpart of top-1 where no arm of these methods has one: there is none, or it cannot.

    Args:
        study: The run.
        methods: Methods; the first is the one to add to the plan.
    """
    arms = study.by_method(*methods)
    if not arms:
        return lacks(methods[0])
    names = ", ".join(a.name for a in arms)
    if all(study.plan.protocol_of(a) in NEW_DEVICES for a in arms):
        return f"In {names} the device is left out of the base, so no case can be the right one."
    return f"No answer of {names} leans on a case."


def unasked(study: Study) -> str:
    """The sentence for a counterpart of asked arms where none was asked: those of the run are trained, and shown elsewhere."""
    where = {"classifier": "Figure 10", "fine-tuned-vlm": "Figure 11"}
    trained = [f"{a.name} ({where[a.method]})" for a in study.arms if a.method in TRAINED]
    if not trained:
        return "No arm of this run answered queries."
    return f"Every arm of this run is a trained one; it answers the devices of folds, and is shown there: {', '.join(trained)}."


def shown_instead(study: Study, stand_in: str) -> str:
    """What stands in for a counterpart, in a sentence: "without a model" only where no arm of the run asks one."""
    asks = any(model_of(a, study.manifest) for a in study.arms)
    return f"{'Shown instead' if asks else 'Shown without a model'}: {stand_in}."


def model_of(arm: Arm, manifest: Mapping[str, Any]) -> str:
    """The name of the model that an arm asks; "" for one that asks none."""
    if arm.method not in ASKS_A_MODEL and arm.crop not in ("grid", "box"):
        return ""
    named = (manifest.get("models") or {}).get(arm.name) or {}
    settings = manifest.get("settings") or {}
    return str(named.get("model") or arm.model or settings.get("vlm_model") or "the model of the settings")


def lacks(*methods: str) -> str:
    """The sentence for a counterpart whose methods are not in the run: which, what they are, and how to run them."""
    named = " and ".join(f"`method: {m}` ({_PAPER.sub('', METHODS[m])})" for m in methods)
    server = ", with `--base-url` and `--model` of a VLM server" if set(methods) & set(ASKS_A_MODEL) else ""
    arms = "such an arm" if len(methods) == 1 else "such arms"
    return f"Not in this run: {named}; add {arms} to the plan and call `sagehand study run` again{server}."


_PAPER = re.compile(r" \(paper A [^)]*\)")
