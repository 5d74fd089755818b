"""Tools and their wire schema: inside the strict subset whatever the tool (FIELD_REPORTS S08–S14)."""

from __future__ import annotations

import importlib.util
import json
from enum import Enum
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, create_model

from sagehand.errors import UnknownName
from sagehand.vlm.base import RawReply
from sagehand.vlm.reply import read_reply
from sagehand.vlm.schema import reduced
from sagehand.vlm.tools import Tool, describe, function_tools, strict_problems, tool_named, wire_schema
from vlm_servers import SCRIPT


class Side(Enum):
    LEFT = "left side"
    RIGHT = "right side"


class Grade(Tool):
    """Grade how similar   the candidate is."""

    score: int = Field(ge=0, le=10, description="0 nothing alike, 10 the same")
    share: float | None = Field(gt=0, lt=1)


class Plan(Tool):
    side: Side
    actions: list[Literal["pry", "cut"]] = Field(min_length=1, max_length=4)
    mark: Literal["ok", None]
    level: Literal[1, 2]


class Finish(Tool):
    """Nothing is left to do."""


def test_the_wire_schema_is_reasoning_then_one_of_the_calls() -> None:
    schema = wire_schema([Grade, Finish])
    assert list(schema["properties"]) == ["reasoning", "call"]
    grade, finish = schema["properties"]["call"]["anyOf"]
    assert grade["properties"]["tool"] == {"type": "string", "enum": ["Grade"]}
    assert grade["description"] == "Grade how similar the candidate is."
    assert grade["properties"]["score"]["maximum"] == 10
    assert grade["properties"]["share"]["anyOf"] == [
        {"type": "number", "minimum": 0, "maximum": 1},
        {"type": "null"},
    ]
    assert finish["required"] == ["tool"]


def test_sizes_stay_off_the_wire_and_in_the_prompt_s12() -> None:
    assert not set(json.dumps(wire_schema([Plan])).split('"')) & {
        "maxItems",
        "minItems",
        "title",
        "$ref",
        "$defs",
        "const",
    }
    assert "at least 1 items, at most 4 items" in describe([Plan])


@pytest.mark.parametrize("tools", [[Grade], [Plan, Grade], [Finish, Plan, Grade]])
def test_every_name_and_allowed_value_is_in_the_prompt_s08(tools: list[type[Tool]]) -> None:
    said = describe(tools)

    def check(node: Any) -> None:
        for name in node.get("properties", {}):
            assert name in said or name in ("reasoning", "call", "tool")
        for value in node.get("enum", ()):
            assert str(value) in said
        for bound in ("minimum", "maximum"):
            assert bound not in node or str(node[bound]) in said
        for sub in [*node.get("properties", {}).values(), *node.get("anyOf", ()), *filter(None, [node.get("items")])]:
            check(sub)

    check(wire_schema(tools))


def test_native_tools_are_strict_and_reason_first() -> None:
    (tool,) = function_tools([Grade])
    assert tool["function"]["strict"] is True
    assert list(tool["function"]["parameters"]["properties"]) == ["reasoning", "score", "share"]
    assert strict_problems(tool["function"]["parameters"]) == []


def test_the_reduced_schema_has_neither_bounds_nor_descriptions_s11() -> None:
    text = json.dumps(wire_schema([Grade, Plan], loose=True))
    assert "minimum" not in text
    assert '"description"' not in text
    assert '"enum": ["left side", "right side"]' in text
    assert [p for p in strict_problems(json.loads(text)) if "without minimum" not in p] == []


class Inner(BaseModel):
    flag: bool


class Deep(BaseModel):
    inner: Inner


@pytest.mark.parametrize(
    ("annotation", "why"),
    [
        (int, "both bounds"),
        ((float, Field(ge=0)), "both bounds"),
        ((float, Field(ge=0, le=float("inf"))), "both bounds"),
        ((int, Field(ge=3, le=2)), "no number lies between"),
        (int | str, "union"),
        (dict[str, int], "free keys"),
        (tuple[str, str], "one type for all"),
        (list[list[str]], "too deep"),
        (Deep, "too deep"),
        (Any, "no server is sure"),
        (bytes | None, None),
        (Literal["a", 1], "of one type"),
        ((str, "x"), "a default"),
    ],
)
def test_a_tool_that_no_server_is_sure_to_take_is_refused_where_it_is_defined_s14(
    annotation: Any, why: str | None
) -> None:
    definition = annotation if isinstance(annotation, tuple) else (annotation, ...)
    if why is None:  # bytes are text on the wire
        assert wire_schema([create_model("Bad", __base__=Tool, field=definition)])
        return
    with pytest.raises(TypeError, match=why) as caught:
        create_model("Bad", __base__=Tool, field=definition)
    assert "Bad.field" in str(caught.value)


@pytest.mark.parametrize("name", ["tool", "reasoning", "call", "größe"])
def test_the_replys_own_names_are_refused(name: str) -> None:
    with pytest.raises(TypeError, match="is named by"):
        create_model("Bad", __base__=Tool, **{name: (bool, ...)})


def test_tools_of_one_name_and_no_tools_are_refused() -> None:
    with pytest.raises(TypeError, match="different names"):
        wire_schema([Grade, create_model("Grade", __base__=Tool)])
    with pytest.raises(TypeError, match="different names"):
        wire_schema([])


def test_a_tool_by_name_and_its_near_misses() -> None:
    assert tool_named("Grade", [Grade, Finish]) is Grade
    with pytest.raises(UnknownName, match="did you mean 'Grade'"):
        tool_named("grades", [Grade, Finish])


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"anyOf": []}, "the root: must be an object"),
        ({"type": "object", "properties": {}, "required": []}, "additionalProperties"),
        (
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": [], "additionalProperties": False},
            "required",
        ),
        ({"type": "object", "properties": {}, "required": [], "additionalProperties": False, "title": "T"}, "'title'"),
    ],
)
def test_strict_problems_names_what_is_wrong(schema: dict[str, Any], problem: str) -> None:
    assert any(problem in p for p in strict_problems(schema))


WORDS = st.sampled_from(["pry", "cut", "lever up", "ünter", 'say "x"', "a{b}"])
NUMBERS = st.tuples(st.integers(-1000, 1000), st.integers(0, 1000))


@st.composite
def annotations(draw: st.DrawFn) -> Any:
    kind = draw(st.sampled_from(["int", "float", "bool", "str", "literal", "numbers", "list", "enum"]))
    low, span = draw(NUMBERS)
    found: Any = {
        "int": lambda: (int, Field(ge=low, le=low + span)),
        "float": lambda: (float, Field(ge=low / 7, le=low / 7 + span)),
        "bool": lambda: (bool, ...),
        "str": lambda: (str, ...),
        "literal": lambda: (Literal[tuple(draw(st.lists(WORDS, min_size=1, max_size=4, unique=True)))], ...),
        "numbers": lambda: (
            Literal[tuple(draw(st.lists(st.integers(-5, 5), min_size=1, max_size=4, unique=True)))],
            ...,
        ),
        "list": lambda: (list[Literal["u", "v"]], ...),
        "enum": lambda: (Side, ...),
    }[kind]()
    return (found[0] | None, found[1]) if draw(st.booleans()) else found


@st.composite
def tool_classes(draw: st.DrawFn) -> list[type[Tool]]:
    fields = st.dictionaries(st.sampled_from(["score", "name", "arguments", "box", "why"]), annotations(), max_size=4)
    return [
        create_model(f"Tool{i}", __base__=Tool, __doc__=draw(st.sampled_from([None, "Says it."])), **draw(fields))
        for i in range(draw(st.integers(1, 3)))
    ]


def instance(node: Any, choose: Any) -> Any:
    """Something that fits a wire schema."""
    if "anyOf" in node:
        return instance(choose(st.sampled_from(node["anyOf"])), choose)
    if "enum" in node:
        return choose(st.sampled_from(node["enum"]))
    match node["type"]:
        case "object":
            return {k: instance(v, choose) for k, v in node["properties"].items()}
        case "array":
            return [instance(node["items"], choose) for _ in range(choose(st.integers(0, 3)))]
        case "integer":
            return choose(st.integers(node["minimum"], node["maximum"]))
        case "number":
            return choose(st.floats(node["minimum"], node["maximum"]))
        case "boolean":
            return choose(st.booleans())
        case "string":
            return choose(st.text(max_size=8))
    return None


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_every_tool_is_inside_the_subset_and_every_instance_is_read_back_s14(data: st.DataObject) -> None:
    tools = data.draw(tool_classes())
    schema = wire_schema(tools)
    assert strict_problems(schema) == []
    assert strict_problems(schema) == strict_problems(json.loads(json.dumps(schema)))
    for tool in function_tools(tools):
        assert strict_problems(tool["function"]["parameters"]) == []
    assert list(reduced(schema)["properties"]) == ["reasoning", "call"]
    reply = instance(schema, data.draw)
    reading = read_reply(RawReply(json.dumps(reply), finish_reason="stop"), tools, "json_schema")
    assert type(reading.tool).__name__ == reply["call"].pop("tool")
    assert reading.tool.model_dump(mode="json") == reply["call"]


@settings(deadline=None, max_examples=30)
@given(tools=tool_classes())
def test_another_strict_checker_agrees_s14(tools: list[type[Tool]]) -> None:
    if not SCRIPT.is_file():
        pytest.skip("no stand-in server beside the checkout, whose checker this is")
    spec = importlib.util.spec_from_file_location("vlm_stand_in", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    schema = wire_schema(tools)
    assert list(module.strict_errors(schema, schema)) == []
