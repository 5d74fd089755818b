"""Everything that a search has asked, heard and concluded, as plain data (SPEC A5, C7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sagehand.judge.cost import FREE, Cost
from sagehand.judge.questions import Candidate, Finding

__all__ = [
    "Asked",
    "ImageTrace",
    "Kind",
    "LeafTrace",
    "Limits",
    "Pair",
    "Round",
    "SearchTrace",
    "Tie",
    "count_kinds",
]

Kind = Literal["BoolGradeImage", "GradeImage", "LeafFinalScore", "ExpandSearch", "CompareImages"]
"""The questions of a search, by the names that paper A gives its tools."""

Answer = bool | int | str | None


@dataclass(frozen=True)
class Asked:
    """One question, and what came of it.

    Attributes:
        kind: Which question.
        about: Ids of the cases, or the leaf's name; empty for ``ExpandSearch``.
        round: Number of the round it was asked in.
        answer: True or False, 0 to 10, "first" or "second"; None for "cannot tell" and where no answer came.
        text: Summary or reason, where the question has one.
        findings: Why.
        by: Who answered; None where no answer came.
        error: What went wrong, or None.
        started: When it was asked, since the search began [s].
        seconds: How long the answer took [s].
        cost: Calls and tokens.
    """

    kind: Kind
    about: tuple[str, ...]
    round: int
    answer: Answer
    text: str
    findings: tuple[Finding, ...]
    by: str | None
    error: str | None
    started: float
    seconds: float
    cost: Cost = FREE

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "kind": self.kind,
            "about": list(self.about),
            "round": self.round,
            "answer": self.answer,
            "text": self.text,
            "findings": [{"topic": f.topic, "verdict": f.verdict, "text": f.text} for f in self.findings],
            "by": self.by,
            "error": self.error,
            "started": round(self.started, 6),
            "seconds": round(self.seconds, 6),
            "cost": self.cost.to_dict(),
        }


@dataclass(frozen=True)
class Round:
    """Questions that were asked at once.

    Attributes:
        name: What they were for.
        questions: How many were asked.
        started: When the first was asked, since the search began [s].
        seconds: Until the last answer [s]. Rounds that do not wait for each other overlap.
    """

    name: str
    questions: int
    started: float
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "name": self.name,
            "questions": self.questions,
            "started": round(self.started, 6),
            "seconds": round(self.seconds, 6),
        }


@dataclass(frozen=True)
class ImageTrace:
    """One picture of a leaf.

    Attributes:
        candidate: The case beside the query.
        grade: 0 to 10, or None: not graded, which is not 0.
        best: Whether it has the leaf's highest grade (ties keep all).
        findings: Why.
        error: Why there is no grade, where something went wrong; "not asked" where the budget ran out before.
    """

    candidate: Candidate
    grade: int | None
    best: bool
    findings: tuple[Finding, ...]
    error: str | None

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        case = self.candidate.case
        return {
            "id": case.id,
            "step": case.step,
            "state": case.state,
            "file_name": case.file_name,
            "next_action": case.next_action,
            "similarity": round(self.candidate.evidence.picture, 6),
            "grade": self.grade,
            "best": self.best,
            "findings": [{"topic": f.topic, "verdict": f.verdict, "text": f.text} for f in self.findings],
            "error": self.error,
        }


@dataclass(frozen=True)
class LeafTrace:
    """One device that was looked at.

    Attributes:
        family: Its family.
        device: Its name.
        expanded: Whether an expansion brought it in.
        images: Its pictures, nearest first.
        left_out: Pictures that were not graded, because their step has nearer ones.
        score: LeafFinalScore, 0 to 10, or None.
        summary: What was said of the whole leaf.
        error: Why there is no score, or None.
    """

    family: str
    device: str
    expanded: bool
    images: tuple[ImageTrace, ...]
    left_out: int
    score: int | None
    summary: str
    error: str | None

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "family": self.family,
            "device": self.device,
            "expanded": self.expanded,
            "images": [image.to_dict() for image in self.images],
            "left_out": self.left_out,
            "score": self.score,
            "summary": self.summary,
            "error": self.error,
        }


@dataclass(frozen=True)
class Pair:
    """Two candidates with the same grade, and which of them stays.

    Attributes:
        first: Id of the one that ranks higher.
        second: Id of the other.
        winner: Id of the one that stays.
        settled: "verdict": the judge said so; "rank": it could not tell, so the higher rank decides.
        why: In words, where the rank decides.
        by_position: The answer that was given in both orders, which contradicts itself; None otherwise.
    """

    first: str
    second: str
    winner: str
    settled: Literal["verdict", "rank"]
    why: str = ""
    by_position: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "first": self.first,
            "second": self.second,
            "winner": self.winner,
            "settled": self.settled,
            "why": self.why,
            "by_position": self.by_position,
        }


@dataclass(frozen=True)
class Tie:
    """How several candidates with the highest grade came down to one (paper A, Algorithm 4).

    Attributes:
        grade: The grade that they share.
        tied: Their ids, by rank.
        how: "one by one" (Algorithm 4 as it stands), "all pairs" (all asked at once, Algorithm 4 replayed over the
            answers), "bracket" (too many for that: rounds of pairs).
        pairs: What was asked.
        winner: Id of the one that is left.
        cycle: Ids that beat each other in a circle, so that the order decided; None where there is none or it was not
            looked for.
        note: What a reader must know of the way it was settled.
    """

    grade: int
    tied: tuple[str, ...]
    how: Literal["one by one", "all pairs", "bracket"]
    pairs: tuple[Pair, ...]
    winner: str
    cycle: tuple[str, ...] | None = None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "grade": self.grade,
            "tied": list(self.tied),
            "how": self.how,
            "pairs": [pair.to_dict() for pair in self.pairs],
            "winner": self.winner,
            "cycle": None if self.cycle is None else list(self.cycle),
            "note": self.note,
        }


@dataclass(frozen=True)
class Limits:
    """What bounded the search, and how much of it was used.

    Attributes:
        seconds: Time that it was given [s], or None.
        calls: Questions that it was given, or None.
        used_seconds: Time that it took [s].
        used_calls: Questions that it asked.
        ran_out: What ran out, in words; None where the search came to its end.
    """

    seconds: float | None
    calls: int | None
    used_seconds: float
    used_calls: int
    ran_out: str | None

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "seconds": self.seconds,
            "calls": self.calls,
            "used_seconds": round(self.used_seconds, 6),
            "used_calls": self.used_calls,
            "ran_out": self.ran_out,
        }


@dataclass(frozen=True)
class SearchTrace:
    """A whole search.

    Attributes:
        order: "at once", or "one by one" for the paper's sequential order.
        questions: Every question, by round.
        rounds: The rounds, in the order in which they began.
        saved_rounds: How many more rounds the paper's sequential order takes for the same verdicts.
        leaves: The devices looked at, nearest first.
        expansions: Each answer to ``ExpandSearch``, in order.
        expansion: Why the search was, or was not, expanded further.
        tie: How a tie was broken; None where there was none.
        suspicions: Signs that the judge does not look: it answers by position, or always gives the same grade.
        limits: The budget.
        cost: Calls and tokens of all questions.
    """

    order: Literal["at once", "one by one"]
    questions: tuple[Asked, ...]
    rounds: tuple[Round, ...]
    saved_rounds: int
    leaves: tuple[LeafTrace, ...]
    expansions: tuple[Asked, ...]
    expansion: str
    tie: Tie | None
    suspicions: tuple[str, ...]
    limits: Limits
    cost: Cost = field(default=FREE)

    @property
    def counts(self) -> dict[str, int]:
        """How many questions of each kind were asked."""
        return count_kinds(self.questions)

    def to_dict(self) -> dict[str, Any]:
        """As plain data, ready for JSON."""
        return {
            "order": self.order,
            "counts": self.counts,
            "questions": [asked.to_dict() for asked in self.questions],
            "rounds": [one.to_dict() for one in self.rounds],
            "saved_rounds": self.saved_rounds,
            "leaves": [leaf.to_dict() for leaf in self.leaves],
            "expansion": self.expansion,
            "expansions": [asked.to_dict() for asked in self.expansions],
            "tie": self.tie.to_dict() if self.tie else None,
            "suspicions": list(self.suspicions),
            "limits": self.limits.to_dict(),
            "cost": self.cost.to_dict(),
        }


def count_kinds(questions: Sequence[Asked]) -> dict[str, int]:
    """Questions by kind, in the order in which the kinds first came up."""
    counts: dict[str, int] = {}
    for asked in questions:
        counts[asked.kind] = counts.get(asked.kind, 0) + 1
    return counts
