"""Whole decisions over HTTP: every dialect, every fault, nothing impossible, nothing after the deadline, recovery."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from builders import near, picture_of
from guided import D0, guided, pictured
from sagehand.action.decision import Known
from sagehand.action.predict import Predictor
from sagehand.recall.params import SearchParams
from sagehand.vlm.ask import Vlm
from sagehand.vlm.server import OpenAiBackend
from vlm_servers import DIALECTS, FAULTS, stand_in, tell

A1 = Known(previous="a1")
SMALL = SearchParams(leaves=2, most_leaves=3, images_per_step=1)
MIXED = (
    "fenced=.02,think=.02,think_close_only=.01,reasoning_field=.02,prose=.02,ignored=.02,strings=.02,wrong_tool=.02,extra_args=.02,"
    "missing_arg=.02,out_of_range=.02,nan=.01,two_calls=.01,truncated=.02,whitespace=.01,empty=.01,http429=.01,http500=.01,reset=.01"
)


@contextmanager
def over_http(url: str, **options: Any) -> Iterator[Predictor]:
    with Vlm(OpenAiBackend(url, "stand-in"), **options.pop("vlm", {})) as vlm:
        yield guided(vlm, search=SMALL, **options)


def queries(count: int) -> Iterator[tuple[Any, Known]]:
    rng = np.random.default_rng(5)
    for i in range(count):
        facts = tuple(
            f if rng.random() < 0.5 else f"not {f}" for f in ("closed", "one", "two", "three") if rng.random() < 0.3
        )
        yield picture_of(near(np.eye(8)[i % 3] * 3, 0.7, rng), seed=i), Known(facts=facts)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_guided_decision_in_every_dialect(dialect: str) -> None:
    with stand_in(dialect, seed=1) as url, over_http(url) as hand:
        tell(url, "/answers", {"BoolGradeImage": {"match": False}})
        decision = hand.predict(D0, A1, method="guided")
        stats = tell(url, "/stats")
    assert decision.failure is None
    doc = decision.to_dict()
    assert doc["search"]["counts"]["BoolGradeImage"] == 1
    assert doc["search"]["counts"]["GradeImage"] >= 8
    assert not [q for q in doc["search"]["questions"] if q["error"]]
    assert decision.next_action is None or decision.next_action in decision.valid_actions
    assert stats["answered"] >= sum(doc["search"]["counts"].values()) + 1
    assert doc["usage"]["calls"] >= stats["answered"]


def test_the_query_picture_is_paid_once() -> None:
    """SPEC C4: at least 45 % of the prompt seconds were paid by an earlier prompt."""
    with stand_in("vllm", seed=1) as url, over_http(url) as hand:
        tell(url, "/answers", {"BoolGradeImage": {"match": False}})
        tell(url, "/reset", {})
        hand.predict(D0, A1, method="guided")
        assert tell(url, "/stats")["shared"] >= 0.45


def test_nothing_impossible_is_answered_under_mixed_faults() -> None:
    with stand_in("vllm", MIXED, seed=3) as url, over_http(url, vlm={"call_seconds": 5}, seconds=20) as hand:
        failed = 0
        for picture, known in queries(12):
            decision = hand.predict(picture, known, method="guided")
            assert decision.next_action is None or decision.next_action in decision.valid_actions
            assert not set(decision.ruled_out) & {decision.next_action}
            failed += decision.failure is not None
        assert tell(url, "/stats")["faults"] > 20
        assert failed <= 1


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_every_reply_is_a_typed_failure_or_an_answer_and_then_it_recovers(fault: str) -> None:
    with stand_in("vllm", f"{fault}=1", seed=2) as url, over_http(url, vlm={"call_seconds": 0.5}, seconds=2.5) as hand:
        started = time.monotonic()
        decision = hand.predict(D0, A1, method="single")
        assert time.monotonic() - started < 4
        if decision.failure is not None:
            assert decision.abstained
            assert decision.failure["kind"] in (
                *("Unreachable", "RateLimited", "ServerFault", "Refused", "NotEnforced", "Malformed", "Truncated"),
                "DeadlineExceeded",
            )
        assert decision.next_action is None or decision.next_action in decision.valid_actions
        tell(url, "/faults", {})
        assert hand.predict(D0, A1, method="single").failure is None


def test_a_server_that_is_not_there_is_told_in_the_decision() -> None:
    with over_http("http://127.0.0.1:9/v1", vlm={"attempts": 2}, seconds=5) as hand:
        decision = hand.predict(D0, A1, method="guided")
    assert decision.abstained
    assert decision.failure is not None
    assert decision.failure["kind"] == "Unreachable"
    assert decision.failure["retryable"] is True
    assert any("was not verified" in w for w in decision.warnings)


def test_a_server_that_takes_one_picture_still_decides() -> None:
    """S20: what does not fit goes onto one sheet."""
    with stand_in("vllm", seed=1, max_images=1) as url, over_http(url) as hand:
        tell(url, "/answers", {"BoolGradeImage": {"match": False}})
        decision = hand.predict(D0, A1, method="guided")
    assert decision.failure is None
    assert decision.to_dict()["search"]["counts"]["GradeImage"] >= 8


def test_a_base_cut_by_turns_asks_the_model_for_the_querys_crop(monkeypatch: pytest.MonkeyPatch) -> None:
    base, large = pictured(), np.full((120, 160, 3), 90, np.uint8)
    large[:12, :16] = D0
    monkeypatch.setattr(type(base), "crop", property(lambda self: "box"))
    with stand_in("vllm", seed=1) as url, Vlm(OpenAiBackend(url, "stand-in")) as vlm:
        tell(url, "/answers", {"SetBoundingBoxParameters": {"x": 0.0, "y": 0.0, "width": 1.0, "height": 0.5}})
        decision = guided(vlm, base).predict(large, A1, method="single")
        assert decision.usage.calls > 1
        assert decision.query["box"] == [0, 0, 160, 60]
        assert not [w for w in decision.warnings if "is made for a VLM" in w]
    decision = guided(None, base).predict(D0, A1)
    assert [w for w in decision.warnings if "the crop 'box' is made for a VLM" in w]
