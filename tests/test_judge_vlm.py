"""What the VLM judge makes of a model's calls: verdicts, findings, costs, and no answer where there was none."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagehand.errors import JudgeError, NotAPicture, StoreError, Unreachable, VlmError
from sagehand.judge.cost import FREE, Cost
from sagehand.judge.prompts import Prompts
from sagehand.judge.questions import Finding, PredictQuestion
from sagehand.judge.vlm import VlmJudge
from sagehand.judge.vlm_tools import GradeImage, prediction_tool
from sagehand.judge.vlm_words import Cell, findings_of
from sagehand.vlm.ask import Vlm
from sagehand.vlm.base import Request
from sagehand.vlm.budget import Budget
from sagehand.vlm.cache import ReplyCache
from sagehand.vlm.scripted import ScriptedBackend
from sagehand.vlm.tools import strict_problems, wire_schema
from vlm_doubles import CELL, CHECK, FakeVlm, candidate, picture, query

PREDICTED = {
    "previous_action": "unscrew", "next_action": "pry", "remaining_actions": ["pry"], "is_last": True, "device_class": "phone",
}  # fmt: skip


def judge(answers: Any, **options: Any) -> VlmJudge:
    return VlmJudge(FakeVlm(answers, **options), lambda case_id: picture(2), CELL)


def question(*candidates: Any, valid: tuple[str, ...] = ("pry", "end"), **more: Any) -> PredictQuestion:
    return PredictQuestion(query(**more), candidates, {}, {}, valid)


def test_a_verdict_comes_with_its_findings_on_the_four_criteria_and_its_cost() -> None:
    for match in (True, False):
        grade = judge({"BoolGradeImage": {"match": match}}).bool_grade(query(), candidate())
        assert grade.accepted is match
        assert grade.probability is None, "nothing has calibrated it"
        assert grade.by == "vlm:double"
        assert [(f.topic, f.verdict) for f in grade.findings] == [
            ("place", "agrees"),
            ("shape", "differs"),
            ("components", "cannot tell"),
            ("preceding steps", "agrees"),
        ]
        assert grade.findings[0].text == "Both lie on the table"
        assert grade.cost == Cost(calls=2, prompt=900, completion=60, seconds=0.5)
    graded = judge({"GradeImage": {"score": 7}}).grade(query(), candidate())
    assert (graded.score, graded.cost.calls) == (7, 2)
    one = judge({"CompareImages": {"better": "second"}}).compare(query(), candidate("a"), candidate("b"))
    assert one.better == "second"
    leaf = judge({"LeafFinalScore": {"score": 3, "summary": "another one"}}).leaf_score(query(), "x1", [graded])
    assert (leaf.score, leaf.summary) == (3, "another one")
    more = judge({"ExpandSearch": {"expand": True}}).expand(query(), {"x1": leaf})
    assert (more.expand, more.reason) == (True, CHECK)


def test_what_has_no_label_is_one_finding_and_no_criterion_is_made_up() -> None:
    assert findings_of("They look alike.", "agrees") == (Finding("reasoning", "agrees", "They look alike."),)
    assert findings_of("", "agrees") == ()
    found = findings_of("Hm. shape: differs - round, not square. components: a battery shows.", "differs")
    assert [f.topic for f in found] == ["reasoning", "shape"]
    assert "a battery shows" in found[1].text, "a label without a verdict stays words"
    assert findings_of("location: agrees", "agrees") == (Finding("place", "agrees", "the model says: agrees"),)


@given(st.text(max_size=300), st.sampled_from(["agrees", "differs", "cannot tell"]))
@settings(max_examples=100, deadline=None)
def test_any_reasoning_is_kept_as_findings_with_text(text: str, overall: Any) -> None:
    found = findings_of(text, overall)
    assert all(f.text and f.verdict in ("agrees", "differs", "cannot tell") for f in found)


def test_the_prediction_answers_the_five_tasks() -> None:
    asked = judge({"PredictActions": PREDICTED})
    said = asked.predict(question(candidate()))
    assert (said.next_action, said.remaining_actions, said.is_last) == ("pry", ("pry",), True)
    assert (said.device_class, said.previous_action, said.confidence) == ("phone", "unscrew", None)
    assert said.case is not None
    assert said.case.case.id == "a"
    assert asked.said is not None
    assert asked.said.arguments == PREDICTED
    assert not [f for f in said.findings if f.topic in ("previous action", "remaining actions")]


def test_cannot_tell_is_no_action() -> None:
    said = judge({"PredictActions": PREDICTED | {"next_action": "cannot_tell", "device_class": "cannot_tell"}}).predict(
        question()
    )
    assert (said.next_action, said.device_class, said.case) == (None, None, None)
    assert (
        judge({"PredictActions": PREDICTED | {"previous_action": "not_known"}}).predict(question()).previous_action
        is None
    )


def test_an_answer_that_contradicts_the_prompt_or_itself_is_noticed_and_kept() -> None:
    wrong = PREDICTED | {"previous_action": "none", "remaining_actions": ["unscrew", "pry"]}
    said = judge({"PredictActions": wrong}).predict(question())
    texts = [f.text for f in said.findings if f.topic in ("previous action", "remaining actions")]
    assert texts == [
        "the model copied the previous action as 'none'; it is unscrew",
        "the model's remaining actions begin with 'unscrew', not 'pry'",
    ]
    assert (said.previous_action, said.remaining_actions) == ("none", ("unscrew", "pry"))
    at_end = PREDICTED | {"next_action": "end", "remaining_actions": []}
    assert not [
        f for f in judge({"PredictActions": at_end}).predict(question()).findings if f.topic == "remaining actions"
    ]


@pytest.mark.parametrize("error", [NotAPicture("gone.jpg: damaged"), StoreError("the picture of case a is missing")])
def test_a_case_whose_picture_cannot_be_read_is_not_judged(error: Exception) -> None:
    def broken(case_id: str) -> Any:
        raise error

    vlm = FakeVlm({"PredictActions": PREDICTED})
    asked = VlmJudge(vlm, broken, CELL)
    assert asked.bool_grade(query(), candidate()).accepted is None
    assert asked.grade(query(), candidate()).score is None
    assert asked.compare(query(), candidate(), candidate("b")).better is None
    assert vlm.asked == []
    assert asked.predict(question(candidate())).next_action == "pry", "the case's text still serves"
    assert "its picture cannot be shown" in str(vlm.asked[0].parts[-1])


def test_a_query_without_a_picture_is_refused() -> None:
    with pytest.raises(JudgeError, match="no picture to show"):
        judge({}).grade(query(picture=None), candidate())


def scripted(replies: Any, **options: Any) -> VlmJudge:
    vlm = Vlm(ScriptedBackend(replies), **options)
    return VlmJudge(vlm, lambda case_id: picture(2), CELL)


def test_a_failure_is_an_error_and_never_an_answer_and_is_on_the_bill() -> None:
    """S03, S04, S16, S21, S22 of the field reports come down to this: no valid call, no verdict."""
    for reply in ("I would look closer.", '{"reasoning": "x", "call": {"tool": "GradeImage", "score": 11}}', ""):
        asked = scripted(lambda request, reply=reply: reply, attempts=2).within(Budget())
        with pytest.raises(VlmError):
            asked.grade(query(), candidate())
        assert asked.spent.calls == asked.budget.spent.calls > 0  # type: ignore[union-attr]
        asked.vlm.close()
    asked = scripted([Unreachable("no server")] * 4, attempts=1)
    with pytest.raises(Unreachable):
        asked.bool_grade(query(), candidate())
    assert asked.spent.calls == 1
    asked.vlm.close()


def test_each_decision_has_its_own_bill_and_cached_answers_cost_nothing() -> None:
    asked = scripted(lambda request: GradeImage(score=6), cache=ReplyCache(None))
    first, second = asked.within(Budget()), asked.within(Budget())
    graded, again = first.grade(query(), candidate()), second.grade(query(), candidate())
    assert graded.score == again.score == 6
    assert (first.spent.calls, first.spent.cached) == (1, 0)
    assert (second.spent.calls, second.spent.cached, second.spent.prompt) == (0, 1, 0)
    assert again.cost.cached == 1
    assert asked.spent == FREE
    asked.vlm.close()


def test_an_answer_depends_on_the_pictures_the_texts_and_the_prompts(tmp_path: Any) -> None:
    backend = ScriptedBackend(lambda request: GradeImage(score=6))
    vlm = Vlm(backend, cache=ReplyCache(None))
    (tmp_path / "grade.md").write_text("Grade it otherwise.")
    for asked in (
        VlmJudge(vlm, lambda case_id: picture(2), CELL),
        VlmJudge(vlm, lambda case_id: picture(3), CELL),
        VlmJudge(vlm, lambda case_id: picture(2), CELL, prompts=Prompts(tmp_path)),
    ):
        asked.grade(query(), candidate())
        asked.grade(query(), candidate())
    asked.grade(query(), candidate(place="vise"))
    asked.grade(query(previous_action="none"), candidate())
    assert len(backend.requests) == 5, "each once, and none from the answer to another"
    vlm.close()


def test_many_threads_ask_one_judge() -> None:
    def answer(request: Request) -> Any:
        return GradeImage(score=7)

    asked = scripted(answer, concurrency=8).within(Budget())
    with ThreadPoolExecutor(16) as pool:
        grades = list(pool.map(lambda i: asked.grade(query(), candidate(f"c{i}", place=str(i))), range(48)))
    assert [g.score for g in grades] == [7] * 48
    assert asked.spent.calls == 48
    assert sum((g.cost for g in grades), FREE).calls == 48
    asked.vlm.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("sagehand-vlm")]


def test_only_valid_actions_can_be_answered_whatever_the_model_says() -> None:
    """S26: a name from the prompt that is not valid here is refused and asked again, and never handed on."""
    good = {"reasoning": "x", "call": {"tool": "PredictActions", **PREDICTED}}
    bad = json.loads(json.dumps(good))
    bad["call"]["next_action"] = "unscrew"
    asked = scripted([bad, good])
    assert asked.predict(question(candidate())).next_action == "pry"
    asked.vlm.close()
    asked = scripted(lambda request: bad, attempts=3)
    with pytest.raises(VlmError, match="next_action"):
        asked.predict(question(candidate()))
    asked.vlm.close()


NAMES = st.lists(st.from_regex(r"[a-z_]{1,12}", fullmatch=True), min_size=1, max_size=12, unique=True)


@given(NAMES, NAMES, st.data())
@settings(max_examples=40, deadline=None)
def test_a_prediction_tool_stays_inside_the_strict_subset(actions: list[str], families: list[str], data: Any) -> None:
    valid = data.draw(st.lists(st.sampled_from(actions), unique=True))
    schema = wire_schema([prediction_tool(tuple(valid), tuple(actions), tuple(families))])
    assert strict_problems(schema) == []
    text = json.dumps(schema)
    assert all(json.dumps(name) in text for name in (*actions, *families, "cannot_tell", "not_known"))


def test_without_a_library_the_valid_actions_and_the_families_of_the_cases_are_all_there_is() -> None:
    vlm = FakeVlm({"PredictActions": PREDICTED | {"previous_action": "not_known"}})
    asked = VlmJudge(vlm, lambda case_id: picture(2), Cell())
    said = asked.predict(question(candidate(), valid=("pry",), previous_action=None))
    assert said.next_action == "pry"
    assert "Valid: phone, cannot_tell." in str(vlm.asked[0].parts[2])
    assert isinstance(said.findings, tuple)
