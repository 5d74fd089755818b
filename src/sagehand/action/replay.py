"""A logged decision run again, against the case base as it was or as it is now (SPEC C7).

The query's vectors and what was known are in the log; the cases as they were come from the history. What a model said is
not asked again: of its decisions only the recall is replayed. Nothing is written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from sagehand.action.clock import Clock
from sagehand.action.compose import Grounds, compose
from sagehand.action.decision import Decision, Known, candidate_doc
from sagehand.action.guard import Verdicts
from sagehand.action.library import ActionLibrary
from sagehand.action.methods import Asking, answer, reason_against
from sagehand.action.possible import possible
from sagehand.action.predict import DOMAIN_LEVEL, REPEATS_LOOKED_AT, Predictor
from sagehand.action.replay_log import check_logged, excluded_of, known_of
from sagehand.action.replay_notes import differences, summary, why_different
from sagehand.cases import CaseBase, Index
from sagehand.errors import InputError, StoreError, UnknownName
from sagehand.judge.calibration import Calibration, learn
from sagehand.judge.domain import Domain, in_domain
from sagehand.judge.perceptual import PERCEPTUAL, PerceptualJudge
from sagehand.judge.questions import Query
from sagehand.judge.risk import Certificate, certify
from sagehand.recall.rank import Ranking, rank

if TYPE_CHECKING:
    from sagehand.cases.past import Past

__all__ = ["AS_OF", "Replay", "Replayer", "replay"]

AS_OF = ("decision", "now")
"""Which cases a decision is replayed against: those of its own time, or those of today."""

_FIRST = 5


@dataclass(frozen=True, eq=False)
class Replay:
    """What came of it.

    Attributes:
        decision: Number of the decision in the log.
        as_of: "decision" or "now".
        revision: Revision of the cases that it was replayed against.
        part: What could be replayed: "all"; "recall" where a model or another judge answered; "none" where no case had a
            part in it.
        same: Whether the replay says the same; None where nothing could be replayed.
        logged: What the log says: ``next_action``, ``proposed``, ``confidence``, ``case``, ``reason``; of "recall" the
            ``candidates``.
        replayed: The same of the replay; None where nothing could be replayed.
        differences: What differs, a line each.
        why: What has changed that may explain it, a line each.
        limits: What could not be had as it was, a line each.
        again: The replayed decision; of "recall" it is the perceptual judge's. None where nothing could be replayed.
    """

    decision: int
    as_of: str
    revision: int
    part: Literal["all", "recall", "none"]
    same: bool | None
    logged: Mapping[str, Any]
    replayed: Mapping[str, Any] | None
    differences: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    again: Decision | None = None

    def to_dict(self) -> dict[str, Any]:
        """As plain data, without the whole decision."""
        return {
            "decision": self.decision,
            "as_of": self.as_of,
            "revision": self.revision,
            "part": self.part,
            "same": self.same,
            "logged": dict(self.logged),
            "replayed": None if self.replayed is None else dict(self.replayed),
            "differences": list(self.differences),
            "why": list(self.why),
            "limits": list(self.limits),
        }


def replay(predictor: Predictor, number: int, as_of: str = "decision") -> Replay:
    """Run one logged decision again; to run many, keep a :class:`Replayer`.

    Args:
        predictor: Its case base and action library are used.
        number: The decision's number in the log.
        as_of: "decision" for the cases as they were, "now" for those of today.

    Raises:
        NoSuchCase: There is no such decision.
        UnknownName: ``as_of`` is something else.
        InputError: The decision cannot be replayed: it was not logged by ``predict``, or without the query's vector.
        StoreError: Every case was embedded anew since.
    """
    return Replayer(predictor.base, predictor.library).replay(number, as_of)


class Replayer:
    """Replays decisions of one case base; the cases as they were are kept between decisions of one revision.

    Args:
        base: The case base with its log; nothing is written to it.
        library: The action library; where it is not the one of then, what the guard said then is taken from the log.
    """

    def __init__(self, base: CaseBase, library: ActionLibrary | None = None) -> None:
        self._base, self._library = base, library
        self._past: tuple[int, Past] | None = None
        self._learnt: tuple[int, Calibration] | None = None

    def replay(self, number: int, as_of: str = "decision") -> Replay:
        """Run one logged decision again; as :func:`replay`."""
        if as_of not in AS_OF:
            raise UnknownName("as_of", as_of, AS_OF)
        doc = self._base.decision(number)
        check_logged(doc, number)
        then = int(doc["base"].get("revision", doc["base_revision"]))
        if doc["method"] == "zero-shot":
            limits = ("a model answered from the picture alone: no case had a part in it",)
            return Replay(number, as_of, then, "none", None, summary(doc), None, limits=limits)
        vector = self._base.decision_vector(number)
        if vector is None:
            raise InputError(f"decision {number} was logged without the vector of its picture, which a replay needs")
        limits_: list[str] = []
        index = self._cases(then, as_of, limits_)
        query = self._query(doc, number, vector, limits_)
        again, calibration, part = self._again(doc, number, index, query, as_of, limits_)
        if part == "recall":
            limits_.append(f"{doc['judge']} answered, and is not asked again: only the recall is replayed")
            ranked = again.ranking.first(_FIRST) if again.ranking else ()
            logged = {"candidates": doc["candidates"][:_FIRST]}
            replayed = {"candidates": [candidate_doc(c) for c in ranked]}
        else:
            logged, replayed = summary(doc), summary(again.to_dict())
        found = differences(logged, replayed)
        why = why_different(self._base, doc, again.to_dict(), calibration, self._library, as_of) if found else ()
        return Replay(
            number, as_of, index.revision, part, not found, logged, replayed, found, why, tuple(limits_), again
        )

    def _cases(self, then: int, as_of: str, limits: list[str]) -> Index:
        if as_of == "now":
            anew = self._base.embedded_anew_since(then)
            if anew is not None:
                raise StoreError(
                    f"every case was embedded anew at revision {anew}: the logged vector cannot be compared with them",
                    hint="predict from the picture again",
                )
            return self._base.index()
        if self._past is None or self._past[0] != then:
            self._past = (then, self._base.index_as_of(then))
        other = self._past[1].other_vectors
        if other:
            limits.append(f"{len(other)} cases were embedded again since, by another crop or depth: {other[0][:8]}, …")
        return self._past[1].index

    def _query(self, doc: Mapping[str, Any], number: int, vector: Any, limits: list[str]) -> Query:
        known = known_of(doc)
        relief = self._base.decision_relief(number)
        if relief is None and "setup" not in doc and doc["query"].get("depth"):
            limits.append("the relief of its depth image was not logged then: replayed without it")
        previous = None if known.previous_failed else known.last
        return Query(vector, None, relief, previous, known.place, known.family)

    def _again(
        self, doc: Mapping[str, Any], number: int, index: Index, query: Query, as_of: str, limits: list[str]
    ) -> tuple[Decision, Calibration, Literal["all", "recall"]]:
        """The decision as it comes out of the cases, by the perceptual judge."""
        known, now = known_of(doc), as_of == "now"
        verdicts, library = self._verdicts(doc, index, known, now, limits)
        calibration = self._now() if now else self._then(doc, index, limits)
        asked = doc["certified_risk"]
        certificate = None
        if asked is not None:
            certificate = _certificate(calibration, asked["asked"], index) if now else Certificate(**asked)
        ranking = rank(index, query, calibration, exclude=excluded_of(doc))
        guard = doc.get("guard", "on")
        asking = Asking(
            method=doc["method"],
            query=query,
            ranking=ranking,
            domain=_domain(doc, ranking, calibration, now, limits),
            offered=verdicts.valid if guard == "on" else (*verdicts.valid, *verdicts.ruled_out),
            library=library,
            perceptual=PerceptualJudge(calibration),
            calibrated=bool(calibration.queries) and not calibration.stale(index.revision),
        )
        answered = answer(asking, Clock())
        before: list[str | None] = []
        if known.object_id is not None:
            earlier = self._base.decisions(limit=REPEATS_LOOKED_AT, object_id=known.object_id, before=number)
            before = [d.get("proposed", d["next_action"]) for d in reversed(earlier)]
        prediction, why = reason_against(asking, answered, verdicts, certificate, known, before)
        grounds = Grounds(
            known=known,
            index=index,
            base={**doc["base"], "revision": index.revision, "cases": len(index)},
            library=library,
            verdicts=verdicts,
            guard=guard,
            certificate=certificate,
            query=doc["query"],
            logged=True,
        )
        if now and doc.get("saved"):
            limits.append(
                "a model was not asked then, for the cases were sure enough; whether it would be is not replayed"
            )
        part: Literal["all", "recall"] = "all" if doc["judge"] == PERCEPTUAL else "recall"
        return compose(asking, answered, prediction, why, grounds), calibration, part

    def _verdicts(
        self, doc: Mapping[str, Any], index: Index, known: Known, now: bool, limits: list[str]
    ) -> tuple[Verdicts, ActionLibrary | None]:
        """What the guard leaves: by the library of then if that is at hand, else as the log has it."""
        digest = (doc.get("library") or {}).get("digest")
        if now:
            if self._library is None and digest is not None:
                limits.append("no action library was given: no action is ruled out")
            return possible(self._library, index, known)[0], self._library
        if digest is None:
            return possible(None, index, known)[0], None
        if self._library is not None and self._library.digest == digest:
            return possible(self._library, index, known)[0], self._library
        missing = (
            "no action library was given" if self._library is None else "the action library is another one than then"
        )
        limits.append(f"{missing}: what the guard said is taken from the log")
        return Verdicts(tuple(doc["valid_actions"]), dict(doc["ruled_out"])), self._library

    def _now(self) -> Calibration:
        text = self._base.calibration_text()
        return Calibration.from_dict(json.loads(text)) if text else Calibration()

    def _then(self, doc: Mapping[str, Any], index: Index, limits: list[str]) -> Calibration:
        """The calibration of then: the base's own where it still is, else its weights from the log, else learnt again."""
        current, brief = self._now(), (doc.get("setup") or {}).get("calibration")
        if brief is not None:
            return current if current.brief() == brief else Calibration.from_brief(brief)
        warnings = " ".join(doc.get("warnings", ()))
        if "the calibration is missing" in warnings:
            return Calibration()
        if current.revision == index.revision and not current.stale(index.revision):
            return current
        stale = ", from the cases of then, which it was older than" if "the calibration is older" in warnings else ""
        limits.append(f"the calibration was not logged then: it is learnt again{stale}")
        if self._learnt is None or self._learnt[0] != index.revision:
            self._learnt = (index.revision, learn(index, current.leave_out))
        return self._learnt[1]


def _certificate(calibration: Calibration, risk: float, index: Index) -> Certificate:
    certificate = certify(calibration.answers, risk)
    if calibration.stale(index.revision):
        return replace(certificate, certified=False, smallest=None, stale=True)
    return certificate


def _domain(
    doc: Mapping[str, Any], ranking: Ranking, calibration: Calibration, now: bool, limits: list[str]
) -> Domain | None:
    """The domain test, or, where what it was learnt from is gone, its logged outcome for the same distances."""
    logged = doc.get("domain")
    level = (doc.get("setup") or {}).get("domain_level")
    if level is None:
        level = logged["level"] if logged else 0 if doc["candidates"] else DOMAIN_LEVEL
    if level == 0 or ranking.nearest is None:
        return None
    found = in_domain(calibration.strange, ranking.nearest.evidence.picture, ranking.apart, level)
    if now or calibration.strange or logged is None or logged["in_domain"] is None:
        return found
    pairs = ((found.similarity, logged["similarity"]), (found.usual, logged["usual"]))
    if all(a == b or (a is not None and b is not None and abs(a - b) < 1e-6) for a, b in pairs):
        return Domain(**logged)
    limits.append("what is usual in the base was not logged then: the domain test cannot be replayed")
    return found
