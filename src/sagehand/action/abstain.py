"""When the operator is asked instead of an answer given (SPEC C3)."""

from __future__ import annotations

from collections.abc import Sequence

from sagehand.action.decision import Known
from sagehand.action.guard import Verdicts, repeats
from sagehand.judge.domain import Domain
from sagehand.judge.questions import Prediction
from sagehand.judge.risk import Certificate
from sagehand.recall.rank import Ranking

__all__ = ["REPEAT_LIMIT", "why_abstain"]

REPEAT_LIMIT = 3
"""The same answer so many times in a row asks the operator."""


def why_abstain(
    prediction: Prediction,
    ranking: Ranking,
    domain: Domain | None,
    verdicts: Verdicts,
    certificate: Certificate | None,
    known: Known,
    before: Sequence[str | None] = (),
) -> str | None:
    """The first reason to ask the operator, or None.

    Args:
        prediction: What the judge answered.
        ranking: The cases that it rests on.
        domain: Outcome of the domain test; None where it was not made.
        verdicts: What the guard leaves.
        certificate: For the risk that was set; None where none was.
        known: What is known of the device.
        before: What was answered before for the same object, oldest first.
    """
    action = prediction.next_action
    if ranking.nearest is None:
        where = f" of family {known.family!r}" if known.family else ""
        return f"the case base holds no case{where} to compare with"
    if domain is not None and domain.in_domain is False:
        case = ranking.nearest.case
        return (
            f"out of domain: the nearest case ({case.device}, step {case.step}) has a cosine of {domain.similarity:.2f}, "
            f"while another case is as near to that one as {domain.usual:.2f}; of this base's own cases only "
            f"{domain.p_value:.1%} stand so apart"
        )
    if not verdicts.valid:
        return "every action is ruled out by what is known"
    if action is None:
        return prediction.findings[0].text if prediction.findings else "the judge cannot tell"
    if action not in verdicts.valid:
        return f"the judge answered {action!r}, which is not a valid action here"
    if repeats(known.history or (), action, REPEAT_LIMIT) or repeats(before, action, REPEAT_LIMIT):
        return f"{action!r} would come {REPEAT_LIMIT} times in a row: it does not seem to bring the device on"
    if certificate is not None:
        return _too_risky(certificate, prediction, next(iter(ranking.actions), None))
    return None


def _too_risky(certificate: Certificate, prediction: Prediction, first: str | None) -> str | None:
    if not certificate.certified or certificate.threshold is None:
        return certificate.words()
    # answers were certified without the guard: where it overrules the cases, the certificate says nothing
    if first != prediction.next_action:
        return f"the cases suggest {first!r}, which is ruled out: no certificate covers another answer"
    if prediction.confidence is None or prediction.confidence < certificate.threshold:
        return (
            f"confidence {prediction.confidence or 0:.2f} is below {certificate.threshold:.2f}, "
            f"the least that risk {certificate.asked:g} allows"
        )
    return None
