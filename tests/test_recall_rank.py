"""The first ranking: a total order, filters before ranking, beliefs that add up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import base_of, draft, near, separable, unit
from sagehand.errors import UnknownName
from sagehand.judge.calibration import Calibration, learn
from sagehand.judge.perceptual import PerceptualJudge
from sagehand.judge.questions import Query
from sagehand.picture import Box, load
from sagehand.recall.crop import cropper
from sagehand.recall.rank import rank

INDEX = separable().index()
LEARNT = learn(INDEX)


@given(st.integers(0, 10_000), st.sampled_from([None, "none", "a1", "a2", "never seen"]))
@settings(max_examples=40, deadline=None)
def test_beliefs_add_up_and_the_order_is_total(seed: int, previous: str | None) -> None:
    query = Query(near([1, 1, 1], 1.0, np.random.default_rng(seed)), previous_action=previous)
    ranking = rank(INDEX, query, LEARNT, keep=36)
    assert sum(ranking.actions.values()) == pytest.approx(1)
    assert sum(ranking.classes.values()) == pytest.approx(1)
    assert sum(c.probability for c in ranking.candidates) == pytest.approx(1)
    assert len({c.case.id for c in ranking.candidates}) == 36
    scores = [c.score for c in ranking.candidates]
    assert scores == sorted(scores, reverse=True)
    assert [INDEX.cases[int(r)].id for r in ranking.order] == [c.case.id for c in ranking.candidates]
    assert list(ranking.actions.values()) == sorted(ranking.actions.values(), reverse=True)
    for action, lead in ranking.leading.items():
        assert lead.case.next_action == action
        assert lead.score == max(c.score for c in ranking.candidates if c.case.next_action == action)


def test_the_order_does_not_depend_on_the_order_of_insertion() -> None:
    rng = np.random.default_rng(0)
    rows = [{"family": "f", "device": f"d{i % 3}", "next_action": f"a{i % 4}"} for i in range(30)]
    drafts = [draft(str(i), near([1], 0.5, rng) if i % 2 else unit([1, 1]), r) for i, r in enumerate(rows)]
    one, other = base_of(drafts).index(), base_of(drafts[::-1]).index()
    query = Query(unit([1, 0.5]), previous_action="a1")
    first, second = rank(one, query, Calibration(), keep=30), rank(other, query, Calibration(), keep=30)
    assert [c.case.id for c in first.candidates] == [c.case.id for c in second.candidates]
    assert [c.score for c in first.candidates] == [c.score for c in second.candidates]


def test_the_own_picture_and_other_families_are_no_candidates() -> None:
    own = INDEX.cases[5].id
    ranking = rank(INDEX, Query(INDEX.vectors[5]), LEARNT, exclude=frozenset({own, "unknown id"}), keep=36)
    assert own not in {c.case.id for c in ranking.candidates}
    assert len(ranking.candidates) == 35
    nothing = rank(INDEX, Query(INDEX.vectors[5], family="g"), LEARNT)
    assert (nothing.candidates, nothing.nearest, nothing.actions) == ((), None, {})


def test_a_previous_action_that_no_case_has_differs_from_every_known_one() -> None:
    ranking = rank(INDEX, Query(INDEX.vectors[0], previous_action="never seen"), LEARNT)
    assert {c.evidence.previous for c in ranking.candidates} == {-1}


def test_depth_counts_where_both_sides_have_it() -> None:
    relief = np.zeros(576, dtype=np.float32)
    relief[0] = 1
    other = np.roll(relief, 1)
    vector = unit([1])
    rows = [
        {"family": "f", "device": d, "next_action": a} for d, a in (("round", "circular"), ("square", "rectangular"))
    ]
    index = base_of(
        [
            draft("r", vector, rows[0], depth_vector=relief),
            draft("s", vector, rows[1], depth_vector=other),
            draft("n", unit([1, 0.1]), rows[1]),
        ]
    ).index()
    with_depth = rank(index, Query(vector, depth_vector=relief), Calibration())
    assert with_depth.candidates[0].case.device == "round"
    assert {c.case.file_name: c.evidence.depth for c in with_depth.candidates} == {"r": 1.0, "s": 0.0, "n": None}
    assert next(iter(with_depth.actions)) == "circular"
    assert {c.evidence.depth for c in rank(index, Query(vector), Calibration()).candidates} == {None}


def test_crop_strategies() -> None:
    judge = PerceptualJudge()
    picture = load(np.zeros((100, 200, 3), dtype=np.uint8))
    assert cropper("none", judge) is None
    truth = cropper("truth", judge)
    assert truth is not None
    assert truth(picture, {"polygon": [(10.2, 5.0), (30.9, 60.1), (-4.0, 20.0)]}) == Box(0, 5, 31, 61)
    assert truth(picture, {"box": Box(1, 2, 3, 4)}) == Box(1, 2, 3, 4)
    assert truth(picture, {"polygon": None}) is None
    with pytest.raises(UnknownName, match="'boxx'.*none, perceptual, relief, truth"):
        cropper("boxx", judge)
