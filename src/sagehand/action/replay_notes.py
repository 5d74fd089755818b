"""What differs between a logged decision and its replay, and what has changed that may explain it, in words (SPEC C7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sagehand.action.library import ActionLibrary
from sagehand.cases import CaseBase
from sagehand.judge.calibration import Calibration

__all__ = ["differences", "summary", "why_different"]

_TOLERANCE = 2e-6  # both are rounded to six digits
_MOST_CHANGES = 5


def summary(doc: Mapping[str, Any]) -> dict[str, Any]:
    """Of a decision's document what a replay is held against."""
    case = doc["case"]
    return {
        "next_action": doc["next_action"],
        "proposed": doc.get("proposed", doc["next_action"]),
        "confidence": doc["confidence"],
        "case": None if case is None else case["id"],
        "reason": doc["reason"],
    }


def differences(logged: Mapping[str, Any], replayed: Mapping[str, Any]) -> tuple[str, ...]:
    """What differs, a line each; reasons are words, and are not compared.

    Args:
        logged: From the log: a :func:`summary`, or ``candidates``.
        replayed: The same of the replay.
    """
    if "candidates" in logged:
        return _in_candidates(logged["candidates"], replayed["candidates"])
    found: list[str] = []
    for name, words in (("next_action", "answer"), ("proposed", "answer before it was held back"), ("case", "case")):
        if logged[name] != replayed[name] and not (name == "proposed" and found):
            found.append(f"{words}: {_shown(name, logged[name])} then, {_shown(name, replayed[name])} in the replay")
    if not _equal(logged["confidence"], replayed["confidence"]):
        found.append(
            f"confidence: {_number(logged['confidence'])} then, {_number(replayed['confidence'])} in the replay"
        )
    return tuple(found)


def why_different(
    base: CaseBase,
    logged: Mapping[str, Any],
    replayed: Mapping[str, Any],
    calibration: Calibration,
    library: ActionLibrary | None,
    as_of: str,
) -> tuple[str, ...]:
    """What has changed since that may explain a difference, a line each.

    Args:
        base: The case base, for the history.
        logged: The decision's document in the log.
        replayed: The replay's.
        calibration: What the replay was weighed by.
        library: The library given to the replay.
        as_of: "decision" or "now".
    """
    found = []
    if as_of == "now":
        found += _case_changes(base, logged, replayed)
        found += _calibration(logged, calibration)
        digest = (logged.get("library") or {}).get("digest")
        if library is not None and library.digest != digest:
            found.append("the action library is another one than then")
        elif library is None and digest is not None:
            found.append(
                f"the action library of then ({logged['library'].get('source') or digest[:12]}) was not given to the replay"
            )
        if replayed["abstained"] != logged["abstained"]:
            found.append(f"the reason then: {logged['reason']}; now: {replayed['reason']}")
    if logged["version"] != replayed["version"]:
        found.append(f"decided by sagehand {logged['version']}, replayed by {replayed['version']}")
    return tuple(found) or ("nothing that was logged explains it",)


def _case_changes(base: CaseBase, logged: Mapping[str, Any], replayed: Mapping[str, Any]) -> list[str]:
    """What was done since to the cases that either of the two leant on, and how many cases there are more or fewer."""
    ids = list(dict.fromkeys(c["id"] for doc in (logged, replayed) for c in _leant_on(doc)))
    lines = []
    for entry in base.changes_since(int(logged["base"]["revision"]), ids):
        changed = ", ".join(f"{key} {old!r} → {new!r}" for key, (old, new) in entry.changes().items())
        told = f" ({changed})" if changed and entry.before is not None else ""
        lines.append(f"case {str(entry.case_id)[:8]}: {entry.operation} at revision {entry.seq}{told}")
    if len(lines) > _MOST_CHANGES:
        lines[_MOST_CHANGES:] = [f"{len(lines) - _MOST_CHANGES} more changes of the cases that matter most"]
    then, now = logged["base"].get("cases"), replayed["base"]["cases"]
    if then != now:
        lines.append(f"the case base held {then} cases then, and holds {now} now")
    return lines


def _leant_on(doc: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*([doc["case"]] if doc["case"] else []), *doc["candidates"]]


def _calibration(logged: Mapping[str, Any], calibration: Calibration) -> list[str]:
    brief = (logged.get("setup") or {}).get("calibration")
    if brief is None or brief == calibration.brief():
        return []
    there = "missing" if brief["revision"] < 0 else f"of revision {brief['revision']}"
    here = "missing" if calibration.revision < 0 else f"of revision {calibration.revision}"
    return [f"the calibration was {there} then, and is {here} now"]


def _in_candidates(logged: list[Mapping[str, Any]], replayed: list[Mapping[str, Any]]) -> tuple[str, ...]:
    found = []
    then, now = [c["id"][:8] for c in logged], [c["id"][:8] for c in replayed]
    if then != now:
        found.append(f"candidates: {', '.join(then) or 'none'} then, {', '.join(now) or 'none'} in the replay")
    else:
        for one, other in zip(logged, replayed, strict=True):
            if not _equal(one["probability"], other["probability"]):
                beliefs = f"{_number(one['probability'])} then, {_number(other['probability'])} in the replay"
                found.append(f"belief in case {one['id'][:8]}: {beliefs}")
    return tuple(found)


def _equal(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= _TOLERANCE


def _shown(name: str, value: str | None) -> str:
    if value is None:
        return "no case" if name == "case" else "ask the operator"
    return value[:8] if name == "case" else repr(value)


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.6f}"
