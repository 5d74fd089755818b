"""From a decision of ``predict`` to the answer of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sagehand.action.decision import Decision
from sagehand.picture import Box
from sagehand.study.methods.base import Answer
from sagehand.study.methods.eyes import Seen, corner_and_size

__all__ = ["answer_of", "keys_of", "search_of"]


def answer_of(decision: Decision, seen: Seen, timings: Mapping[str, float], *, order: Sequence[str]) -> Answer:
    """The answer to all tasks.

    A model's own words count for the tasks that it was asked beside the next action: ``predict`` hands what is known on
    in their place, and drops what contradicts the guard, while a study asks whether the model said it (paper A §3.1).
    Where the guard is off, an answer that it alone would hold back stands.

    Args:
        decision: The decision.
        seen: What the method saw of the sample, and paid for it.
        timings: Part → seconds spent before the decision.
        order: Keys of the cases, best first.
    """
    lead = decision.case.case if decision.case else None
    unguarded = decision.guard == "off" and decision.abstained and decision.proposed in decision.ruled_out
    action = decision.proposed if unguarded else decision.next_action
    remaining, is_last = decision.remaining_actions, decision.is_last
    if unguarded and lead is not None and lead.next_action == action:
        remaining, is_last = lead.remaining_actions, lead.is_last
    previous, device_class = decision.previous_action, decision.device_class
    said = decision.model["answer"] if decision.model else None
    if said is not None:
        previous, remaining, is_last, device_class = _said(said)
    elif decision.model is not None and decision.saved is None:
        # the model was asked and gave no answer: what is known beside it is not its answer
        previous = remaining = is_last = device_class = None
    box = decision.query["box"]
    # where the method has cut the picture itself, the decision says the same again
    warnings = list(seen.warnings) or [w for w in decision.warnings if w.startswith("the crop ")]
    extra = {
        **({"warnings": warnings} if warnings else {}),
        **({"saved": dict(decision.saved)} if decision.saved else {}),
    }
    return Answer(
        next_action=action,
        previous_action=previous,
        remaining_actions=remaining,
        is_last=is_last,
        device_class=device_class,
        confidence=decision.confidence,
        abstained=action is None,
        proposed=decision.proposed if action is None else None,
        reason=decision.reason,
        case=lead.file_name if lead else None,
        order=tuple(order),
        box=seen.box if seen.cut or not box else _unless_whole(Box(*box), decision),
        size=seen.picture.size,
        timings={k: timings.get(k, 0.0) + decision.timings.get(k, 0.0) for k in {**timings, **decision.timings}},
        usage=seen.cost + decision.usage,
        search=search_of(decision),
        failure=decision.failure["kind"] if decision.failure else None,
        extra=extra,
    )


def keys_of(decision: Decision, *, by: str = "belief") -> list[str]:
    """Keys of the cases weighed, best first: by "belief" (picture and context), or by "picture" alone."""
    ranking = decision.ranking
    if ranking is None:
        return []
    rows = ranking.order if by == "belief" else ranking.rows
    return [ranking.index.cases[int(row)].file_name for row in rows]


def search_of(decision: Decision) -> dict[str, Any] | None:
    """A guided search in short; None where there was none.

    Returns:
        ``outcome`` ("first look": the first candidate was confirmed; "graded": one picture, or the winner of a tie, was
        graded well enough; "not verified": the nearest, because nothing was graded; "no case"), ``first_confirmed``,
        ``leaves`` (devices looked at), ``graded`` (pictures with a grade), ``calls`` (questions asked), ``failed``
        (questions without an answer), ``expansions``, ``tied`` (pictures that shared the best grade), ``grade``,
        ``reason`` and ``ran_out``.
    """
    doc = decision.search
    if doc is None:
        return None
    first = any(q["kind"] == "BoolGradeImage" and q["answer"] is True for q in doc["questions"])
    outcome = "first look" if first else "graded" if doc["verified"] else "not verified" if doc["case"] else "no case"
    images = [image for leaf in doc["leaves"] for image in leaf["images"]]
    return {
        "outcome": outcome,
        "first_confirmed": first,
        "leaves": len(doc["leaves"]),
        "graded": sum(image["grade"] is not None for image in images),
        "calls": sum(doc["counts"].values()),
        "failed": sum(q["error"] is not None for q in doc["questions"]),
        "expansions": len(doc["expansions"]),
        "tied": len(doc["tie"]["tied"]) if doc["tie"] else 0,
        "grade": doc["grade"],
        "reason": doc["reason"],
        "ran_out": doc["limits"]["ran_out"],
    }


def _said(answer: Mapping[str, Any]) -> tuple[str | None, tuple[str, ...], bool, str | None]:
    """What a model said to the four other tasks, in the words of the labels."""
    from sagehand.judge.vlm_tools import CANNOT_TELL, NOT_KNOWN

    previous, device_class = str(answer["previous_action"]), str(answer["device_class"])
    return (
        None if previous == NOT_KNOWN else previous,
        tuple(map(str, answer["remaining_actions"])),
        bool(answer["is_last"]),
        None if device_class == CANNOT_TELL else device_class,
    )


def _unless_whole(box: Box, decision: Decision) -> tuple[float, float, float, float] | None:
    whole = (box.width, box.height) == (decision.query["width"], decision.query["height"])
    return None if whole else corner_and_size(box)
