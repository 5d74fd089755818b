"""How a decision comes to its answer: who is asked, from which case, and what is not asked (paper A §3.3, SPEC A6, C3).

``single``: the best case by picture and context. ``guided``: the case that the VLM-guided search finds (paper A §2.4).
``zero-shot``: no case. The model answers where there is one; without one the perceptual judge answers ``single``.

The cascade: the perceptual judge is always heard first, for it costs nothing. Where its calibrated confidence reaches
``ask_below`` the model is not asked, nor where its answer could not be acted on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from sagehand.action.abstain import why_abstain
from sagehand.action.ask import question_of
from sagehand.action.clock import Clock
from sagehand.action.decision import Known
from sagehand.action.guard import Verdicts
from sagehand.action.library import ActionLibrary
from sagehand.errors import DeadlineExceeded, OutOfBudget, VlmError
from sagehand.judge.domain import Domain
from sagehand.judge.perceptual import PerceptualJudge
from sagehand.judge.questions import Candidate, Finding, Judge, Prediction, Query
from sagehand.judge.risk import Certificate
from sagehand.recall.params import SearchParams
from sagehand.recall.rank import Ranking
from sagehand.recall.search import SearchResult, search

if TYPE_CHECKING:
    from sagehand.judge.vlm import VlmJudge
    from sagehand.vlm.budget import Budget

__all__ = ["METHODS", "Answered", "Asking", "Pick", "Saved", "answer", "reason_against"]

METHODS = ("single", "guided", "zero-shot")
Pick: TypeAlias = Callable[[Ranking], Candidate]
"""Chooses the case that a model is shown, from the cases weighed; never called where there is no case."""

_N = TypeVar("_N", int, float)
_SHOWN = 5
_SEARCH_SHARE = 0.7
"""Share of a deadline, and of the tokens, that the search may use: the prediction, about twice a grading, comes after it."""
_PREDICT_CALLS = 2
"""Calls of a budget that are kept for the prediction: one, and one more if its reply is not valid."""


@dataclass(frozen=True, eq=False)
class Asking:
    """A decision that is to be answered.

    Attributes:
        method: One of :data:`METHODS`.
        query: What is in front of the robot.
        ranking: The cases weighed; None for zero-shot.
        domain: Outcome of the domain test, or None.
        offered: The actions that may be answered: those that the guard does not rule out, or all with the guard off.
        library: Describes the actions.
        perceptual: The judge that needs no model.
        calibrated: Whether its confidence is calibrated on the base as it is.
        judge: Who is asked; None where there is no model.
        ask_below: The judge is asked only where the perceptual confidence is below; None always asks.
        params: Of the search.
        model: The judge, where it is a model: it has the decision's budget.
        pick: Chooses the case that ``single`` shows to the judge; None for the best by picture and context.
    """

    method: str
    query: Query
    ranking: Ranking | None
    domain: Domain | None
    offered: tuple[str, ...]
    library: ActionLibrary | None
    perceptual: PerceptualJudge
    calibrated: bool
    judge: Judge | None = None
    ask_below: float | None = None
    params: SearchParams = field(default_factory=SearchParams)
    model: VlmJudge | None = None
    pick: Pick | None = None


@dataclass(frozen=True)
class Saved:
    """Rounds of questions that were not asked.

    Attributes:
        rounds: "search", "predict".
        because: Why they were not needed.
    """

    rounds: tuple[str, ...]
    because: str

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {"rounds": list(self.rounds), "because": self.because}


@dataclass(frozen=True, eq=False)
class Answered:
    """What came of it.

    Attributes:
        prediction: The answer; without an action where none was given.
        perceptual: What the perceptual judge says; None for zero-shot.
        search: What the guided search found, or None.
        saved: What was not asked, or None.
        failure: Why the model gave no answer, or None.
        warnings: What a user should know of it.
    """

    prediction: Prediction
    perceptual: Prediction | None
    search: SearchResult | None = None
    saved: Saved | None = None
    failure: VlmError | None = None
    warnings: tuple[str, ...] = ()


def answer(asking: Asking, clock: Clock) -> Answered:
    """Ask for a decision's answer.

    Raises:
        JudgeError: The judge cannot answer such a question at all; a model that fails is told in the result.
    """
    with clock("decide"):
        perceptual = _perceptual(asking)
    if asking.judge is None:
        if perceptual is None:
            raise ValueError("zero-shot without a judge")  # the predictor has refused it
        return Answered(perceptual, perceptual)
    saved = _saved(asking, perceptual)
    if saved is not None:
        return Answered(perceptual or _nothing("perceptual", saved.because, None), perceptual, saved=saved)
    found: SearchResult | None = None
    candidates = _shown(asking)
    warnings: tuple[str, ...] = ()
    if asking.method == "guided":
        with clock("search"):
            found = _search(asking)
        candidates = (found.case,) if found.case else ()
        warnings = _search_warnings(found)
    question = question_of(asking.query, asking.ranking, candidates, asking.offered, asking.library)
    failure: VlmError | None = None
    try:
        with clock("ask"):
            prediction = asking.judge.predict(question)
    except VlmError as error:
        failure = error
        prediction = _nothing(asking.judge.name, _failed(error, asking), candidates[0] if candidates else None)
    if perceptual is not None and failure is None:
        prediction = replace(prediction, findings=(*prediction.findings, _second_opinion(prediction, perceptual)))
    return Answered(prediction, perceptual, found, None, failure, warnings)


def reason_against(
    asking: Asking,
    answered: Answered,
    verdicts: Verdicts,
    certificate: Certificate | None,
    known: Known,
    before: Sequence[str | None],
) -> tuple[Prediction, str | None]:
    """The answer as it stands, and the first reason to ask the operator instead, or None.

    Nothing calibrates the confidence of a model's answer. Under a set risk it is given only where it is what the cases
    themselves say, at a belief that a certificate covers: answers on which both agree are a part of what was certified.
    """
    prediction, ranking = answered.prediction, asking.ranking
    action = prediction.next_action
    if action is not None and action in verdicts.ruled_out:
        return prediction, f"the judge answered {action!r}, which is ruled out: {verdicts.ruled_out[action]}"
    believed = ranking.actions.get(action) if ranking is not None and action is not None else None
    if certificate is not None and prediction.confidence is None:
        prediction = replace(prediction, confidence=believed)
    return prediction, why_abstain(prediction, ranking, asking.domain, verdicts, certificate, known, before)


def _perceptual(asking: Asking) -> Prediction | None:
    if asking.ranking is None:
        return None
    best = _first(asking)
    seen = {c.case.id for c in best}
    leading = [asking.ranking.leading[a] for a in asking.offered if a in asking.ranking.leading]
    candidates = (*best, *(c for c in leading if c.case.id not in seen))
    return asking.perceptual.predict(
        question_of(asking.query, asking.ranking, candidates, asking.offered, asking.library)
    )


def _shown(asking: Asking) -> tuple[Candidate, ...]:
    if asking.pick is not None and asking.ranking is not None:
        return (asking.pick(asking.ranking),)
    return _first(asking)


def _first(asking: Asking) -> tuple[Candidate, ...]:
    return asking.ranking.first(_SHOWN) if asking.ranking is not None else ()


def _saved(asking: Asking, perceptual: Prediction | None) -> Saved | None:
    """Why the judge need not be asked, or None."""
    rounds = ("search", "predict") if asking.method == "guided" else ("predict",)
    if not asking.offered:
        return Saved(rounds, "every action is ruled out by what is known")
    if asking.ranking is None or perceptual is None:
        return None
    if asking.ranking.nearest is None:
        return Saved(rounds, "there is no case to compare with")
    if asking.domain is not None and asking.domain.in_domain is False:
        return Saved(rounds, "the picture is out of domain")
    confidence = perceptual.confidence
    if asking.ask_below is None or not asking.calibrated or confidence is None or perceptual.next_action is None:
        return None
    if confidence < asking.ask_below:
        return None
    return Saved(rounds, f"the perceptual judge's confidence {confidence:.3f} is at least {asking.ask_below:g}")


def _search(asking: Asking) -> SearchResult:
    ranking, params = asking.ranking, asking.params
    if ranking is None or asking.judge is None:
        raise ValueError("a search needs cases and a judge")  # the predictor has refused it
    if asking.model is None:
        return search(ranking.index, asking.query, asking.judge, ranking, params)
    from sagehand.vlm.budget import Budget

    seconds, calls, tokens = _search_limits(asking.model.budget)
    params = replace(params, seconds=_less(params.seconds, seconds), calls=_less(params.calls, calls))
    # gradings that nobody waits for any more must not hold up the prediction: they end with the part
    with asking.model.part(Budget(seconds, calls, tokens)) as judge:
        return search(ranking.index, asking.query, judge, ranking, params, budget=judge.budget)


def _search_limits(budget: Budget | None) -> tuple[float | None, int | None, int | None]:
    """Seconds, calls and tokens that the search may use of a decision's budget; None for no limit."""
    if budget is None:
        return None, None, None
    seconds, spent = budget.remaining_seconds(), budget.spent
    return (
        _SEARCH_SHARE * seconds if math.isfinite(seconds) else None,
        None if budget.calls is None else max(budget.calls - spent.calls - _PREDICT_CALLS, 0),
        None if budget.tokens is None else int(_SEARCH_SHARE * max(budget.tokens - spent.prompt - spent.completion, 0)),
    )


def _less(first: _N | None, second: _N | None) -> _N | None:
    """The smaller limit, where None is no limit."""
    return min((limit for limit in (first, second) if limit is not None), default=None)


def _search_warnings(found: SearchResult) -> tuple[str, ...]:
    warnings = list(found.trace.suspicions)
    images = [image for leaf in found.trace.leaves for image in leaf.images]
    lost = [image for image in images if image.grade is None and image.error is not None]
    if lost:
        warnings.append(f"{len(lost)} of {len(images)} pictures could not be graded: {lost[0].error}")
    tie = found.trace.tie
    if tie is not None and all(pair.settled == "rank" for pair in tie.pairs):
        warnings.append(f"{len(tie.tied)} pictures have the highest grade, and the rank decided between them")
    if found.case is None:
        warnings.insert(0, f"no case was found ({found.reason}): the model answers from the picture alone")
    elif not found.verified:
        warnings.insert(0, f"the case was not verified: {found.reason}")
    return tuple(warnings)


def _nothing(by: str, why: str, case: Candidate | None) -> Prediction:
    return Prediction(None, None, case, None, None, None, None, (Finding("next action", "cannot tell", why),), by)


def _failed(error: VlmError, asking: Asking) -> str:
    """Why there is no answer, for an operator."""
    if isinstance(error, DeadlineExceeded):
        return f"no decision at the deadline: {error.message}"
    if isinstance(error, OutOfBudget):
        return f"no decision within the budget: {error.message}"
    name = asking.judge.name if asking.judge else "the model"
    return f"{name} gave no valid answer: {error}"


def _second_opinion(prediction: Prediction, perceptual: Prediction) -> Finding:
    if perceptual.next_action is None:
        return Finding("perceptual judge", "cannot tell", "the perceptual judge gives no answer of its own")
    same = perceptual.next_action == prediction.next_action
    sure = f" at {perceptual.confidence:.2f}" if perceptual.confidence is not None else ""
    text = f"the perceptual judge says {'the same' if same else repr(perceptual.next_action)}{sure}"
    return Finding("perceptual judge", "agrees" if same else "differs", text)
