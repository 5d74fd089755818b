"""The seam of a study's methods: :class:`Method` answers samples, a :class:`Bench` holds what it may learn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sagehand.judge.cost import FREE, Cost
from sagehand.study.dataset.sample import Sample

if TYPE_CHECKING:
    from sagehand.action.library import ActionLibrary
    from sagehand.cases import CaseBase
    from sagehand.embed import Embedder
    from sagehand.study.run.plan import Arm
    from sagehand.vlm.ask import Vlm

__all__ = ["Answer", "Bench", "Method"]


@dataclass(frozen=True)
class Answer:
    """What a method says of one sample. ``None`` is "no answer", which counts as wrong wherever the truth is known.

    Attributes:
        next_action: The next action.
        previous_action: The action that led here (a test of instruction-following, paper A §3.3).
        remaining_actions: What is left to do, the next action first.
        is_last: Whether the next action is the last one.
        device_class: The family.
        confidence: Belief in the next action, where the method has one.
        abstained: Whether the operator is to be asked; ``next_action`` is None then.
        proposed: The next action before it was held back by an abstention.
        reason: Why, in words.
        case: ``key`` of the case that the answer leans on, or None where none was recalled.
        order: Keys of the base's cases, best first, as far as the method orders them; () for a method that recalls none.
        box: The crop that was embedded (x, y, width, height) [px]; None where the whole picture was.
        size: (width, height) of the picture [px].
        timings: Part → seconds.
        usage: What was asked of a model.
        search: Of a guided search: ``outcome``, ``first_confirmed`` (bool), ``leaves``, ``graded``, ``calls``; else None.
        failure: Kind of the error that kept a model from answering, or None. Counted apart, never dropped.
        extra: Anything more that a report may show.
    """

    next_action: str | None = None
    previous_action: str | None = None
    remaining_actions: tuple[str, ...] | None = None
    is_last: bool | None = None
    device_class: str | None = None
    confidence: float | None = None
    abstained: bool = False
    proposed: str | None = None
    reason: str = ""
    case: str | None = None
    order: Sequence[str] = ()
    box: tuple[float, float, float, float] | None = None
    size: tuple[int, int] | None = None
    timings: Mapping[str, float] = field(default_factory=dict)
    usage: Cost = FREE
    search: Mapping[str, Any] | None = None
    failure: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


class Method(Protocol):
    """Answers samples. ``answer`` may be called from several threads at once."""

    name: str

    def answer(self, sample: Sample) -> Answer:
        """Answer one sample, from its picture, its depth image and ``sample.known`` alone.

        Raises:
            SagehandError: The sample cannot be answered; the runner records it as failed.
        """
        ...

    def close(self) -> None:
        """Free what it holds."""
        ...


@dataclass(frozen=True, eq=False)
class Bench:
    """What one unit of a study (arm, seed, fold) gives its method. Made by the runner.

    Attributes:
        arm: The arm of the plan.
        seed: Seed of this unit; everything random in the method is drawn from (seed, sample.key).
        fold: Index of the fold, or 0.
        train: Samples that may be learnt from: the retrieval base's (two a step), or of folds the training devices'.
        validation: Of folds, the validation devices' samples, for early stopping; else ().
        certify: Samples kept apart to certify a risk; else ().
        library: The cell's actions.
        embedder: The arm's embedder.
        work: A folder of the run for models and other files of this unit.
        base: The calibrated case base of ``train``, cropped as the arm says; its cases' ``file_name`` are sample keys.
            None for methods that recall nothing.
        vlm: The model that the arm asks; None where it asks none.
        settings: Resolved settings of the run (prompts folder, budgets), plain data.
    """

    arm: Arm
    seed: int
    fold: int
    train: Sequence[Sample]
    validation: Sequence[Sample]
    certify: Sequence[Sample]
    library: ActionLibrary | None
    embedder: Embedder
    work: Path
    base: CaseBase | None = None
    vlm: Vlm | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
