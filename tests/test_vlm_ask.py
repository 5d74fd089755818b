"""Asking: the ladder, asking again, deadlines, pauses, pictures (FIELD_REPORTS S01, S06, S07, S11, S18–S23, R06)."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from pydantic import Field

from sagehand.errors import (
    DeadlineExceeded,
    Malformed,
    NotEnforced,
    OutOfBudget,
    RateLimited,
    Refused,
    ServerFault,
    Truncated,
    Unreachable,
    VlmError,
)
from sagehand.vlm.ask import Vlm
from sagehand.vlm.base import ImagePart, Question, RawReply, Request, ToolCall, Usage
from sagehand.vlm.budget import Budget
from sagehand.vlm.course import CHANGED_TEMPERATURE
from sagehand.vlm.profile import Profile
from sagehand.vlm.scripted import Reply, ScriptedBackend, offered, prompt_text
from sagehand.vlm.tools import Tool
from vlm_servers import stand_in, tell


class Grade(Tool):
    """Grade it."""

    score: int = Field(ge=0, le=10)


class Act(Tool):
    """Say what comes next."""

    next_action: Literal["pry", "cut", "cannot_tell"]


Q = Question("Grade", "You compare pictures.", ["How alike are they?"], [Grade], max_tokens=100)
GOOD = Grade(score=7)
PROSE = RawReply("I would keep the clamp in view.", finish_reason="stop")
CUT = RawReply('{"reasoning":"The li', finish_reason="length")
BLANKS = RawReply('{"reasoning":"r"' + " \n" * 2000, finish_reason="length")


def bad_request(said: str) -> Refused:
    return Refused(f"http://host/v1 answered 400: {said}", status=400)


def ask(
    replies: list[Reply] | Callable[[Request], Any], question: Question = Q, **options: Any
) -> tuple[Any, ScriptedBackend]:
    """The answer or the error, and the backend with the requests."""
    backend = ScriptedBackend(replies)
    with Vlm(backend, **options) as vlm:
        (answer,) = vlm.ask_many([question])
    return answer, backend


def picture(seed: int, label: str, droppable: bool = False) -> ImagePart:
    pixels = np.random.default_rng(seed).integers(0, 255, (60, 80, 3), dtype=np.uint8)
    return ImagePart(pixels, f"id{seed}", label, droppable)


def images(request: Request) -> int:
    return sum(
        p["type"] == "image_url" for m in request.messages if isinstance(m["content"], list) for p in m["content"]
    )


def test_a_valid_call_at_the_first_request() -> None:
    answer, backend = ask([GOOD])
    assert (answer.tool, answer.reasoning, answer.attempts, answer.mode) == (GOOD, "as scripted", 1, "json_schema")
    assert answer.usage.calls == 1
    (request,) = backend.requests
    assert request.temperature == 0
    assert [m["role"] for m in request.messages] == ["system", "user"]
    assert "score: whole number from 0 to 10" in prompt_text(request)
    assert backend.closed


def test_prose_goes_down_the_ladder_until_the_schema_is_in_the_prompt_s01_s06() -> None:
    answer, backend = ask([PROSE, PROSE, GOOD])
    assert [r.mode for r in backend.requests] == ["json_schema", "tools", "text"]
    assert '"anyOf"' not in prompt_text(backend.requests[0])
    assert '{"type":"object","properties":{"reasoning"' in prompt_text(backend.requests[2])
    assert (answer.tool, answer.mode, answer.attempts) == (GOOD, "text", 3)


def test_prose_for_ever_ends_typed_within_the_attempts_s06() -> None:
    answer, backend = ask(lambda _: PROSE)
    assert isinstance(answer, Malformed)
    assert answer.attempts == len(backend.requests) == 4
    answer, backend = ask(lambda _: PROSE, profile=Profile(modes=("tools",)), attempts=2)
    assert isinstance(answer, NotEnforced)
    assert answer.attempts == 2


def test_a_mode_that_is_ignored_three_times_is_left_for_a_while_per_model_s07() -> None:
    ignores = ScriptedBackend(lambda r: GOOD if r.mode == "text" else PROSE, model="mlx build")
    honours = ScriptedBackend(lambda _: GOOD, model="gguf build")
    with Vlm(ignores) as one, Vlm(honours) as other:
        for _ in range(4):
            one.ask(Q)
            other.ask(Q)
        assert one.profile.modes == ("text",)
        assert other.profile.modes == ("json_schema", "tools", "text")
        assert len(ignores.requests) == 3 * 3 + 1
        for _ in range(110):
            one.ask(Q)
        assert len(ignores.requests) < 3 * 3 + 111 + 8  # tried again after a hundred questions, and left again


def test_one_reply_ignored_in_passing_costs_one_request_and_no_rung() -> None:
    backend = ScriptedBackend([PROSE, GOOD, GOOD])
    with Vlm(backend) as vlm:
        vlm.ask(Q)
        assert vlm.ask(Q).mode == "json_schema"


def test_a_refused_schema_is_reduced_and_then_left_s10_s11() -> None:
    def server(request: Request) -> Reply:
        return GOOD if request.mode == "text" else bad_request("response_format is not supported")

    backend = ScriptedBackend(server)
    with Vlm(backend) as vlm:
        assert vlm.ask(Q).attempts == 4
        assert [r.mode for r in backend.requests] == ["json_schema", "json_schema", "tools", "text"]
        assert "minimum" in str(backend.requests[0].schema)
        assert "minimum" not in str(backend.requests[1].schema)
        assert vlm.ask(Q).attempts == 1
        assert vlm.profile.modes == ("text",)


@pytest.mark.parametrize("error", [bad_request("failed to parse grammar"), Unreachable("connection closed")])
def test_a_server_that_chokes_on_the_schema_gets_a_reduced_one_and_it_is_remembered_s11(error: VlmError) -> None:
    backend = ScriptedBackend(lambda r: error if "minimum" in str(r.schema) else GOOD)
    with Vlm(backend) as vlm:
        answers = [vlm.ask(Q) for _ in range(4)]
    assert {a.mode for a in answers} == {"json_schema"}
    assert answers[0].attempts == 2
    assert answers[3].attempts == 1


def test_a_refusal_that_is_not_about_the_form_blames_no_mode() -> None:
    backend = ScriptedBackend(lambda _: bad_request("image could not be decoded"))
    with Vlm(backend) as vlm:
        with pytest.raises(Refused, match="decoded") as caught:
            vlm.ask(Q)
        assert caught.value.attempts == len(backend.requests) == 4
        assert vlm.profile.modes == ("json_schema", "tools", "text")


@pytest.mark.parametrize("status", [401, 403, 404])
def test_what_no_other_request_can_mend_is_asked_once(status: int) -> None:
    answer, backend = ask([Refused(f"http://host/v1 answered {status}: no", status=status)])
    assert isinstance(answer, Refused)
    assert len(backend.requests) == 1


def test_the_error_is_told_without_the_broken_text() -> None:
    answer, backend = ask(['{"reasoning":"SECRET","call":{"tool":"Grade","score":35}}', GOOD])
    assert answer.attempts == 2
    first, second = (r.messages for r in backend.requests)
    assert second[:-1] == first
    assert second[-1]["role"] == "user"
    assert "35 is out of range; a whole number from 0 to 10" in second[-1]["content"]
    assert "SECRET" not in str(second)


def test_no_tool_and_no_assistant_messages_are_ever_sent_s18_s19() -> None:
    question = replace(Q, parts=[picture(1, "query picture"), "Crop it."])
    _, backend = ask(["{}", '{"call":{"tool":"X"}}', PROSE, PROSE], question)
    assert {m["role"] for r in backend.requests for m in r.messages} == {"system", "user"}
    assert all(images(r) == 1 for r in backend.requests)


def test_a_question_without_pictures_is_plain_text_s09() -> None:
    _, backend = ask([GOOD])
    assert all(isinstance(m["content"], str) for m in backend.requests[0].messages)


def test_a_cut_reply_doubles_the_cap_once_and_a_second_cut_ends_it_s21() -> None:
    answer, backend = ask([CUT, CUT, CUT, CUT])
    assert isinstance(answer, Truncated)
    assert [r.max_tokens for r in backend.requests] == [100, 200]
    assert len({str(r.messages) for r in backend.requests}) == 1


def test_a_doubled_cap_beyond_the_models_length_is_taken_back_s21() -> None:
    too_long = bad_request("max_tokens is too large: this model's maximum context length is 150 tokens")
    answer, backend = ask([CUT, too_long, GOOD])
    assert [r.max_tokens for r in backend.requests] == [100, 200, 100]
    assert answer.tool == GOOD
    answer, backend = ask([CUT, too_long, CUT, GOOD])
    assert isinstance(answer, Truncated)
    assert len(backend.requests) == 3


def test_blanks_to_the_limit_change_the_sampling_once_and_are_counted_s22() -> None:
    backend = ScriptedBackend([BLANKS, GOOD])
    with Vlm(backend) as vlm:
        answer = vlm.ask(Q)
        assert vlm.events["blanks"] == 1
    assert [r.temperature for r in backend.requests] == [0, CHANGED_TEMPERATURE]
    assert [r.max_tokens for r in backend.requests] == [100, 100]
    assert any("not greedy" in r for r in answer.repairs)


def test_repetition_changes_the_sampling_once_and_then_the_rung_s23() -> None:
    circles = RawReply("[" + '{"box":[1,2,3,4]},' * 200, finish_reason="length")
    answer, backend = ask([circles, circles, GOOD])
    assert [r.temperature for r in backend.requests] == [0, CHANGED_TEMPERATURE, 0]
    assert [r.mode for r in backend.requests] == ["json_schema", "json_schema", "tools"]
    assert answer.tool == GOOD


def test_retry_after_is_honoured_e03() -> None:
    started = time.monotonic()
    answer, backend = ask([RateLimited("busy", retry_after=0.3), GOOD])
    assert time.monotonic() - started >= 0.3
    assert answer.attempts == len(backend.requests) == 2


def test_a_pause_longer_than_the_time_left_is_not_waited_for() -> None:
    backend = ScriptedBackend(lambda _: RateLimited("busy", retry_after=30))
    with Vlm(backend) as vlm:
        started = time.monotonic()
        with pytest.raises(RateLimited):
            vlm.ask(Q, budget=Budget(seconds=5))
        assert time.monotonic() - started < 1


def test_a_long_retry_after_holds_the_whole_client() -> None:
    times: list[float] = []

    def server(_: Request) -> Reply:
        times.append(time.monotonic())
        return RateLimited("busy", retry_after=1.0) if len(times) == 1 else GOOD

    with Vlm(ScriptedBackend(server), concurrency=1) as vlm:
        vlm.ask_many([Q] * 4)
    assert times[1] - times[0] >= 0.99


def test_faults_back_off_within_bounds_and_end_typed() -> None:
    started = time.monotonic()
    answer, backend = ask(lambda _: ServerFault("http://host/v1 answered 500"))
    assert isinstance(answer, ServerFault)
    assert answer.retryable
    assert len(backend.requests) == 4
    assert 0.5 < time.monotonic() - started < 5


def test_a_hanging_server_ends_at_the_deadline_and_the_next_call_works_r06() -> None:
    hang = True

    async def server(_: Request) -> Reply:
        if hang:
            await asyncio.sleep(600)
        return GOOD

    backend = ScriptedBackend(server)
    with Vlm(backend, call_seconds=0.2) as vlm:
        started = time.monotonic()
        with pytest.raises(DeadlineExceeded, match="no answer within") as caught:
            vlm.ask(Q)
        assert 0.8 <= time.monotonic() - started < 2
        assert caught.value.attempts == 4
        started = time.monotonic()
        with pytest.raises(DeadlineExceeded):
            vlm.ask(Q, budget=Budget(seconds=0.3))
        assert time.monotonic() - started < 0.6
        sent = len(backend.requests)
        budget = Budget(seconds=0.05)
        time.sleep(0.06)
        with pytest.raises(DeadlineExceeded):
            vlm.ask(Q, budget=budget)
        assert len(backend.requests) == sent  # nothing past the deadline
        hang = False
        assert vlm.ask(Q).tool == GOOD


def test_waiting_for_a_slot_ends_at_the_deadline_too() -> None:
    backend = ScriptedBackend(lambda _: GOOD, seconds=0.4)
    with Vlm(backend, concurrency=1) as vlm:
        answers = vlm.ask_many([Q] * 5, budget=Budget(seconds=0.6))
    assert [isinstance(a, ToolCall) for a in answers] == [True, False, False, False, False]
    assert all(isinstance(a, DeadlineExceeded) for a in answers[1:])
    assert len(backend.requests) == 2


def test_a_backend_that_blocks_the_loop_is_given_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagehand.vlm.ask._GRACE", 0.1)

    def server(_: Request) -> Reply:
        time.sleep(0.5)
        return GOOD

    with Vlm(ScriptedBackend(server)) as vlm:
        started = time.monotonic()
        with pytest.raises(DeadlineExceeded):
            vlm.ask(Q, budget=Budget(seconds=0.1))
        assert time.monotonic() - started < 0.45


def test_calls_never_pass_their_limit() -> None:
    backend = ScriptedBackend(lambda _: GOOD, seconds=0.01)
    with Vlm(backend) as vlm:
        budget = Budget(calls=5)
        answers = vlm.ask_many([Q] * 12, budget=budget)
    assert sum(isinstance(a, ToolCall) for a in answers) == len(backend.requests) == budget.spent.calls == 5
    assert sum(isinstance(a, OutOfBudget) for a in answers) == 7


def test_many_threads_share_the_slots_and_the_count() -> None:
    backend = ScriptedBackend(lambda _: GOOD, seconds=0.02)
    with Vlm(backend, concurrency=4) as vlm:
        threads = [threading.Thread(target=vlm.ask, args=(Q,)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert backend.most_at_once == 4
        assert vlm.usage.calls == 20


def test_answers_come_in_order_and_errors_in_their_places() -> None:
    def server(request: Request) -> Reply:
        text = prompt_text(request)
        return Malformed("never") if "q3" in text else Grade(score=int(text.split("q")[1][0]))

    with Vlm(ScriptedBackend(server), attempts=1) as vlm:
        answers = vlm.ask_many([replace(Q, parts=[f"q{i}"], system="") for i in range(6)])
    assert [a.tool.score if isinstance(a, ToolCall) else None for a in answers] == [0, 1, 2, None, 4, 5]  # type: ignore[attr-defined]


def test_a_bug_in_a_backend_is_no_vlm_error() -> None:
    def server(_: Request) -> Reply:
        raise ZeroDivisionError

    with Vlm(ScriptedBackend(server)) as vlm, pytest.raises(ZeroDivisionError):
        vlm.ask_many([Q, Q])


def test_ctrl_c_cancels_what_is_in_flight() -> None:
    ended: list[str] = []

    async def server(_: Request) -> Reply:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return GOOD

    backend = ScriptedBackend(server)
    with Vlm(backend) as vlm:
        timer = threading.Timer(0.2, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            vlm.ask_many([Q] * 3)
        timer.join()
        deadline = time.monotonic() + 2
        while len(ended) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert ended == ["cancelled"] * 3


def test_a_cancelled_decision_ends_its_questions_and_no_others() -> None:
    backend = ScriptedBackend(lambda _: GOOD, seconds=0.5)
    outcome: dict[str, Any] = {}

    def work(name: str, vlm: Vlm, budget: Budget) -> None:
        (outcome[name],) = vlm.ask_many([Q], budget=budget)

    with Vlm(backend) as vlm:
        doomed, other = Budget(), Budget()
        threads = [threading.Thread(target=work, args=(n, vlm, b)) for n, b in (("doomed", doomed), ("other", other))]
        for thread in threads:
            thread.start()
        time.sleep(0.1)
        doomed.cancel()
        for thread in threads:
            thread.join()
        assert isinstance(outcome["doomed"], DeadlineExceeded)
        assert outcome["other"].tool == GOOD
        with pytest.raises(DeadlineExceeded, match="cancelled"):
            vlm.ask(Q, budget=doomed)


def test_closing_ends_what_waits_and_nothing_is_asked_after() -> None:
    vlm = Vlm(ScriptedBackend(lambda _: GOOD, seconds=60))
    threading.Timer(0.1, vlm.close).start()
    with pytest.raises(Unreachable, match="closed"):
        vlm.ask(Q)
    with pytest.raises(Unreachable, match="closed"):
        vlm.ask(Q)
    vlm.close()


def test_a_vlm_that_nobody_closed_leaves_nothing_behind() -> None:
    backend = ScriptedBackend(lambda _: GOOD)
    vlm = Vlm(backend)
    vlm.ask(Q)
    del vlm
    gc.collect()
    assert backend.closed
    assert "sagehand-vlm" not in [t.name for t in threading.enumerate()]


def test_fewer_pictures_than_shown_the_last_droppable_goes_first_s20_i10() -> None:
    def server(request: Request) -> Reply:
        return bad_request("At most 2 image(s) may be provided in one request.") if images(request) > 2 else GOOD

    parts = [
        picture(1, "query"),
        picture(2, "old crop", True),
        "so far",
        picture(3, "candidate"),
        picture(4, "new crop", True),
    ]
    question = replace(Q, parts=parts)
    backend = ScriptedBackend(server)
    with Vlm(backend) as vlm:
        answer = vlm.ask(question)
        assert (answer.attempts, answer.mode) == (2, "json_schema")
        assert answer.repairs == ("left out the picture 'old crop'", "left out the picture 'new crop'")
        assert "old crop: left out" in prompt_text(backend.requests[1])
        assert vlm.profile.max_images == 2
        assert vlm.ask(question).attempts == 1


def test_a_limit_of_one_puts_the_pictures_on_one_sheet_s20() -> None:
    def server(request: Request) -> Reply:
        return bad_request("At most 1 image(s) may be provided in one request.") if images(request) > 1 else GOOD

    question = replace(Q, parts=[picture(1, "query picture"), "against", picture(2, "candidate")])
    answer, backend = ask(server, question)
    assert answer.tool == GOOD
    assert answer.repairs == ("put 2 pictures on one sheet: the server takes 1",)
    assert "column 1: query picture; column 2: candidate" in prompt_text(backend.requests[1])


def test_a_context_that_is_too_short_drops_what_may_be_dropped_i10() -> None:
    def server(request: Request) -> Reply:
        return bad_request("this model's maximum context length is 900 tokens") if images(request) > 1 else GOOD

    answer, _ = ask(
        server, replace(Q, parts=[picture(1, "query"), picture(2, "crop", True), picture(3, "crop 2", True)])
    )
    assert answer.attempts == 2
    answer, backend = ask(server, replace(Q, parts=[picture(1, "query"), picture(3, "candidate")]))
    assert isinstance(answer, Refused)
    assert len(backend.requests) == 1


def test_a_template_that_wants_roles_to_alternate_gets_one_message() -> None:
    def server(request: Request) -> Reply:
        if len(request.messages) > 2:
            return bad_request("Conversation roles must alternate user/assistant/user/assistant/...")
        return GOOD if "could not be used" in prompt_text(request) else "{}"

    answer, backend = ask(server)
    assert answer.tool == GOOD
    assert [len(r.messages) for r in backend.requests] == [2, 3, 2]


def test_what_is_shared_stands_first_and_the_form_last() -> None:
    query = picture(1, "query picture")
    backend = ScriptedBackend(lambda r: GOOD if offered(r) == ("Grade",) else Act(next_action="pry"))
    with Vlm(backend) as vlm:
        vlm.ask(replace(Q, parts=[query, "known: clamp", picture(2, "candidate")]))
        vlm.ask(replace(Q, parts=[query, "known: clamp", picture(3, "candidate")], tools=[Act]))
    one, two = (r.messages for r in backend.requests)
    assert one[0] == two[0]
    assert one[1]["content"][:3] == two[1]["content"][:3]
    assert "next_action" in two[1]["content"][-1]["text"]


def test_the_estimate_counts_pictures_by_the_profiles_rule_i10() -> None:
    pixels = np.zeros((560, 840, 3), dtype=np.uint8)
    with Vlm(ScriptedBackend([]), profile=Profile(patch=14, merge=2)) as vlm:
        bare, _ = vlm.estimate(Q)
        prompt, reply = vlm.estimate(replace(Q, parts=[*Q.parts, ImagePart(pixels, "id", "query picture")]))
    assert prompt - bare == pytest.approx(20 * 30, rel=0.1)
    assert reply == 100


def test_a_server_that_counts_no_tokens_is_estimated() -> None:
    answer, _ = ask([RawReply('{"reasoning":"r","call":{"tool":"Grade","score":7}}', finish_reason="stop")])
    assert answer.usage.prompt > 50
    assert answer.usage.completion == 12
    assert answer.usage.calls == 1


def test_own_overhead_is_below_three_milliseconds_a_call() -> None:
    with Vlm(ScriptedBackend(lambda _: GOOD)) as vlm:
        vlm.ask(Q)
        rounds = []
        for _ in range(5):
            started = time.perf_counter()
            for _ in range(40):
                vlm.ask(Q)
            rounds.append((time.perf_counter() - started) / 40)
    assert min(rounds) < 0.003


@pytest.mark.parametrize(("name", "value"), [("concurrency", 0), ("attempts", 0), ("call_seconds", float("inf"))])
def test_numbers_that_make_no_sense_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Vlm(ScriptedBackend([]), **{name: value})


MIXED = (
    "fenced,think,reasoning_field,prose,ignored,strings,wrong_tool,extra_args,missing_arg,out_of_range,nan,two_calls"
)
MIXED += ",truncated,whitespace,empty,http429,http500,http503,reset,bad_json_body"


@pytest.mark.parametrize("dialect", ["vllm", "ollama", "bare"])
def test_a_server_with_every_fault_mixed_is_survived(dialect: str) -> None:
    from sagehand.vlm.server import OpenAiBackend

    faults = ",".join(f"{name}=0.015" for name in MIXED.split(","))
    query = picture(1, "query picture")
    questions = [
        replace(Q, parts=[query, picture(i, "candidate")], tools=[Grade] if i % 2 else [Act, Grade])
        for i in range(2, 62)
    ]
    with stand_in(dialect=dialect, faults=faults) as url, Vlm(OpenAiBackend(url, "stand-in"), call_seconds=5) as vlm:
        answers = vlm.ask_many(questions)
        assert tell(url, "/stats")["most_at_once"] <= 16
    valid = [a for a in answers if isinstance(a, ToolCall)]
    assert len(valid) >= 59
    assert all(a.attempts >= 1 for a in answers if isinstance(a, VlmError))
    assert sum((a.usage for a in valid), Usage()).calls <= vlm.usage.calls
