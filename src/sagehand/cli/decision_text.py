"""A decision in the words of the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sagehand.cli.common import table

__all__ = ["decision_text"]


def decision_text(doc: Mapping[str, Any]) -> str:
    """A decision as ``Decision.to_dict`` gives it or the log keeps it, for a terminal."""
    from sagehand.judge.risk import Certificate

    lines = [f"next action: {doc['next_action']}" if doc["next_action"] else "ask the operator"]
    if doc["needs_confirmation"]:
        lines.append("an operator must confirm it before it is done")
    lines.append(f"because: {doc['reason']}")
    if doc["confidence"] is not None:
        certificate = doc["certified_risk"]
        certified = (
            Certificate(**certificate).words() if certificate else "no risk was set: the answer is not certified"
        )
        lines.append(f"confidence: {doc['confidence']:.2f} ({certified})")
    if doc["remaining_actions"] is not None:
        lines.append(f"remaining: {', '.join(doc['remaining_actions']) or 'nothing'}")
    if doc["case"]:
        lines.append(
            f"case: {_place_of(doc['case'])} ({doc['case']['file_name']}, cosine {doc['case']['similarity']:.2f})"
        )
    lines += [f"  {sentence}" for sentence in doc["evidence"]]
    rows = [
        [
            c["device"],
            c["step"],
            c["next_action"],
            f"{c['similarity']:.2f}",
            c["evidence"]["previous"],
            f"{c['probability']:.2f}",
        ]
        for c in doc["candidates"]
    ]
    lines += _search_lines(doc.get("search"))
    if rows:
        lines += ["", table(rows, ["candidate", "step", "next", "cosine", "previous action", "belief"])]
    if doc["ruled_out"]:
        lines += ["", "ruled out:", *(f"  {name}: {why}" for name, why in doc["ruled_out"].items())]
    lines += ["", f"allowed: {', '.join(doc['valid_actions'])}"]
    lines += [f"note: {warning}" for warning in doc["warnings"]]
    if doc.get("saved"):
        lines.append(f"not asked of the model: {', '.join(doc['saved']['rounds'])}; {doc['saved']['because']}")
    usage = doc.get("usage") or {}
    if usage.get("calls") or usage.get("cached"):
        lines.append(
            f"model: {usage['calls']} calls, {usage['prompt']} tokens read, {usage['completion']} written, "
            f"{usage['cached']} answers from the cache"
        )
    logged = f"decision {doc['decision']}" if doc["decision"] is not None else "not logged"
    return "\n".join([*lines, f"{doc['judge']} judge, {doc['seconds'] * 1000:.0f} ms, {logged}"])


def _place_of(case: Mapping[str, Any]) -> str:
    step = f", step {case['step']}" if case["step"] is not None else ""
    return f"{case['device']}{step}" + (f": {case['state']}" if case["state"] else "")


def _search_lines(search: Mapping[str, Any] | None) -> list[str]:
    """The guided search: what it found, and the best grade of each device."""
    if not search:
        return []
    asked = ", ".join(f"{count} {kind}" for kind, count in search["counts"].items())
    lines = ["", f"search: {search['reason']} ({asked})"]
    for leaf in search["leaves"]:
        grades = [image["grade"] for image in leaf["images"] if image["grade"] is not None]
        best = f"best grade {max(grades)} of {len(grades)} pictures" if grades else "nothing graded"
        score = f", as a device {leaf['score']}" if leaf["score"] is not None else ""
        lines.append(f"  {leaf['device']}: {best}{score}")
    return lines
