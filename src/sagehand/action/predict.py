"""Predict the next action: see → recall → judge → decide → check → remember (paper A §3.3, SPEC A6, C3)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.action.abstain import REPEAT_LIMIT, why_abstain
from sagehand.action.decision import Decision, Known
from sagehand.action.guard import Verdicts, check_actions, know
from sagehand.action.library import ActionLibrary
from sagehand.cases import CaseBase
from sagehand.embed import Embedder, get_embedder
from sagehand.errors import InputError, NeedsVlm, ReadOnlyCaseBase, StoreBusy, StoreFull, UnknownName
from sagehand.judge.calibration import Calibration
from sagehand.judge.domain import Domain, in_domain
from sagehand.judge.perceptual import PerceptualJudge
from sagehand.judge.questions import Judge, Prediction, PredictQuestion, Query
from sagehand.judge.risk import Certificate, certify
from sagehand.picture import Box, Picture, load, to_jpeg
from sagehand.recall.crop import cropper
from sagehand.recall.rank import Ranking, rank

__all__ = ["DOMAIN_LEVEL", "METHODS", "Predictor"]

METHODS = ("single", "zero-shot")
DOMAIN_LEVEL = 0.05
_SHOWN = 5
_THUMBNAIL = 224


class Predictor:
    """Answers "what next?" from a case base and an action library.

    Args:
        base: The case base; its embedder and crop are used for the query.
        library: The cell's actions; without one nothing is ruled out.
        embedder: The embedder of the base, when it is at hand already.
        judge: Who judges; the perceptual judge with the base's calibration by default.
        risk: Greatest share of wrong answers that is acceptable, in (0, 1); None answers uncertified.
        domain_level: Share of right pictures that the domain test may turn away; 0 switches it off.
        log: Whether decisions are written into the case base.

    Raises:
        EmbedderMismatch: The embedder is not the base's.
        InputError: The risk or the level is not a share.
    """

    def __init__(
        self,
        base: CaseBase,
        library: ActionLibrary | None = None,
        *,
        embedder: Embedder | None = None,
        judge: Judge | None = None,
        risk: float | None = None,
        domain_level: float = DOMAIN_LEVEL,
        log: bool = True,
    ) -> None:
        if risk is not None and not 0 < risk < 1:
            raise InputError(f"risk {risk!r} is not a share", hint="give a number between 0 and 1, such as 0.05")
        if not 0 <= domain_level < 1:
            raise InputError(
                f"domain level {domain_level!r} is not a share",
                hint="give a number from 0 to below 1; 0 switches it off",
            )
        self.base, self.library = base, library
        self.embedder = embedder or get_embedder(base.embedder.name)
        base.require(self.embedder.identity)
        self.risk, self.domain_level, self.log = risk, domain_level, log
        self._judge = judge
        self._learnt: tuple[Any, Calibration, Certificate | None] | None = None

    @classmethod
    def open(cls, cases: str | Path, actions: str | Path | None = None, **options: Any) -> Predictor:
        """Open a case base file and an action library file.

        Args:
            cases: The case base.
            actions: The action library (YAML).
            **options: As for the class.
        """
        library = ActionLibrary.load(Path(actions)) if actions is not None else None
        return cls(CaseBase.open(Path(cases)), library, **options)

    def close(self) -> None:
        """Close the case base."""
        self.base.close()

    def __enter__(self) -> Predictor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def predict(
        self,
        picture: str | Path | bytes | NDArray[Any] | Picture,
        known: Known | None = None,
        *,
        method: str = "single",
        box: Box | None = None,
        allow_own: bool = False,
        **loading: Any,
    ) -> Decision:
        """Decide on one picture.

        Args:
            picture: Path, bytes, (H, W, 3) RGB array, or a loaded picture.
            known: What is known beside it.
            method: "single": the best case by picture and context. "zero-shot" needs a VLM.
            box: A crop given by hand, for a base of crop ``truth``.
            allow_own: Whether the query's own picture may be recalled.
            **loading: ``depth``, ``depth_unit``, ``limits``, ``name``: as for :func:`sagehand.picture.load`.

        Raises:
            PictureError: The picture cannot be used.
            UnknownName: An action, fact, family or method that there is none of.
            NeedsVlm: The method asks a VLM, and none is set up.
        """
        if method not in METHODS:
            raise UnknownName("method", method, METHODS)
        if method == "zero-shot":
            raise NeedsVlm(
                "zero-shot prediction asks a vision-language model, and none is set up", hint="use --method single"
            )
        known = known or Known()
        clock = _Clock()
        verdicts, warnings = self._check(known)
        calibration, certificate = self._calibration(warnings)
        with clock("load"):
            seen = picture if isinstance(picture, Picture) and not loading else load(picture, **loading)
        judge = self._judge or PerceptualJudge(calibration)
        with clock("crop"):
            cut = self._crop(seen, judge, box, warnings)
        with clock("embed"):
            query = self._look(cut.picture if cut else seen, known)
        with clock("recall"):
            own = frozenset() if allow_own else frozenset({seen.pixel_id})
            ranking = rank(self.base.index(), query, calibration, exclude=own)
        with clock("decide"):
            domain = self._domain(ranking, calibration)
            prediction = _ask(judge, query, ranking, verdicts, self.library)
            why = why_abstain(prediction, ranking, domain, verdicts, certificate, known, self._answers_before(known))
            decision = self._decide(prediction, why, ranking, domain, verdicts, certificate, known, warnings)
            decision = replace(decision, query=_query(seen, cut.box if cut else None), method=method)
        return self._remember(decision, seen, query, clock)

    def _check(self, known: Known) -> tuple[Verdicts, list[str]]:
        """What the guard rules out, and what the user should know about it."""
        if self.library is None:
            labels = self.base.index().codes("next_action")[1]
            actions = {*labels, *self.base.index().codes("previous_action")[1], "none"}
            for name in (known.previous, *(known.history or ())):
                if name is not None and name not in actions:
                    raise UnknownName("previous action", name, actions)
            if known.facts:
                raise InputError("facts need an action library", hint="add --actions FILE")
            return Verdicts(tuple(sorted(labels)), {}), ["no action library was given: no action is ruled out"]
        knowledge = know(
            self.library,
            previous=known.previous,
            history=known.history,
            facts=known.facts,
            previous_failed=known.previous_failed,
        )
        family = known.family if self.library.families else None
        return check_actions(self.library, knowledge, family=family), list(knowledge.notes)

    def _calibration(self, warnings: list[str]) -> tuple[Calibration, Certificate | None]:
        doc = self.base.calibration()
        if self._learnt is None or self._learnt[0] is not doc:
            learnt = Calibration.from_dict(doc) if doc else Calibration()
            self._learnt = (doc, learnt, certify(learnt.answers, self.risk) if self.risk is not None else None)
        _, calibration, certificate = self._learnt
        if calibration.stale(self.base.revision):
            what = "is older than the newest change of its cases" if doc else "is missing"
            warnings.append(f"the calibration {what}: run `sagehand cases calibrate`")
            # a certificate speaks of the cases that it was learnt from, and of no others
            certificate = replace(certificate, certified=False, smallest=None) if certificate else None
        return calibration, certificate

    def _crop(self, seen: Picture, judge: Judge, box: Box | None, warnings: list[str]) -> Any:
        crop = cropper(self.base.crop, judge)
        if crop is None:
            return None
        cut = crop(seen, {"box": box})
        if cut is None:
            warnings.append(f"the crop {self.base.crop!r} found no box; the whole picture is used")
            return None
        return seen.crop(cut)

    def _look(self, picture: Picture, known: Known) -> Query:
        vector = self.embedder.embed([picture.pixels])[0]
        relief = None
        if picture.depth is not None:
            from sagehand.embed import depth_vector

            relief = depth_vector(picture.depth)
        previous = known.previous if known.previous is not None or not known.history else known.history[-1]
        return Query(vector, picture, relief, None if known.previous_failed else previous, known.place, known.family)

    def _domain(self, ranking: Ranking, calibration: Calibration) -> Domain | None:
        if ranking.nearest is None or self.domain_level == 0:
            return None
        return in_domain(calibration.strange, ranking.nearest.evidence.picture, ranking.apart, self.domain_level)

    def _answers_before(self, known: Known) -> list[str | None]:
        """What was answered last for the object in hand, oldest first."""
        if known.object_id is None:
            return []
        before = self.base.decisions(limit=REPEAT_LIMIT - 1, object_id=known.object_id)
        return [doc["next_action"] for doc in reversed(before)]

    def _decide(
        self,
        prediction: Prediction,
        why: str | None,
        ranking: Ranking,
        domain: Domain | None,
        verdicts: Verdicts,
        certificate: Certificate | None,
        known: Known,
        warnings: list[str],
    ) -> Decision:
        from sagehand import __version__

        action = prediction.next_action if why is None else None
        spec = self.library.actions.get(action) if self.library and action else None
        end = self.library.end if self.library else "end"
        lead = prediction.case
        shown = list(ranking.candidates[:_SHOWN])
        if lead is not None and all(c.case.id != lead.case.id for c in shown):
            shown.append(lead)
        if known.previous is None and known.history is None:
            warnings.append("the previous action is not known: give it, if you can, with --previous")
        return Decision(
            next_action=action,
            abstained=action is None,
            reason=why or _because(prediction),
            confidence=prediction.confidence,
            valid_actions=verdicts.valid,
            ruled_out=verdicts.ruled_out,
            previous_action=known.previous or (known.history[-1] if known.history else prediction.previous_action),
            remaining_actions=prediction.remaining_actions if action else None,
            is_last=prediction.is_last if action else None,
            end_state=action == end if action else None,
            device_class=known.family or prediction.device_class,
            device_classes=ranking.classes,
            needs_confirmation=bool(spec and spec.confirm),
            certified_risk=certificate,
            case=lead,
            candidates=shown,
            method="single",
            judge=prediction.by,
            evidence=tuple(f.text[:1].upper() + f.text[1:] for f in prediction.findings),
            warnings=tuple(warnings),
            known=known,
            query={},
            base={
                "name": self.base.path.name if self.base.path else "in memory",
                "revision": self.base.revision,
                "cases": len(self.base),
                "embedder": str(self.base.embedder),
                "crop": self.base.crop,
            },
            actions=_actions(self.library),
            domain=asdict(domain) if domain else None,
            version=__version__,
            created=datetime.now(UTC).isoformat(timespec="milliseconds"),
            ranking=ranking,
        )

    def _remember(self, decision: Decision, seen: Picture, query: Query, clock: _Clock) -> Decision:
        """Write the decision into the case base's log; a base that cannot be written only warns."""
        number = None
        warnings = decision.warnings
        if self.log:
            with clock("log"):
                doc = replace(decision, seconds=clock.total(), timings=clock.parts).to_dict()
                try:
                    # every k-th pixel: a third of the time of a proper resize, and good enough to know it again
                    step = -(-max(seen.width, seen.height) // _THUMBNAIL)
                    thumbnail = to_jpeg(seen.pixels[::step, ::step])
                    number = self.base.record_decision(doc, vector=query.vector, thumbnail=thumbnail)
                except (ReadOnlyCaseBase, StoreBusy, StoreFull) as error:
                    warnings = (*warnings, f"the decision was not logged: {error.message}")
        return replace(decision, decision=number, warnings=warnings, seconds=clock.total(), timings=dict(clock.parts))


class _Clock:
    """Wall-clock seconds of named parts."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        self._started = time.perf_counter()

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.parts[part] = time.perf_counter() - started

    def total(self) -> float:
        return time.perf_counter() - self._started


def _ask(judge: Judge, query: Query, ranking: Ranking, verdicts: Verdicts, library: ActionLibrary | None) -> Prediction:
    leading = [ranking.leading[a] for a in verdicts.valid if a in ranking.leading]
    seen = {c.case.id for c in ranking.candidates}
    question = PredictQuestion(
        query=query,
        candidates=(*ranking.candidates, *(c for c in leading if c.case.id not in seen)),
        beliefs=ranking.actions,
        classes=ranking.classes,
        valid_actions=verdicts.valid,
        descriptions={name: a.description for name, a in library.actions.items()} if library else {},
    )
    return judge.predict(question)


def _because(prediction: Prediction) -> str:
    if prediction.case is None:
        return f"the {prediction.by} judge says so, without a case"
    case = prediction.case.case
    agrees = [f.topic for f in prediction.findings if f.verdict == "agrees"]
    step = f", step {case.step}" if case.step is not None else ""
    basis = f"; what agrees: {', '.join(agrees)}" if agrees else "; nothing that was measured agrees clearly"
    return f"the case {case.device}{step} speaks most for it{basis}"


def _query(seen: Picture, box: Box | None) -> Mapping[str, Any]:
    return {
        "name": seen.name,
        "width": seen.width,
        "height": seen.height,
        "box": list(box.as_tuple()) if box else None,
        "pixel_id": seen.pixel_id,
        "notes": list(seen.notes),
        "depth": seen.depth is not None and bool(np.isfinite(seen.depth).any()),
    }


def _actions(library: ActionLibrary | None) -> dict[str, Any]:
    if library is None:
        return {}
    return {name: {"description": a.description, "confirm": a.confirm} for name, a in library.actions.items()}
