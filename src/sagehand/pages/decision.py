"""The decision page: what to do next, how sure, and everything it rests on (SPEC C7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sagehand.errors import InputError
from sagehand.pages.page import data_uri, render
from sagehand.pages.search import asked_view, search_view
from sagehand.pages.words import (
    base_name,
    domain_words,
    duration,
    finite,
    label,
    number,
    percent,
    risk_words,
    sentence,
    share,
    when,
)

__all__ = ["decision_page"]

_MOST_CLASSES = 8  # device classes shown; the rest is summed up
_COMPARED = {
    "agrees": ("agrees", "good", "✓"),
    "differs": ("differs", "bad", "✗"),
    "unknown": ("not known", "", "?"),
}


def decision_page(doc: Mapping[str, Any], images: Mapping[str, bytes]) -> str:
    """One self-contained HTML page for one decision.

    Args:
        doc: What ``predict --json`` prints. A key that is absent reads as null, so that a decision logged by an older
            sagehand still has its page; ``next_action`` and ``abstained`` must be there.
        images: JPEG or PNG bytes by name: ``query`` (the whole picture), ``crop``, ``case`` and
            ``candidate:<case id>``, also for the cases
            that a guided search graded. Any may be missing; the caller scales them down (long side about 1000 pixels for
            the first three, 200 for the rest).

    Returns:
        The page. It holds its pictures and styles, runs no script, and fetches nothing.

    Raises:
        InputError: ``doc`` is no decision.
        NotAPicture: One of the images is no JPEG or PNG.
    """
    missing = [key for key in ("next_action", "abstained") if key not in doc]
    if missing:
        raise InputError(
            f"no decision document: it lacks {' and '.join(missing)}", hint="hand in what `predict --json` prints"
        )
    uris = {name: data_uri(name, data) for name, data in images.items()}
    query = doc.get("query") or {}
    hero = _hero(doc)
    return render(
        "decision.html",
        title=f"{hero['headline']} · {base_name(query.get('name') or 'picture')}",
        hero=hero,
        warnings=list(doc.get("warnings") or ()),
        pictures=_pictures(query, uris),
        case=_case(doc.get("case")),
        evidence=list(doc.get("evidence") or ()),
        judge=doc.get("judge") or "",
        search=search_view(doc, uris),
        asked=asked_view(doc),
        domain={
            "text": domain_words(doc.get("domain")),
            "inside": (doc.get("domain") or {}).get("in_domain") is not False,
        },
        candidates=_candidates(doc, uris),
        allowed=_allowed(doc),
        ruled_out=_ruled_out(doc),
        known=_known(doc),
        remaining=_remaining(doc.get("remaining_actions")),
        classes=_classes(doc.get("device_classes") or {}),
        timings=_timings(doc.get("timings") or {}, doc.get("seconds")),
        footer=_footer(doc),
    )


def _hero(doc: Mapping[str, Any]) -> dict[str, Any]:
    """The top of the page: the answer, or that there is none and why."""
    action = doc["next_action"]
    answered = action is not None and not doc["abstained"]
    described = doc.get("actions") or {}
    text = doc.get("next_action_description") or (described.get(action) or {}).get("description") or ""
    tags = []
    if answered and doc.get("is_last"):
        tags.append("The last action")
    if answered and doc.get("end_state"):
        tags.append("Nothing remains")
    return {
        "kind": "answer" if answered else "ask",
        "kicker": "Do next" if answered else "No answer",
        "headline": label(action) if answered else "Ask the operator",
        "code": action if answered and label(action).casefold() != action.casefold() else "",
        "description": text if answered else "",
        "reason": sentence(doc.get("reason") or "") or ("" if answered else "No reason was given."),
        "confirm": answered and bool(doc.get("needs_confirmation")),
        "tags": tags,
        "device": _spoken(doc.get("device_class")) if answered else "",
        "sure": "Confidence" if answered else "Confidence in its best guess",
        "confidence": percent(doc.get("confidence")),
        "share": share(doc.get("confidence")),
        "risk": risk_words(doc.get("certified_risk")),
    }


def _pictures(query: Mapping[str, Any], uris: Mapping[str, str]) -> dict[str, Any]:
    """The query with the outline of its crop, the crop, and the case's picture."""
    width, height, box = query.get("width"), query.get("height"), query.get("box")
    size = {"width": int(width), "height": int(height)} if width and height else None
    outline = None
    if size and box:
        left, top, right, bottom = (int(edge) for edge in box)
        outline = {"left": left, "top": top, "width": right - left, "height": bottom - top}
    return {
        "query": uris.get("query"),
        "crop": uris.get("crop"),
        "case": uris.get("case"),
        "name": base_name(query.get("name") or ""),
        "size": size,
        "outline": outline,
        "notes": list(query.get("notes") or ()),
    }


def _case(case: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The case the answer leans on, as rows of name and value."""
    if not case:
        return None
    next_action, previous = case.get("next_action"), case.get("previous_action")
    rows = [
        ("Device", _spoken(case.get("device"))),
        ("Family", _spoken(case.get("family"))),
        ("Step", _step(case)),
        ("Done before", _done_before(previous)),
        ("Done next", label(next_action) if next_action else ""),
        ("Similarity", number(case["similarity"]) if share(case.get("similarity")) is not None else ""),
        ("File", case.get("file_name") or ""),
    ]
    return {"rows": [row for row in rows if row[1]], "id": case.get("id") or "", "device": _spoken(case.get("device"))}


def _candidates(doc: Mapping[str, Any], uris: Mapping[str, str]) -> list[dict[str, Any]]:
    chosen = (doc.get("case") or {}).get("id")
    rows = []
    for rank, candidate in enumerate(doc.get("candidates") or (), start=1):
        ident = str(candidate.get("id") or "")
        is_chosen = bool(ident) and ident == chosen
        action = candidate.get("next_action")
        probability = candidate.get("probability")
        rows.append(
            {
                "rank": rank,
                "chosen": is_chosen,
                "picture": uris.get(f"candidate:{ident}") or (uris.get("case") if is_chosen else None),
                "device": _spoken(candidate.get("device")) or "Not named",
                "step": _step(candidate),
                "place": _spoken(candidate.get("place")),
                "file": candidate.get("file_name") or "",
                "action": label(action) if action else "No label",
                "features": _features(candidate),
                "probability": percent(probability),
                "share": share(probability),
            }
        )
    return rows


def _features(candidate: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What spoke for and against a candidate: numbers as bars, comparisons as words."""
    evidence = candidate.get("evidence") or {}
    picture = evidence.get("picture", candidate.get("similarity"))
    features: list[dict[str, Any]] = [{"name": "Picture", "text": number(picture), "share": share(picture)}]
    for key, name in (("previous", "Done before"), ("place", "Place")):
        text, kind, mark = _COMPARED.get(evidence.get(key) or "unknown", (str(evidence.get(key)), "", "·"))
        features.append({"name": name, "text": text, "kind": kind, "mark": mark, "share": None})
    depth = evidence.get("depth")
    if depth is None:
        features.append({"name": "Depth", "text": "not known", "kind": "", "mark": "?", "share": None})
    else:
        features.append({"name": "Depth", "text": number(depth), "share": share(depth)})
    return features


def _allowed(doc: Mapping[str, Any]) -> list[dict[str, Any]]:
    chosen = None if doc["abstained"] else doc["next_action"]
    names = [name for name in doc.get("valid_actions") or () if name != chosen]
    if chosen is not None and chosen in (doc.get("valid_actions") or ()):
        names.insert(0, chosen)
    return [_action(doc, name) | {"chosen": name == chosen} for name in names]


def _ruled_out(doc: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [_action(doc, name) | {"why": str(why)} for name, why in (doc.get("ruled_out") or {}).items()]


def _action(doc: Mapping[str, Any], name: str) -> dict[str, Any]:
    about = (doc.get("actions") or {}).get(name) or {}
    return {
        "label": label(name),
        "name": name,
        "description": about.get("description") or "",
        "confirm": bool(about.get("confirm")),
    }


def _known(doc: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was known besides the picture, as rows of name and value."""
    known = doc.get("known") or {}
    history = known.get("history")
    rows = [
        ("Done before", _done_before(known.get("previous", doc.get("previous_action"))) or "not known"),
        ("So far", "" if history is None else " → ".join(label(name) for name in history) or "nothing"),
        ("Facts", ", ".join(_facts(known.get("facts"))) or "none were given"),
        ("Place", _spoken(known.get("place"))),
        ("Family", _spoken(known.get("family"))),
        ("Object", known.get("object") or ""),
    ]
    return [row for row in rows if row[1]]


def _facts(facts: Mapping[str, bool | None] | Sequence[str] | None) -> list[str]:
    """Facts as they are written: ``battery_in``, ``not closed``; a mapping's unknown ones are left out."""
    if isinstance(facts, Mapping):
        return [name if holds else f"not {name}" for name, holds in facts.items() if holds is not None]
    return [str(fact) for fact in facts or ()]


def _remaining(actions: Sequence[str] | None) -> list[str] | None:
    return None if actions is None else [label(name) for name in actions]


def _classes(probabilities: Mapping[str, float]) -> list[dict[str, Any]]:
    ranked = sorted(probabilities.items(), key=lambda pair: (-(share(pair[1]) or 0.0), pair[0]))
    rows = [{"name": _spoken(name), "text": percent(p), "share": share(p)} for name, p in ranked[:_MOST_CLASSES]]
    if rest := ranked[_MOST_CLASSES:]:
        total = sum(share(p) or 0.0 for _, p in rest)
        rows.append({"name": f"{len(rest)} others", "text": percent(total), "share": share(total)})
    return rows


def _timings(timings: Mapping[str, float], seconds: float | None) -> dict[str, Any]:
    """The parts of the time taken [s], in the order they ran; what no part accounts for is "Other"."""
    parts = {label(name): part for name, part in timings.items() if name != "total" and (finite(part) or 0.0) > 0}
    spent = sum(parts.values())
    total = finite(seconds) or finite(timings.get("total")) or spent
    if total - spent > 0.01 * total:
        parts["Other"] = parts.get("Other", 0.0) + total - spent
    whole = sum(parts.values())
    return {
        "total": duration(total) if total else "",
        "parts": [
            {"name": name, "text": duration(part), "share": part / whole, "hue": _hue(name, index)}
            for index, (name, part) in enumerate(parts.items())
        ],
    }


def _hue(name: str, index: int) -> int:
    """One of the seven hues of page.css; the eighth, a grey, is for what has no name."""
    return 7 if name == "Other" else index % 7


def _footer(doc: Mapping[str, Any]) -> list[tuple[str, str]]:
    base = doc.get("base") or {}
    revision = f", revision {base['revision']}" if base.get("revision") is not None else ""
    cases = f", {base['cases']} cases" if base.get("cases") is not None else ""
    decision = doc.get("decision")
    return [
        ("sagehand", str(doc.get("version") or "")),
        ("decision", "" if decision is None else str(decision)),
        ("made", when(doc.get("created"))),
        ("judge", doc.get("judge") or ""),
        ("method", doc.get("method") or ""),
        ("prompts", (doc.get("model") or {}).get("prompts") or ""),
        ("embedder", base.get("embedder") or ""),
        ("crop", base.get("crop") or ""),
        ("case base", f"{base_name(base['name'])}{revision}{cases}" if base.get("name") else ""),
        ("picture id", (doc.get("query") or {}).get("pixel_id") or ""),
    ]


def _spoken(name: str | None) -> str:
    return label(name) if name else ""


def _step(case: Mapping[str, Any]) -> str:
    """``3 · battery out``, or as much of it as there is."""
    step, state = case.get("step"), case.get("state")
    return " · ".join(str(part) for part in (step, state) if part not in (None, ""))


def _done_before(previous: str | None) -> str:
    return "" if previous is None else "nothing yet" if previous == "none" else label(previous)
