"""The guided search: a judge confirms the first candidate, or grades devices until one case is left (paper A §2.4, SPEC A5).

Algorithms 3 to 5. All gradings of the first leaves are asked at once, a leaf is scored as soon as its own pictures are
graded, and a tie is compared in one round; ``faithful`` asks one question after the other. Both ask the same of a judge,
spend a budget of calls on the same questions, and end with the same case for the same verdicts; only in ties beyond
``tie_pairs_up_to`` may comparisons that contradict each other end elsewhere, and then the trace says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from sagehand.cases import Index
from sagehand.errors import InputError
from sagehand.judge.cost import FREE
from sagehand.judge.questions import Candidate, Judge, LeafScore, Query
from sagehand.recall.asker import Asker, Bounds, Pending, Question
from sagehand.recall.grading import Grader, LookedAt
from sagehand.recall.leaves import Leaf, leaves
from sagehand.recall.params import PAPER, SearchParams
from sagehand.recall.rank import Ranking
from sagehand.recall.tiebreak import TieBreak
from sagehand.recall.ties import position_suspicions
from sagehand.recall.trace import SearchTrace, Tie

__all__ = ["PAPER", "SearchParams", "SearchResult", "search"]

_ALWAYS = 6
"""So many equal grades, and no other, are worth a word."""


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search has found.

    Attributes:
        case: The one case, or None.
        verified: Whether the judge confirmed it, or graded it ``min_grade`` or better.
        reason: Why this case, or why none.
        grade: Its grade, 0 to 10; None where it was not graded.
        trace: Everything that was asked and answered.
    """

    case: Candidate | None
    verified: bool
    reason: str
    grade: int | None
    trace: SearchTrace


def search(
    index: Index,
    query: Query,
    judge: Judge,
    ranking: Ranking,
    params: SearchParams | None = None,
    *,
    budget: Bounds | None = None,
) -> SearchResult:
    """Find the one case that is most like the query.

    A judge that fails in a single question (:class:`~sagehand.errors.VlmError`) leaves that picture unscored; any other
    error, and Ctrl-C, ends the search: what waits is never asked, and what is under way is awaited.

    Args:
        index: The cases.
        query: What the judge is shown.
        judge: Who is asked; from several threads at once, unless ``faithful`` or ``concurrency`` is 1.
        ranking: The first ranking, made on this index; what it excludes (the query's own picture) is never graded.
        params: See :class:`SearchParams`.
        budget: The budget of the decision that this is a part of.

    Returns:
        The case and the whole trace. When a budget runs out, the best so far; the nearest case, not verified, when
        nothing was graded.

    Raises:
        InputError: The ranking was made on another index.
        JudgeError: The judge cannot answer such questions at all.
    """
    params = params or SearchParams()
    if ranking.index is not index:
        raise InputError("the ranking was made on another index", hint="rank again after the case base has changed")
    with Asker(concurrency=params.concurrency, seconds=params.seconds, calls=params.calls, budget=budget) as asker:
        return _Search(query, judge, ranking, params, asker).run()


class _Search:
    """One search."""

    def __init__(self, query: Query, judge: Judge, ranking: Ranking, params: SearchParams, asker: Asker) -> None:
        self.query, self.judge, self.ranking, self.params, self.asker = query, judge, ranking, params, asker
        self.ties = TieBreak(query, judge, asker, params)
        self.grader = Grader(
            query, judge, asker, faithful=params.faithful, when_graded=lambda: self.ties.ahead(self._tied())
        )
        self.expansions: list[Pending] = []
        self.expansion = "not reached"
        self.tie: Tie | None = None
        self._rank = {row: at for at, row in enumerate(ranking.order.tolist())}

    def run(self) -> SearchResult:
        """Algorithm 5."""
        if not len(self.ranking.rows):
            return self._result(None, False, "there is no case to search")
        nearest = self.ranking.first(self.params.n)
        if self.params.first_look and self._confirmed(nearest[0]):
            return self._result(nearest[0], True, "the judge confirmed the first candidate")
        walk = leaves(self.ranking, images_per_step=self.params.images_per_step)
        named = len({(candidate.case.family, candidate.case.device) for candidate in nearest})
        self.grader.grade([LookedAt(leaf) for leaf in islice(walk, min(named, self.params.leaves))])
        self._expand(walk)
        return self._choose(nearest[0])

    def _confirmed(self, top: Candidate) -> bool:
        ask = Question("BoolGradeImage", (top.case.id,), lambda: self.judge.bool_grade(self.query, top))
        looked = self.asker.ask(ask, "first look")
        return looked is not None and looked.answer is not None and looked.answer.accepted is True

    def _expand(self, walk: Iterator[Leaf]) -> None:
        """ExpandSearch: one more leaf at a time, while the judge wants one and there is one."""
        while True:
            looked, scores = len(self.grader.looked), self.grader.scores()
            if looked >= self.params.most_leaves:
                self.expansion = f"{looked} devices were looked at, the most that are allowed"
            elif not scores:
                self.expansion = "no device was scored"
            elif (leaf := next(walk, None)) is None:
                self.expansion = "every device was looked at"
            elif self._wants_more(scores):
                self.grader.grade([LookedAt(leaf, expanded=True)])
                continue
            return

    def _wants_more(self, scores: dict[str, LeafScore]) -> bool:
        ask = Question("ExpandSearch", (), lambda: self.judge.expand(self.query, scores))
        pending = self.asker.ask(ask, "expansion")
        if pending is not None:
            self.expansions.append(pending)
        if pending is None or pending.asked is None:
            self.expansion = self.asker.ran_out or "not asked"
            return False
        self.expansion = pending.asked.error or pending.asked.text
        return pending.answer is not None and pending.answer.expand is True

    def _choose(self, top: Candidate) -> SearchResult:
        graded = self.grader.graded()
        if not graded:
            why = self.asker.ran_out or "the judge graded nothing"
            return self._result(top, False, f"{why}: the nearest case, which nobody has verified")
        best = max(grade for _, grade in graded)
        devices = len(self.grader.looked)
        where = f"of {len(graded)} pictures of {devices} device{'s' if devices > 1 else ''}"
        so_far = f"; the search ended early: {self.asker.ran_out}" if self.asker.ran_out else ""
        tied = self._tied()
        if not tied:
            return self._result(None, False, f"the best grade {where} is {best}, below {self.params.min_grade}{so_far}")
        if len(tied) == 1:
            return self._result(tied[0], True, f"graded {best}, the highest {where}{so_far}", best)
        self.tie = self.ties.resolve(best, tied)
        winner = next(candidate for candidate in tied if candidate.case.id == self.tie.winner)
        so_far = f"; the search ended early: {self.asker.ran_out}" if self.asker.ran_out else ""
        how = f"graded {best}, the highest {where}, like {len(tied) - 1} more, and chosen among them pair by pair"
        return self._result(winner, True, how + so_far, best)

    def _tied(self) -> list[Candidate]:
        """Those with the highest grade, by rank; none where it is too low."""
        graded = self.grader.graded()
        best = max((grade for _, grade in graded), default=-1)
        if best < self.params.min_grade:
            return []
        return sorted((candidate for candidate, grade in graded if grade == best), key=self._by_rank)

    def _by_rank(self, candidate: Candidate) -> tuple[float, float, str]:
        row = self.ranking.index.row(candidate.case.id)
        place = math.inf if row is None else self._rank.get(row, math.inf)
        return place, -candidate.evidence.picture, candidate.case.id

    def _result(self, case: Candidate | None, verified: bool, reason: str, grade: int | None = None) -> SearchResult:
        self.asker.stop()
        questions = self.asker.questions()
        rounds = self.asker.rounds(questions)
        in_turn = sum(asked.kind != "CompareImages" for asked in questions) + self.ties.turns
        trace = SearchTrace(
            order="one by one" if self.params.faithful else "at once",
            questions=questions,
            rounds=rounds,
            saved_rounds=max(in_turn - len(rounds), 0),
            leaves=tuple(looked.trace() for looked in self.grader.looked),
            expansions=tuple(pending.asked for pending in self.expansions if pending.asked is not None),
            expansion=self.expansion,
            tie=self.tie,
            suspicions=tuple(self._suspicions()),
            limits=self.asker.limits(questions),
            cost=sum((asked.cost for asked in questions), FREE),
        )
        return SearchResult(case, verified, reason, grade, trace)

    def _suspicions(self) -> list[str]:
        """Signs that the judge does not look."""
        grades = [grade for _, grade in self.grader.graded()]
        always = len(grades) >= _ALWAYS and len(set(grades)) == 1
        found = [f"all {len(grades)} pictures have the grade {grades[0]}"] if always else []
        return found + position_suspicions(self.tie.pairs if self.tie else ())
