"""The cache: complete valid answers only, under all that they depend on (SPEC C4)."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import Field, create_model

from sagehand.errors import SettingsError, VlmError
from sagehand.vlm.ask import Vlm
from sagehand.vlm.base import ImagePart, Question, RawReply, Request, ToolCall
from sagehand.vlm.cache import ReplyCache
from sagehand.vlm.profile import Profile
from sagehand.vlm.scripted import ScriptedBackend, prompt_text
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


def test_a_locked_file_costs_a_second_asking_and_no_decision(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    with ReplyCache(path) as cache, closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("BEGIN EXCLUSIVE")
        began = time.monotonic()
        assert asked(cache)[0].tool == Grade(score=7)
        assert time.monotonic() - began < 2
        assert cache.skipped == 1, "a reader does not wait for a writer, a writer does"
        file.execute("ROLLBACK")
        assert asked(cache)[1] == 1
        assert asked(cache)[1] == 0


def test_a_locked_file_does_not_hold_up_the_other_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is waited for beside the event loop, which ticks on."""
    monkeypatch.setattr("sagehand.vlm.cache._BUSY_SECONDS", 0.5)
    path = tmp_path / "replies.sqlite"
    ticks: list[float] = []

    async def script(request: Request) -> str:
        if "tick" in prompt_text(request):
            for _ in range(40):
                ticks.append(time.monotonic())
                await asyncio.sleep(0.02)
        return GOOD

    with ReplyCache(path) as cache, closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("BEGIN EXCLUSIVE")
        with Vlm(ScriptedBackend(script), cache=cache) as vlm:
            assert not any(isinstance(a, VlmError) for a in vlm.ask_many([replace(Q, system="tick"), Q]))
    assert cache.skipped == 2
    assert max(b - a for a, b in pairwise(ticks)) < 0.4


def test_a_file_that_is_locked_when_it_is_opened_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagehand.vlm.cache._OPEN_SECONDS", 0.1)
    path = tmp_path / "replies.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("BEGIN EXCLUSIVE")
        with ReplyCache(path) as cache:
            assert (cache.path, cache.skipped) == (None, 1)
            assert "is locked; answers are kept in memory" in str(cache.note)
            assert [asked(cache)[1] for _ in range(2)] == [1, 0]


def test_several_processes_may_make_the_same_file(tmp_path: Path) -> None:
    code = (
        "import sys, time, sqlite3\nfrom pathlib import Path\nfrom sagehand.vlm.cache import ReplyCache\n"
        "for line in sys.stdin:\n"
        "    cache = ReplyCache(Path(line.strip()))\n"
        "    print(cache.note, len(cache), flush=True)\n"
        "    cache.close()\n"
    )
    pipe = subprocess.PIPE
    crowd = [subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True) for _ in range(6)]
    try:
        for turn in range(8):
            for one in crowd:
                assert one.stdin is not None
                one.stdin.write(f"{tmp_path / f'{turn}.sqlite'}\n")
                one.stdin.flush()
            assert [one.stdout.readline() for one in crowd if one.stdout] == ["None 0\n"] * 6
    finally:
        for one in crowd:
            one.communicate()


def test_a_file_damaged_in_use_costs_answers_and_no_decision(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    with ReplyCache(path) as cache:
        asked(cache)
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xa5" * (len(whole) - 4096))
    with ReplyCache(path) as cache:  # its first page is in order
        assert asked(cache)[0].tool == Grade(score=7)
        assert cache.skipped == 2
    path.write_bytes(whole[:100] + b"\xa5" * (len(whole) - 100))
    with pytest.raises(SettingsError, match="is damaged"):
        ReplyCache(path)


def test_the_server_is_in_the_key() -> None:
    """Two servers may serve different weights under one name."""
    with ReplyCache() as cache:
        for url, expected in (("http://a/v1", 1), ("http://b/v1", 1), ("http://a/v1", 0), (None, 1)):
            backend = ScriptedBackend(lambda _: GOOD, model="m")
            if url is not None:
                backend.base_url = url  # type: ignore[attr-defined]
            with Vlm(backend, cache=cache) as vlm:
                vlm.ask(Q)
            assert len(backend.requests) == expected, url


def test_an_answer_by_changed_sampling_is_not_kept() -> None:
    blanks = RawReply('{"reasoning":"r"' + " \n" * 2000, finish_reason="length")
    with ReplyCache() as cache:
        with Vlm(ScriptedBackend([blanks, GOOD]), cache=cache) as vlm:
            assert any(note.startswith("not greedy") for note in vlm.ask(Q).repairs)
        assert len(cache) == 0
        assert asked(cache)[1] == 1


def test_what_is_kept_is_plain_json(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    with ReplyCache(path) as cache:
        asked(cache)
    file = sqlite3.connect(path)
    ((key, text),) = file.execute("SELECT key, reply FROM replies").fetchall()
    file.close()
    assert len(key) == 64
    assert json.loads(text)["arguments"] == {"score": 7}
