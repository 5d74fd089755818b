"""A decision: what to do next, or "ask the operator", with everything it rests on (SPEC A6, C3, C7)."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sagehand.cases import NOTHING_DONE
from sagehand.errors import InputError
from sagehand.judge.cost import FREE, Cost
from sagehand.judge.questions import Candidate
from sagehand.judge.risk import Certificate
from sagehand.recall.rank import Ranking

__all__ = ["Decision", "Known", "candidate_doc"]

_WORDS = {1: "agrees", -1: "differs", 0: "unknown"}


@dataclass(frozen=True)
class Known:
    """What is known beside the picture.

    Attributes:
        previous: The action that led here; "none" when nothing was done yet; None when not known.
        history: All actions so far, oldest first, from the start; None when not known.
        facts: Facts of the action library that hold, as in "battery_in" or "not battery_in".
        previous_failed: Whether the previous action was tried and did not work.
        family: The device's family, when known.
        place: Where the device sits, when known.
        object_id: Any name for the object in hand, so that the same answer again and again is noticed across calls.
    """

    previous: str | None = None
    history: tuple[str, ...] | None = None
    facts: tuple[str, ...] = ()
    previous_failed: bool = False
    family: str | None = None
    place: str | None = None
    object_id: str | None = None

    def __post_init__(self) -> None:
        for name in ("previous", "family", "place", "object_id"):
            if not isinstance(getattr(self, name), str | None):
                raise InputError(f"{name} is {getattr(self, name)!r}, not text", hint="give its name, or None")
        for name in ("history", "facts"):
            value = getattr(self, name)
            if isinstance(value, str) or not all(isinstance(item, str) for item in value or ()):
                raise InputError(f"{name} is {value!r}, not a sequence of names", hint="as in ('pry', 'unscrew')")
        # one spelling for what looks the same, as in labels and action names
        for name in ("previous", "family", "place"):
            value = getattr(self, name)
            object.__setattr__(self, name, value and unicodedata.normalize("NFC", value))
        if self.history is not None:
            object.__setattr__(self, "history", tuple(unicodedata.normalize("NFC", a) for a in self.history))

    @property
    def last(self) -> str | None:
        """The action that led here, from ``previous`` or from the history; "none" for an empty history."""
        if self.previous is not None or self.history is None:
            return self.previous
        return self.history[-1] if self.history else NOTHING_DONE

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        doc = asdict(self)
        doc["object"] = doc.pop("object_id")
        doc["history"] = None if self.history is None else list(self.history)
        doc["facts"] = list(self.facts)
        return doc


@dataclass(frozen=True, eq=False)
class Decision:
    """The outcome of one ``predict``.

    Attributes:
        next_action: Name of the action, or None when sagehand abstains.
        abstained: Whether the operator is to be asked.
        reason: Why this answer, or why none.
        confidence: Belief in the answer, or None.
        valid_actions: Actions that the guard does not rule out.
        ruled_out: Action → why it is known to be impossible.
        previous_action: As given, else as the leaning case says, else None.
        remaining_actions: What is left to do, the next action included; None when not known.
        is_last: Whether the next action is the last one; None when not known.
        end_state: Whether nothing remains; None when sagehand abstains.
        device_class: The device's family; None when not known.
        device_classes: Belief in each family.
        needs_confirmation: Whether an operator's word is needed before the action (``risk: confirm``).
        certified_risk: What is certified for this answer; None when no risk was set.
        proposed: The answer before it was held back, so that repeats are noticed; None when there was none.
        library: Source and digest of the action library, or None.
        guard: "on", or "off" where the judge could name any action.
        model: The model that was asked: its name, the digest of its prompts, what it answered; None where there was none.
        usage: What was asked of it.
        search: The guided search as plain data, or None.
        saved: What was not asked and why, or None.
        failure: Why the model gave no answer (kind, message, hint, retryable), or None.
        decision: Its id in the log, or None when it was not logged.
        case: The candidate that the answer leans on, or None.
        candidates: The cases that matter most, best first.
        method: "single", "guided" or "zero-shot".
        judge: Who spoke.
        seconds: How long it took, the log's write included.
        timings: Part → seconds.
        evidence: The findings, in sentences.
        warnings: What the user should mend.
        known: What was known.
        query: The picture: name, width, height, box, pixel_id, notes.
        base: The case base: name, revision, cases, embedder, crop.
        actions: Action → description and whether it needs confirmation.
        domain: Outcome of the domain test, as plain data, or None.
        version: Of sagehand.
        created: ISO time.
        ranking: The whole ranking, for evaluation; not a part of the document.
    """

    next_action: str | None
    abstained: bool
    reason: str
    confidence: float | None
    valid_actions: tuple[str, ...]
    ruled_out: Mapping[str, str]
    previous_action: str | None
    remaining_actions: tuple[str, ...] | None
    is_last: bool | None
    end_state: bool | None
    device_class: str | None
    device_classes: Mapping[str, float]
    needs_confirmation: bool
    certified_risk: Certificate | None
    case: Candidate | None
    candidates: Sequence[Candidate]
    method: str
    judge: str
    evidence: tuple[str, ...]
    warnings: tuple[str, ...]
    known: Known
    query: Mapping[str, Any]
    base: Mapping[str, Any]
    actions: Mapping[str, Any]
    domain: Mapping[str, Any] | None
    version: str
    created: str
    proposed: str | None = None
    library: Mapping[str, str] | None = None
    guard: str = "on"
    model: Mapping[str, Any] | None = None
    usage: Cost = FREE
    search: Mapping[str, Any] | None = None
    saved: Mapping[str, Any] | None = None
    failure: Mapping[str, Any] | None = None
    decision: int | None = None
    seconds: float = 0.0
    timings: Mapping[str, float] = field(default_factory=dict)
    ranking: Ranking | None = None

    def to_dict(self) -> dict[str, Any]:
        """What ``predict --json`` prints; finite numbers only."""
        lead = self.case
        return {
            "next_action": self.next_action,
            "abstained": self.abstained,
            "reason": self.reason,
            "confidence": _share(self.confidence),
            "valid_actions": list(self.valid_actions),
            "ruled_out": dict(self.ruled_out),
            "previous_action": self.previous_action,
            "remaining_actions": None if self.remaining_actions is None else list(self.remaining_actions),
            "is_last": self.is_last,
            "end_state": self.end_state,
            "device_class": self.device_class,
            "device_classes": {name: _share(p) for name, p in self.device_classes.items()},
            "needs_confirmation": self.needs_confirmation,
            "certified_risk": asdict(self.certified_risk) if self.certified_risk else None,
            "proposed": self.proposed,
            "library": dict(self.library) if self.library else None,
            "guard": self.guard,
            "model": dict(self.model) if self.model else None,
            "usage": self.usage.to_dict(),
            "search": dict(self.search) if self.search else None,
            "saved": dict(self.saved) if self.saved else None,
            "failure": dict(self.failure) if self.failure else None,
            "decision": self.decision,
            "object_id": self.known.object_id,
            "case": candidate_doc(lead) if lead else None,
            "candidates": [candidate_doc(c) for c in self.candidates],
            "method": self.method,
            "judge": self.judge,
            "seconds": round(self.seconds, 6),
            "timings": {name: round(s, 6) for name, s in self.timings.items()},
            "evidence": list(self.evidence),
            "warnings": list(self.warnings),
            "known": self.known.to_dict(),
            "query": dict(self.query),
            "base": dict(self.base),
            "actions": dict(self.actions),
            "domain": dict(self.domain) if self.domain else None,
            "version": self.version,
            "created": self.created,
        }


def candidate_doc(candidate: Candidate) -> dict[str, Any]:
    """A candidate as plain data."""
    case, evidence = candidate.case, candidate.evidence
    return {
        "id": case.id,
        "family": case.family,
        "device": case.device,
        "step": case.step,
        "state": case.state,
        "file_name": case.file_name,
        "next_action": case.next_action,
        "previous_action": case.previous_action,
        "place": case.place,
        "similarity": round(evidence.picture, 6),
        "probability": _share(candidate.probability),
        "evidence": {
            "picture": round(evidence.picture, 6),
            "previous": _WORDS[evidence.previous],
            "place": _WORDS[evidence.place],
            "depth": None if evidence.depth is None else round(evidence.depth, 6),
        },
    }


def _share(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
