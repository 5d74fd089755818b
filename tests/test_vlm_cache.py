"""The cache: complete valid answers only, under all that they depend on (SPEC C4)."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import Field, create_model

from sagehand.errors import SettingsError, VlmError
from sagehand.vlm.ask import Vlm
from sagehand.vlm.base import ImagePart, Question, RawReply, ToolCall
from sagehand.vlm.cache import ReplyCache
from sagehand.vlm.profile import Profile
from sagehand.vlm.scripted import ScriptedBackend
from sagehand.vlm.tools import Tool


class Grade(Tool):
    """Grade it."""

    score: int = Field(ge=0, le=10)


PIXELS = np.random.default_rng(0).integers(0, 255, (60, 80, 3), dtype=np.uint8)
Q = Question("Grade", "You compare.", ["How alike?", ImagePart(PIXELS, "id0", "query")], [Grade])
GOOD = '{"reasoning":"Same housing.","call":{"tool":"Grade","score":"7"}}'


def asked(
    cache: ReplyCache, question: Question = Q, *, model: str = "m", profile: Profile | None = None
) -> tuple[ToolCall, int]:
    """The answer, and the requests that it took."""
    backend = ScriptedBackend(lambda _: GOOD, model=model)
    with Vlm(backend, cache=cache, profile=profile) as vlm:
        return vlm.ask(question), len(backend.requests)


def test_the_same_question_is_asked_once() -> None:
    with ReplyCache() as cache:
        first, sent = asked(cache)
        again, sent_again = asked(cache)
    assert (sent, sent_again) == (1, 0)
    assert again.tool == first.tool == Grade(score=7)
    assert (again.reasoning, again.repairs, again.mode) == (first.reasoning, first.repairs, first.mode)
    assert (again.cached, again.attempts, again.usage.calls) == (True, 0, 0)
    assert not first.cached


@pytest.mark.parametrize(
    "change",
    [
        {"system": "You grade."},
        {"parts": ["How alike, really?", Q.parts[1]]},
        {"parts": [Q.parts[0], ImagePart(PIXELS, "id1", "query")]},
        {"parts": [Q.parts[0], ImagePart(PIXELS, "id0", "candidate")]},
        {"parts": [Q.parts[1], Q.parts[0]]},
        {"parts": [Q.parts[0], ImagePart(np.tile(PIXELS, (3, 3, 1)), "id0", "query")]},  # another encoded size
        {"max_tokens": 99},
        {"tools": [create_model("Grade", __base__=Tool, score=(int, Field(ge=0, le=9)))]},
        {"tools": [create_model("Grade", __base__=Tool, __doc__="Grade!", score=(int, Field(ge=0, le=10)))]},
    ],
)
def test_whatever_an_answer_depends_on_is_in_the_key(change: dict[str, Any]) -> None:
    with ReplyCache() as cache:
        asked(cache)
        assert asked(cache, replace(Q, **change))[1] == 1
        assert asked(cache, replace(Q, name="only a log's name"))[1] == 0


def test_model_and_options_are_in_the_key_and_the_rung_is_not() -> None:
    with ReplyCache() as cache:
        asked(cache)
        assert asked(cache, model="other")[1] == 1
        assert asked(cache, profile=Profile(thinking=False))[1] == 1
        assert asked(cache, profile=Profile(modes=("text",)))[1] == 0


def test_errors_are_not_kept() -> None:
    with ReplyCache() as cache:
        for reply in (RawReply(GOOD, finish_reason="length"), RawReply("prose"), VlmError("down")):
            with Vlm(ScriptedBackend([reply] * 4), cache=cache) as vlm, pytest.raises(VlmError):
                vlm.ask(Q)
        assert len(cache) == 0


def test_a_file_serves_later_runs(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    for sent in (1, 0):
        with ReplyCache(path) as cache:
            assert asked(cache)[1] == sent
    with ReplyCache(path) as one, ReplyCache(path) as two:  # two processes would do the same
        asked(one, replace(Q, system="new"))
        assert asked(two, replace(Q, system="new"))[1] == 0


@pytest.mark.parametrize(
    "doc", ["no JSON", "{}", '{"tool":"Grade","arguments":{"score":70}}', '{"tool":"Other","arguments":{}}']
)
def test_what_does_not_fit_is_asked_again(tmp_path: Path, doc: str) -> None:
    path = tmp_path / "replies.sqlite"
    with ReplyCache(path) as cache:
        asked(cache)
    file = sqlite3.connect(path)
    file.execute("UPDATE replies SET reply = ?", (doc,))
    file.commit()
    file.close()
    with ReplyCache(path) as cache:
        assert asked(cache)[1] == 1
        assert asked(cache)[1] == 0


def test_another_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("my notes, longer than a header of a database would be " * 10)
    other = tmp_path / "other.sqlite"
    file = sqlite3.connect(other)
    file.execute("CREATE TABLE mine (x)")
    file.close()
    for path in (text, other, tmp_path / "no" / "folder.sqlite"):
        before = path.read_bytes() if path.exists() else None
        with pytest.raises(SettingsError, match="reply cache"):
            ReplyCache(path)
        assert (path.read_bytes() if path.exists() else None) == before


def test_a_locked_file_costs_a_second_asking_and_no_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagehand.vlm.cache._BUSY_SECONDS", 0.05)
    path = tmp_path / "replies.sqlite"
    with ReplyCache(path) as cache:
        file = sqlite3.connect(path, isolation_level=None)
        file.execute("BEGIN EXCLUSIVE")
        assert asked(cache)[0].tool == Grade(score=7)
        assert cache.skipped > 0
        file.execute("ROLLBACK")
        file.close()


def test_what_is_kept_is_plain_json(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    with ReplyCache(path) as cache:
        asked(cache)
    file = sqlite3.connect(path)
    ((key, text),) = file.execute("SELECT key, reply FROM replies").fetchall()
    file.close()
    assert len(key) == 64
    assert json.loads(text)["arguments"] == {"score": 7}
