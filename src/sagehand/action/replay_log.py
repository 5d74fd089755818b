"""What a logged decision says, for its replay; the log may hold what another program wrote (SPEC C7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sagehand.action.decision import Known
from sagehand.action.replay_notes import summary
from sagehand.errors import InputError
from sagehand.judge.domain import Domain
from sagehand.judge.risk import Certificate

__all__ = ["check_logged", "excluded_of", "known_of"]

_OURS = frozenset(("candidates", "judge", "valid_actions", "ruled_out", "known", "query", "base", "method"))
_READ = ("version", "abstained", "certified_risk")


def check_logged(doc: Mapping[str, Any], number: int) -> None:
    """Refuse a document that cannot be run again.

    Raises:
        InputError: It was not logged by ``predict``, or not as this sagehand logs.
    """
    if not doc.keys() >= _OURS:
        raise InputError(f"decision {number} was not logged by predict: there is nothing to run again")
    try:
        _read_through(doc)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"decision {number} is not as predict of this sagehand logs it ({type(error).__name__}: {error})",
            hint="another program or a newer sagehand wrote it: leave it out",
        ) from error


def _read_through(doc: Mapping[str, Any]) -> None:
    """Read all that a replay will, and fail where it would."""
    known_of(doc)
    excluded_of(doc)
    summary(doc)
    dict(doc["ruled_out"])
    int(doc["base"].get("revision", doc["base_revision"]))
    missing = [key for key in _READ if key not in doc]
    if missing:
        raise KeyError(missing[0])
    if doc["certified_risk"] is not None:
        Certificate(**doc["certified_risk"])
    if doc.get("domain"):
        Domain(**doc["domain"])
    for case in doc["candidates"]:
        float(case["probability"] or 0)


def known_of(doc: Mapping[str, Any]) -> Known:
    """What was known when it was decided."""
    given = {**doc["known"]}
    given["object_id"] = given.pop("object", None)
    history = given.get("history")
    given["history"] = None if history is None else tuple(history)
    given["facts"] = tuple(given.get("facts") or ())
    return Known(**given)


def excluded_of(doc: Mapping[str, Any]) -> frozenset[str]:
    """The query's own picture, unless it was allowed; where that was not logged, it shows among the candidates."""
    own = doc["query"]["pixel_id"]
    allowed = (doc.get("setup") or {}).get("allow_own", any(c["id"] == own for c in doc["candidates"]))
    return frozenset() if allowed else frozenset({own})
