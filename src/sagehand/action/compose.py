"""From an answer and all it rests on to a :class:`Decision` (SPEC A6, C3, C7)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from sagehand.action.decision import Decision, Known
from sagehand.action.guard import Verdicts, check_actions, know
from sagehand.action.library import END, ActionLibrary
from sagehand.action.methods import Answered, Asking
from sagehand.cases import Index
from sagehand.errors import VlmError
from sagehand.judge.cost import FREE, Cost
from sagehand.judge.questions import Prediction
from sagehand.judge.risk import Certificate
from sagehand.picture import Box, Picture
from sagehand.recall.search import SearchResult
from sagehand.version import __version__

__all__ = ["Grounds", "compose", "query_doc"]

_SHOWN = 5


@dataclass(frozen=True, eq=False)
class Grounds:
    """What a decision rests on beside the answer.

    Attributes:
        known: What was known.
        index: The cases as they were.
        base: The case base in words: name, embedder, crop.
        library: The actions, or None.
        verdicts: What the guard leaves.
        guard: Whether the guard held, or was "off".
        certificate: For the risk that was set; None where none was.
        query: The picture as plain data.
        logged: Whether decisions are logged.
        usage: What a model was asked.
        model: The model, its prompts and what it said, as plain data; None where none had a part.
        warnings: What the user should mend, found so far.
    """

    known: Known
    index: Index
    base: Mapping[str, Any]
    library: ActionLibrary | None
    verdicts: Verdicts
    guard: str
    certificate: Certificate | None
    query: Mapping[str, Any]
    logged: bool
    usage: Cost = FREE
    model: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()


def compose(asking: Asking, answered: Answered, prediction: Prediction, why: str | None, grounds: Grounds) -> Decision:
    """The decision.

    Args:
        asking: What was asked.
        answered: What came of it.
        prediction: The answer as it stands.
        why: Why the operator is asked instead; None where the answer is given.
        grounds: What else it rests on.
    """
    known, library, ranking = grounds.known, grounds.library, asking.ranking
    action = prediction.next_action if why is None else None
    spec = library.actions.get(action) if library and action else None
    end = library.end if library else END
    remaining, is_last, slips = _what_remains(action, prediction, library, end)
    lead = prediction.case
    shown = list(ranking.first(_SHOWN)) if ranking else []
    if lead is not None and all(c.case.id != lead.case.id for c in shown):
        shown.append(lead)
    return Decision(
        next_action=action,
        abstained=action is None,
        reason=why or _because(prediction),
        confidence=prediction.confidence if 0 <= (prediction.confidence or 0) <= 1 else None,
        valid_actions=grounds.verdicts.valid,
        ruled_out=grounds.verdicts.ruled_out,
        previous_action=known.last or prediction.previous_action,
        remaining_actions=remaining,
        is_last=is_last,
        end_state=action == end if action else None,
        device_class=known.family or prediction.device_class,
        device_classes=ranking.classes if ranking else {},
        needs_confirmation=bool(action and (grounds.guard == "off" or (spec and spec.confirm))),
        certified_risk=grounds.certificate,
        proposed=prediction.next_action,
        library={"source": library.source, "digest": library.digest} if library else None,
        case=lead,
        candidates=shown,
        method=asking.method,
        judge=prediction.by,
        evidence=tuple(f.text[:1].upper() + f.text[1:] for f in prediction.findings),
        warnings=(*grounds.warnings, *answered.warnings, *slips, *_warnings(grounds)),
        known=known,
        query=grounds.query,
        base=grounds.base,
        actions=_actions(library),
        domain=asdict(asking.domain) if asking.domain else None,
        version=__version__,
        created=datetime.now(UTC).isoformat(timespec="milliseconds"),
        guard=grounds.guard,
        model=grounds.model,
        usage=grounds.usage,
        search=_search_doc(answered.search),
        saved=answered.saved.to_dict() if answered.saved else None,
        failure=_failure_doc(answered.failure),
        ranking=ranking,
    )


def _what_remains(
    action: str | None, prediction: Prediction, library: ActionLibrary | None, end: str | None
) -> tuple[tuple[str, ...] | None, bool | None, list[str]]:
    """What is left to do and whether the action is the last one, handed on only where they fit the action and the guard."""
    if action is None:
        return None, None, []
    if action == end:
        return (), False, []
    remaining = prediction.remaining_actions
    if remaining is None:
        return None, prediction.is_last, []
    why = _against(remaining, action, library)
    if why is not None:
        return None, None, [f"what remains was left out: {why}"]
    last = len([a for a in remaining if a != end]) == 1
    return remaining, last, []


def _against(remaining: tuple[str, ...], action: str, library: ActionLibrary | None) -> str | None:
    if remaining[:1] != (action,):
        return f"it does not begin with {action!r}"
    if library is None:
        return None
    for before, after in itertools.pairwise(remaining):
        if before not in library.actions or after not in library.actions:
            return f"{before if before not in library.actions else after!r} is not in the action library"
        ruled_out = check_actions(library, know(library, previous=before)).ruled_out
        if after in ruled_out:
            return f"{after!r} cannot follow {before!r}: {ruled_out[after]}"
    return None


def query_doc(seen: Picture, box: Box | None) -> dict[str, Any]:
    """The picture as plain data."""
    return {
        "name": seen.name,
        "width": seen.width,
        "height": seen.height,
        "box": list(box.as_tuple()) if box else None,
        "pixel_id": seen.pixel_id,
        "notes": list(seen.notes),
        "depth": seen.depth is not None and bool(np.isfinite(seen.depth).any()),
    }


def _warnings(grounds: Grounds) -> list[str]:
    known, warnings = grounds.known, []
    if grounds.guard == "off":
        warnings.append("the guard is off: any action could be answered; what it rules out is not handed on")
    if known.last is None:
        warnings.append("the previous action is not known: give it, if you can, with --previous")
    places = grounds.index.codes("place")[1]
    if known.place is not None and known.place not in places:
        warnings.append(f"no case has the place {known.place!r}; there are: {', '.join(sorted(places)) or 'none'}")
    if known.object_id is not None and not grounds.logged:
        warnings.append("decisions are not logged, so the same answer again and again for one object is not noticed")
    return warnings


def _because(prediction: Prediction) -> str:
    model = prediction.by.startswith("vlm:")
    if prediction.case is None:
        who = "the model" if model else f"the {prediction.by} judge"
        return f"{who} says so from the picture alone" if model else f"{who} says so, without a case"
    case = prediction.case.case
    agrees = [f.topic for f in prediction.findings if f.verdict == "agrees" and f.topic != "reasoning"]
    step = f", step {case.step}" if case.step is not None else ""
    lead = f"the model says so, shown the case {case.device}{step}" if model else None
    basis = f"; what agrees: {', '.join(agrees)}" if agrees else "; nothing that was measured agrees clearly"
    if lead is not None:
        return f"{lead}{basis}" if agrees else lead
    return f"the case {case.device}{step} speaks most for it{basis}"


def _search_doc(found: SearchResult | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "case": found.case.case.id if found.case else None,
        "verified": found.verified,
        "grade": found.grade,
        "reason": found.reason,
        **found.trace.to_dict(),
    }


def _failure_doc(failure: VlmError | None) -> dict[str, Any] | None:
    if failure is None:
        return None
    return {
        "kind": type(failure).__name__,
        "message": failure.message,
        "hint": failure.hint,
        "retryable": failure.retryable,
    }


def _actions(library: ActionLibrary | None) -> dict[str, Any]:
    if library is None:
        return {}
    return {name: {"description": a.description, "confirm": a.confirm} for name, a in library.actions.items()}
