"""Whole decisions for which another chooses the case, or has made the crop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from builders import VectorEmbedder
from guided import D0, LIBRARY, guided, model, pictured
from sagehand.action.decision import Known
from sagehand.action.predict import Predictor
from sagehand.cases import CaseBase
from sagehand.errors import InputError, PictureError
from sagehand.picture import Box
from sagehand.recall.rank import Ranking
from sagehand.vlm.scripted import offered, prompt_text

A1 = Known(previous="a1")


@pytest.fixture
def opened() -> Iterator[list[Any]]:
    vlms: list[Any] = []
    yield vlms
    for vlm in vlms:
        vlm.close()


def test_the_case_that_is_picked_is_the_one_that_the_model_sees(opened: list[Any]) -> None:
    vlm, backend = model()
    opened.append(vlm)
    base = pictured()
    hand = guided(vlm, base)
    seen: list[Ranking] = []

    def last(ranking: Ranking) -> Any:
        seen.append(ranking)
        row = int(ranking.order[-1])
        return ranking.weigh(np.array([row]), np.array([0.5]))[0]

    decision = hand.predict(D0, A1, pick=last)
    assert decision.case is not None
    assert decision.ranking is not None
    wanted = decision.ranking.index.cases[int(decision.ranking.order[-1])]
    assert decision.case.case.id == wanted.id
    assert decision.candidates[-1].case.id == wanted.id, "it is shown, though it is not among the first"
    (request,) = backend.requests
    assert f"Which device is it? A: {wanted.device}" in prompt_text(request)
    assert len(seen) == 1
    nearest = hand.predict(D0, A1, pick=lambda ranking: ranking.nearest)  # type: ignore[arg-type,return-value]
    assert nearest.case is not None
    assert nearest.ranking is not None
    assert nearest.case.case.id == nearest.ranking.index.ids[int(nearest.ranking.rows[0])]


def test_nothing_is_picked_where_there_is_no_case(opened: list[Any]) -> None:
    vlm, backend = model()
    opened.append(vlm)
    from builders import IDENTITY

    def never(ranking: Ranking) -> Any:
        raise AssertionError("there is nothing to pick from")

    with CaseBase.in_memory(IDENTITY) as empty:
        decision = guided(vlm, empty).predict(D0, A1, pick=never)
    assert decision.abstained
    assert "no case" in decision.reason
    assert backend.requests == []


def test_pick_is_for_single_with_a_model(opened: list[Any]) -> None:
    vlm, _ = model()
    opened.append(vlm)
    for hand, method in ((guided(None), "single"), (guided(vlm), "guided"), (guided(vlm), "zero-shot")):
        with pytest.raises(InputError, match="pick chooses the case that a model is shown by 'single'"):
            hand.predict(D0, A1, method=method, pick=lambda ranking: ranking.candidates[0])


def test_a_crop_made_before_is_taken_as_it_is(opened: list[Any]) -> None:
    vlm, backend = model()
    opened.append(vlm)
    with CaseBase.in_memory(pictured().embedder, crop="box") as base:
        base.add_many([])
        hand = Predictor(base, LIBRARY, embedder=VectorEmbedder(), vlm=vlm, domain_level=0, log=False)
        decision = hand.predict(D0, A1, method="zero-shot", box=Box(0, 0, 10, 6))
        assert decision.query["box"] == [0, 0, 10, 6]
        assert [offered(r)[0] for r in backend.requests] == ["PredictActions"], "nobody is asked for a crop"
        with pytest.raises(PictureError, match="reaches beyond"):
            hand.predict(D0, A1, method="zero-shot", box=Box(0, 0, 100, 6))


def test_a_predictor_may_leave_the_base_open() -> None:
    base = pictured()
    hand = guided(None, base)
    hand.close(base=False)
    assert len(base) == 36
    guided(None, base).close()
    with pytest.raises(Exception, match="closed"):
        len(base)
