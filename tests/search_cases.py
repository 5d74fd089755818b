"""Cases, verdict tables and judges for the tests of the guided search."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from builders import base_of, draft, near, unit
from sagehand.cases import Index
from sagehand.errors import Truncated
from sagehand.judge.calibration import Calibration
from sagehand.judge.questions import (
    BoolGrade,
    Candidate,
    Comparison,
    Expansion,
    Finding,
    Grade,
    LeafScore,
    Query,
)
from sagehand.judge.scripted import ScriptedJudge
from sagehand.recall.rank import Ranking, rank

SEEN = (Finding("shape", "agrees", "round"),)


def cell(devices: int = 6, steps: int = 4, views: int = 3, seed: int = 0) -> Index:
    """Devices d0, d1, … whose nearness to :data:`QUERY` falls with their number."""
    rng = np.random.default_rng(seed)
    drafts = []
    for device in range(devices):
        for step in range(1, steps + 1):
            for view in range(views):
                vector = near([3, 0.4 * device], 0.05, rng)
                row = {
                    "family": "f",
                    "device": f"d{device}",
                    "step": step,
                    "previous_action": f"a{step - 1}",
                    "next_action": f"a{step}",
                }
                drafts.append(draft(f"{device}-{step}-{view}", vector, row))
    return base_of(drafts).index()


INDEX = cell()
QUERY = Query(unit([3]))
RANKING = rank(INDEX, QUERY, Calibration())


def ranked(index: Index, query: Query = QUERY, exclude: Sequence[str] = ()) -> Ranking:
    return rank(index, query, Calibration(), exclude=frozenset(exclude))


def drawn(*key: Any) -> int:
    """A number that depends on the key alone."""
    return int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=6).digest(), "big")


@dataclass(frozen=True)
class Table:
    """Verdicts as functions of what is shown, drawn by a seed.

    Attributes:
        seed: Of the draw.
        grades: How many different grades there are, counted down from 10: few make many ties.
        failing: One question in so many fails with a VlmError; 0 for none.
        silent: One question in so many is answered with "cannot tell"; 0 for none.
        turned: Whether a comparison may depend on the order in which two pictures are shown.
        expanding: One expansion in so many is wanted; 0 for none.
    """

    seed: int
    grades: int = 11
    failing: int = 0
    silent: int = 0
    turned: bool = False
    expanding: int = 2

    def answer(self, *key: Any) -> int | None:
        """A large number; None for "cannot tell"."""
        if self.failing and drawn(self.seed, "fails", key) % self.failing == 0:
            raise Truncated("cut off")
        if self.silent and drawn(self.seed, "silent", key) % self.silent == 0:
            return None
        return drawn(self.seed, key)

    def grade(self, query: Query, candidate: Candidate) -> Grade:
        drew = self.answer("grade", candidate.case.id)
        return Grade(None if drew is None else 10 - drew % self.grades, SEEN, "table")

    def leaf_score(self, query: Query, device: str, grades: Sequence[Grade]) -> LeafScore:
        drew = self.answer("leaf", device, [g.score for g in grades])
        return LeafScore(None if drew is None else drew % 11, f"{device}: so so", "table")

    def expand(self, query: Query, scores: Mapping[str, LeafScore]) -> Expansion:
        drew = self.answer("expand", [(name, s.score) for name, s in scores.items()])
        wants = None if drew is None else bool(self.expanding) and drew % max(self.expanding, 1) == 0
        return Expansion(wants, "because", "table")

    def compare(self, query: Query, first: Candidate, second: Candidate) -> Comparison:
        shown = (first.case.id, second.case.id)
        if self.turned:
            drew = self.answer("compare", shown)
            return Comparison(None if drew is None else "first" if drew % 2 else "second", SEEN, "table")
        low, high = sorted(shown)
        drew = self.answer("compare", low, high)
        if drew is None:
            return Comparison(None, SEEN, "table")
        return Comparison("first" if shown[0] == (low if drew % 2 else high) else "second", SEEN, "table")

    def bool_grade(self, query: Query, candidate: Candidate) -> BoolGrade:
        drew = self.answer("bool", candidate.case.id)
        return BoolGrade(None if drew is None else drew % 4 == 0, None, SEEN, "table")

    def judge(self, **instead: Callable[..., Any]) -> ScriptedJudge:
        """A scripted judge that answers from the table, apart from the questions given here."""
        return judge_of(self, **instead)


def judge_of(table: Table, **instead: Callable[..., Any]) -> ScriptedJudge:
    names = ("grade", "leaf_score", "expand", "compare", "bool_grade")
    return ScriptedJudge({name: instead.get(name, getattr(table, name)) for name in names})


def says(accepted: bool | None) -> Callable[..., BoolGrade]:
    return lambda query, candidate: BoolGrade(accepted, None, SEEN, "s")


def graded(grades: Mapping[str, int | None] | Callable[[Candidate], int | None]) -> Callable[..., Grade]:
    """Grades by case id (0 for the rest), or by a function of the candidate."""

    def grade(query: Query, candidate: Candidate) -> Grade:
        score = grades(candidate) if callable(grades) else grades.get(candidate.case.id, 0)
        return Grade(score, (Finding("shape", "agrees", f"looks like {score}"),), "s")

    return grade


def expands(*answers: bool | None) -> Callable[..., Expansion]:
    """These answers in turn, then no."""
    left = list(answers)
    return lambda query, scores: Expansion(left.pop(0) if left else False, f"seen {len(scores)}", "s")


def prefers(order: Sequence[str]) -> Callable[..., Comparison]:
    """The one that stands first in a list of ids."""

    def compare(query: Query, first: Candidate, second: Candidate) -> Comparison:
        return Comparison("first" if order.index(first.case.id) < order.index(second.case.id) else "second", SEEN, "s")

    return compare


def scores(value: int = 7) -> Callable[..., LeafScore]:
    return lambda query, device, grades: LeafScore(value, f"{device}: {len(grades)}", "s")


def scripted(**answers: Callable[..., Any]) -> ScriptedJudge:
    """Rejects the first candidate, grades all 0, scores all 7, never expands: apart from what is given."""
    usual: dict[str, Callable[..., Any]] = {
        "bool_grade": says(False),
        "grade": graded({}),
        "leaf_score": scores(),
        "expand": expands(),
    }
    return ScriptedJudge(usual | answers)
