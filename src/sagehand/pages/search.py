"""The part of a decision page that shows how the case was found, and what was asked of a model (SPEC A5, C7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sagehand.pages.words import duration, finite, label, sentence, share

__all__ = ["asked_view", "search_view"]

_BEST = 10  # the highest grade
_LEAST = 5  # the least that counts as a match (SPEC A5)
_VERDICTS = {"agrees": ("good", "✓"), "differs": ("bad", "✗")}


def search_view(doc: Mapping[str, Any], uris: Mapping[str, str]) -> dict[str, Any] | None:
    """The search of a decision, ready for the template; None where there was none.

    Args:
        doc: The decision.
        uris: Pictures by name; those of graded cases are ``candidate:<case id>``.
    """
    search = doc.get("search")
    if not search:
        return None
    trace = search.get("trace") or search
    chosen = (doc.get("case") or {}).get("id")
    questions = list(trace.get("questions") or ())
    names = _names(doc, trace)
    return {
        "reason": sentence(search.get("reason") or ""),
        "verified": bool(search.get("verified")),
        "found": search.get("case") is not None,
        "numbers": _numbers(trace, questions),
        "first": _first_look(questions, names, uris),
        "leaves": [_leaf(leaf, chosen, uris) for leaf in trace.get("leaves") or ()],
        "expansion": sentence(trace.get("expansion") or "") if trace.get("leaves") else "",
        "tie": _tie(trace.get("tie"), names),
        "suspicions": list(trace.get("suspicions") or ()),
        "ran_out": (trace.get("limits") or {}).get("ran_out") or "",
    }


def asked_view(doc: Mapping[str, Any]) -> dict[str, Any] | None:
    """What was asked of a model in all, and what was not; None where no model had a part in the decision."""
    model, usage, saved = doc.get("model") or {}, doc.get("usage") or {}, doc.get("saved") or {}
    if not (model or saved or usage.get("calls") or usage.get("cached")):
        return None
    prompt, completion = usage.get("prompt") or 0, usage.get("completion") or 0
    rows = [
        ("Model", model.get("name") or ""),
        ("Calls", _count(usage.get("calls"))),
        ("From the cache", _count(usage.get("cached")) if usage.get("cached") else ""),
        ("Tokens read", _count(prompt) if usage.get("calls") else ""),
        ("Tokens written", _count(completion) if usage.get("calls") else ""),
        ("Model time", duration(usage["seconds"]) if finite(usage.get("seconds")) else ""),
        ("Guard", "off: the model could name any action" if doc.get("guard") == "off" else ""),
        ("Prompts", model.get("prompts") or ""),
    ]
    return {
        "rows": [row for row in rows if row[1]],
        "saved": saved.get("because") or "",
        "said": _said(model.get("answer") or {}),
        "failure": (doc.get("failure") or {}).get("message") or "",
    }


def _said(answer: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The model's five answers (paper A §3.1), as it gave them."""
    rows = []
    for name, value in answer.items():
        if isinstance(value, bool):
            text = "yes" if value else "no"
        elif isinstance(value, list | tuple):
            text = " → ".join(label(str(v)) for v in value) or "nothing"
        else:
            text = "nothing yet" if value == "none" else label(str(value))
        rows.append((label(name), text))
    return rows


def _numbers(trace: Mapping[str, Any], questions: Sequence[Any]) -> list[str]:
    leaves = trace.get("leaves") or ()
    graded = sum(image.get("grade") is not None for leaf in leaves for image in leaf.get("images") or ())
    cost, limits = trace.get("cost") or {}, trace.get("limits") or {}
    saved = trace.get("saved_rounds") or 0
    parts = [
        _plural(len(questions), "question"),
        _plural(graded, "picture") + " graded" if graded else "",
        _plural(len(leaves), "device") if leaves else "",
        f"{_count(cost['prompt'])} tokens read" if cost.get("prompt") else "",
        duration(limits["used_seconds"]) if finite(limits.get("used_seconds")) else "",
        _plural(saved, "round") + " of waiting saved" if saved > 0 else "",
    ]
    return [part for part in parts if part]


def _first_look(
    questions: Sequence[Mapping[str, Any]], names: Mapping[str, str], uris: Mapping[str, str]
) -> dict[str, Any] | None:
    asked = next((q for q in questions if q.get("kind") == "BoolGradeImage"), None)
    if asked is None:
        return None
    about = next(iter(asked.get("about") or ()), "")
    text, kind = {"True": ("Confirmed", "good"), "False": ("Rejected", "bad")}.get(
        str(asked.get("answer")), ("Could not tell", "ask")
    )
    return {
        "text": text,
        "kind": kind,
        "picture": uris.get(f"candidate:{about}"),
        "name": names.get(about, ""),
        "findings": _findings(asked),
    }


def _leaf(leaf: Mapping[str, Any], chosen: str | None, uris: Mapping[str, str]) -> dict[str, Any]:
    score = leaf.get("score")
    left_out = leaf.get("left_out") or 0
    return {
        "device": label(leaf.get("device") or "Not named"),
        "family": label(leaf["family"]) if leaf.get("family") else "",
        "expanded": bool(leaf.get("expanded")),
        "score": "–" if score is None else str(score),
        "share": None if score is None else share(score / _BEST),
        "summary": leaf.get("summary") or leaf.get("error") or "",
        "images": [_image(image, chosen, uris) for image in leaf.get("images") or ()],
        "left_out": f"{_plural(left_out, 'picture')} of the same steps not graded" if left_out else "",
    }


def _image(image: Mapping[str, Any], chosen: str | None, uris: Mapping[str, str]) -> dict[str, Any]:
    ident, grade, step = str(image.get("id") or ""), image.get("grade"), image.get("step")
    state = image.get("state") or ""
    return {
        "picture": uris.get(f"candidate:{ident}"),
        "grade": "–" if grade is None else str(grade),
        "kind": "" if grade is None else "good" if grade >= _LEAST else "low",
        "chosen": bool(ident) and ident == chosen,
        "step": f"Step {step}" if step is not None else (state or "No step"),
        "state": state if step is not None else "",
        "action": label(image["next_action"]) if image.get("next_action") else "no label",
        "findings": _findings(image),
    }


def _findings(source: Mapping[str, Any]) -> list[dict[str, str]]:
    found = []
    for finding in source.get("findings") or ():
        kind, mark = _VERDICTS.get(finding.get("verdict") or "", ("", "?"))
        topic = finding.get("topic") or ""
        found.append(
            {"kind": kind, "mark": mark, "topic": "" if topic == "reasoning" else label(topic), "text": finding["text"]}
        )
    if source.get("error"):
        found.append({"kind": "bad", "mark": "!", "topic": "", "text": str(source["error"])})
    return found


def _tie(tie: Mapping[str, Any] | None, names: Mapping[str, str]) -> dict[str, Any] | None:
    if not tie:
        return None
    pairs = []
    for pair in tie.get("pairs") or ():
        winner = pair.get("winner")
        loser = pair.get("second") if winner == pair.get("first") else pair.get("first")
        by = f" (by rank: {pair['why']})" if pair.get("settled") == "rank" and pair.get("why") else ""
        pairs.append(f"{names.get(winner, 'one')} over {names.get(loser, 'another')}{by}")
    cycle = tie.get("cycle")
    return {
        "headline": f"{len(tie.get('tied') or ())} pictures shared the highest grade, {tie.get('grade')}",
        "how": tie.get("how") or "",
        "pairs": pairs,
        "cycle": "They beat one another in a circle; the order of the ranking decided." if cycle else "",
        "note": tie.get("note") or "",
    }


def _names(doc: Mapping[str, Any], trace: Mapping[str, Any]) -> dict[str, str]:
    """Case id → device and step, as far as the document names them."""
    names = {}
    for candidate in (*(doc.get("candidates") or ()), *([doc["case"]] if doc.get("case") else ())):
        names[str(candidate.get("id"))] = _named(candidate.get("device"), candidate)
    for leaf in trace.get("leaves") or ():
        for image in leaf.get("images") or ():
            names[str(image.get("id"))] = _named(leaf.get("device"), image)
    return names


def _named(device: str | None, case: Mapping[str, Any]) -> str:
    step = f", step {case['step']}" if case.get("step") is not None else ""
    return f"{label(device) if device else 'Not named'}{step}"


def _count(value: object) -> str:
    plain = finite(value)
    return "" if plain is None else f"{plain:,.0f}".replace(",", "\u202f")


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
