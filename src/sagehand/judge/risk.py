"""Abstention at a risk that the integrator sets, with an honest bound (SPEC C3).

risk = P(wrong | answered), for pictures drawn as those of the case base were. The answers of a calibration, each given by
weights learnt without it, one a unit (a picture with its near-duplicates, or a device), are split in two halves. One half
chooses the thresholds that are tried; the other alone certifies, by one-sided 95 % Clopper–Pearson bounds.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from sagehand.stats import clopper_pearson_upper

__all__ = ["LEVEL", "Answer", "Certificate", "certify"]

LEVEL = 0.95


@dataclass(frozen=True)
class Answer:
    """One answer given without having seen the truth.

    Attributes:
        confidence: Belief in the answer.
        right: Whether it was the true next action.
        unit: What is one thing for the statistics: a picture with its near-duplicates and group, or a device.
        case: The case's id.
    """

    confidence: float
    right: bool
    unit: str
    case: str = ""


@dataclass(frozen=True)
class Certificate:
    """What is certified for answers at or above a threshold.

    Attributes:
        asked: The risk that was asked for.
        level: Confidence of the bound.
        certified: Whether the bound is at most the risk asked for.
        threshold: Least confidence that is answered; None when nothing can be chosen.
        bound: Upper bound of the risk at that threshold, from the certifying half.
        answered: Answers of the certifying half at or above the threshold, one a unit.
        wrong: How many of them were wrong.
        coverage: answered / all answers of the certifying half.
        smallest: The smallest risk that these answers can certify, or None for none.
        stale: Whether the cases have changed since the answers were given; then nothing is certified.
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
    stale: bool = False

    def words(self) -> str:
        """One sentence for an operator."""
        if self.certified:
            return (
                f"risk {self.asked:g} is certified at {self.level:.0%}: of {self.answered} answers given without knowing "
                f"the truth {self.wrong} were wrong (bound {self.bound:.3f}), {self.coverage:.0%} of questions answered"
            )
        if self.stale:
            return "the cases have changed since the calibration was learnt, so no risk is certified: `sagehand cases calibrate`"
        can = f"the smallest that can be is {self.smallest:g}" if self.smallest is not None else "none can be"
        return (
            f"risk {self.asked:g} cannot be certified at {self.level:.0%} from {self.answered} answers with {self.wrong} wrong "
            f"(bound {self.bound:.3f}); {can}: add cases or allow more risk"
        )


def certify(answers: Sequence[Answer], risk: float) -> Certificate:
    """Certify a risk: a sequence of thresholds from one half of the answers, tested on the other.

    The first half says where to start (its own lowest bound) and which thresholds follow, each answering more. The second
    half tests them in that order at 95 % and stops at the first that fails: fixed-sequence testing, so that the last one
    that held is certified. What can be certified at all is the bound at the first threshold.

    Args:
        answers: Answers given out of fold.
        risk: The risk to stay under, in (0, 1).
    """
    single = _one_a_unit(answers)
    first = [a for a in single if not _second_half(a.unit)]
    second = [a for a in single if _second_half(a.unit)]
    tests = [(threshold, *_test(second, threshold)) for threshold in _sequence(first)]
    # rounded up: what is printed must hold when it is typed in
    smallest = math.ceil(1000 * tests[0][1]) / 1000 if tests and tests[0][1] < 0.999 else None
    held = list(itertools.takewhile(lambda t: t[1] <= risk, tests))
    nothing: tuple[float | None, float, int, int] = (None, 1.0, 0, 0)
    threshold, bound, answered, wrong = held[-1] if held else tests[0] if tests else nothing
    return Certificate(
        asked=risk,
        level=LEVEL,
        certified=bool(held),
        threshold=threshold,
        bound=bound,
        answered=answered,
        wrong=wrong,
        coverage=answered / len(second) if second else 0.0,
        smallest=smallest,
    )


def _one_a_unit(answers: Sequence[Answer]) -> list[Answer]:
    """One answer of each unit, drawn by the hash of its case: the bound counts answers as if they were independent."""
    drawn: dict[str, tuple[bytes, Answer]] = {}
    for answer in answers:
        key = hashlib.blake2b(answer.case.encode(), digest_size=8, person=b"draw").digest()
        if answer.unit not in drawn or key < drawn[answer.unit][0]:
            drawn[answer.unit] = (key, answer)
    return [answer for _, answer in drawn.values()]


def _second_half(unit: str) -> bool:
    return hashlib.blake2b(unit.encode(), digest_size=1, person=b"half").digest()[0] % 2 == 1


def _test(answers: Sequence[Answer], threshold: float) -> tuple[float, int, int]:
    kept = [a for a in answers if a.confidence >= threshold]
    wrong = sum(not a.right for a in kept)
    return clopper_pearson_upper(wrong, len(kept), LEVEL), len(kept), wrong


def _sequence(answers: Sequence[Answer]) -> list[float]:
    """Thresholds, highest first, from the one with the lowest bound on these answers downwards."""
    thresholds = sorted({a.confidence for a in answers}, reverse=True)
    bounds = [_test(answers, threshold)[0] for threshold in thresholds]
    return thresholds[bounds.index(min(bounds)) :] if thresholds else []
