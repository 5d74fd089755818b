"""What abstaining buys: risk against coverage, and whether a certified risk held on held-out queries (SPEC C3).

risk = P(wrong | answered), coverage = answered / asked, both of the next action. Bounds count answers as if they were
independent; views of one step are not, and with several seeds a picture comes again: read the pooled bounds as too narrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from sagehand.errors import InputError
from sagehand.stats import clopper_pearson_lower, clopper_pearson_upper
from sagehand.study.report.refs import ArmRecords, of_subset
from sagehand.study.run.record import Record

__all__ = ["Curve", "Held", "Point", "bound_held", "coverage_at", "risk_coverage"]


@dataclass(frozen=True)
class Point:
    """What answering from a confidence upwards gives.

    Attributes:
        threshold: Least confidence that is answered.
        answered: Queries at or above it.
        wrong: How many of them are wrong.
        coverage: answered / all queries.
        risk: wrong / answered.
    """

    threshold: float
    answered: int
    wrong: int
    coverage: float
    risk: float


@dataclass(frozen=True)
class Curve:
    """Risk against coverage, from the surest answer downwards.

    Attributes:
        n: Queries, with and without a confidence.
        without: Queries without an answer to hold or to give: failures, errors, no confidence. They are never covered.
        points: One for each different confidence, the highest first.
        area: Mean risk over coverages 1/n, 2/n, … up to the last point (Geifman and El-Yaniv 2017: AURC); None without
            points.
        area_best: The same, had the confidences put every right answer before every wrong one.
        area_chance: The same, had the confidences said nothing: the risk of answering everything.
    """

    n: int
    without: int
    points: tuple[Point, ...]
    area: float | None
    area_best: float | None
    area_chance: float | None

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "n": self.n,
            "without": self.without,
            "area": self.area,
            "area_best": self.area_best,
            "area_chance": self.area_chance,
            "points": [vars(point) for point in self.points],
        }


@dataclass(frozen=True)
class Held:
    """What a certified risk came to on held-out queries.

    Attributes:
        seed: Seed of these queries; None pooled over seeds.
        asked: The risk that the arm was run with.
        n: Queries.
        answered: Queries that it answered.
        wrong: How many of the answers are wrong.
        failures: Queries with a failure of the model or an error: where they went unanswered, it was not by choice.
        coverage: answered / n.
        risk: wrong / answered; None where nothing was answered.
        lower: One-sided 95 % Clopper–Pearson lower bound of the risk.
        upper: Its upper bound.
    """

    seed: int | None
    asked: float
    n: int
    answered: int
    wrong: int
    failures: int
    coverage: float
    risk: float | None
    lower: float
    upper: float

    @property
    def verdict(self) -> str:
        """What these queries say of the bound: "nothing answered", "broken", "shown", "held" or "exceeded".

        "broken": even the lower bound lies above the risk asked for. "shown": the upper bound lies at or below it. Between
        the two these queries can say neither: "held" where the realised risk is at most the one asked for, else "exceeded".
        """
        if self.risk is None:
            return "nothing answered"
        if self.lower > self.asked:
            return "broken"
        if self.upper <= self.asked:
            return "shown"
        return "held" if self.risk <= self.asked else "exceeded"

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {**vars(self), "verdict": self.verdict}


def risk_coverage(records: Sequence[Record], *, subset: str | None = None) -> Curve:
    """The risk-coverage curve of one arm's next actions.

    What an abstention held back (``proposed``) counts as the answer it would have been. Equal confidences are answered
    together; in the area their wrong answers are spread evenly over them.

    Args:
        records: Records of one arm.
        subset: Of these records only; None for held-out answers (query and test).
    """
    asked = _known(records, subset)
    ranked: list[tuple[float, bool]] = []
    for record in asked:
        answer, confidence = _answer(record), record.answer.get("confidence")
        if answer is not None and confidence is not None:
            ranked.append((float(confidence), answer != record.truth["next_action"]))
    ranked.sort(key=lambda pair: -pair[0])
    if not ranked:
        return Curve(len(asked), len(asked), (), None, None, None)
    points: list[Point] = []
    answered = wrong = 0
    risks = 0.0
    for threshold, group in groupby(ranked, key=lambda pair: pair[0]):
        marks = [mark for _, mark in group]
        risks += sum((wrong + sum(marks) * k / len(marks)) / (answered + k) for k in range(1, len(marks) + 1))
        answered, wrong = answered + len(marks), wrong + sum(marks)
        points.append(Point(threshold, answered, wrong, answered / len(asked), wrong / answered))
    best = sum(k / (answered - wrong + k) for k in range(1, wrong + 1)) / answered
    return Curve(len(asked), len(asked) - len(ranked), tuple(points), risks / answered, best, wrong / answered)


def coverage_at(curve: Curve, risk: float) -> Point | None:
    """The point of greatest coverage whose risk on these very queries is at most ``risk``; None where there is none.

    Chosen with the truth in view: what a perfect choice of threshold could reach, not what can be promised.

    Args:
        curve: The curve.
        risk: In [0, 1].
    """
    return next((point for point in reversed(curve.points) if point.risk <= risk), None)


def bound_held(arm: ArmRecords, *, subset: str | None = None) -> tuple[Held, ...]:
    """Whether the risk that an arm was run with held on its queries: pooled first, then seed by seed.

    Args:
        arm: The arm; run with a risk.
        subset: Of these records only; None for held-out answers (query and test).

    Raises:
        InputError: The arm was run without a risk.
    """
    if arm.risk is None:
        raise InputError(
            f"{arm.ref} was run without a risk, so there is no bound to hold", hint="set `risk:` in its plan"
        )
    asked = _known(arm.records, subset)
    seeds = sorted({record.seed for record in asked})
    found = [_held(asked, arm.risk, None)]
    return (*found, *(_held([r for r in asked if r.seed == seed], arm.risk, seed) for seed in seeds))


def _held(records: Sequence[Record], risk: float, seed: int | None) -> Held:
    given = [r for r in records if r.answer.get("next_action") is not None and not r.answer.get("abstained")]
    wrong = sum(not r.right.get("next_action") for r in given)
    return Held(
        seed=seed,
        asked=risk,
        n=len(records),
        answered=len(given),
        wrong=wrong,
        failures=sum(r.failure is not None or r.error is not None for r in records),
        coverage=len(given) / len(records) if records else 0.0,
        risk=wrong / len(given) if given else None,
        lower=clopper_pearson_lower(wrong, len(given)),
        upper=clopper_pearson_upper(wrong, len(given)),
    )


def _known(records: Sequence[Record], subset: str | None) -> list[Record]:
    """The records of a subset whose true next action is known: of the others nobody can say whether they are wrong."""
    return [r for r in of_subset(records, subset) if r.truth.get("next_action") is not None]


def _answer(record: Record) -> str | None:
    """The next action that was given, or held back."""
    given = record.answer.get("next_action")
    return given if given is not None else record.answer.get("proposed")
