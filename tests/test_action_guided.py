"""Whole decisions with a VLM: zero-shot, single, guided; the cascade; budgets; what is never acted on (SPEC A5, A6, C3)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builders import base_of, picture_of, unit
from guided import D0, guided, model, pictured, sees
from sagehand.action.decision import Known
from sagehand.action.page import write_logged_page, write_page
from sagehand.errors import InputError, NeedsVlm, Refused, UnknownName, Unreachable
from sagehand.judge.calibration import learn
from sagehand.judge.questions import Prediction
from sagehand.judge.risk import Answer
from sagehand.judge.scripted import ScriptedJudge
from sagehand.picture import load
from sagehand.recall.params import SearchParams
from sagehand.vlm.cache import ReplyCache

A1 = Known(previous="a1")


@pytest.fixture
def opened() -> Iterator[list[Any]]:
    """VLMs that the test opened; closed at its end."""
    vlms: list[Any] = []
    yield vlms
    for vlm in vlms:
        vlm.close()


def decide(opened: list[Any], answer: Any = None, method: str = "guided", known: Known = A1, **options: Any) -> Any:
    vlm, backend = model(answer, **options.pop("vlm", {}))
    opened.append(vlm)
    hand = guided(vlm, **options)
    decision = hand.predict(D0, known, method=method)
    assert decision.next_action is None or decision.next_action in decision.valid_actions
    json.dumps(decision.to_dict(), allow_nan=False)
    return decision, backend


def test_guided_finds_the_case_that_the_model_sees_and_predicts_from_it(opened: list[Any]) -> None:
    decision, backend = decide(opened)
    assert decision.case is not None
    assert (decision.case.case.device, decision.case.case.step) == ("d1", 2)
    assert decision.next_action == "a2"
    assert (decision.method, decision.judge, decision.confidence) == ("guided", "vlm:scripted", None)
    doc = decision.to_dict()
    assert doc["search"]["case"] == decision.case.case.id
    assert doc["search"]["verified"] is True
    assert doc["search"]["counts"]["BoolGradeImage"] == 1
    assert doc["search"]["counts"]["GradeImage"] == 3 * 4 * 2
    assert doc["usage"]["calls"] == len(backend.requests) == sum(doc["search"]["counts"].values()) + 1
    assert doc["usage"]["prompt"] > 0
    assert doc["model"]["name"] == "scripted"
    assert len(doc["model"]["prompts"]) == 16
    assert doc["model"]["answer"]["next_action"] == "a2"
    assert {"search", "ask"} <= set(doc["timings"])
    assert any("the perceptual judge says" in s.lower() for s in doc["evidence"])


def test_single_shows_the_best_case_and_zero_shot_none(opened: list[Any]) -> None:
    decision, backend = decide(opened, method="single")
    assert len(backend.requests) == 1
    assert decision.case is not None
    assert decision.case.case.id == decision.candidates[0].case.id
    assert decision.next_action == decision.case.case.next_action
    assert decision.search is None
    decision, backend = decide(opened, method="zero-shot")
    assert (decision.next_action, decision.case, list(decision.candidates)) == (None, None, [])
    assert decision.abstained, "the scripted model cannot tell without a case"
    decision, _ = decide(
        opened, lambda tool, text: sees(text, tool, next_action="a2", remaining_actions=["a2"]), "zero-shot"
    )
    assert decision.next_action == "a2"
    assert decision.reason == "the model says so from the picture alone"
    assert "recall" not in decision.timings


def test_without_a_model_only_single_is_there() -> None:
    hand = guided(None)
    assert hand.predict(D0, A1).judge == "perceptual"
    for method in ("guided", "zero-shot"):
        with pytest.raises(NeedsVlm, match=f"{method} prediction asks a vision-language model.*--base-url and --model"):
            hand.predict(D0, A1, method=method)
    with pytest.raises(UnknownName, match="did you mean 'guided'"):
        hand.predict(D0, A1, method="guide")
    assert hand.predict(D0, A1).to_dict()["usage"] == {
        "calls": 0,
        "prompt": 0,
        "completion": 0,
        "seconds": 0.0,
        "cached": 0,
    }


def test_the_first_look_may_confirm_and_then_two_calls_are_all(opened: list[Any]) -> None:
    decision, backend = decide(opened, lambda tool, text: {"match": True} if tool == "BoolGradeImage" else None)
    assert len(backend.requests) == 2
    assert decision.to_dict()["search"]["reason"] == "the judge confirmed the first candidate"
    params = SearchParams(first_look=False, leaves=1, most_leaves=1)
    decision, _ = decide(opened, search=params)
    assert decision.to_dict()["search"]["counts"] == {"GradeImage": 8, "LeafFinalScore": 1}


def test_no_good_case_leaves_the_picture_alone_and_says_so(opened: list[Any]) -> None:
    def bad(tool: str, text: str) -> Any:
        if tool == "GradeImage":
            return {"score": 2}
        return sees(text, tool, next_action="a2") if tool == "PredictActions" else None

    decision, backend = decide(opened, bad)
    assert (decision.case, decision.next_action) == (None, "a2")
    assert any("no case was found (the best grade" in w for w in decision.warnings)
    assert not any("known about the past case" in str(r.messages) for r in backend.requests[-1:])


def test_cannot_tell_asks_the_operator(opened: list[Any]) -> None:
    def unsure(tool: str, text: str) -> Any:
        return sees(text, tool, next_action="cannot_tell") if tool == "PredictActions" else None

    decision, _ = decide(opened, unsure)
    assert decision.abstained
    assert decision.proposed is None
    assert decision.reason == "the model cannot tell which action comes next"


@pytest.mark.parametrize("facts", [("not two",), ("not one", "closed"), ("two", "three")])
def test_the_model_is_offered_only_what_the_guard_leaves(opened: list[Any], facts: tuple[str, ...]) -> None:
    seen: list[str] = []

    def listen(tool: str, text: str) -> Any:
        if tool == "PredictActions":
            seen.append(text)

    decision, backend = decide(opened, listen, known=Known(facts=facts))
    (schema,) = [r.schema for r in backend.requests if "PredictActions" in json.dumps(r.schema)]
    node = schema["properties"]["call"]["properties"]["next_action"]
    assert node["enum"] == [*decision.valid_actions, "cannot_tell"]
    assert f"Valid: {', '.join(decision.valid_actions)}, cannot_tell." in seen[0]


def test_a_ruled_out_answer_is_asked_again_and_at_last_a_typed_failure(opened: list[Any]) -> None:
    def stubborn(tool: str, text: str) -> Any:
        return sees(text, tool, next_action="a3") if tool == "PredictActions" else None

    decision, backend = decide(opened, stubborn, known=Known(previous="a1", facts=("not two",)), vlm={"attempts": 2})
    assert decision.abstained
    assert decision.failure is not None
    assert "next_action" in decision.failure["message"]
    assert "gave no valid answer" in decision.reason
    assert decision.usage.calls == len(backend.requests)


def test_guard_off_lets_the_model_speak_and_hands_nothing_impossible_on(opened: list[Any]) -> None:
    def free(tool: str, text: str) -> Any:
        return sees(text, tool, next_action="a3") if tool == "PredictActions" else None

    known = Known(previous="a1", facts=("not two",))
    decision, _ = decide(opened, free, known=known, guard="off")
    assert (decision.next_action, decision.proposed) == (None, "a3")
    assert decision.reason == "the judge answered 'a3', which is ruled out: needs two, but you said it is false"
    assert "a3" in decision.ruled_out
    decision, _ = decide(opened, known=known, guard="off")
    assert (decision.next_action, decision.needs_confirmation, decision.guard) == ("a2", True, "off")
    assert any("the guard is off" in w for w in decision.warnings)
    assert decide(opened, known=known)[0].needs_confirmation is False
    with pytest.raises(UnknownName, match="unknown guard 'of'"):
        guided(None, guard="of")


def test_risk_confirm_and_repeats_hold_for_a_model_too(opened: list[Any]) -> None:
    def three(tool: str, text: str) -> Any:
        return sees(text, tool, next_action="a3", remaining_actions=["a3"]) if tool == "PredictActions" else None

    decision, _ = decide(opened, three, known=Known(previous="a2"))
    assert (decision.next_action, decision.needs_confirmation) == ("a3", True)
    vlm, _ = model()
    opened.append(vlm)
    hand = guided(vlm, log=True)
    known = Known(previous="a1", object_id="box 7")
    assert [hand.predict(D0, known, method="guided").next_action for _ in range(3)] == ["a2", "a2", None]


def test_out_of_domain_and_an_empty_base_do_not_ask_the_model(opened: list[Any]) -> None:
    vlm, backend = model()
    opened.append(vlm)
    strange = guided(vlm, domain_level=0.05).predict(picture_of(unit([0, 0, 0, 0, 0, 0, 0, 1])), A1, method="guided")
    assert strange.abstained
    assert strange.reason.startswith("out of domain")
    assert strange.saved == {"rounds": ["search", "predict"], "because": "the picture is out of domain"}
    empty = guided(vlm, base_of([])).predict(D0, method="guided")
    assert empty.reason == "the case base holds no case to compare with"
    nothing = guided(vlm).predict(
        D0, Known(facts=("not closed", "not one", "not two", "not three")), method="zero-shot"
    )
    assert "every action is ruled out" in nothing.reason
    assert backend.requests == []


def test_the_cascade_asks_only_below_the_confidence_that_was_set(opened: list[Any]) -> None:
    sure = guided(None).predict(D0, A1)
    assert sure.confidence is not None
    decision, backend = decide(opened, ask_below=sure.confidence - 0.01)
    assert backend.requests == []
    assert (decision.next_action, decision.judge, decision.confidence) == (
        sure.next_action,
        "perceptual",
        sure.confidence,
    )
    assert decision.saved is not None
    assert decision.saved["rounds"] == ["search", "predict"]
    assert "is at least" in decision.saved["because"]
    decision, backend = decide(opened, ask_below=sure.confidence + 0.001)
    assert backend.requests
    assert decision.saved is None
    decision, backend = decide(opened, ask_below=0.0, method="single")
    assert decision.saved is not None
    assert decision.saved["rounds"] == ["predict"]
    base = pictured()
    base.retire(base.cases()[-1].id)
    decision, backend = decide(opened, ask_below=0.0, base=base)
    assert backend.requests, "a confidence that is not calibrated on the base as it is saves nothing"
    for bad in (-0.1, 1.1, float("nan")):
        with pytest.raises(InputError, match="ask_below .* is not a share"):
            guided(None, ask_below=bad)
    with pytest.raises(InputError, match="zero-shot has no confidence"):
        decide(opened, method="zero-shot", ask_below=0.5)


def test_a_deadline_ends_in_the_operator_and_nothing_is_sent_after_it(opened: list[Any]) -> None:
    started = time.monotonic()
    decision, backend = decide(opened, vlm={"reply_seconds": 30}, seconds=0.4)
    assert time.monotonic() - started < 3
    assert decision.abstained
    assert decision.reason.startswith("no decision at the deadline")
    assert decision.failure is not None
    assert decision.failure["kind"] == "DeadlineExceeded"
    sent = len(backend.requests)
    time.sleep(0.2)
    assert len(backend.requests) == sent


def test_a_deadline_leaves_time_for_the_prediction(opened: list[Any]) -> None:
    def two(tool: str, text: str) -> Any:
        return sees(text, tool, next_action="a2") if tool == "PredictActions" else None

    decision, _ = decide(opened, two, vlm={"reply_seconds": 0.2, "concurrency": 2}, seconds=2.0)
    assert decision.next_action is not None, decision.reason
    assert decision.to_dict()["search"]["limits"]["ran_out"]
    assert decision.seconds < 2.5


@pytest.mark.parametrize("calls", [1, 2, 3, 9])
def test_a_budget_of_calls_is_kept_and_leaves_one_for_the_prediction(opened: list[Any], calls: int) -> None:
    decision, backend = decide(opened, calls=calls)
    assert len(backend.requests) <= calls
    assert decision.usage.calls == len(backend.requests)
    assert decision.failure is None, "the search left a call for the prediction"
    if calls < 4:
        assert any("was not verified" in w for w in decision.warnings)


def test_a_budget_of_tokens_ends_in_the_operator(opened: list[Any]) -> None:
    decision, _ = decide(opened, tokens=1000)
    assert decision.abstained
    assert decision.reason.startswith("no decision within the budget")
    for name in ("seconds", "calls", "tokens"):
        with pytest.raises(InputError, match=f"{name} 0 is not above 0"):
            guided(None, **{name: 0})


@pytest.mark.parametrize("error", [Unreachable("no connection", hint="start the server"), Refused("no such model")])
def test_a_server_that_fails_is_told_and_never_an_answer(opened: list[Any], error: Any) -> None:
    decision, _ = decide(opened, lambda tool, text: error, vlm={"attempts": 1})
    assert decision.abstained
    assert decision.failure is not None
    assert decision.failure["kind"] == type(error).__name__
    assert error.message in decision.reason
    assert decision.judge == "vlm:scripted"


def test_under_a_risk_a_model_answers_only_with_the_cases(opened: list[Any]) -> None:
    base = pictured()
    answers = tuple(Answer(0.2, True, str(i)) for i in range(400))
    base.set_calibration(replace(learn(base.index()), answers=answers).to_dict())
    cases_say = guided(None, base).predict(D0, A1)
    decision, _ = decide(opened, base=base, risk=0.05)
    assert decision.next_action == cases_say.next_action == "a2"
    assert decision.certified_risk is not None
    assert decision.certified_risk.certified
    assert decision.confidence == pytest.approx(cases_say.confidence)

    def other(tool: str, text: str) -> Any:
        return sees(text, tool, next_action="a1", remaining_actions=["a1"]) if tool == "PredictActions" else None

    decision, _ = decide(opened, other, base=base, risk=0.05, known=Known())
    assert decision.abstained
    assert "no certificate covers" in decision.reason
    zero, _ = decide(opened, other, "zero-shot", base=base, risk=0.05, known=Known())
    assert zero.abstained
    assert "this one rests on none" in zero.reason


def test_the_same_question_is_paid_once(opened: list[Any]) -> None:
    cache = ReplyCache(None)
    vlm, backend = model(cache=cache)
    opened.append(vlm)
    hand = guided(vlm)
    first, second = (hand.predict(D0, A1, method="guided") for _ in range(2))
    assert (second.next_action, second.case and second.case.case.id) == (
        first.next_action,
        first.case and first.case.case.id,
    )
    assert second.usage.calls == 0
    assert second.usage.cached == first.usage.calls == len(backend.requests)
    cache.close()


def test_sequential_and_concurrent_searches_decide_the_same(opened: list[Any]) -> None:
    quick, _ = decide(opened)
    slow, backend = decide(opened, search=SearchParams(faithful=True, both_orders=False))
    assert backend.most_at_once == 1
    assert quick.case is not None
    assert slow.case is not None
    assert (slow.next_action, slow.case.case.id) == (quick.next_action, quick.case.case.id)


def test_a_judge_of_ones_own_stands_in_for_the_model(opened: list[Any]) -> None:
    said = Prediction("a2", None, None, None, None, None, None, (), "scripted")
    hand = guided(None, judge=ScriptedJudge({"predict": lambda question: said}))
    assert hand.predict(D0, A1, method="zero-shot").next_action == "a2"
    vlm, _ = model()
    opened.append(vlm)
    with pytest.raises(InputError, match="both a judge and a VLM"):
        guided(vlm, judge=ScriptedJudge({}))


def test_own_prompts_reach_the_model_and_the_decision(opened: list[Any], tmp_path: Path) -> None:
    (tmp_path / "bool_grade.md").write_text("Is it the same? Say so.")
    plain, _ = decide(opened)
    own, backend = decide(opened, prompts=tmp_path)
    assert any("Is it the same? Say so." in str(r.messages) for r in backend.requests)
    assert own.model is not None
    assert plain.model is not None
    assert own.model["prompts"] != plain.model["prompts"]


def test_the_page_shows_the_search_of_a_decision_and_of_a_logged_one(opened: list[Any], tmp_path: Path) -> None:
    vlm, _ = model()
    opened.append(vlm)
    hand = guided(vlm, log=True)
    decision = hand.predict(D0, A1, method="guided")
    write_page(tmp_path / "page.html", decision, hand.base, load(D0))
    write_logged_page(tmp_path / "again.html", hand.base.decision(decision.decision or 0), hand.base)
    for name in ("page.html", "again.html"):
        text = (tmp_path / name).read_text()
        for words in (
            "How the case was found",
            "First look",
            "Rejected",
            "What was asked of the model",
            "verified by the model",
        ):
            assert words in text
        assert text.count("data:image/jpeg") > 24, "every graded picture is shown"
