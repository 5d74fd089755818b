"""The perceptual method of a study: it is what `predict` decides, with and without what the arm allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from builders import VectorEmbedder
from guided import call
from sagehand.action.decision import Decision, Known
from sagehand.action.predict import DOMAIN_LEVEL, Predictor
from sagehand.cases import CaseBase
from sagehand.errors import Refused
from sagehand.study.dataset.sample import Sample, StudyData
from sagehand.study.methods.base import Answer
from sagehand.study.methods.registry import make_method
from sagehand.study.run.record import right_of
from sagehand.vlm.ask import Vlm
from sagehand.vlm.base import Request
from sagehand.vlm.scripted import ScriptedBackend, offered
from study_bench import LIBRARY, base_of, bench, folder_of, views_of


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> StudyData:
    return folder_of(tmp_path_factory.mktemp("study") / "data", depth=True)


@pytest.fixture(scope="module")
def train(data: StudyData) -> list[Sample]:
    return views_of(data, 0, 1)


@pytest.fixture(scope="module")
def base(train: list[Sample]) -> Iterator[CaseBase]:
    with base_of(train, depth=True) as made:
        yield made


def decide(base: CaseBase, sample: Sample, known: Known, depth: bool = True, **options: Any) -> Decision:
    hand = Predictor(base, LIBRARY, embedder=VectorEmbedder(), **({"log": False, "domain_level": 0} | options))
    loading = {"depth": sample.depth, "depth_unit": "mm"} if depth else {}
    try:
        return hand.predict(sample.path, known, **loading)
    finally:
        hand.close(base=False)


def told(sample: Sample, previous: bool = True, place: bool = True) -> Known:
    return Known(previous=sample.previous_action if previous else None, place=sample.place if place else None)


def answers(data: StudyData, train: list[Sample], base: CaseBase, **arm: Any) -> dict[str, Answer]:
    method = make_method(bench("perceptual", train, base, **arm))
    found = {s.key: method.answer(s) for s in data.samples}
    method.close()
    return found


@pytest.mark.parametrize(
    "arm",
    [
        {},
        {"previous": False},
        {"place": False},
        {"previous": False, "place": False},
        {"depth": False},
        {"domain": True},
        {"guard": False, "previous": False},
    ],
    ids=str,
)
def test_it_decides_as_predict_does(arm: dict[str, Any], data: StudyData, train: list[Sample], base: CaseBase) -> None:
    found = answers(data, train, base, **arm)
    options = {
        "domain_level": DOMAIN_LEVEL if arm.get("domain") else 0,
        "guard": "off" if arm.get("guard") is False else "on",
    }
    for sample in data.samples:
        known = told(sample, arm.get("previous", True), arm.get("place", True))
        decision = decide(base, sample, known, arm.get("depth", True), **options)
        answer = found[sample.key]
        assert answer.next_action == decision.next_action
        assert answer.abstained == decision.abstained
        assert (answer.confidence, answer.reason) == (decision.confidence, decision.reason)
        assert (answer.remaining_actions, answer.is_last) == (decision.remaining_actions, decision.is_last)
        assert (answer.previous_action, answer.device_class) == (decision.previous_action, decision.device_class)
        assert decision.ranking is not None
        order = [decision.ranking.index.cases[int(row)].file_name for row in decision.ranking.order]
        assert list(answer.order) == order
        assert answer.case == (decision.case.case.file_name if decision.case else None)
        assert {"load", "embed", "recall", "decide"} <= set(answer.timings)
        assert answer.timings["load"] > 0
        assert answer.usage.calls == 0
    assert base.decisions() == [], "a study logs nothing"


def test_context_and_depth_each_tell_the_steps_that_look_alike(
    data: StudyData, train: list[Sample], base: CaseBase
) -> None:
    queries = views_of(data, 2)

    def right(**arm: Any) -> int:
        found = answers(data, train, base, **arm)
        return sum(bool(right_of(s, found[s.key])["next_action"]) for s in queries)

    blind = right(guard=False, previous=False, place=False, depth=False)
    assert right() == right(depth=False) == len(queries)
    assert right(guard=False, previous=False, place=False) == len(queries) > blind


def test_an_abstention_keeps_what_was_proposed(data: StudyData, train: list[Sample], base: CaseBase) -> None:
    free = answers(data, train, base)
    held = answers(data, train, base, risk=0.001)  # 24 cases certify no such risk
    for key, answer in held.items():
        assert (answer.next_action, answer.abstained) == (None, True)
        assert answer.proposed == free[key].next_action is not None
        assert answer.confidence == free[key].confidence
        assert "0.001" in answer.reason
        assert free[key].proposed is None


def test_without_the_guard_an_impossible_answer_stands(data: StudyData, train: list[Sample]) -> None:
    only = [s for s in train if s.next_action == "a1"]
    sample = next(s for s in views_of(data, 2) if s.next_action == "a1")
    liar = Sample(**{**sample.__dict__, "previous_action": "a1"})
    with base_of(only) as first:
        guarded, free = (make_method(bench("perceptual", only, first, guard=on)) for on in (True, False))
        kept, left = guarded.answer(liar), free.answer(liar)
        guarded.close()
        free.close()
    assert (kept.next_action, kept.abstained) == (None, True)
    assert (left.next_action, left.abstained, left.proposed) == ("a1", False, None)
    assert (left.remaining_actions, left.is_last) == (("a1", "a2", "a3"), False)
    assert "ruled out" in left.reason


def test_the_crop_of_the_base_is_the_crop_of_the_query(data: StudyData, train: list[Sample]) -> None:
    with base_of(train, crop="truth") as cut:
        method = make_method(bench("perceptual", train, cut))
        answer = method.answer(data.samples[2])
        bare = method.answer(Sample(**{**data.samples[2].__dict__, "polygon": None}))
        method.close()
    assert (answer.box, answer.size, dict(answer.extra)) == ((0, 0, 72, 72), (96, 72), {})
    assert bare.box is None
    (warning,) = bare.extra["warnings"]
    assert warning == "the crop 'truth' left the whole picture: the label has no box and no polygon in the picture"


def boxing(replies: Callable[[Request], Any]) -> tuple[Vlm, ScriptedBackend]:
    backend = ScriptedBackend(replies)
    return Vlm(backend, attempts=1), backend


@pytest.mark.parametrize("method", ["perceptual", "nearest"])
def test_a_model_cuts_and_is_asked_nothing_else(method: str, data: StudyData, train: list[Sample]) -> None:
    turns = iter(range(1000))

    def cut(request: Request) -> Any:
        if next(turns) % 2 == 0:
            return call("SetBoundingBoxParameters", {"x": 0, "y": 0, "width": 0.75, "height": 0.5})
        return call("Finish", {})

    vlm, backend = boxing(cut)
    with vlm, base_of(train, crop="box") as cases:
        made = make_method(bench(method, train, cases, vlm=vlm))
        answer = made.answer(data.samples[2])
        made.close()
    assert answer.box == (0, 0, 72, 36)
    assert answer.usage.calls == len(backend.requests) == 2
    assert {name for r in backend.requests for name in offered(r)} == {"SetBoundingBoxParameters", "Finish"}
    assert answer.next_action is not None
    assert answer.timings["crop"] > 0


@pytest.mark.parametrize("method", ["perceptual", "nearest"])
def test_a_model_that_cannot_cut_leaves_the_picture_whole_and_it_is_told(
    method: str, data: StudyData, train: list[Sample]
) -> None:
    vlm, backend = boxing(lambda request: Refused("no pictures, please"))
    with vlm, base_of(train, crop="grid") as cases:
        made = make_method(bench(method, train, cases, vlm=vlm))
        answer = made.answer(data.samples[2])
        made.close()
    assert answer.box is None
    (warning,) = answer.extra["warnings"]
    assert warning.startswith("the crop 'grid' failed (Refused): ")
    assert len(backend.requests) == answer.usage.calls == 1, "it is not cut a second time by somebody else"
    assert answer.next_action is not None


def test_an_embedder_that_is_not_the_bases_is_refused(data: StudyData, train: list[Sample], tmp_path: Path) -> None:
    from sagehand.embed import get_embedder
    from sagehand.errors import EmbedderMismatch

    other = get_embedder("hash")
    with CaseBase.in_memory(other.identity) as strange:
        for method in ("perceptual", "nearest"):
            with pytest.raises(EmbedderMismatch):
                make_method(bench(method, train, strange))
