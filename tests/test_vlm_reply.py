"""Replies: repaired where the meaning is certain, else a typed error (FIELD_REPORTS S03, S04, S16, S18, S21–S26)."""

from __future__ import annotations

import json
import time
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from sagehand.errors import Malformed, NotEnforced, Refused, Truncated, VlmError
from sagehand.vlm.base import Mode, RawReply
from sagehand.vlm.reply import Reading, ran_in_circles, read_reply
from sagehand.vlm.text import find_objects, without_thought
from sagehand.vlm.tools import Tool


class Grade(Tool):
    """Grade it."""

    score: int = Field(ge=0, le=10)


class Crop(Tool):
    x: float = Field(ge=0, le=1)
    corner: Literal["top", "bottom"]
    note: str | None


class Finish(Tool):
    """Done."""


GOOD = '{"reasoning":"Same housing.","call":{"tool":"Grade","score":7}}'
ALL: list[type[Tool]] = [Grade, Crop, Finish]


def read(
    content: str | None = None, tools: list[type[Tool]] | None = None, mode: Mode = "json_schema", **raw: Any
) -> Reading:
    return read_reply(RawReply(content, **{"finish_reason": "stop", **raw}), tools or ALL, mode)


def call(**arguments: Any) -> str:
    return json.dumps({"reasoning": "r", "call": {"tool": "Grade", **arguments}})


def test_a_clean_reply_needs_no_repair() -> None:
    assert read(GOOD) == Reading(Grade(score=7), "Same housing.", ())


@pytest.mark.parametrize(
    ("content", "repair"),
    [
        (f"```json\n{GOOD}\n```", "code fence"),
        (f'<think>The lid {{is}} closed, so {{"score": 3}}...</think>\n{GOOD}', "thought"),  # S04: both tags
        (f"The lid is closed\n</think>\n{GOOD}", "thought"),  # S04: closing tag only
        (f"<think>one</think><think>two</think>{GOOD}", "thought"),
        (f"Sure! Here is the call:\n{GOOD}\nLet me know.", "text around"),
        (f"{GOOD}\n{GOOD}", "came 2 times"),
        ("\n".join([GOOD] * 200), "came 200 times"),  # S23: identical, finished
        (f"<tool_call>\n{GOOD}\n</tool_call>", "text around"),
        ('{"tool":"Grade","score":7,"reasoning":"Same housing."}', "another form"),
        ('{"name":"Grade","arguments":{"score":7,"reasoning":"Same housing."}}', "another form"),
        ('{"type":"function","function":{"name":"Grade","arguments":"{\\"score\\":7}"}}', "another form"),
        ('{"tool_calls":[{"name":"Grade","arguments":{"score":7}}]}', "another form"),
        ('{"reasoning":"Same housing.","call":{"Grade":{"score":7}}}', "another form"),
        ('{"reasoning":"Same housing.","call":{"name":"Grade","arguments":{"score":7}}}', "another form"),
        ('{"reasoning":"Same housing.","call":"Grade","score":7}', ""),
        ('{"reasoning":"Same housing.","call":{"score":7}}', "without the tool's name"),
        ('{"call":{"tool":"Grade","score":7}}', "without its reasoning"),
        ('{"reasoning":"a\nb","call":{"tool":"Grade","score":7}}', ""),  # a raw line break inside text
        ('{"reasoning":"r","call":{"tool":"Grade","score":7},"confidence_note":"high"}', "dropped"),
        ('{"reasoning":"r","call":{"tool":"Grade","score":7,"mood":1}}', "dropped"),
    ],
)
def test_what_is_certain_is_repaired_and_said(content: str, repair: str) -> None:
    reading = read(content)
    assert reading.tool == Grade(score=7)
    assert any(repair in r for r in reading.repairs) or not repair


def test_four_ways_of_thinking_s04() -> None:
    assert without_thought("<think>a</think>b") == ("b", "a", False)
    assert without_thought("a</think>b") == ("b", "a", False)
    assert without_thought("<think>a") == ("", "a", True)
    assert without_thought("b") == ("b", None, False)
    with pytest.raises(Truncated):
        read("<think>The lid is", finish_reason="length")
    with pytest.raises(Malformed, match="thought and no answer"):
        read(f"<think>perhaps {GOOD}")
    with pytest.raises(Malformed, match="thought and no answer"):
        read(f"{GOOD}</think>")


def test_a_think_tag_inside_the_answers_text_is_text_s04() -> None:
    assert read('{"reasoning":"after </think> it","call":{"tool":"Finish"}}').reasoning == "after </think> it"


def test_the_whole_answer_in_the_reasoning_field_counts_half_a_thought_does_not_s03() -> None:
    reading = read(None, reasoning=GOOD)
    assert reading.tool == Grade(score=7)
    assert reading.repairs == ("the answer stood in the reasoning field",)
    for half in ("I compare the housings", f"I would say {GOOD}", GOOD[:-1]):
        with pytest.raises(Malformed, match="only a thought"):
            read(None, reasoning=half)


@pytest.mark.parametrize(
    ("value", "score"),
    [(3, 3), ("3", 3), (3.0, 3), ("3.0", 3), (" 3 ", 3), ("+3", 3), ("3.", 3), ("0", 0)],
)
def test_lossless_numbers_are_taken_s16(value: Any, score: int) -> None:
    reading = read(call(score=value))
    assert reading.tool == Grade(score=score)
    assert type(reading.tool.score) is int
    assert bool(reading.repairs) == isinstance(value, str)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("3.5", "not a whole number"),
        (3.5, "not a whole number"),
        ("three", "not a whole number"),
        ("end", "not a whole number"),
        ("", "not a whole number"),
        (True, "not a whole number"),
        (None, "not a whole number"),
        ([3], "not a whole number"),
        ("35", "score: 35 is out of range; a whole number from 0 to 10"),
        (-999, "-999 is out of range; a whole number from 0 to 10"),
        ("1" * 5000, "not a whole number"),
        (10**30, "out of range"),
        (1e300, "out of range"),
    ],
)
def test_other_numbers_are_refused_and_named_s16(value: Any, why: str) -> None:
    with pytest.raises(Malformed, match=why) as caught:
        read(call(score=value))
    assert "score" in caught.value.message
    assert len(caught.value.message) < 300


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("tool", ['{"tool":"Grade","score":%s}', '{"tool":"Crop","x":%s,"corner":"top","note":null}'])
def test_numbers_that_are_not_finite_are_refused_s25(number: str, tool: str) -> None:
    with pytest.raises(Malformed, match="not finite"):
        read('{"reasoning":"r","call":%s}' % (tool % number))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"reasoning":"r","call":{"tool":"Inspect"}}', "unknown tool 'Inspect'; known: Crop, Finish, Grade"),  # S26
        ('{"reasoning":"r","call":{"tool":"Grades","score":3}}', "did you mean 'Grade'"),
        ('{"name":"Inspect","arguments":{"score":3}}', "unknown tool 'Inspect'"),
        (call(), "argument 'score' is missing"),
        (call(score=3, scores=4), "no argument; did you mean 'score'"),
        ('{"reasoning":"r","call":{"tool":"Grade","score":3},"score":4}', "no argument; did you mean 'score'"),
        ('{"reasoning":"r","call":{"tool":"Crop","x":0.5,"corner":"Top","note":null}}', "did you mean 'top'"),
        ('{"reasoning":"r","call":{"tool":"Crop","x":0.5,"corner":1,"note":null}}', "not one of"),
        ('{"reasoning":"r","call":{"tool":"Crop","x":0.5,"corner":"top","note":5}}', "not text"),
        ('{"reasoning":"r","call":{"tool":"Grade","score":3,"score":8}}', "given twice"),
        ('{"reasoning":"r","call":{"tool":"Grade","name":"Crop","arguments":{"score":3}}}', "named twice"),
        ('{"reasoning":"r","call":{}}', "no tool is named"),
        (GOOD + GOOD.replace("7", "8"), "two different calls"),
        (GOOD + '{"reasoning":"r","call":{"tool":"Finish"}}', "two different calls"),
        ('{"tool_calls":[{"name":"Grade","arguments":{"score":7}},{"name":"Finish"}]}', "different calls"),
        (GOOD[:-1], "starts and never ends"),  # S21: cut, though the server says "stop"
        (GOOD + GOOD[:30], "starts and never ends"),
        ("", "the reply is empty"),
        ("  \n ", "the reply is empty"),
        ("{" * 5000, None),
        ('{"a":' * 5000, "never ends"),
        ("[" * 100_000, None),
    ],
)
def test_what_is_not_certain_is_refused_and_named(content: str, why: str | None) -> None:
    with pytest.raises((Malformed, NotEnforced), match=why):
        read(content)


def test_null_may_be_left_out_and_nothing_else() -> None:
    reading = read('{"reasoning":"r","call":{"tool":"Crop","x":"0.25","corner":"top"}}')
    assert reading.tool == Crop(x=0.25, corner="top", note=None)
    assert reading.repairs == ("x: 0.25 was written as text", "note was left out and is taken as null")


def test_a_bare_object_is_the_call_where_only_one_tool_may_answer() -> None:
    assert read('{"score": 7}', [Grade]).tool == Grade(score=7)
    assert read("{}", [Finish]).tool == Finish()
    with pytest.raises(Malformed):
        read("{}", [Finish, Grade])


def test_prose_where_a_constraint_was_set_is_not_enforced_s01_s06() -> None:
    for mode in ("json_schema", "tools"):
        with pytest.raises(NotEnforced, match=mode):
            read("I would look closer.", mode=mode)  # type: ignore[arg-type]
    with pytest.raises(Malformed, match="no JSON object"):
        read("I would look closer.", mode="text")


def test_native_calls_are_read_first_s18() -> None:
    one = ("Grade", '{"reasoning":"r","score":7}')
    assert read("prose", tool_calls=(one,), mode="tools") == Reading(Grade(score=7), "r", ())
    assert read(None, tool_calls=(one, one), mode="tools").repairs == ("the same call came 2 times",)
    assert read(None, tool_calls=(("Finish", ""),), mode="tools").tool == Finish()
    beside = read("I see a lid.", tool_calls=(("Grade", '{"score":7}'),), mode="tools")
    assert (beside.reasoning, beside.repairs) == ("I see a lid.", ("the reasoning stood beside the call",))
    with pytest.raises(Malformed, match="two different calls"):
        read(None, tool_calls=(one, ("Finish", "{}")), mode="tools")
    with pytest.raises(Malformed, match="unknown tool"):
        read(None, tool_calls=(("Inspect", '{"score":7}'),), mode="tools")
    with pytest.raises(Malformed, match="no JSON object"):
        read(None, tool_calls=(("Grade", '{"score":'),), mode="tools")


@pytest.mark.parametrize("reason", ["length", "max_tokens"])
def test_the_finish_reason_is_read_before_anything_is_parsed_s21(reason: str) -> None:
    for content in (GOOD, GOOD[:20], "", "<tool_call>\n{"):
        with pytest.raises(Truncated, match="cut off"):
            read(content, finish_reason=reason)
    with pytest.raises(Truncated):
        read(None, tool_calls=(("Grade", '{"score":7}'),), finish_reason=reason)
    with pytest.raises(Refused, match="filter"):
        read("", finish_reason="content_filter")


def test_running_in_circles_is_noticed_s22_s23() -> None:
    assert ran_in_circles(RawReply(GOOD[:-1] + " \n" * 2500)) == "blanks"
    assert ran_in_circles(RawReply('[{"box":[1,2,3,4]},' + '{"box":[1,2,3,4]},' * 200)) == "repetition"
    assert ran_in_circles(RawReply(None, tool_calls=(("Grade", "same line\n" * 100),))) == "repetition"
    assert (
        ran_in_circles(RawReply("The device lies flat on the table, in no fixture, and its cover is closed. " * 3))
        is None
    )
    assert ran_in_circles(RawReply(GOOD)) is None


def test_hostile_text_is_read_in_no_time() -> None:
    started = time.monotonic()
    for text in ('{"' * 50_000, '{"a":"' * 50_000, "<think>" * 50_000, '{"a"}' * 50_000, '"' * 200_000, "a" * 300_000):
        with pytest.raises(VlmError):
            read(text)
        ran_in_circles(RawReply(text))
    assert time.monotonic() - started < 5


def test_lone_surrogates_do_not_get_through() -> None:
    reading = read('{"reasoning":"\\ud800","call":{"tool":"Crop","x":1,"corner":"top","note":"\\udfff"}}')
    assert reading.reasoning.encode() == b"?"
    assert isinstance(reading.tool, Crop)
    assert reading.tool.note == "?"


def test_objects_are_found_wherever_they_stand() -> None:
    found = find_objects('a {"x": {"y": 1}} b {"z": "}"} {no} c')
    assert found.objects == ({"x": {"y": 1}}, {"z": "}"})
    assert not found.open_end


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["tool", "call", "score", "name", "arguments", "reasoning", "x"]) | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=200)
@given(value=JSON, around=st.sampled_from(["%s", "```\n%s\n```", "x </think> %s", "%s%s", '{"call":%s}']))
def test_any_reply_is_a_valid_call_or_a_typed_error(value: Any, around: str) -> None:
    text = around.replace("%s", json.dumps(value))
    try:
        reading = read(text)
    except VlmError:
        return
    assert type(reading.tool).model_validate(reading.tool.model_dump()) == reading.tool
    json.dumps(reading.tool.model_dump(mode="json"), allow_nan=False)


@settings(deadline=None, max_examples=100)
@given(text=st.text(alphabet='{}[]":,\\ <>/think`ab1', max_size=60))
def test_any_text_is_a_typed_error_or_a_call(text: str) -> None:
    try:
        reading = read(text)
    except VlmError:
        return
    assert type(reading.tool).model_validate(reading.tool.model_dump()) == reading.tool
