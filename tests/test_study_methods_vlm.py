"""The methods of a study that ask a model: what it is shown, what is made of its words, and that it may fail."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from builders import VectorEmbedder
from guided import call, model, sees
from sagehand.action.predict import Predictor
from sagehand.cases import CaseBase
from sagehand.errors import InputError, Malformed, Refused, Unreachable
from sagehand.judge.prompts import FOLDER
from sagehand.picture import load
from sagehand.study.dataset.sample import Sample, StudyData
from sagehand.study.methods.base import Answer, Bench, Method
from sagehand.study.methods.registry import ASKS, make_method
from sagehand.study.methods.vlm import BadSingleRag
from sagehand.study.run.record import right_of
from sagehand.vlm.ask import Vlm
from sagehand.vlm.scripted import ScriptedBackend, offered, prompt_text
from sagehand.vlm.server import OpenAiBackend
from study_bench import LIBRARY, base_of, bench, folder_of, views_of
from vlm_servers import stand_in, tell

DEVICE, STEP = re.compile(r"Which device is it\? A: (\w+)"), re.compile(r"Which action comes next\? A: (\w+)")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> StudyData:
    return folder_of(tmp_path_factory.mktemp("study") / "data")


@pytest.fixture(scope="module")
def train(data: StudyData) -> list[Sample]:
    return views_of(data, 0, 1)


@pytest.fixture(scope="module")
def base(train: list[Sample]) -> Iterator[CaseBase]:
    with base_of(train) as made:
        yield made


@contextmanager
def asking(answer: Any = None, **options: Any) -> Iterator[tuple[Vlm, ScriptedBackend]]:
    """A scripted model, closed at the end."""
    vlm, backend = model(answer, **options)
    with vlm:
        yield vlm, backend


@contextmanager
def made(one: Bench) -> Iterator[Method]:
    method = make_method(one)
    try:
        yield method
    finally:
        method.close()


def says(**more: Any) -> Any:
    return lambda tool, text: sees(text, tool, **more) if tool == "PredictActions" else None


def nearest_of(sample: Sample, among: list[Sample]) -> Sample:
    def vector(one: Sample) -> Any:
        return VectorEmbedder().embed([load(one.path).pixels])[0].astype(np.float64)

    return max((s for s in among if s.key != sample.key), key=lambda s: float(vector(sample) @ vector(s)))


# ---------------------------------------------------------------------------------------------------------------------


def test_zero_shot_shows_no_case_and_needs_no_base(data: StudyData, base: CaseBase, train: list[Sample]) -> None:
    sample = data.samples[5]
    told = {"next_action": "a2", "remaining_actions": ["a2", "a3"], "is_last": False}
    for cases in (None, base):
        with asking(says(**told)) as (vlm, backend), made(bench("zero-shot", train, cases, vlm=vlm)) as method:
            answer = method.answer(sample)
        (request,) = backend.requests
        assert DEVICE.search(prompt_text(request)) is None
        assert (answer.next_action, answer.remaining_actions, answer.is_last) == ("a2", ("a2", "a3"), False)
        assert (answer.case, answer.order, answer.search, answer.failure) == (None, (), None, None)
        assert (answer.size, answer.box) == ((96, 72), None)
        assert answer.usage.calls == 1
        assert answer.usage.prompt > 0
        assert {"load", "embed", "ask"} <= set(answer.timings)
    assert len(base) == len(train), "the base that was lent is still open"


def test_single_rag_shows_the_nearest_picture_whatever_the_context(
    data: StudyData, base: CaseBase, train: list[Sample]
) -> None:
    with asking() as (vlm, backend), made(bench("single-rag", train, base, vlm=vlm, guard=False)) as method:
        other = 0
        for sample in data.samples:
            backend.requests.clear()
            answer, wanted = method.answer(sample), nearest_of(sample, train)
            (request,) = backend.requests
            shown = DEVICE.search(prompt_text(request)), STEP.search(prompt_text(request))
            assert shown[0]
            assert shown[1]
            assert (shown[0][1], shown[1][1]) == (wanted.device, wanted.next_action)
            assert answer.case == answer.order[0] == wanted.key
            assert answer.next_action == wanted.next_action, "this model copies the case"
            assert sample.key not in answer.order
            other += wanted.step != sample.step
    assert other > 3, "else the nearest is not told apart from the best"


def test_single_rag_with_the_best_case_is_what_predict_shows(
    data: StudyData, base: CaseBase, train: list[Sample]
) -> None:
    hand = Predictor(base, LIBRARY, embedder=VectorEmbedder(), log=False, domain_level=0)
    options = {"case": "best"}
    with asking() as (vlm, _), made(bench("single-rag", train, base, vlm=vlm, options=options)) as method:
        for sample in views_of(data, 2):
            answer, decision = method.answer(sample), hand.predict(sample.path, sample.known)
            assert answer.case == answer.order[0] == decision.candidates[0].case.file_name
            assert answer.next_action == sample.next_action
    hand.close(base=False)


# ---------------------------------------------------------------------------------------------------------------------


@hypothesis_settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), number=st.integers(0, 35), drop=st.sets(st.integers(0, 23), max_size=20))
def test_the_bad_case_is_always_wrong(
    seed: int, number: int, drop: set[int], data: StudyData, train: list[Sample]
) -> None:
    sample = data.samples[number]
    kept = [s for at, s in enumerate(train) if at not in drop]
    with base_of(kept, calibrated=False) as some, asking() as (vlm, _):
        method = BadSingleRag(bench("bad-single-rag", kept, some, seed=seed, vlm=vlm))
        if all(s.place_in_tree == sample.place_in_tree for s in kept):
            with pytest.raises(InputError, match="is a wrong one for"):
                method.answer(sample)
        else:
            answer = method.answer(sample)
            case = next(s for s in kept if s.key == answer.case)
            assert case.place_in_tree != sample.place_in_tree
            assert answer.extra["wrong"] == ("another device" if case.device != sample.device else "another step")
            assert answer.order == ()
            assert method.answer(sample).case == answer.case
        method.close()


def test_half_of_the_bad_cases_are_another_device(data: StudyData, base: CaseBase, train: list[Sample]) -> None:
    kinds: Counter[str] = Counter()
    cases: Counter[str | None] = Counter()
    with asking() as (vlm, backend):
        for seed in range(8):
            with made(bench("bad-single-rag", train, base, seed=seed, vlm=vlm)) as method:
                for sample in views_of(data, 2):
                    backend.requests.clear()
                    answer = method.answer(sample)
                    shown = DEVICE.search(prompt_text(backend.requests[0]))
                    assert shown
                    assert f"{shown[1]}_" in str(answer.case)
                    kinds[answer.extra["wrong"]] += 1
                    cases[answer.case] += 1
    assert sum(kinds.values()) == 96
    assert abs(kinds["another device"] - 48) < 3 * 96**0.5 / 2
    assert len(cases) > 18, "drawn among all, not always the same"


# ---------------------------------------------------------------------------------------------------------------------


def test_guided_tells_its_search_in_short(data: StudyData, base: CaseBase, train: list[Sample]) -> None:
    sample = next(s for s in views_of(data, 2) if (s.device, s.step) == ("d1", 2))
    with asking() as (vlm, backend), made(bench("guided-always", train, base, vlm=vlm)) as method:
        answer = method.answer(sample)
        asked = Counter(offered(r)[0] for r in backend.requests)
    assert str(answer.case).startswith("d1_s2"), "this model knows that one"
    assert answer.order[0] == answer.case
    assert len(answer.order) == len(set(answer.order)) == len(train)
    assert answer.next_action == "a2"
    assert answer.search is not None
    assert answer.search["first_confirmed"] is False
    assert (answer.search["outcome"], answer.search["grade"]) == ("graded", 9)
    assert answer.search["graded"] == asked["GradeImage"] > 0
    assert answer.search["leaves"] == asked["LeafFinalScore"] > 0
    assert answer.search["tied"] == 2, "both views of the step"
    assert answer.search["calls"] == len(backend.requests) - 1 == answer.usage.calls - 1
    assert answer.search["failed"] == 0
    assert "search" in answer.timings


def test_the_first_look_ends_the_search_and_guided_always_has_none(
    data: StudyData, base: CaseBase, train: list[Sample]
) -> None:
    sample = data.samples[2]
    yes = {"BoolGradeImage": {"match": True}}
    with asking(lambda tool, text: yes.get(tool)) as (vlm, backend):
        with made(bench("guided", train, base, vlm=vlm)) as method:
            first = method.answer(sample)
            assert [offered(r)[0] for r in backend.requests] == ["BoolGradeImage", "PredictActions"]
        backend.requests.clear()
        options = {"leaves": 2, "most_leaves": 2, "images_per_step": 1}
        with made(bench("guided-always", train, base, vlm=vlm, options=options)) as method:
            always = method.answer(sample)
            assert method.name == "guided-always"
            asked = Counter(offered(r)[0] for r in backend.requests)
    assert first.search is not None
    assert (first.search["outcome"], first.search["first_confirmed"], first.search["graded"]) == ("first look", True, 0)
    assert always.search is not None
    assert always.search["first_confirmed"] is False
    assert asked["BoolGradeImage"] == 0
    assert asked["GradeImage"] == always.search["graded"] == 8
    assert always.search["leaves"] == 2


def test_a_search_that_finds_nothing_says_no_case(data: StudyData, base: CaseBase, train: list[Sample]) -> None:
    low = {"GradeImage": {"score": 1}, "BoolGradeImage": {"match": False}}
    with asking(lambda tool, text: low.get(tool)) as (vlm, _), made(bench("guided", train, base, vlm=vlm)) as method:
        answer = method.answer(data.samples[2])
    assert answer.search is not None
    assert (answer.search["outcome"], answer.case) == ("no case", None)
    assert len(answer.order) == len(train), "the first ranking still stands"


# ---------------------------------------------------------------------------------------------------------------------


def test_the_answer_is_what_the_model_said_not_what_was_known(
    data: StudyData, base: CaseBase, train: list[Sample]
) -> None:
    sample = next(s for s in views_of(data, 2) if s.step == 2)
    words = {"previous_action": "a3", "remaining_actions": ["a3", "a1"], "is_last": True, "device_class": "cannot_tell"}
    with asking(says(**words)) as (vlm, _), made(bench("single-rag", train, base, vlm=vlm)) as method:
        answer = method.answer(sample)
    assert answer.previous_action == "a3", "it copied wrongly: that is what the task tests"
    assert (answer.remaining_actions, answer.is_last, answer.device_class) == (("a3", "a1"), True, None)
    right = right_of(sample, answer)
    assert [right[t] for t in ("previous_action", "remaining_actions", "is_last", "device_class")] == [False] * 4
    with (
        asking(says(previous_action="not_known")) as (vlm, _),
        made(bench("single-rag", train, base, vlm=vlm)) as method,
    ):
        assert method.answer(sample).previous_action is None


def test_what_the_arm_does_not_tell_is_not_in_the_prompt(data: StudyData, base: CaseBase, train: list[Sample]) -> None:
    sample = next(s for s in views_of(data, 2) if s.step == 3)
    for arm, told in (({}, True), ({"previous": False, "place": False}, False)):
        with asking() as (vlm, backend), made(bench("zero-shot", train, base, vlm=vlm, **arm)) as method:
            method.answer(sample)
            text = prompt_text(backend.requests[0])
        assert ("executed action is: a2" in text) is told
        assert ("vise" in re.sub(r"\(a flat table.*?\)", "", text)) is told


def test_the_guard_of_the_arm_says_what_the_model_may_name(
    data: StudyData, base: CaseBase, train: list[Sample]
) -> None:
    sample = next(s for s in views_of(data, 2) if s.step == 2)
    with asking() as (vlm, backend):
        with made(bench("zero-shot", train, base, vlm=vlm)) as method:
            method.answer(sample)
        with made(bench("zero-shot", train, base, vlm=vlm, guard=False)) as method:
            method.answer(sample)
    valid = [re.search(r"- next_action: .* Valid: (.*), cannot_tell\. ", prompt_text(r)) for r in backend.requests]
    assert valid[0]
    assert valid[1]
    assert "a1" not in valid[0][1].split(", ")
    assert "a1" in valid[1][1].split(", ")
    said = says(next_action="a1", remaining_actions=["a1"], is_last=True)
    with asking(said) as (vlm, _), made(bench("zero-shot", train, base, vlm=vlm, guard=False)) as method:
        answer = method.answer(sample)
    assert (answer.next_action, answer.abstained, answer.remaining_actions) == ("a1", False, ("a1",))


@pytest.mark.parametrize("method_name", sorted(ASKS))
@pytest.mark.parametrize(
    "error", [Unreachable("gone"), Refused("no"), Malformed("what?")], ids=lambda e: type(e).__name__
)
def test_a_model_that_fails_is_an_answer_with_its_failure(
    method_name: str, error: Exception, data: StudyData, base: CaseBase, train: list[Sample]
) -> None:
    with (
        asking(lambda tool, text: error, attempts=1) as (vlm, _),
        made(bench(method_name, train, base, vlm=vlm)) as method,
    ):
        answer = method.answer(data.samples[2])
    assert answer.failure == type(error).__name__
    assert (answer.next_action, answer.abstained) == (None, True)
    assert (answer.previous_action, answer.remaining_actions, answer.is_last, answer.device_class) == (None,) * 4
    assert not any(right_of(data.samples[2], answer).values())
    if method_name.startswith("guided"):
        assert answer.search is not None
        assert answer.search["failed"] > 0
        assert answer.search["outcome"] == "not verified"


def test_limits_and_prompts_come_from_the_settings(
    data: StudyData, base: CaseBase, train: list[Sample], tmp_path: Any
) -> None:
    packaged = (FOLDER / "predict.md").read_text()
    (tmp_path / "predict.md").write_text(f"Only say it.\n{packaged}")
    with asking() as (vlm, backend):
        with made(bench("guided", train, base, vlm=vlm, settings={"calls": 6})) as method:
            answer = method.answer(data.samples[2])
        assert len(backend.requests) <= 6
        assert answer.search is not None
        assert answer.search["ran_out"] is not None
        backend.requests.clear()
        with made(bench("zero-shot", train, base, vlm=vlm, settings={"prompts": str(tmp_path)})) as method:
            method.answer(data.samples[2])
        assert "Only say it." in prompt_text(backend.requests[0])


@pytest.mark.parametrize("method_name", sorted(ASKS))
def test_the_own_picture_is_never_shown(method_name: str, data: StudyData) -> None:
    """Protocol "paper": every picture is a query, and lies in the base."""
    with base_of(data.samples) as whole, asking() as (vlm, _):
        options = {"leaves": 1, "most_leaves": 1} if "guided" in method_name else {}
        with made(bench(method_name, data.samples, whole, vlm=vlm, options=options)) as method:
            for sample in data.samples[::5]:
                answer = method.answer(sample)
                assert answer.case != sample.key
                assert sample.key not in answer.order
        assert whole.decisions() == [], "a study logs nothing"


def test_threads_change_nothing(data: StudyData, base: CaseBase, train: list[Sample]) -> None:
    def bare(answer: Answer) -> Answer:
        return replace(answer, timings={}, usage=replace(answer.usage, seconds=0))

    for name in ("single-rag", "bad-single-rag", "guided"):
        with asking() as (vlm, _), made(bench(name, train, base, vlm=vlm)) as method:
            alone = [bare(method.answer(s)) for s in data.samples[:8]]
            with ThreadPoolExecutor(4) as pool:
                assert [bare(a) for a in pool.map(method.answer, data.samples[:8])] == alone


# ---------------------------------------------------------------------------------------------------------------------


def cutting(tool: str, text: str) -> Mapping[str, Any] | None:
    if tool == "SetBoundingBoxParameters":
        return (
            call("Finish", {})
            if "done: " in text or "the box now covers" in text
            else {"x": 0, "y": 0, "width": 0.75, "height": 0.5}
        )
    return None


def test_the_model_crops_before_it_answers(data: StudyData, train: list[Sample]) -> None:
    with base_of(train, crop="box") as cases, asking(cutting) as (vlm, backend):
        with made(bench("single-rag", train, cases, vlm=vlm)) as method:
            answer = method.answer(data.samples[2])
        asked = [offered(r)[0] for r in backend.requests]
    assert asked[-1] == "PredictActions"
    assert asked.count("PredictActions") == 1
    assert answer.box == (0, 0, 72, 36)
    assert answer.usage.calls == len(asked) >= 3


def test_the_truth_is_cut_by_the_polygon(data: StudyData, train: list[Sample]) -> None:
    with base_of(train, crop="truth") as cases, asking() as (vlm, _):
        for name, lent in (("single-rag", cases), ("zero-shot", None)):
            with made(bench(name, train, lent, vlm=vlm, crop="truth")) as method:
                answer = method.answer(data.samples[2])
            assert answer.box == (0, 0, 72, 72)
            assert answer.extra == {}


def test_all_of_them_over_http(data: StudyData, base: CaseBase, train: list[Sample]) -> None:
    with stand_in("vllm", seed=1) as url, Vlm(OpenAiBackend(url, "stand-in")) as vlm:
        for name in sorted(ASKS):
            options = {"leaves": 1, "most_leaves": 1} if "guided" in name else {}
            with made(bench(name, train, base, vlm=vlm, options=options)) as method:
                answer = method.answer(data.samples[2])
            assert answer.failure is None
            assert answer.next_action is None or answer.next_action in LIBRARY.actions
            assert answer.usage.calls >= 1
        tell(url, "/faults", {"http500": 1})
        with (
            Vlm(OpenAiBackend(url, "stand-in"), attempts=1) as other,
            made(bench("zero-shot", train, base, vlm=other)) as method,
        ):
            assert method.answer(data.samples[2]).failure == "ServerFault"
