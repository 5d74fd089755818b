"""The questions that paper A asks of a model, and the typed answers; who answers is a :class:`Judge`.

Two judges ship: the perceptual one (no VLM) and, with a server or local weights, the VLM one. Every answer says who gave
it, carries its evidence in words, and may be "cannot tell" (None): a finding that nothing measured is never claimed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from sagehand.judge.candidate import Candidate, Evidence, Finding, Query, Verdict
from sagehand.judge.cost import FREE, Cost
from sagehand.judge.crop_questions import CropAnswer, CropMove, CropTool, CropTurn
from sagehand.picture import Picture

__all__ = [
    "BoolGrade",
    "Candidate",
    "Comparison",
    "CropAnswer",
    "CropMove",
    "CropTool",
    "CropTurn",
    "Evidence",
    "Expansion",
    "Finding",
    "Grade",
    "Judge",
    "LeafScore",
    "PredictQuestion",
    "Prediction",
    "Query",
    "Verdict",
]


@dataclass(frozen=True)
class BoolGrade:
    """BoolGradeImage: is the first candidate the right one (paper A §2.4)?

    Attributes:
        accepted: True, False, or None for "cannot tell".
        probability: Calibrated probability of a match, when the judge has one.
        findings: On location, shape, components and preceding steps.
        by: The judge's name.
        cost: What the answer cost.
    """

    accepted: bool | None
    probability: float | None
    findings: tuple[Finding, ...]
    by: str
    cost: Cost = field(default=FREE, compare=False)


@dataclass(frozen=True)
class Grade:
    """GradeImage: 0–10 for one candidate (paper A, Algorithm 3).

    Attributes:
        score: 0 to 10, or None for "cannot tell"; an ungraded picture is unscored, never 0.
        findings: Why.
        by: The judge's name.
        cost: What the answer cost.
    """

    score: int | None
    findings: tuple[Finding, ...]
    by: str
    cost: Cost = field(default=FREE, compare=False)


@dataclass(frozen=True)
class LeafScore:
    """LeafFinalScore: 0–10 for a whole device, from the reasonings about its pictures (paper A, Algorithm 3).

    Attributes:
        score: 0 to 10, or None for "cannot tell".
        summary: The findings in a sentence.
        by: The judge's name.
        cost: What the answer cost.
    """

    score: int | None
    summary: str
    by: str
    cost: Cost = field(default=FREE, compare=False)


@dataclass(frozen=True)
class Expansion:
    """ExpandSearch: look at one more device (paper A §2.4)?

    Attributes:
        expand: True, False, or None for "cannot tell".
        reason: Why.
        by: The judge's name.
        cost: What the answer cost.
    """

    expand: bool | None
    reason: str
    by: str
    cost: Cost = field(default=FREE, compare=False)


@dataclass(frozen=True)
class Comparison:
    """CompareImages: which of two candidates is more like the query (paper A, Algorithm 4).

    Attributes:
        better: "first", "second", or None for "cannot tell".
        findings: Why.
        by: The judge's name.
        cost: What the answer cost.
    """

    better: Literal["first", "second"] | None
    findings: tuple[Finding, ...]
    by: str
    cost: Cost = field(default=FREE, compare=False)


@dataclass(frozen=True, eq=False)
class PredictQuestion:
    """Which action comes next (paper A §3.3)?

    Attributes:
        query: What is in front of the robot.
        candidates: Retrieved cases, best first; empty for zero-shot.
        beliefs: Belief in each next action, over all cases compared, not only the candidates listed.
        classes: The same for each device family.
        valid_actions: Names that the guard does not rule out; the answer must be one of them or None.
        descriptions: Name → what the action does, for a judge that reads.
    """

    query: Query
    candidates: Sequence[Candidate]
    beliefs: Mapping[str, float]
    classes: Mapping[str, float]
    valid_actions: Sequence[str]
    descriptions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Prediction:
    """The answer to a :class:`PredictQuestion`.

    Attributes:
        next_action: One of the valid actions, or None for "cannot tell".
        confidence: Calibrated probability that it is right, when the judge has one.
        case: The candidate that the answer leans on, or None.
        remaining_actions: What is left to do, the next action included; None when not known.
        is_last: Whether the next action is the last one; None when not known.
        device_class: The device's family; None when not known.
        previous_action: Copied from the query; what the leaning case says where the query does not know it.
        findings: Why.
        by: The judge's name.
        cost: What the answer cost.
    """

    next_action: str | None
    confidence: float | None
    case: Candidate | None
    remaining_actions: tuple[str, ...] | None
    is_last: bool | None
    device_class: str | None
    previous_action: str | None
    findings: tuple[Finding, ...]
    by: str
    cost: Cost = field(default=FREE, compare=False)


class Judge(Protocol):
    """Answers the questions of paper A. Implementations: perceptual (no VLM), VLM, and a scripted test double."""

    @property
    def name(self) -> str:
        """Who speaks, as it is written into every result."""
        ...

    def crop(self, picture: Picture, instruction: str = "") -> CropAnswer:
        """Where is the device, with the fixture it sits in (paper A §2.2)?"""
        ...

    def crop_move(self, turn: CropTurn) -> CropMove:
        """Which tool brings the view nearer to the device and its fixture (paper A, Algorithms 1 and 2)?"""
        ...

    def bool_grade(self, query: Query, candidate: Candidate) -> BoolGrade:
        """Is this candidate the same device in the same state (paper A §2.4)?"""
        ...

    def grade(self, query: Query, candidate: Candidate) -> Grade:
        """How similar is this candidate, 0 to 10 (paper A, Algorithm 3)?"""
        ...

    def leaf_score(self, query: Query, device: str, grades: Sequence[Grade]) -> LeafScore:
        """How similar is this device, from what was said of its pictures (paper A, Algorithm 3)?"""
        ...

    def expand(self, query: Query, scores: Mapping[str, LeafScore]) -> Expansion:
        """Is another device worth looking at (paper A §2.4)?"""
        ...

    def compare(self, query: Query, first: Candidate, second: Candidate) -> Comparison:
        """Which of the two is more like the query (paper A, Algorithm 4)?"""
        ...

    def predict(self, question: PredictQuestion) -> Prediction:
        """Which action comes next (paper A §3.3)?"""
        ...
