"""The questions that paper A asks of a model, and the typed answers; who answers is a :class:`Judge`.

Two judges ship: the perceptual one (no VLM) and, with a server or local weights, the VLM one. Every answer says who gave
it, carries its evidence in words, and may be "cannot tell" (None): a finding that nothing measured is never claimed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sagehand.cases import Case
from sagehand.judge.cost import FREE, Cost
from sagehand.picture import Box, Picture

__all__ = [
    "BoolGrade",
    "Candidate",
    "Comparison",
    "CropAnswer",
    "CropMove",
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
]

Verdict = Literal["agrees", "differs", "cannot tell"]
CropTool = Literal["Crop", "SetGridSize", "Reset", "Finish", "SetBoundingBoxParameters"]


@dataclass(frozen=True)
class Finding:
    """One sentence of evidence.

    Attributes:
        topic: What was looked at: "picture", "depth", "place", "previous action", "shape", "components", …
        verdict: Whether query and candidate agree in it; "cannot tell" where nothing measured it.
        text: The finding in words.
    """

    topic: str
    verdict: Verdict
    text: str


@dataclass(frozen=True, eq=False)
class Query:
    """What is in front of the robot, and what is known about it.

    Attributes:
        vector: (d,) unit embedding of the (cropped) picture.
        picture: The picture itself, cropped as the case base is; None where only vectors are compared.
        depth_vector: (576,) unit relief, or None without depth.
        previous_action: The action that led here; "none" when nothing was done yet; None when not known.
        place: Where the device sits, when known.
        family: Its family, when known.
    """

    vector: NDArray[np.float32]
    picture: Picture | None = None
    depth_vector: NDArray[np.float32] | None = None
    previous_action: str | None = None
    place: str | None = None
    family: str | None = None


@dataclass(frozen=True)
class Evidence:
    """What was measured between a query and one case.

    Attributes:
        picture: Cosine of the two picture embeddings, in [-1, 1].
        previous: 1 the same known previous action, -1 another one, 0 not known on either side.
        place: The same for the place.
        depth: Cosine of the two reliefs when both have depth, else None.
    """

    picture: float
    previous: int
    place: int
    depth: float | None


@dataclass(frozen=True)
class Candidate:
    """A past case beside the query.

    Attributes:
        case: The case.
        evidence: What was measured between the two.
        score: The calibrated sum of the evidence; only differences mean something.
        probability: Share of belief among all cases compared, in [0, 1].
    """

    case: Case
    evidence: Evidence
    score: float
    probability: float


@dataclass(frozen=True)
class CropAnswer:
    """Where the device is (paper A §2.2).

    Attributes:
        box: In pixels of the picture asked about, or None for "cannot tell".
        findings: Why.
        by: The judge's name.
        cost: What the answer cost.
    """

    box: Box | None
    findings: tuple[Finding, ...]
    by: str
    cost: Cost = field(default=FREE, compare=False)


@dataclass(frozen=True, eq=False)
class CropTurn:
    """One turn of cropping: what is seen, and what may be done next (paper A, Algorithms 1 and 2).

    Attributes:
        full: The whole picture, without anything drawn on it, in its original pixels.
        view: What is left of it after the moves so far, scaled down to be looked at; for "grid" with the numbered grid
            drawn on it.
        strategy: "grid" (Crop, SetGridSize, Reset, Finish) or "box" (SetBoundingBoxParameters, Finish).
        rows: Rows of the grid drawn on the view; 0 for "box".
        columns: Its columns; 0 for "box".
        box: What the view shows, in pixels of ``full``.
        turn: Number of this turn, from 1.
        most: Number of the last turn; what is left after it is taken.
        instruction: What shall be in the crop, in words.
        notes: What became of the earlier moves and what this turn demands, in words, oldest first.
    """

    full: Picture
    view: Picture
    strategy: Literal["grid", "box"]
    rows: int
    columns: int
    box: Box
    turn: int
    most: int
    instruction: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CropMove:
    """The tool chosen in a :class:`CropTurn`.

    Attributes:
        tool: Its name.
        arguments: Crop: ``top_left`` and ``bottom_right``, numbers of cells of the view, 1 to rows · columns, row by
            row. SetGridSize: ``rows`` and ``columns``. SetBoundingBoxParameters: ``x``, ``y`` (top left corner),
            ``width`` and ``height`` in fractions of ``full``, 0 to 1. Reset and Finish: none.
        reason: Why, in words.
        by: The judge's name.
        cost: What the answer cost.
    """

    tool: CropTool
    arguments: Mapping[str, float | int]
    reason: str
    by: str
    cost: Cost = field(default=FREE, compare=False)


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
