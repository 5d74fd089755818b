"""The baselines of a study: against brute force, hand counts and the laws of chance; never by their own picture."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from builders import VectorEmbedder
from sagehand.action.guard import check_actions, know
from sagehand.action.predict import Predictor
from sagehand.cases import CaseBase
from sagehand.errors import SagehandError, UnknownName
from sagehand.picture import load
from sagehand.study.dataset.sample import Sample, StudyData
from sagehand.study.evaluate import evaluate
from sagehand.study.methods import registry
from sagehand.study.methods.registry import make_method
from sagehand.study.run.plan import METHODS
from study_bench import LIBRARY, STEPS, base_of, bench, folder_of, views_of


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> StudyData:
    return folder_of(tmp_path_factory.mktemp("study") / "data")


@pytest.fixture(scope="module")
def base(data: StudyData) -> Iterator[CaseBase]:
    with base_of(views_of(data, 0, 1)) as made:
        yield made


@pytest.fixture(scope="module")
def whole(data: StudyData) -> Iterator[CaseBase]:
    with base_of(data.samples) as made:
        yield made


def allowed(sample: Sample) -> set[str]:
    return set(check_actions(LIBRARY, know(LIBRARY, previous=sample.previous_action)).valid)


def vector_of(sample: Sample) -> Any:
    return VectorEmbedder().embed([load(sample.path).pixels])[0].astype(np.float64)


def by_cosine(sample: Sample, among: list[Sample]) -> list[Sample]:
    """Brute force, without the index."""
    own = vector_of(sample)
    return sorted((s for s in among if s.key != sample.key), key=lambda s: -float(own @ vector_of(s)))


def test_every_method_of_a_plan_has_a_maker() -> None:
    assert set(registry._MAKERS) == set(METHODS)
    assert set(METHODS) >= registry.RECALLS
    assert set(METHODS) >= registry.ASKS


# ---------------------------------------------------------------------------------------------------------------------


def test_random_is_right_as_often_as_chance_says(data: StudyData) -> None:
    train = views_of(data, 0, 1)
    right: Counter[str] = Counter()
    rounds = 40
    for seed in range(rounds):
        method = make_method(bench("random", train, seed=seed, guard=False))
        for sample in data.samples:
            answer = method.answer(sample)
            right["next"] += answer.next_action == sample.next_action
            right["previous"] += answer.previous_action == sample.previous_action
            right["remaining"] += answer.remaining_actions == sample.remaining_actions
            right["last"] += answer.is_last == sample.is_last
    count = rounds * len(data.samples)
    for task, share in {"next": 1 / 4, "previous": 1 / 4, "remaining": 1 / 4, "last": 1 / 2}.items():
        spread = math.sqrt(share * (1 - share) * count)
        assert abs(right[task] - share * count) < 3.5 * spread, task


def test_random_with_the_guard_draws_evenly_among_what_is_possible(data: StudyData) -> None:
    drawn: Counter[str | None] = Counter()
    sample = replace(data.samples[0], previous_action="a1")
    for seed in range(600):
        drawn[make_method(bench("random", data.samples, seed=seed)).answer(sample).next_action] += 1
    possible = allowed(sample)
    assert 1 < len(possible) < len(STEPS)
    assert set(drawn) == possible
    chi = sum((n - 600 / len(possible)) ** 2 / (600 / len(possible)) for n in drawn.values())
    assert chi < 14  # 3 degrees of freedom at most: p > .002


def test_random_depends_on_seed_and_key_alone(data: StudyData) -> None:
    method = make_method(bench("random", data.samples, seed=3))
    forwards = {s.key: method.answer(s) for s in data.samples}
    backwards = {s.key: method.answer(s) for s in reversed(data.samples)}
    assert forwards == backwards
    other = make_method(bench("random", data.samples, seed=4))
    assert {s.key: other.answer(s) for s in data.samples} != forwards


def test_random_without_a_library_draws_what_the_base_names(data: StudyData) -> None:
    method = make_method(bench("random", views_of(data, 0), library=None))
    assert {method.answer(s).next_action for s in data.samples} == set(STEPS)
    assert {method.answer(s).device_class for s in data.samples} == {"f"}


# ---------------------------------------------------------------------------------------------------------------------


def test_majority_counts_all_but_the_sample_itself(data: StudyData) -> None:
    first = {s.step: s for s in views_of(data, 0) if s.device == "d0"}
    train = [first[1], replace(first[1], key="twin"), first[2], replace(first[2], key="twin2")]
    method = make_method(bench("majority", train, guard=False))
    # a1 and a2 stand twice each: the first by name, unless one of them is the sample itself
    assert method.answer(first[3]).next_action == "a1"
    assert method.answer(first[2]).next_action == "a1"
    own = method.answer(first[1])
    assert (own.next_action, own.previous_action, own.is_last) == ("a2", "a1", False)
    assert own.remaining_actions == ("a2", "a3")
    guarded = make_method(bench("majority", train))
    assert "a1" in allowed(first[3]), "whether the device is closed is not known after a2"
    assert guarded.answer(first[3]).next_action == "a1"
    assert guarded.answer(first[2]).next_action == "a2", "after a1 it is not closed: a1 is impossible"
    nothing = make_method(bench("majority", [first[1]])).answer(first[1])
    assert (nothing.next_action, nothing.abstained) == (None, True)


# ---------------------------------------------------------------------------------------------------------------------


def test_context_is_what_evaluate_compares_with(data: StudyData, base: CaseBase, whole: CaseBase) -> None:
    for cases, train in ((base, views_of(data, 0, 1)), (whole, data.samples)):
        hand = Predictor(cases, LIBRARY, embedder=VectorEmbedder(), log=False, domain_level=0)
        others = {i.file_name: i.others["context_only"] for i in evaluate(data.folder, hand).items}
        hand.close(base=False)
        method = make_method(bench("context", train, cases, guard=False))
        assert {s.key: method.answer(s).next_action for s in data.samples} == others


def test_context_leans_on_a_case_that_says_what_it_says(data: StudyData, base: CaseBase) -> None:
    cases, chosen = {s.key: s for s in views_of(data, 0, 1)}, set()
    for seed in range(12):
        method = make_method(bench("context", list(cases.values()), base, seed=seed))
        for sample in views_of(data, 2):
            answer = method.answer(sample)
            assert answer.case is not None
            lead = cases[answer.case]
            # previous action and place tell the step here, and nothing the device
            assert (
                (lead.next_action, lead.step) == (answer.next_action, sample.step) == (sample.next_action, sample.step)
            )
            assert answer.remaining_actions == sample.remaining_actions
            assert answer.order[0] == answer.case
            assert set(answer.order) == set(cases)
            chosen.add((sample.key, answer.case))
    devices = Counter((key, cases[case].device) for key, case in chosen)
    assert len({d for _, d in devices}) == 3, "ties are drawn, not always the first"
    assert method.answer(sample) == method.answer(sample)


def test_context_that_is_told_nothing_answers_by_the_majority(data: StudyData, base: CaseBase) -> None:
    method = make_method(bench("context", views_of(data, 0, 1), base, guard=False, previous=False, place=False))
    answers = [method.answer(s) for s in views_of(data, 2)]
    assert {a.next_action for a in answers} == {"a1"}  # all stand equally often: the first by name
    assert {round(a.confidence or 0, 9) for a in answers} == {0.25}


# ---------------------------------------------------------------------------------------------------------------------


def test_nearest_is_brute_force(data: StudyData, base: CaseBase) -> None:
    train = views_of(data, 0, 1)
    method = make_method(bench("nearest", train, base, guard=False))
    for sample in data.samples:
        answer, order = method.answer(sample), by_cosine(sample, train)
        assert list(answer.order) == [s.key for s in order]
        best = order[0]
        assert answer.case == best.key
        assert (answer.next_action, answer.remaining_actions) == (best.next_action, best.remaining_actions)
        assert (answer.is_last, answer.device_class) == (best.is_last, best.family)
        assert answer.previous_action == sample.previous_action, "copied from what is known"
        assert answer.extra["similarity"] == pytest.approx(float(vector_of(sample) @ vector_of(best)), abs=1e-6)
        assert (answer.size, answer.box) == ((96, 72), None)
        assert {"load", "embed", "recall"} <= set(answer.timings)


def test_nearest_with_the_guard_skips_what_is_impossible(data: StudyData, base: CaseBase) -> None:
    train, skipped = views_of(data, 0, 1), 0
    method = make_method(bench("nearest", train, base))
    for sample in data.samples:
        order = by_cosine(sample, train)
        first = next(s for s in order if s.next_action in allowed(sample))
        answer = method.answer(sample)
        assert (answer.case, answer.next_action) == (first.key, first.next_action)
        assert list(answer.order) == [s.key for s in order], "the guard does not reorder pictures"
        skipped += first is not order[0]
    assert skipped > 0


def test_nearest_cuts_by_the_polygon_where_the_cases_are_cut_so(data: StudyData) -> None:
    train = views_of(data, 0)
    with base_of(train, crop="truth") as cut:
        answer = make_method(bench("nearest", train, cut)).answer(data.samples[1])
    assert answer.box == (0, 0, 72, 72)
    assert answer.size == (96, 72)
    assert "crop" in answer.timings


def test_nearest_of_no_other_case_asks_the_operator(data: StudyData) -> None:
    sample = data.samples[0]
    with base_of([sample]) as alone:
        answer = make_method(bench("nearest", [sample], alone)).answer(sample)
    assert (answer.next_action, answer.abstained, answer.case, answer.order) == (None, True, None, ())


# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["context", "nearest", "perceptual"])
def test_the_own_picture_is_never_recalled(method: str, data: StudyData, whole: CaseBase) -> None:
    """Protocol "paper": every picture is a query, and lies in the base."""
    made = make_method(bench(method, data.samples, whole))
    for sample in data.samples:
        answer = made.answer(sample)
        assert answer.case != sample.key
        assert sample.key not in answer.order
        assert len(answer.order) == len(data.samples) - 1
    made.close()
    assert len(whole) == len(data.samples), "the base is still open"


@pytest.mark.parametrize("method", ["random", "majority", "context", "nearest", "perceptual"])
def test_threads_change_nothing(method: str, data: StudyData, base: CaseBase) -> None:
    made = make_method(bench(method, views_of(data, 0, 1), base))
    alone = [replace(made.answer(s), timings={}) for s in data.samples]
    with ThreadPoolExecutor(6) as pool:
        together = [replace(a, timings={}) for a in pool.map(made.answer, data.samples)]
    made.close()
    assert together == alone


def test_what_cannot_be_done_is_told(data: StudyData, base: CaseBase, snapshot: SnapshotAssertion) -> None:
    benches = {
        "no case base": bench("nearest", data.samples),
        "no case base for a guided search": bench("guided", data.samples, vlm=object()),
        "no model": bench("single-rag", data.samples, base),
        "a risk without a calibrated belief": bench("nearest", data.samples, base, risk=0.05),
        "a domain without a calibrated belief": bench("context", data.samples, base, domain=True),
        "an option that there is none of": bench("nearest", data.samples, base, options={"k": 3}),
        "another case for single-rag": bench("single-rag", data.samples, base, vlm=object(), options={"case": "nearst"}),
        "a misspelt parameter of the search": bench(
            "guided", data.samples, base, vlm=object(), options={"leafs": 2}
        ),
        "a first look that always is none": bench(
            "guided-always", data.samples, base, vlm=object(), options={"first_look": True}
        ),
        "a parameter out of range": bench("guided", data.samples, base, vlm=object(), options={"leaves": 0}),
        "a parameter of the wrong kind": bench("guided", data.samples, base, vlm=object(), options={"n": "many"}),
        "nothing to choose from": bench("zero-shot", data.samples, vlm=object(), library=None),
    }  # fmt: skip
    told = {}
    for what, one in benches.items():
        with pytest.raises(SagehandError) as caught:
            make_method(one)
        told[what] = str(caught.value)
    assert told == snapshot
    arm = one.arm.model_copy(update={"method": "nearst"})
    with pytest.raises(UnknownName, match="unknown method 'nearst'.*did you mean 'nearest'"):
        make_method(replace(one, arm=arm))


def test_a_previous_action_that_the_library_does_not_have_is_refused(data: StudyData, base: CaseBase) -> None:
    strange = replace(data.samples[0], previous_action="pry")
    for method in ("random", "majority", "context", "nearest", "perceptual"):
        with pytest.raises(UnknownName, match="'pry'"):
            make_method(bench(method, data.samples, base)).answer(strange)


def test_a_picture_that_is_gone_is_an_error(data: StudyData, base: CaseBase, tmp_path: Path) -> None:
    gone = replace(data.samples[0], path=tmp_path / "gone.png")
    for method in ("nearest", "perceptual"):
        with pytest.raises(SagehandError, match=r"gone\.png"):
            make_method(bench(method, data.samples, base)).answer(gone)
