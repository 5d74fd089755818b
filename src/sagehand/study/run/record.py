"""One record a sample and arm: a JSON line that a report can be made from without asking anything again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sagehand.study.dataset.sample import Sample
from sagehand.study.methods.base import Answer

__all__ = ["TASKS", "Record", "record_of", "right_of"]

TASKS = ("previous_action", "next_action", "remaining_actions", "is_last", "device_class")
"""The prediction tasks (paper A §3.1)."""


@dataclass(frozen=True)
class Record:
    """What was answered to one sample by one arm, and whether it was right.

    Attributes:
        arm: The arm's name.
        seed: The unit's seed.
        fold: The unit's fold.
        item: The sample's key.
        subset: "query"; of folds "train", "validation" or "test".
        truth: The sample's labels: the five tasks, ``family``, ``device``, ``step``, ``place``.
        answer: The answer's fields of the five tasks, ``confidence``, ``abstained``, ``proposed``, ``reason``, ``case``.
        right: Task → right or wrong; null where the truth is not known.
        case_device: Whether the case that was leant on shows the true device; None where no case was recalled.
        case_step: The same of device and step: top-1 (paper A §3.2.3).
        rank: Place of the first case of the true device and step, from 1; None where there is none.
        coverage: Share of the polygon that the crop keeps (paper A eq. 4), 1 for the whole picture; None without a polygon,
            or where no picture was looked at.
        removal: Share of the picture that the crop removes (paper A eq. 5), 0 for the whole picture; None likewise.
        seconds: Time of the answer [s].
        timings: Part → seconds.
        usage: Calls and tokens.
        search: Of a guided search; else None.
        failure: Kind of the error that kept the model from answering, or None.
        error: Why the sample could not be answered at all, or None.
        extra: What the method adds.
    """

    arm: str
    seed: int
    fold: int
    item: str
    subset: str
    truth: Mapping[str, Any]
    answer: Mapping[str, Any]
    right: Mapping[str, bool | None]
    case_device: bool | None = None
    case_step: bool | None = None
    rank: int | None = None
    coverage: float | None = None
    removal: float | None = None
    seconds: float = 0.0
    timings: Mapping[str, float] = field(default_factory=dict)
    usage: Mapping[str, Any] = field(default_factory=dict)
    search: Mapping[str, Any] | None = None
    failure: str | None = None
    error: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, int, int, str, str]:
        """What makes it one item of a run: (arm, seed, fold, subset, item)."""
        return self.arm, self.seed, self.fold, self.subset, self.item

    def to_dict(self) -> dict[str, Any]:
        """As one JSON line."""
        return asdict(self)

    @classmethod
    def from_dict(cls, doc: Mapping[str, Any]) -> Record:
        """Read what :meth:`to_dict` wrote; keys of a later version are left out."""
        return cls(**{name: doc[name] for name in cls.__dataclass_fields__ if name in doc})


def right_of(sample: Sample, answer: Answer) -> dict[str, bool | None]:
    """Task → right or wrong; None where the truth is not known. No answer is a wrong one."""
    truth = truth_of(sample)
    told: dict[str, Any] = {task: getattr(answer, task) for task in TASKS}
    if told["remaining_actions"] is not None:
        told["remaining_actions"] = list(told["remaining_actions"])
    return {task: None if truth[task] is None else told[task] == truth[task] for task in TASKS}


def truth_of(sample: Sample) -> dict[str, Any]:
    """The labels of a sample, as plain data."""
    return {
        "previous_action": sample.previous_action,
        "next_action": sample.next_action,
        "remaining_actions": None if sample.remaining_actions is None else list(sample.remaining_actions),
        "is_last": sample.is_last,
        "device_class": sample.family,
        "family": sample.family,
        "device": sample.device,
        "step": sample.step,
        "place": sample.place,
    }


def record_of(
    sample: Sample,
    answer: Answer,
    *,
    arm: str,
    seed: int,
    fold: int,
    subset: str,
    seconds: float,
    base: Mapping[str, Sample],
) -> Record:
    """Hold an answer against its sample's labels.

    Args:
        sample: The sample.
        answer: What the method said.
        arm: Name of the arm.
        seed: Seed of the unit.
        fold: Fold of the unit.
        subset: "query", "train", "validation" or "test".
        seconds: Time that the answer took [s].
        base: The base's samples by key: what the recalled case shows.

    Raises:
        ValueError: The method leans on a case that the base does not hold.
        MissingExtra: There is a crop and a polygon, and the package that measures polygons is not installed.
    """
    lead = None
    if answer.case is not None:
        if answer.case not in base:
            raise ValueError(f"the case {answer.case!r} of the answer to {sample.key!r} is not in the base")
        lead = base[answer.case]
    device = (sample.family, sample.device)
    coverage, removal = _crop_figures(sample, answer)
    return Record(
        arm=arm,
        seed=seed,
        fold=fold,
        item=sample.key,
        subset=subset,
        truth=truth_of(sample),
        answer={
            **{task: getattr(answer, task) for task in TASKS},
            "remaining_actions": None if answer.remaining_actions is None else list(answer.remaining_actions),
            "confidence": None if answer.confidence is None else float(answer.confidence),
            "abstained": bool(answer.abstained),
            "proposed": answer.proposed,
            "reason": answer.reason,
            "case": answer.case,
        },
        right=right_of(sample, answer),
        case_device=None if lead is None else (lead.family, lead.device) == device,
        case_step=None if lead is None or sample.step is None else lead.place_in_tree == sample.place_in_tree,
        rank=_rank(sample, answer, base),
        coverage=coverage,
        removal=removal,
        seconds=round(float(seconds), 6),
        timings={part: round(float(spent), 6) for part, spent in answer.timings.items()},
        usage=answer.usage.to_dict(),
        search=None if answer.search is None else dict(answer.search),
        failure=answer.failure,
        extra=dict(answer.extra),
    )


def _rank(sample: Sample, answer: Answer, base: Mapping[str, Sample]) -> int | None:
    """Place of the first case of the true device and step, from 1 (paper A §3.2.3)."""
    if sample.step is None:
        return None
    found = (at for at, key in enumerate(answer.order, 1) if base[key].place_in_tree == sample.place_in_tree)
    return next(found, None)


def _crop_figures(sample: Sample, answer: Answer) -> tuple[float | None, float | None]:
    """(coverage, removal) of the crop."""
    if answer.size is None:
        return None, None
    if answer.box is None:
        return None if sample.polygon is None else 1.0, 0.0
    # shapely is loaded only where there is something to measure
    from sagehand.study.metrics import coverage, removal

    kept = None if sample.polygon is None else coverage(sample.polygon, answer.box)
    return kept, float(removal(answer.box, answer.size))
