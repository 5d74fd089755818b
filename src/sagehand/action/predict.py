"""Predict the next action: see → recall → judge → decide → check → remember (paper A §3.3, SPEC A6, C3)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from sagehand.action.abstain import REPEAT_LIMIT
from sagehand.action.ask import ModelSeat
from sagehand.action.clock import Clock
from sagehand.action.compose import Grounds, compose, query_doc
from sagehand.action.decision import Decision, Known
from sagehand.action.guard import Verdicts
from sagehand.action.library import ActionLibrary
from sagehand.action.methods import METHODS, Asking, Pick, answer, reason_against
from sagehand.action.possible import possible
from sagehand.action.see import Eye, crop_as_cases
from sagehand.cases import CaseBase, Index
from sagehand.embed import Embedder, get_embedder
from sagehand.errors import InputError, NeedsVlm, StoreError, UnknownName
from sagehand.judge.calibration import Calibration
from sagehand.judge.domain import Domain, in_domain
from sagehand.judge.perceptual import PerceptualJudge
from sagehand.judge.questions import Judge, Query
from sagehand.judge.risk import Certificate, certify
from sagehand.picture import Box, Picture, load
from sagehand.recall.params import SearchParams
from sagehand.recall.rank import Ranking, rank

if TYPE_CHECKING:
    from sagehand.vlm.ask import Vlm

__all__ = ["DOMAIN_LEVEL", "METHODS", "REPEATS_LOOKED_AT", "Predictor"]

DOMAIN_LEVEL = 0.05
REPEATS_LOOKED_AT = REPEAT_LIMIT - 1
"""So many earlier answers for the same object are looked at."""


class Predictor:
    """Answers "what next?" from a case base and an action library.

    Args:
        base: The case base; its embedder and crop are used for the query.
        library: The cell's actions; without one nothing is ruled out.
        embedder: The embedder of the base, when it is at hand already.
        judge: Who judges, in place of a model; the perceptual judge with the base's calibration by default.
        vlm: The vision-language model to ask; closed by who made it.
        prompts: A folder of own prompts; the packaged ones by default.
        seconds: Deadline of a decision [s]; no decision at the deadline asks the operator.
        calls: Most requests of a decision to the model.
        tokens: Most tokens of a decision.
        ask_below: The model is asked only where the perceptual judge's calibrated confidence is below; None always asks.
        search: Parameters of the guided search.
        guard: "off" lets the judge name any action, for studies. What the guard rules out is still not handed on, it is told
            as ``proposed``, and every answer needs an operator's word.
        risk: Greatest share of wrong answers that is acceptable, in (0, 1); None answers uncertified.
        domain_level: Share of right pictures that the domain test may turn away; 0 switches it off.
        log: Whether decisions are written into the case base.

    Raises:
        EmbedderMismatch: The embedder is not the base's.
        InputError: The risk or the level is not a share, or a limit is not above 0.
    """

    def __init__(
        self,
        base: CaseBase,
        library: ActionLibrary | None = None,
        *,
        embedder: Embedder | None = None,
        judge: Judge | None = None,
        vlm: Vlm | None = None,
        prompts: Path | None = None,
        seconds: float | None = None,
        calls: int | None = None,
        tokens: int | None = None,
        ask_below: float | None = None,
        search: SearchParams | None = None,
        guard: str = "on",
        risk: float | None = None,
        domain_level: float = DOMAIN_LEVEL,
        log: bool = True,
    ) -> None:
        _valid(risk, domain_level, ask_below, guard)
        self.base, self.library = base, library
        self.embedder = embedder or get_embedder(base.embedder.name)
        self._base_facts: dict[str, str] = {}
        self._followed: int | None = None
        self._follow()
        self.risk, self.domain_level, self.log = risk, domain_level, log
        self.ask_below, self.guard, self.search = ask_below, guard, search or SearchParams()
        self._model = ModelSeat(base, library, judge, vlm, prompts, seconds=seconds, calls=calls, tokens=tokens)
        self._eye = Eye(self.embedder)
        self._learnt: tuple[str | None, Calibration, Certificate | None] | None = None

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

    def close(self, *, base: bool = True) -> None:
        """Free what it holds.

        Args:
            base: Whether to close the case base, too; False where somebody else goes on with it.
        """
        self._eye.close()
        if base:
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
        pick: Pick | None = None,
        allow_own: bool = False,
        **loading: Any,
    ) -> Decision:
        """Decide on one picture.

        Args:
            picture: Path, bytes, (H, W, 3) RGB array, or a loaded picture.
            known: What is known beside it.
            method: "single": the best case by picture and context. "guided": the case that a guided search finds.
                "zero-shot": no case. The last two need a VLM.
            box: The crop, where it is there already: given by hand for a base of crop ``truth``, made before for one of
                ``grid`` or ``box``.
            pick: Chooses the case that a model is shown by "single", from the ranking (the nearest picture, as in the
                paper's Single-RAG; or a wrong one, for a study); by default the best by picture and context.
            allow_own: Whether the query's own picture may be recalled.
            **loading: ``depth``, ``depth_unit``, ``limits``, ``name``: as for :func:`sagehand.picture.load`.

        Raises:
            PictureError: The picture cannot be used.
            UnknownName: An action, fact, family or method that there is none of.
            NeedsVlm: The method asks a VLM, and none is set up.
            InputError: ``pick`` for another method than "single", or without a model.
        """
        self._check_method(method, pick)
        known = known or Known()
        clock = Clock()
        index = self._follow()
        verdicts, warnings = possible(self.library, index, known)
        calibration, certificate = self._calibration(index, warnings)
        seat = self._model.take()
        perceptual = PerceptualJudge(calibration)
        with clock("load"):
            seen = picture if isinstance(picture, Picture) and not loading else load(picture, **loading)
        with clock("crop"):
            crop = self._base_facts["crop"]
            cut = crop_as_cases(seen, crop, seat.judge or perceptual, perceptual, box, warnings)
        with clock("embed"):
            query, thumbnail = self._eye.see(seen, cut.picture if cut else seen, known, thumbnail=self.log)
        ranking = None
        if method != "zero-shot":
            with clock("recall"):
                own = frozenset() if allow_own else frozenset({seen.pixel_id})
                ranking = rank(index, query, calibration, exclude=own)
        with clock("decide"):
            domain = self._domain(ranking, calibration)
            before = self._answers_before(known)
        asking = Asking(
            method=method,
            query=query,
            ranking=ranking,
            domain=domain,
            offered=self._offered(verdicts),
            library=self.library,
            perceptual=perceptual,
            calibrated=bool(calibration.queries) and not calibration.stale(index.revision),
            judge=seat.judge,
            ask_below=self.ask_below,
            params=self.search,
            model=seat.model,
            pick=pick,
        )
        answered = answer(asking, clock)
        with clock("decide"):
            prediction, why = reason_against(asking, answered, verdicts, certificate, known, before)
            grounds = Grounds(
                known=known,
                index=index,
                base={**self._base_facts, "revision": index.revision, "cases": len(index)},
                library=self.library,
                verdicts=verdicts,
                guard=self.guard,
                certificate=certificate,
                query=query_doc(seen, cut.box if cut else None),
                logged=self.log,
                usage=seat.spent,
                model=seat.model_doc(),
                warnings=tuple(warnings),
            )
            decision = compose(asking, answered, prediction, why, grounds)
        setup = {"allow_own": allow_own, "domain_level": self.domain_level, "calibration": calibration.brief()}
        return self._remember(decision, setup, thumbnail, query, clock)

    def _check_method(self, method: str, pick: Pick | None) -> None:
        if method not in METHODS:
            raise UnknownName("method", method, METHODS)
        if method != "single" and not self._model.there:
            raise NeedsVlm(
                f"{method} prediction asks a vision-language model, and none is set up",
                hint="add --base-url and --model, or use --method single",
            )
        if method == "zero-shot" and self.ask_below is not None:
            raise InputError("zero-shot has no confidence that ask_below could be held against", hint="leave it out")
        if pick is not None and (method != "single" or not self._model.there):
            raise InputError("pick chooses the case that a model is shown by 'single'", hint="leave it out")

    def _follow(self) -> Index:
        """The cases as they are now; another process may have embedded them anew since the last decision."""
        index = self.base.index()
        if index.revision != self._followed:
            self.base.require(self.embedder.identity)
            self._base_facts = {
                "name": self.base.path.name if self.base.path else "in memory",
                "embedder": str(self.base.embedder),
                "crop": self.base.crop,
            }
            self._followed = index.revision
        return index

    def _calibration(self, index: Index, warnings: list[str]) -> tuple[Calibration, Certificate | None]:
        text = self.base.calibration_text()
        if self._learnt is None or self._learnt[0] != text:
            learnt = Calibration.from_dict(json.loads(text)) if text else Calibration()
            self._learnt = (text, learnt, certify(learnt.answers, self.risk) if self.risk is not None else None)
        _, calibration, certificate = self._learnt
        if calibration.stale(index.revision):
            what = "is older than the newest change of its cases" if text else "is missing"
            warnings.append(f"the calibration {what}: run `sagehand cases calibrate`")
            # a certificate speaks of the cases that it was learnt from, and of no others
            certificate = replace(certificate, certified=False, smallest=None, stale=True) if certificate else None
        return calibration, certificate

    def _offered(self, verdicts: Verdicts) -> tuple[str, ...]:
        """The actions that may be answered."""
        return verdicts.valid if self.guard == "on" else (*verdicts.valid, *verdicts.ruled_out)

    def _domain(self, ranking: Ranking | None, calibration: Calibration) -> Domain | None:
        if ranking is None or ranking.nearest is None or self.domain_level == 0:
            return None
        return in_domain(calibration.strange, ranking.nearest.evidence.picture, ranking.apart, self.domain_level)

    def _answers_before(self, known: Known) -> list[str | None]:
        """What was answered last for the object in hand, oldest first."""
        if known.object_id is None:
            return []
        before = self.base.decisions(limit=REPEATS_LOOKED_AT, object_id=known.object_id)
        return [doc.get("proposed", doc["next_action"]) for doc in reversed(before)]

    def _remember(
        self, decision: Decision, setup: dict[str, Any], thumbnail: bytes | None, query: Query, clock: Clock
    ) -> Decision:
        """Write the decision into the case base's log, with what a replay needs; a base that cannot be written only warns."""
        number = None
        warnings = decision.warnings
        if self.log:
            with clock("log"):
                doc = {**replace(decision, seconds=clock.total(), timings=clock.parts).to_dict(), "setup": setup}
                try:
                    number = self.base.record_decision(
                        doc, vector=query.vector, thumbnail=thumbnail, relief=query.depth_vector
                    )
                except StoreError as error:
                    warnings = (*warnings, f"the decision was not logged: {error.message}")
        return replace(decision, decision=number, warnings=warnings, seconds=clock.total(), timings=dict(clock.parts))


def _valid(risk: float | None, domain_level: float, ask_below: float | None, guard: str) -> None:
    if risk is not None and not 0 < risk < 1:
        raise InputError(f"risk {risk!r} is not a share", hint="give a number between 0 and 1, such as 0.05")
    if not 0 <= domain_level < 1:
        raise InputError(
            f"domain level {domain_level!r} is not a share", hint="give a number from 0 to below 1; 0 switches it off"
        )
    if ask_below is not None and not 0 <= ask_below <= 1:
        raise InputError(f"ask_below {ask_below!r} is not a share", hint="give a number from 0 to 1, such as 0.95")
    if guard not in ("on", "off"):
        raise UnknownName("guard", guard, ("on", "off"))
