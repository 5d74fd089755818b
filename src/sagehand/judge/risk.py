"""Abstention at a risk that the integrator sets, with an honest bound (SPEC C3).

risk = P(wrong | answered). The answers of a calibration, each given by weights learnt without it, are split in two halves
by unit. The threshold is chosen on one half; the other half alone certifies it, by a one-sided 95 % Clopper–Pearson
bound. "The smallest that can be certified" is found by fixed-sequence testing: risks fixed beforehand, from large to
small, stop at the first that fails.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from sagehand.stats import clopper_pearson_upper

__all__ = ["LEVEL", "Answer", "Certificate", "certify"]

LEVEL = 0.95
_LADDER = (
    0.5,
    0.45,
    0.4,
    0.35,
    0.3,
    0.25,
    0.2,
    0.15,
    0.12,
    0.1,
    0.08,
    0.06,
    0.05,
    0.04,
    0.03,
    0.02,
    0.01,
    0.005,
    0.002,
    0.001,
)


@dataclass(frozen=True)
class Answer:
    """One answer given without having seen the truth.

    Attributes:
        confidence: Belief in the answer.
        right: Whether it was the true next action.
        unit: What must not be torn apart between the halves: a picture's near-duplicates, or a device.
    """

    confidence: float
    right: bool
    unit: str


@dataclass(frozen=True)
class Certificate:
    """What is certified for answers at or above a threshold.

    Attributes:
        asked: The risk that was asked for.
        level: Confidence of the bound.
        certified: Whether the bound is at most the risk asked for.
        threshold: Least confidence that is answered; None when nothing can be chosen.
        bound: Upper bound of the risk at that threshold, from the certifying half.
        answered: Answers of the certifying half at or above the threshold.
        wrong: How many of them were wrong.
        coverage: answered / all answers of the certifying half.
        smallest: The smallest risk that these answers can certify, or None for none.
    """

    asked: float
    level: float
    certified: bool
    threshold: float | None
    bound: float
    answered: int
    wrong: int
    coverage: float
    smallest: float | None

    def words(self) -> str:
        """One sentence for an operator."""
        if self.certified:
            return (
                f"risk {self.asked:g} is certified at {self.level:.0%}: of {self.answered} answers given without knowing "
                f"the truth {self.wrong} were wrong (bound {self.bound:.3f}), {self.coverage:.0%} of questions answered"
            )
        can = f"the smallest that can be is {self.smallest:g}" if self.smallest is not None else "none can be"
        return (
            f"risk {self.asked:g} cannot be certified at {self.level:.0%} from {self.answered} answers with {self.wrong} wrong "
            f"(bound {self.bound:.3f}); {can}: add cases or allow more risk"
        )


def certify(answers: Sequence[Answer], risk: float) -> Certificate:
    """Choose a threshold for a risk on one half of the answers and certify it on the other.

    Args:
        answers: Answers given out of fold.
        risk: The risk to stay under, in (0, 1).
    """
    choosing = [a for a in answers if not _second_half(a.unit)]
    certifying = [a for a in answers if _second_half(a.unit)]

    def test(at: float) -> tuple[float | None, float, int, int]:
        threshold = _choose(choosing, at)
        kept = [a for a in certifying if threshold is not None and a.confidence >= threshold]
        wrong = sum(not a.right for a in kept)
        return threshold, clopper_pearson_upper(wrong, len(kept), LEVEL), len(kept), wrong

    threshold, bound, answered, wrong = test(risk)
    smallest = None
    for rung in _LADDER:
        if test(rung)[1] > rung:
            break
        smallest = rung
    return Certificate(
        asked=risk,
        level=LEVEL,
        certified=bound <= risk,
        threshold=threshold,
        bound=bound,
        answered=answered,
        wrong=wrong,
        coverage=answered / len(certifying) if certifying else 0.0,
        smallest=smallest,
    )


def _second_half(unit: str) -> bool:
    return hashlib.blake2b(unit.encode(), digest_size=1, person=b"half").digest()[0] % 2 == 1


def _choose(answers: Sequence[Answer], risk: float) -> float | None:
    """The lowest threshold whose own bound holds; where none does, the one with the lowest bound."""
    best: tuple[float, float] | None = None
    lowest: float | None = None
    wrong = count = 0
    ordered = sorted(answers, key=lambda a: -a.confidence)
    for place, answer in enumerate(ordered):
        count, wrong = count + 1, wrong + (not answer.right)
        if place + 1 < len(ordered) and ordered[place + 1].confidence == answer.confidence:
            continue
        bound = clopper_pearson_upper(wrong, count, LEVEL)
        if bound <= risk:
            lowest = answer.confidence
        if best is None or bound < best[0]:
            best = (bound, answer.confidence)
    return lowest if lowest is not None else (best[1] if best else None)
