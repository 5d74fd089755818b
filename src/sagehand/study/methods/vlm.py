"""The methods that ask a vision-language model: zero-shot, Single-RAG, Bad-Single-RAG, guided (paper A §2.4, §3.3).

All of them ask the prediction in the same words; what differs is the case that comes with it. The model is always asked:
no answer of the cases alone saves the question. Nothing is logged, and a model that fails is an answer with its failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from sagehand.action.clock import Clock
from sagehand.action.decision import Decision
from sagehand.action.methods import Pick
from sagehand.action.predict import DOMAIN_LEVEL, Predictor
from sagehand.cases import Case, CaseBase
from sagehand.errors import InputError, UnknownName
from sagehand.judge.questions import Candidate
from sagehand.recall.params import SearchParams
from sagehand.recall.rank import Ranking
from sagehand.study.dataset.sample import Sample
from sagehand.study.methods.base import Answer, Bench
from sagehand.study.methods.decided import answer_of, keys_of
from sagehand.study.methods.eyes import Eyes, Seen, model_limits, prompts_of
from sagehand.study.methods.known import base_of, chance, told

__all__ = ["BadSingleRag", "Guided", "SingleRag", "ZeroShot"]

_SINGLE = ("nearest", "best")


class _Asking:
    """What all of them share: a predictor with the bench's model, and a sample put to it."""

    def __init__(self, bench: Bench, base: CaseBase, search: SearchParams | None = None) -> None:
        self.name = bench.arm.method
        self._bench, self._eyes = bench, Eyes(bench)
        self._predictor = Predictor(
            base,
            bench.library,
            embedder=bench.embedder,
            vlm=bench.vlm,
            prompts=prompts_of(bench),
            **model_limits(bench),
            search=search,
            guard="on" if bench.arm.guard else "off",
            risk=bench.arm.risk,
            domain_level=DOMAIN_LEVEL if bench.arm.domain else 0,
            log=False,
        )

    def close(self) -> None:
        """Free its thread; case base and model belong to who made the bench."""
        self._predictor.close(base=False)

    def _decide(self, sample: Sample, method: str, pick: Pick | None = None) -> tuple[Decision, Seen, Clock]:
        clock = Clock()
        seen = self._eyes.look(sample, clock, ("truth",))  # all else the predictor cuts, within the decision's budget
        known = told(self._bench, sample)
        return self._predictor.predict(seen.picture, known, method=method, box=seen.cut, pick=pick), seen, clock


class ZeroShot(_Asking):
    """The model answers from the picture and what is known alone (paper A §3.3).

    Args:
        bench: The bench, with a model and an action library; a case base is not needed.
    """

    def __init__(self, bench: Bench) -> None:
        if bench.library is None and bench.base is None:
            raise InputError(
                "without cases and without an action library a model has no actions to choose from",
                hint="name an action library in the plan (actions: FILE)",
            )
        self._nothing = CaseBase.in_memory(bench.embedder.identity, crop=bench.arm.crop) if bench.base is None else None
        super().__init__(bench, self._nothing if self._nothing is not None else base_of(bench))

    def answer(self, sample: Sample) -> Answer:
        """Ask without a case."""
        decision, seen, clock = self._decide(sample, "zero-shot")
        return answer_of(decision, seen, clock.parts, order=())

    def close(self) -> None:
        """Free its thread, and the empty case base that stood in for one."""
        self._predictor.close(base=self._nothing is not None)


class SingleRag(_Asking):
    """The model is shown one case (paper A §3.3).

    The arm's option ``case`` says which: "nearest" (the default): the nearest picture, whatever the context, as in the
    paper; "best": the best by picture and context.

    Args:
        bench: The bench, with a model and a case base.
    """

    def __init__(self, bench: Bench) -> None:
        self._case = str(bench.arm.options.get("case", "nearest"))
        if self._case not in _SINGLE:
            raise UnknownName("case for single-rag", self._case, _SINGLE)
        super().__init__(bench, base_of(bench))

    def answer(self, sample: Sample) -> Answer:
        """Ask with the case."""
        nearest = self._case == "nearest"
        decision, seen, clock = self._decide(sample, "single", _nearest if nearest else None)
        order = keys_of(decision, by="picture" if nearest else "belief")
        return answer_of(decision, seen, clock.parts, order=order)


class BadSingleRag(_Asking):
    """The model is shown a case that is wrong on purpose (paper A §3.3).

    A draw from (seed, sample's key) decides, half and half, between a case of another device and one of another step of
    the same device, then among all such cases alike; where there is none of the one kind, the other is taken. The label
    of the sample is looked at to choose the case, and for nothing else.

    Args:
        bench: The bench, with a model and a case base.
    """

    def __init__(self, bench: Bench) -> None:
        base = base_of(bench)
        self._index = base.index()
        super().__init__(bench, base)

    def answer(self, sample: Sample) -> Answer:
        """Ask with a wrong case.

        Raises:
            InputError: The base has no case that is wrong for the sample.
        """
        row, kind = self._wrong(sample)

        def pick(ranking: Ranking) -> Candidate:
            cosine = self._index.similarities(ranking.query.vector)[row]
            return ranking.weigh(np.array([row]), np.array([cosine]))[0]

        decision, seen, clock = self._decide(sample, "single", pick)
        made = answer_of(decision, seen, clock.parts, order=())
        return replace(made, extra={**made.extra, "wrong": kind})

    def _wrong(self, sample: Sample) -> tuple[int, str]:
        """Index row of the wrong case, and what is wrong with it."""
        draw = chance(self._bench, sample, "bad-single-rag")
        kinds = ["another device", "another step"]
        if draw.random() < 0.5:
            kinds.reverse()
        for kind in kinds:
            rows = [row for row, case in enumerate(self._index.cases) if _is_wrong(case, sample, kind)]
            if rows:
                # by id: the order of the index's rows depends on who came in first
                return draw.choice(sorted(rows, key=lambda row: self._index.ids[row])), kind
        raise InputError(
            f"no case of the base is a wrong one for {sample.key}",
            hint="the base needs two devices, or two steps of one",
        )


class Guided(_Asking):
    """The model is shown the case that the guided search finds with its help (paper A §2.4).

    ``guided-always`` leaves out the first look, so that every sample takes the full search. The arm's options are the
    parameters of the search (:class:`~sagehand.recall.params.SearchParams`), as in ``leaves: 2``.

    Args:
        bench: The bench, with a model and a case base.
    """

    def __init__(self, bench: Bench) -> None:
        options = dict(bench.arm.options)
        if bench.arm.method == "guided-always":
            options["first_look"] = False
        super().__init__(bench, base_of(bench), _search_params(options))

    def answer(self, sample: Sample) -> Answer:
        """Search, and ask with the case that was found."""
        decision, seen, clock = self._decide(sample, "guided")
        made = answer_of(decision, seen, clock.parts, order=())
        # the search only orders by finding: behind its case the first ranking stands as it was
        found = [made.case] if made.case is not None else []
        order = tuple(dict.fromkeys([*found, *keys_of(decision)]))
        return replace(made, order=order)


def _nearest(ranking: Ranking) -> Candidate:
    nearest = ranking.nearest
    if nearest is None:
        raise ValueError("no case was weighed")  # never asked for without one
    return nearest


def _is_wrong(case: Case, sample: Sample, kind: str) -> bool:
    same_device = (case.family, case.device) == (sample.family, sample.device)
    if kind == "another device":
        return not same_device
    return same_device and None not in (case.step, sample.step) and case.step != sample.step


def _search_params(options: Mapping[str, Any]) -> SearchParams:
    """Raises InputError: an option has the wrong type, or is out of range."""
    kinds = {field.name: field.type for field in fields(SearchParams)}
    for name, value in options.items():
        kind = str(kinds[name]).removesuffix(" | None")
        flag = isinstance(value, bool)
        fits = flag if kind == "bool" else not flag and isinstance(value, int if kind == "int" else int | float)
        if not fits:
            valid = {"bool": "true or false", "int": "a whole number"}.get(kind, "a number")
            raise InputError(f"{name} of the search is {value!r}; valid: {valid}")
    return SearchParams(**options)
