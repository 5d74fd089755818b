"""The OpenAI-compatible backend: bodies that go out, replies that come back, errors, and the key that never shows."""

from __future__ import annotations

import asyncio
import email.utils
import json
import logging
import time
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import pytest
from annotated_types import Ge, Le

from sagehand.errors import (
    DeadlineExceeded,
    MissingExtra,
    RateLimited,
    Refused,
    ServerFault,
    SettingsError,
    Unreachable,
    VlmError,
)
from sagehand.vlm.base import ImagePart, Question, RawReply, Request, ToolCall, Usage
from sagehand.vlm.profile import Profile
from sagehand.vlm.tools import Tool
from vlm_servers import DIALECTS, FAULTS, answer, canned, stand_in, tell

pytest.importorskip("openai", reason="the extra vlm is not installed")
from sagehand.vlm.ask import Vlm
from sagehand.vlm.server import OpenAiBackend

SCHEMA = {
    "type": "object",
    "properties": {"grade": {"type": "integer", "minimum": 0, "maximum": 10}},
    "required": ["grade"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "Grade", "description": "", "parameters": SCHEMA, "strict": True}}
KEY = "sk-very-secret-0123456789"
OK = answer({"role": "assistant", "content": '{"grade": 3}'}, usage={"prompt_tokens": 7, "completion_tokens": 2})


def request(mode: Any = "json_schema", **changes: Any) -> Request:
    fields: dict[str, Any] = {
        "messages": [{"role": "user", "content": "grade it"}],
        "mode": mode,
        "schema": SCHEMA,
        "tools": [TOOL],
        "max_tokens": 64,
        "timeout": 10.0,
    }
    return Request(**{**fields, **changes})


def ask(url: str, *requests: Request, key: str | None = None, profile: Profile | None = None) -> list[RawReply]:
    async def run() -> list[RawReply]:
        backend = OpenAiBackend(url, "stand-in", key, profile=profile or Profile())
        try:
            return [await backend.complete(r) for r in requests]
        finally:
            await backend.close()

    return asyncio.run(run())


def refusal(url: str, *, key: str | None = None, **changes: Any) -> VlmError:
    with pytest.raises(VlmError) as caught:
        ask(url, request(**changes), key=key)
    assert "\n" not in str(caught.value)
    return caught.value


def test_the_body_of_each_mode() -> None:
    with canned(OK) as server:
        ask(server.url, request(), request("tools", temperature=0.7), request("text", options={"top_k": 1}))
        by_schema, by_tools, by_text = server.asked
    common = {"model": "stand-in", "messages": [{"role": "user", "content": "grade it"}], "max_tokens": 64}
    form = {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": SCHEMA}}
    assert by_schema == {**common, "temperature": 0.0, "response_format": form}
    calling = {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False}
    assert by_tools == {**common, "temperature": 0.7, **calling}
    assert by_text == {**common, "temperature": 0.0, "top_k": 1}


def test_s01_s02_the_profile_chooses_the_fields() -> None:
    profile = Profile(
        constrained="structured_outputs",
        thinking=False,
        token_field="max_completion_tokens",
        greedy=False,
        options={"a": 1},
    )
    with canned(OK) as server:
        ask(server.url, request(), profile=profile)
    body = server.asked[0]
    assert body["structured_outputs"] == {"json": SCHEMA}
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert (body["max_completion_tokens"], body["a"]) == (64, 1)
    assert not {"response_format", "max_tokens", "temperature"} & set(body)


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ({"content": "a"}, RawReply("a")),
        ({"content": None, "reasoning_content": "b"}, RawReply(None, "b")),
        ({"content": "", "reasoning": "b"}, RawReply("", "b")),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, RawReply("ab")),
        (
            {
                "tool_calls": [
                    {"function": {"name": "G", "arguments": '{"a":1}'}},
                    {"function": {"name": "H", "arguments": {"b": 2}}},
                ]
            },
            RawReply(None, None, (("G", '{"a":1}'), ("H", '{"b": 2}'))),
        ),
        ({"tool_calls": [{"function": {"name": "G"}}, {"function": None}, 3]}, RawReply(None, None, (("G", "{}"),))),
        ({"tool_calls": "none", "content": 5}, RawReply(None)),
    ],
)
def test_a_reply_is_taken_apart_wherever_the_server_put_it(message: dict[str, Any], wanted: RawReply) -> None:
    with canned(answer(message, "length")) as server:
        (reply,) = ask(server.url, request())
    assert (reply.content, reply.reasoning, reply.tool_calls) == (wanted.content, wanted.reasoning, wanted.tool_calls)
    assert (reply.finish_reason, reply.usage) == ("length", Usage(calls=1))
    assert reply.seconds > 0


def test_tokens_are_the_servers_count() -> None:
    with canned(OK, answer({"content": "x"}, usage={"prompt_tokens": "7", "completion_tokens": True})) as server:
        replies = ask(server.url, request(), request())
    assert [r.usage for r in replies] == [Usage(7, 2, 1), Usage(0, 0, 1)]


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (400, {"error": {"message": "bad\nschema"}}, Refused, "answered 400: bad schema"),
        (401, {"error": "no key"}, Refused, "set OPENAI_API_KEY"),
        (403, {"detail": "not yours"}, Refused, "may not use this model"),
        (404, {"message": "no model"}, Refused, "does the base URL end in /v1"),
        (413, {}, Refused, "smaller pictures"),
        (422, {"detail": [{"loc": ["body"], "msg": "wrong"}]}, Refused, "wrong"),
        (408, {}, ServerFault, "answered 408"),
        (409, {}, ServerFault, "answered 409"),
        (429, {"error": {"message": "slow down"}}, RateLimited, "slow down"),
        (429, {"error": {"message": "quota", "code": "insufficient_quota"}}, Refused, "credit of this key is used up"),
        (503, {"error": {"message": "loading"}}, RateLimited, "loading"),
        (529, {}, RateLimited, "529"),
        (500, {"error": {"message": "boom"}}, ServerFault, "boom"),
        (502, "<html>bad gateway</html>", ServerFault, "502"),
        (200, {"error": {"message": "upstream", "code": 502}}, ServerFault, "answered 502: upstream"),
        (200, {"error": {"message": "bad", "code": 400}}, Refused, "answered 400: bad"),
        (200, {"choices": []}, ServerFault, "choices"),
        (200, {"choices": [{"message": None}]}, ServerFault, "choices"),
        (200, [], ServerFault, "no JSON object"),
        (200, "{", ServerFault, "no JSON"),
        (200, {"choices": [{"message": {"refusal": "I will not"}}]}, Refused, "declines to answer: I will not"),
        (
            200,
            {"choices": [{"message": {"content": ""}, "finish_reason": "content_filter"}]},
            Refused,
            "content filter",
        ),
    ],
)
def test_what_goes_wrong_is_typed(status: int, body: Any, kind: type[VlmError], words: str) -> None:
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    with canned((status, {"Content-Type": "application/json"}, data)) as server:
        error = refusal(server.url)
    assert type(error) is kind
    assert words in str(error)
    assert error.retryable is (kind in (ServerFault, RateLimited))


@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ({"Retry-After": "0.2"}, 0.2, 0.2),
        ({"Retry-After": "7", "retry-after-ms": "250"}, 0.25, 0.25),
        ({"Retry-After": "in a minute"}, 50, 61),
        ({"Retry-After": "-3"}, 0, 0),
        ({"Retry-After": "soon"}, None, None),
        ({"Retry-After": "nan"}, None, None),
        ({}, None, None),
    ],
)
def test_e03_retry_after_is_read(headers: dict[str, str], low: float | None, high: float | None) -> None:
    if headers.get("Retry-After") == "in a minute":  # as a date, from when the test runs
        headers = {"Retry-After": email.utils.formatdate(time.time() + 60, usegmt=True)}
    with canned((429, headers, b"{}")) as server:
        error = refusal(server.url)
    assert isinstance(error, RateLimited)
    if low is None or high is None:
        assert error.retry_after is None
    else:
        assert error.retry_after is not None
        assert low <= error.retry_after <= high


def test_nothing_is_asked_twice_here() -> None:
    with canned((500, {}, b"{}")) as server:
        refusal(server.url)
        assert len(server.asked) == 1


def test_a_server_that_is_not_there() -> None:
    started = time.monotonic()
    for url in ("http://127.0.0.1:9/v1", "http://no-such-host.invalid/v1"):
        error = refusal(url)
        assert type(error) is Unreachable
        assert url in str(error)
    assert time.monotonic() - started < 8


def test_r06_a_server_that_hangs_ends_at_the_timeout() -> None:
    with stand_in(faults="hang") as url:
        started = time.monotonic()
        error = refusal(url, timeout=0.4)
        assert time.monotonic() - started < 2
        assert type(error) is DeadlineExceeded
        tell(url, "/faults", {})
        assert ask(url, request())[0].content  # and the next one works
    assert isinstance(refusal("http://127.0.0.1:9/v1", timeout=0.0), DeadlineExceeded)


def test_a_connection_that_breaks() -> None:
    with stand_in(faults="reset") as url:
        assert type(refusal(url)) is Unreachable


def test_the_key_is_sent_and_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[str] = []
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}, or Bearer {KEY[:20]}…"}}).encode()
    for status in (400, 401, 429, 500):
        with canned((status, {}, body)) as server:
            error = refusal(server.url, key=KEY)
            seen += [str(error), repr(error), "".join(traceback.format_exception(error))]
            assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    backend = OpenAiBackend("http://x/v1", "m", KEY, profile=Profile())
    seen += [repr(backend), str(backend), caplog.text]
    assert len(seen) == 15
    assert not any(KEY in text or KEY[:16] in text for text in seen)


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "snow☃man"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(SettingsError, match="API key") as caught:
        OpenAiBackend("http://x/v1", "m", key)
    assert key not in str(caught.value)


def test_a_server_that_demands_a_key() -> None:
    with stand_in(key=KEY) as url:
        assert ask(url, request(), key=f" {KEY}\n")[0].content
        assert "401" in str(refusal(url, key="wrong"))
        assert "OPENAI_API_KEY" in str(refusal(url))


def test_the_environments_key_is_not_sent_behind_the_callers_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with canned(OK) as server:
        ask(server.url, request())
    assert KEY not in str(server.headers)


def test_without_the_client_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "openai", None)
    with pytest.raises(MissingExtra, match=r"sagehand\[vlm\]"):
        OpenAiBackend("http://x/v1", "m")


def test_the_models_of_a_server() -> None:
    async def names(url: str) -> list[str]:
        backend = OpenAiBackend(url, "m", profile=Profile())
        try:
            return await backend.models()
        finally:
            await backend.close()

    with canned((200, {}, b'{"data": [{"id": "a"}, {"id": 3}, "b"]}'), (200, {}, b'{"data": 1}')) as server:
        assert asyncio.run(names(server.url)) == ["a"]
        with pytest.raises(ServerFault, match="no list of models"):
            asyncio.run(names(server.url))


# through Vlm: every dialect of the stand-in, with every fault ---------------------------------------------------------


class Grade(Tool):
    """How alike the two pictures are."""

    grade: Annotated[int, Ge(0), Le(10)]


class Finish(Tool):
    """Nothing more is to be done."""


def questions(count: int) -> list[Question]:
    rng = np.random.default_rng(count)
    found = []
    for n in range(count):
        parts: list[str | ImagePart] = []
        for label in ("query", "example"):
            pixels = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
            parts += [f"{label} {n}", ImagePart(pixels, f"{label}{n}", label)]
        found.append(Question("Grade", "Compare the pictures.", parts, (Grade, Finish)))
    return found


def through_vlm(url: str, count: int, **changes: Any) -> Sequence[ToolCall | VlmError]:
    vlm = Vlm(OpenAiBackend(url, "stand-in", profile=Profile()), **{"call_seconds": 5.0, **changes})
    try:
        return vlm.ask_many(questions(count))
    finally:
        vlm.close()


def checked(results: Sequence[ToolCall | VlmError]) -> list[ToolCall]:
    """The answers; everything is a valid answer or a typed failure."""
    for result in results:
        assert isinstance(result, ToolCall | VlmError), result
        if isinstance(result, ToolCall):
            assert isinstance(result.tool, Grade | Finish)
            assert not isinstance(result.tool, Grade) or 0 <= result.tool.grade <= 10
    return [r for r in results if isinstance(r, ToolCall)]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_answers(dialect: str) -> None:
    with stand_in(dialect) as url:
        assert len(checked(through_vlm(url, 6))) == 6


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_fault_alone_gives_a_typed_failure_or_a_valid_answer_and_then_recovery(dialect: str) -> None:
    with stand_in(dialect) as url:
        for fault in FAULTS:
            tell(url, "/faults", {fault: 1})
            checked(through_vlm(url, 2, call_seconds=0.5 if fault in ("hang", "slow") else 5.0, attempts=2))
            tell(url, "/faults", {})
            assert len(checked(through_vlm(url, 2))) == 2, fault


@pytest.mark.parametrize("fault", ["fenced", "ignored", "http503", "bad_json_body", "reset", "nan", "truncated"])
def test_a_fault_that_clears_is_forgotten_by_the_same_vlm(fault: str) -> None:
    with stand_in("vllm", f"{fault}=1") as url:
        vlm = Vlm(OpenAiBackend(url, "stand-in", profile=Profile()), call_seconds=5.0, attempts=2)
        try:
            checked(vlm.ask_many(questions(2)))
            tell(url, "/faults", {})
            assert len(checked(vlm.ask_many(questions(4)))) == 4
        finally:
            vlm.close()


@pytest.mark.parametrize("dialect", ["vllm", "ollama", "bare"])
def test_faults_mixed(dialect: str) -> None:
    mixed = {fault: 0.02 for fault in FAULTS if fault not in ("hang", "slow")}
    with stand_in(dialect) as url:
        tell(url, "/faults", mixed)
        assert len(checked(through_vlm(url, 30))) >= 28


def test_s07_one_server_two_models() -> None:
    """What is learnt belongs to a model: one that drops the schema does not spoil the one beside it."""
    with stand_in("vllm") as honest, stand_in("vllm", "ignored=.9") as dropping:
        assert len(checked(through_vlm(honest, 4))) == 4
        checked(through_vlm(dropping, 4))
        answers = checked(through_vlm(honest, 4))
        assert {a.mode for a in answers} == {"json_schema"}
