"""The perceptual judge: answers paper A's questions without a VLM, from what was measured and what is known (SPEC C1).

It never claims a finding about shape or internal components, because nothing here measures them: it says "cannot tell".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sagehand.judge.calibration import Calibration
from sagehand.judge.cells import MOST_CELLS, Grid
from sagehand.judge.evidence import picture_likeness, stack
from sagehand.judge.model import match_probability, most_believed
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
from sagehand.picture import Picture

__all__ = ["PERCEPTUAL", "PerceptualJudge"]

PERCEPTUAL = "perceptual"
"""What the judge calls itself, in every result."""

_KNOWN = ("place", "previous action", "device class")
_MIN_GRADE = 5  # SPEC A5: below it, no case


class PerceptualJudge:
    """Embedder, case text and calibration in place of a VLM.

    Args:
        calibration: What the case base has learnt; without one no grade is given.
    """

    def __init__(self, calibration: Calibration | None = None) -> None:
        self.calibration = calibration or Calibration()

    @property
    def name(self) -> str:
        """Who speaks."""
        return PERCEPTUAL

    def crop(self, picture: Picture, instruction: str = "") -> CropAnswer:
        """What stands out from the background, with a margin; the instruction cannot be read and is not."""
        from sagehand.judge.saliency import stands_out

        box, text = stands_out(picture.pixels)
        return CropAnswer(box, (Finding("location", "cannot tell", text),), self.name)

    def relief_crop(self, picture: Picture) -> CropAnswer:
        """What stands up from the surface near the middle, by depth; what stands out where there is no depth."""
        from sagehand.judge.saliency import stands_up

        box, text = stands_up(picture.pixels, picture.depth)
        return CropAnswer(box, (Finding("location", "cannot tell", text),), self.name)

    def crop_move(self, turn: CropTurn) -> CropMove:
        """Towards what stands out: its box, or the cells that cover it until every cell of the view is needed."""
        answer = self.crop(turn.full, turn.instruction)
        text = answer.findings[0].text
        if answer.box is None:
            return CropMove("Finish", {}, text, self.name)
        if turn.strategy == "grid":
            grid = Grid(turn.box, turn.rows, turn.columns)
            cells = grid.covering(answer.box)
            if cells == (1, grid.count) and turn.turn == 1:  # too coarse to cut anything away
                return CropMove("SetGridSize", {"rows": MOST_CELLS, "columns": MOST_CELLS}, text, self.name)
            if cells is None or cells == (1, grid.count):
                return CropMove("Finish", {}, f"{text}, and the view is as near to it as cells go", self.name)
            return CropMove("Crop", {"top_left": cells[0], "bottom_right": cells[1]}, text, self.name)
        if turn.turn > 1:
            return CropMove("Finish", {}, text, self.name)
        (width, height), box = turn.full.size, answer.box
        arguments = {
            "x": box.left / width,
            "y": box.top / height,
            "width": box.width / width,
            "height": box.height / height,
        }
        return CropMove("SetBoundingBoxParameters", arguments, text, self.name)

    def bool_grade(self, query: Query, candidate: Candidate) -> BoolGrade:
        """Accept what matches with a probability of at least one half and contradicts nothing that is known."""
        findings = self.findings(query, candidate)
        if not self.calibration.queries:
            return BoolGrade(None, None, findings, self.name)
        probability = self._match(candidate)
        contradicted = any(f.verdict == "differs" and f.topic in _KNOWN for f in findings)
        accepted = probability >= 0.5 and not contradicted
        return BoolGrade(accepted, probability, findings, self.name)

    def grade(self, query: Query, candidate: Candidate) -> Grade:
        """Ten times the calibrated probability of a match, rounded; "cannot tell" without a calibration."""
        score = round(10 * self._match(candidate)) if self.calibration.queries else None
        return Grade(score, self.findings(query, candidate), self.name)

    def leaf_score(self, query: Query, device: str, grades: Sequence[Grade]) -> LeafScore:
        """The best grade of the device's pictures."""
        scores = [g.score for g in grades if g.score is not None]
        if not scores:
            return LeafScore(None, f"{device}: no picture was graded", self.name)
        return LeafScore(max(scores), f"{device}: best of {len(scores)} grades is {max(scores)}", self.name)

    def expand(self, query: Query, scores: Mapping[str, LeafScore]) -> Expansion:
        """One more device while none reaches the least grade that counts as a case."""
        known = [s.score for s in scores.values() if s.score is not None]
        if not known:
            return Expansion(None, "no device was graded", self.name)
        best = max(known)
        return Expansion(best < _MIN_GRADE, f"the best device is graded {best}; {_MIN_GRADE} is a match", self.name)

    def compare(self, query: Query, first: Candidate, second: Candidate) -> Comparison:
        """The one with more evidence; equal evidence cannot be told apart."""
        difference = first.score - second.score
        text = f"sum of the evidence {first.score:.2f} against {second.score:.2f}"
        if difference == 0:
            return Comparison(None, (Finding("evidence", "cannot tell", text),), self.name)
        return Comparison("first" if difference > 0 else "second", (Finding("evidence", "differs", text),), self.name)

    def predict(self, question: PredictQuestion) -> Prediction:
        """The valid action with most belief, and the case that speaks most for it."""
        best = most_believed(question.beliefs, question.valid_actions)
        device_class = most_believed(question.classes)
        if best is None:
            return Prediction(
                next_action=None,
                confidence=None,
                case=question.candidates[0] if question.candidates else None,
                remaining_actions=None,
                is_last=None,
                device_class=device_class,
                previous_action=question.query.previous_action,
                findings=(Finding("next action", "cannot tell", _why_none(question)),),
                by=self.name,
            )
        lead = next((c for c in question.candidates if c.case.next_action == best), None)
        case = lead.case if lead else None
        return Prediction(
            next_action=best,
            confidence=question.beliefs[best],
            case=lead,
            remaining_actions=case.remaining_actions if case else None,
            is_last=case.is_last if case else None,
            device_class=device_class,
            previous_action=question.query.previous_action or (case.previous_action if case else None),
            findings=self.findings(question.query, lead) if lead else (),
            by=self.name,
        )

    def findings(self, query: Query, candidate: Candidate) -> tuple[Finding, ...]:
        """What was measured between the query and a candidate, and what was not, in words."""
        case, evidence = candidate.case, candidate.evidence
        found = [
            self._picture(evidence.picture),
            _known("place", query.place, case.place, evidence.place),
            _known("previous action", query.previous_action, case.previous_action, evidence.previous),
        ]
        if query.family is not None:
            found.append(_known("device class", query.family, case.family, 1 if query.family == case.family else -1))
        if evidence.depth is not None:
            text = f"the depth reliefs have a cosine of {evidence.depth:.2f}"
            found.append(
                Finding("depth", "agrees" if evidence.depth >= self.calibration.scaling.depth_mean else "differs", text)
            )
        found.append(Finding("shape", "cannot tell", "nothing here measures the shape"))
        found.append(Finding("components", "cannot tell", "nothing here looks for internal components"))
        return tuple(found)

    def _picture(self, cosine: float) -> Finding:
        usual = self.calibration.usual
        text = f"the pictures have a cosine of {cosine:.2f}"
        if len(usual) < 2:
            return Finding("picture", "cannot tell", f"{text}; what is usual here has not been learnt")
        low, middle = usual[len(usual) // 20], usual[len(usual) // 2]
        text += f"; between nearest cases of this base {middle:.2f} is usual, and 19 of 20 reach {low:.2f}"
        return Finding("picture", "agrees" if cosine >= low else "differs", text)

    def _match(self, candidate: Candidate) -> float:
        evidence = candidate.evidence
        features = stack(
            picture_likeness(np.array(evidence.picture)),
            np.array(evidence.previous, dtype=np.int8),
            np.array(evidence.place, dtype=np.int8),
            np.array(np.nan if evidence.depth is None else evidence.depth),
            self.calibration.scaling,
        )
        return float(match_probability(features, np.array(self.calibration.match)))


def _known(topic: str, query: str | None, case: str | None, agrees: int) -> Finding:
    if agrees > 0:
        return Finding(topic, "agrees", f"the {topic} is {query!r} for both")
    if agrees < 0:
        return Finding(topic, "differs", f"the {topic} is {query!r} here and {case!r} in the case")
    side = "of this picture" if query is None else "of the case"
    return Finding(topic, "cannot tell", f"the {topic} {side} is not known")


def _why_none(question: PredictQuestion) -> str:
    if not question.candidates:
        return "there is no case to lean on"
    if not question.beliefs:
        return "of no case near it is the next action known"
    return "every action that the cases suggest is ruled out"
