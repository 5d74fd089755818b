"""The judge that asks a vision-language model (paper A §2.2, 2.4, 3.3).

Every question is one tool call of the paper. All questions about one query begin alike — system text, query picture, what is
known — so that a server pays for the query picture once; what a question adds comes after it, the candidate last. (The paper
puts the list of actions into the system text; here it comes with the one question that needs it.)

A failure is a :class:`~sagehand.errors.VlmError` and never an answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

from sagehand.errors import InputError, JudgeError, PictureError, StoreError, VlmError
from sagehand.judge import vlm_tools as tools
from sagehand.judge.cost import FREE, Cost
from sagehand.judge.prompts import Prompts
from sagehand.judge.questions import (
    BoolGrade,
    Candidate,
    Comparison,
    CropAnswer,
    CropMove,
    CropTurn,
    Expansion,
    Finding,
    Grade,
    LeafScore,
    Prediction,
    PredictQuestion,
    Query,
)
from sagehand.judge.vlm_crop import crop_move, crop_parts, crop_tools, image_part
from sagehand.judge.vlm_predict import Said, predict_text, predict_tool, read_prediction
from sagehand.judge.vlm_words import (
    Cell,
    case_text,
    findings_of,
    grades_text,
    known_text,
    scores_text,
)
from sagehand.picture import Box, Picture
from sagehand.vlm.ask import Vlm
from sagehand.vlm.base import ImagePart, Question, ToolCall
from sagehand.vlm.budget import Budget
from sagehand.vlm.tools import Tool

__all__ = ["VlmJudge"]

_MIN_GRADE = 5  # SPEC A5: the least grade that counts as a match
_TOKENS = {"BoolGradeImage": 512, "GradeImage": 512, "LeafFinalScore": 384, "ExpandSearch": 256, "CompareImages": 512}
_PREDICT_TOKENS = 1024


class VlmJudge:
    """Asks a vision-language model what paper A asks it.

    Args:
        vlm: The model.
        picture_of: Case id → its picture, cut as the query is; called from several threads.
        cell: The actions and families.
        prompts: The texts; the packaged ones by default.
        budget: What may be spent; unlimited by default.

    Attributes:
        said: The newest prediction as the model gave it, or None.

    Raises:
        InputError: An action has a name that stands for "cannot tell" or "not known".
    """

    def __init__(
        self,
        vlm: Vlm,
        picture_of: Callable[[str], Picture],
        cell: Cell | None = None,
        *,
        prompts: Prompts | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.vlm, self.picture_of, self.cell = vlm, picture_of, cell or Cell()
        self.prompts = prompts or Prompts()
        self.budget = budget
        self.said: Said | None = None
        self._spent, self._lock = FREE, threading.Lock()
        for name in (tools.CANNOT_TELL, tools.NOT_KNOWN):
            if name in (*(a.name for a in self.cell.actions), *self.cell.families):
                raise InputError(
                    f"{name!r} cannot be the name of an action or a family", hint="it is an answer of its own"
                )

    @property
    def name(self) -> str:
        """Who speaks."""
        return f"vlm:{self.vlm.model}"

    @property
    def spent(self) -> Cost:
        """What all questions of this judge cost so far, those that failed included."""
        with self._lock:
            spent = self._spent
        if self.budget is None:
            return spent
        # a budget of its own counts what failed questions read and wrote, too
        used = self.budget.spent
        return Cost(used.calls, used.prompt, used.completion, spent.seconds, spent.cached)

    def within(self, budget: Budget | None) -> VlmJudge:
        """The same judge for one decision: with a budget and a bill of its own."""
        return VlmJudge(self.vlm, self.picture_of, self.cell, prompts=self.prompts, budget=budget)

    @contextmanager
    def part(self, budget: Budget) -> Iterator[VlmJudge]:
        """The same judge for a part of a decision, with a budget of its own that is charged to this one.

        What is still under way at the end of the part is cancelled: it must not stand in the way of what follows.
        """
        other = self.within(budget)
        try:
            yield other
        finally:
            budget.cancel()
            self._charge(other._spent)
            if self.budget is not None:
                self.budget.spend(budget.spent)

    def crop(self, picture: Picture, instruction: str = "") -> CropAnswer:
        """Where the device is, in one turn of Algorithm 2; ``recall.crop`` asks for moves, turn by turn."""
        whole = Box(0, 0, *picture.size)
        move = self.crop_move(CropTurn(picture, picture, "box", 0, 0, whole, 1, 1, instruction))
        found = (Finding("location", "cannot tell" if move.tool == "Finish" else "agrees", move.reason),)
        box = whole
        if move.tool == "SetBoundingBoxParameters":
            named = move.arguments
            try:
                box = Box.from_fractions(named["x"], named["y"], named["width"], named["height"], picture.size)
            except InputError:
                return CropAnswer(None, found, self.name, cost=move.cost)
        return CropAnswer(box, found, self.name, cost=move.cost)

    def crop_move(self, turn: CropTurn) -> CropMove:
        """The tool that the model chooses in a turn (paper A, Algorithms 1 and 2)."""
        convention = self.vlm.profile.boxes
        frame = self.vlm.encoded(image_part(turn.full, "full picture")).frame
        parts = crop_parts(self.prompts, turn, convention, frame)
        call, cost = self._ask(parts, *crop_tools(turn, convention, frame))
        return replace(crop_move(call, self.name, convention, frame), cost=cost)

    def bool_grade(self, query: Query, candidate: Candidate) -> BoolGrade:
        """``BoolGradeImage``: is the first candidate the right one (paper A §2.4)?"""
        seen = self._candidate(candidate, "candidate")
        if isinstance(seen, Finding):
            return BoolGrade(None, None, (seen,), self.name)
        parts = [*self._query(query), self.prompts("bool_grade"), *seen]
        call, cost = self._ask(parts, tools.BoolGradeImage)
        accepted = bool(_field(call, "match"))
        found = findings_of(call.reasoning, "agrees" if accepted else "differs")
        return BoolGrade(accepted, None, found, self.name, cost=cost)

    def grade(self, query: Query, candidate: Candidate) -> Grade:
        """``GradeImage``: 0 to 10 for one candidate (paper A, Algorithm 3)."""
        seen = self._candidate(candidate, "candidate")
        if isinstance(seen, Finding):
            return Grade(None, (seen,), self.name)
        parts = [*self._query(query), self.prompts("grade"), *seen]
        call, cost = self._ask(parts, tools.GradeImage)
        score = int(_field(call, "score"))
        found = findings_of(call.reasoning, "agrees" if score >= _MIN_GRADE else "differs")
        return Grade(score, found, self.name, cost=cost)

    def leaf_score(self, query: Query, device: str, grades: Sequence[Grade]) -> LeafScore:
        """``LeafFinalScore``: 0 to 10 for a device, from what was said of its pictures, as text (paper A, Algorithm 3)."""
        asked = self.prompts("leaf_score", device=device, findings=grades_text(grades))
        call, cost = self._ask([known_text(self.prompts, query), asked], tools.LeafFinalScore)
        return LeafScore(int(_field(call, "score")), str(_field(call, "summary")), self.name, cost=cost)

    def expand(self, query: Query, scores: Mapping[str, LeafScore]) -> Expansion:
        """``ExpandSearch``: is another device worth looking at (paper A §2.4)?"""
        asked = self.prompts("expand", scores=scores_text(scores))
        call, cost = self._ask([known_text(self.prompts, query), asked], tools.ExpandSearch)
        return Expansion(bool(_field(call, "expand")), call.reasoning, self.name, cost=cost)

    def compare(self, query: Query, first: Candidate, second: Candidate) -> Comparison:
        """``CompareImages``: which of two is more like the query (paper A, Algorithm 4)?"""
        one, two = self._candidate(first, "first candidate"), self._candidate(second, "second candidate")
        if isinstance(one, Finding) or isinstance(two, Finding):
            return Comparison(None, tuple(f for f in (one, two) if isinstance(f, Finding)), self.name)
        parts = [*self._query(query), self.prompts("compare"), *one, *two]
        call, cost = self._ask(parts, tools.CompareImages)
        better: Literal["first", "second"] = _field(call, "better")
        return Comparison(better, findings_of(call.reasoning, "differs"), self.name, cost=cost)

    def predict(self, question: PredictQuestion) -> Prediction:
        """``PredictActions`` (paper A §3.1, 3.3): with the first candidate as the example, or with none.

        The next action is one of the valid ones or None; no confidence comes with it, for nothing has calibrated it.
        """
        lead = question.candidates[0] if question.candidates else None
        text = predict_text(self.prompts, self.cell, question)
        parts = [*self._query(question.query), text, *(self._example(lead) if lead else ())]
        call, cost = self._ask(parts, predict_tool(self.cell, question), max_tokens=_PREDICT_TOKENS)
        self.said = Said.of(call)
        return replace(read_prediction(call, question, self.cell, self.name), cost=cost)

    def _query(self, query: Query) -> list[str | ImagePart]:
        """What all questions about a query begin with."""
        if query.picture is None:
            raise JudgeError("the query has no picture to show to a model", hint="hand in Query(picture=…)")
        return [image_part(query.picture, "query picture"), known_text(self.prompts, query)]

    def _candidate(self, candidate: Candidate, label: str) -> list[str | ImagePart] | Finding:
        """A case's picture and text; a picture that cannot be read leaves the question unasked."""
        try:
            picture = self.picture_of(candidate.case.id)
        except (PictureError, StoreError) as error:
            return Finding("picture", "cannot tell", f"the picture of the case cannot be shown: {error.message}")
        return [image_part(picture, label), case_text(self.prompts, candidate.case, f"the {label}")]

    def _example(self, candidate: Candidate) -> list[str | ImagePart]:
        """The retrieved case for a prediction: its text serves even where its picture cannot be read."""
        seen = self._candidate(candidate, "past case")
        if isinstance(seen, Finding):
            seen = [case_text(self.prompts, candidate.case, "the past case (its picture cannot be shown)")]
        return [self.prompts("example"), *seen]

    def _ask(
        self, parts: Sequence[str | ImagePart], *kinds: type[Tool], max_tokens: int | None = None
    ) -> tuple[ToolCall, Cost]:
        name = kinds[0].__name__
        question = Question(name, self.prompts("system"), parts, kinds, max_tokens or _TOKENS.get(name, 384))
        try:
            call = self.vlm.ask(question, budget=self.budget)
        except VlmError as error:
            self._charge(Cost(calls=error.attempts))
            raise
        cost = Cost(
            0 if call.cached else call.usage.calls or call.attempts,
            0 if call.cached else call.usage.prompt,
            0 if call.cached else call.usage.completion,
            call.seconds,
            int(call.cached),
        )
        self._charge(cost)
        return call, cost

    def _charge(self, cost: Cost) -> None:
        with self._lock:
            self._spent = self._spent + cost


def _field(call: ToolCall, name: str) -> Any:
    return getattr(call.tool, name)
