"""A public test double: a judge that answers from a script."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from sagehand.errors import JudgeError
from sagehand.judge.questions import (
    BoolGrade,
    Candidate,
    Comparison,
    CropAnswer,
    CropMove,
    CropTurn,
    Expansion,
    Grade,
    LeafScore,
    Prediction,
    PredictQuestion,
    Query,
)
from sagehand.picture import Picture

__all__ = ["ScriptedJudge"]

A = TypeVar("A")


class ScriptedJudge:
    """Answers each kind of question from a list, in order, or from a function of the question's arguments.

    Args:
        script: Question name ("crop", "crop_move", "bool_grade", "grade", "leaf_score", "expand", "compare", "predict") →
            a list of answers, or a function that returns one.
        name: What it calls itself.

    Attributes:
        asked: The names of the questions asked so far, in order.
    """

    def __init__(self, script: Mapping[str, Sequence[Any] | Callable[..., Any]], name: str = "scripted") -> None:
        self._script = {k: v if callable(v) else list(v) for k, v in script.items()}
        self._name = name
        self.asked: list[str] = []

    @property
    def name(self) -> str:
        """Who speaks."""
        return self._name

    def _answer(self, kind: type[A], question: str, *arguments: Any) -> A:
        self.asked.append(question)
        source = self._script.get(question)
        if callable(source):
            answer = source(*arguments)
        elif source:
            answer = source.pop(0)
        else:
            raise JudgeError(
                f"the script has no answer left for {question!r}", hint=f"scripted: {', '.join(sorted(self._script))}"
            )
        if not isinstance(answer, kind):
            raise JudgeError(
                f"the script answers {question!r} with a {type(answer).__name__}", hint=f"a {kind.__name__} is needed"
            )
        return answer

    def crop(self, picture: Picture, instruction: str = "") -> CropAnswer:
        """The script's next crop."""
        return self._answer(CropAnswer, "crop", picture, instruction)

    def crop_move(self, turn: CropTurn) -> CropMove:
        """The script's next move."""
        return self._answer(CropMove, "crop_move", turn)

    def bool_grade(self, query: Query, candidate: Candidate) -> BoolGrade:
        """The script's next confirmation."""
        return self._answer(BoolGrade, "bool_grade", query, candidate)

    def grade(self, query: Query, candidate: Candidate) -> Grade:
        """The script's next grade."""
        return self._answer(Grade, "grade", query, candidate)

    def leaf_score(self, query: Query, device: str, grades: Sequence[Grade]) -> LeafScore:
        """The script's next leaf score."""
        return self._answer(LeafScore, "leaf_score", query, device, grades)

    def expand(self, query: Query, scores: Mapping[str, LeafScore]) -> Expansion:
        """The script's next word on expanding."""
        return self._answer(Expansion, "expand", query, scores)

    def compare(self, query: Query, first: Candidate, second: Candidate) -> Comparison:
        """The script's next comparison."""
        return self._answer(Comparison, "compare", query, first, second)

    def predict(self, question: PredictQuestion) -> Prediction:
        """The script's next prediction."""
        return self._answer(Prediction, "predict", question)
