"""Grading leaves: each picture, then the device (paper A, Algorithm 3), at once or one question after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sagehand.judge.questions import Candidate, Grade, Judge, LeafScore, Query
from sagehand.recall.asker import Asker, Pending, Question
from sagehand.recall.leaves import Leaf
from sagehand.recall.trace import ImageTrace, LeafTrace

__all__ = ["Grader", "LookedAt"]


@dataclass(eq=False)
class LookedAt:
    """A leaf, and what was asked about it.

    Attributes:
        leaf: The leaf.
        expanded: Whether an expansion brought it in.
        grades: Case id → the question about its picture; in the order of the candidates.
        score: The question about the whole leaf, once it was asked.
    """

    leaf: Leaf
    expanded: bool = False
    grades: dict[str, Pending] = field(default_factory=dict)
    score: Pending | None = None

    @property
    def unasked(self) -> list[tuple[int, Candidate]]:
        """Place and candidate of the pictures that are still to be asked about."""
        return [(at, c) for at, c in enumerate(self.leaf.candidates) if c.case.id not in self.grades]

    @property
    def answers(self) -> list[Grade]:
        """What the judge said of its pictures, nearest first; failures are no answers."""
        return [pending.answer for pending in self.grades.values() if pending.answer is not None]

    @property
    def complete(self) -> bool:
        """Whether every picture was asked about, and every one of these questions has come to an end."""
        return not self.unasked and all(pending.asked is not None for pending in self.grades.values())

    @property
    def unscored(self) -> bool:
        """Whether its score is still to be asked for: there is none, and there is, or may come, something to score."""
        return self.score is None and not (self.complete and not self.answers)

    def grade(self, candidate: Candidate) -> int | None:
        """The picture's grade; None where it has none."""
        pending = self.grades.get(candidate.case.id)
        return pending.answer.score if pending is not None and pending.answer is not None else None

    def trace(self) -> LeafTrace:
        """As it stands."""
        best = max((grade for c in self.leaf.candidates if (grade := self.grade(c)) is not None), default=None)
        images = []
        for candidate in self.leaf.candidates:
            pending, grade = self.grades.get(candidate.case.id), self.grade(candidate)
            findings = pending.asked.findings if pending and pending.asked else ()
            images.append(ImageTrace(candidate, grade, grade is not None and grade == best, findings, _error(pending)))
        score: LeafScore | None = self.score.answer if self.score else None
        return LeafTrace(
            family=self.leaf.family,
            device=self.leaf.device,
            expanded=self.expanded,
            images=tuple(images),
            left_out=self.leaf.left_out,
            score=score.score if score else None,
            summary=score.summary if score else "",
            error=_error(self.score),
        )


class Grader:
    """Grades leaves with one judge.

    Args:
        query: What the judge is shown.
        judge: Who is asked.
        asker: Puts the questions.
        faithful: One question after the other.
        when_graded: Called when every picture of a :meth:`grade` has been graded, scores may still be out; only when
            pictures are graded at once.
    """

    def __init__(
        self, query: Query, judge: Judge, asker: Asker, *, faithful: bool, when_graded: Callable[[], None]
    ) -> None:
        self.looked: list[LookedAt] = []
        self._query, self._judge, self._asker = query, judge, asker
        self._faithful, self._when_graded = faithful, when_graded

    def grade(self, states: list[LookedAt]) -> None:
        """Grade leaves as far as the budget goes."""
        self.looked += states
        if self._faithful:
            self._in_turn(states)
            return
        of = f"gradings of {states[0].leaf.device}" if states[0].expanded else "gradings"
        rounds = self._asker.round(of), self._asker.round("leaf scores")
        while self._at_once(states, *rounds):
            pass
        if _to_ask(states):
            self._asker.allowed()

    def scores(self) -> dict[str, LeafScore]:
        """The devices' scores so far, nearest first."""
        return {self._called(s): s.score.answer for s in self.looked if s.score and s.score.answer is not None}

    def graded(self) -> list[tuple[Candidate, int]]:
        """Every picture that has a grade."""
        all_of_them = [(c, s.grade(c)) for s in self.looked for c in s.leaf.candidates]
        return [(candidate, grade) for candidate, grade in all_of_them if grade is not None]

    def _in_turn(self, states: Sequence[LookedAt]) -> None:
        for state in states:
            for _, candidate in state.unasked:
                pending = self._asker.ask(self._about(candidate), f"grading in {state.leaf.device}")
                if pending is None:
                    return
                state.grades[candidate.case.id] = pending
            if state.unscored:
                state.score = self._asker.ask(self._about_leaf(state), f"score of {state.leaf.device}")

    def _at_once(self, states: Sequence[LookedAt], gradings: int, scores: int) -> bool:
        """Ask what the calls that are left allow, dealt out in the paper's order.

        Returns:
            Whether calls came free, because a leaf of which nothing was graded needs no score, and are wanted elsewhere.
        """
        waiting, promised = self._start(states, gradings)
        freed = False
        while True:
            for state in [s for s in states if s in promised and s.complete]:
                promised.remove(state)
                freed = freed or not state.answers
                if state.answers:
                    state.score = self._asker.start(self._about_leaf(state), scores, states.index(state))
                    waiting += [state.score] if state.score else []
            if not any(pending.question.kind == "GradeImage" for pending in waiting):
                self._when_graded()
            if not waiting:
                return freed and _to_ask(states)
            ended = self._asker.finished(waiting)
            if not ended:
                return False
            waiting = [pending for pending in waiting if pending not in ended]

    def _start(self, states: Sequence[LookedAt], round: int) -> tuple[list[Pending], set[LookedAt]]:
        """Ask about pictures; what was asked, and the leaves for whose score a call is kept."""
        calls = self._asker.calls_left
        left = math.inf if calls is None else calls
        waiting: list[Pending] = []
        promised: set[LookedAt] = set()
        before = 0
        for state in states:
            for at, candidate in state.unasked:
                pending = self._asker.start(self._about(candidate), round, before + at) if left >= 1 else None
                if pending is None:
                    return waiting, promised
                state.grades[candidate.case.id] = pending
                waiting.append(pending)
                left -= 1
            if state.unscored and left >= 1:
                promised.add(state)
                left -= 1
            before += len(state.leaf.candidates)
        return waiting, promised

    def _about(self, candidate: Candidate) -> Question:
        return Question("GradeImage", (candidate.case.id,), lambda: self._judge.grade(self._query, candidate))

    def _about_leaf(self, state: LookedAt) -> Question:
        name, answers = self._called(state), state.answers
        return Question(
            "LeafFinalScore", (state.leaf.name,), lambda: self._judge.leaf_score(self._query, name, answers)
        )

    def _called(self, state: LookedAt) -> str:
        """The device's name; with its family where two families have a device of that name."""
        same = [s for s in self.looked if s.leaf.device == state.leaf.device]
        return state.leaf.device if len(same) == 1 else state.leaf.name


def _to_ask(states: Sequence[LookedAt]) -> bool:
    return any(state.unasked or state.unscored for state in states)


def _error(pending: Pending | None) -> str | None:
    if pending is None:
        return "not asked"
    return pending.asked.error if pending.asked is not None else "not waited for"
