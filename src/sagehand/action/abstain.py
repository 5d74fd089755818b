"""When the operator is asked instead of an answer given (SPEC C3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sagehand.action.decision import Known
from sagehand.action.guard import Verdicts, repeats
from sagehand.judge.domain import Domain
from sagehand.judge.model import most_believed
from sagehand.judge.perceptual import PERCEPTUAL
from sagehand.judge.questions import Prediction
from sagehand.judge.risk import Certificate
from sagehand.recall.rank import Ranking

__all__ = ["REPEAT_LIMIT", "why_abstain"]

REPEAT_LIMIT = 3
"""The same answer so many times in a row asks the operator."""


def why_abstain(
    prediction: Prediction,
    ranking: Ranking | None,
    domain: Domain | None,
    verdicts: Verdicts,
    certificate: Certificate | None,
    known: Known,
    before: Sequence[str | None] = (),
) -> str | None:
    """The first reason to ask the operator, or None.

    Args:
        prediction: What the judge answered.
        ranking: The cases that it rests on; None for an answer from no case.
        domain: Outcome of the domain test; None where it was not made.
        verdicts: What the guard leaves.
        certificate: For the risk that was set; None where none was.
        known: What is known of the device.
        before: What was answered before for the same object, oldest first.
    """
    action = prediction.next_action
    if ranking is not None and ranking.nearest is None:
        where = f" of family {known.family!r}" if known.family else ""
        return f"the case base holds no case{where} to compare with"
    if ranking is not None and ranking.nearest is not None and domain is not None and domain.in_domain is False:
        case = ranking.nearest.case
        step = f", step {case.step}" if case.step is not None else ""
        return (
            f"out of domain: the nearest case ({case.device}{step}) has a cosine of {domain.similarity:.2f}, "
            f"while another case is as near to that one as {domain.usual:.2f}; of this base's own cases only "
            f"{domain.p_value:.1%} stand so apart"
        )
    if not verdicts.valid:
        return "every action is ruled out by what is known"
    if action is None:
        return prediction.findings[0].text if prediction.findings else "the judge cannot tell"
    if prediction.confidence is not None and not 0 <= prediction.confidence <= 1:
        return f"the judge answered {action!r} with a confidence of {prediction.confidence}, which is no share"
    if action not in verdicts.valid:
        return f"the judge answered {action!r}, which is not a valid action here"
    if repeats(known.history or (), action, REPEAT_LIMIT) or repeats(before, action, REPEAT_LIMIT):
        return f"{action!r} would come {REPEAT_LIMIT} times in a row: it does not seem to bring the device on"
    if certificate is not None and (why := _too_risky(certificate, action, ranking.actions if ranking else None)):
        return why
    if ranking is not None and prediction.by == PERCEPTUAL and ranking.actions[action] < 1 / (len(verdicts.valid) + 1):
        return (
            f"cannot tell: the belief in {action!r} is {ranking.actions[action]:.2f}, less than guessing among the "
            f"{len(verdicts.valid)} allowed actions or none would give"
        )
    return None


def _too_risky(certificate: Certificate, action: str, beliefs: Mapping[str, float] | None) -> str | None:
    """A certificate speaks of what the cases alone answer, at the belief that the calibration gives it, whoever answers."""
    if not certificate.certified or certificate.threshold is None:
        return certificate.words()
    if beliefs is None:
        return f"risk {certificate.asked:g} is certified for answers that rest on cases, and this one rests on none"
    first = most_believed(beliefs)
    if first != action:
        return f"the cases suggest {first!r}, and no certificate covers another answer than theirs"
    if beliefs[action] < certificate.threshold:
        return (
            f"the belief in {action!r} is {beliefs[action]:.2f}, below {certificate.threshold:.2f}, "
            f"the least that risk {certificate.asked:g} allows"
        )
    return None
