"""A real vLLM: the engine, its grammar back end, its batching and its refusals; the weights are tiny and random."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from sagehand.errors import Refused, Truncated
from sagehand.judge.questions import CropTurn, PredictQuestion
from sagehand.judge.vlm import VlmJudge
from sagehand.judge.vlm_tools import GradeImage
from sagehand.picture import Box
from sagehand.vlm.ask import Vlm
from sagehand.vlm.base import ImagePart, Mode, Question, ToolCall
from sagehand.vlm.profile import Profile, builtin_profile
from sagehand.vlm.server import OpenAiBackend
from vllm_serve import MODEL, vllm
from vlm_doubles import CELL, candidate, picture, query

pytest.importorskip("openai", reason="needs sagehand[vlm]")
pytest.importorskip("safetensors", reason="needs sagehand[torch]")
pytestmark = [pytest.mark.slow, pytest.mark.vllm, pytest.mark.xdist_group("vllm")]
QWEN = builtin_profile("qwen3-vl")
ROUNDS = 3


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with vllm(tmp_path_factory.mktemp("vllm")) as url:
        yield url


def connected(url: str, *, profile: Profile = QWEN, model: str = MODEL, **more: Any) -> Vlm:
    return Vlm(OpenAiBackend(url, model, profile=profile), **{"concurrency": 8, "call_seconds": 240, **more})


def shown(i: int) -> ImagePart:
    one = picture(i, (128, 96))
    return ImagePart(one.pixels, one.pixel_id, f"picture {i}")


def turn(strategy: Any, i: int) -> CropTurn:
    full = picture(i, (192, 128))
    cells = (3, 4) if strategy == "grid" else (0, 0)
    return CropTurn(full, full, strategy, *cells, Box(0, 0, *full.size), 1, 5, "The device.")


@pytest.mark.parametrize("mode", ["json_schema", "tools"])
def test_crops_gradings_comparisons_and_predictions_at_once_are_valid(url: str, mode: Mode) -> None:
    with connected(url, profile=replace(QWEN, modes=(mode,))) as vlm, ThreadPoolExecutor(8) as pool:
        judge = VlmJudge(vlm, lambda name: picture(ord(name), (96, 96)), CELL)
        valid = ("pry", "unscrew")
        asked = {
            "grid": lambda i: judge.crop_move(turn("grid", i)),
            "box": lambda i: judge.crop_move(turn("box", i)),
            "first": lambda i: judge.bool_grade(query(picture=picture(i)), candidate("a")),
            "grade": lambda i: judge.grade(query(picture=picture(i)), candidate("b")),
            "compare": lambda i: judge.compare(query(picture=picture(i)), candidate("c"), candidate("d")),
            "predict": lambda i: judge.predict(
                PredictQuestion(query(picture=picture(i)), (candidate("e"),), {}, {}, valid)
            ),
        }
        waiting = {name: [pool.submit(ask, i) for i in range(ROUNDS)] for name, ask in asked.items()}
        got: dict[str, list[Any]] = {name: [one.result() for one in ones] for name, ones in waiting.items()}
        usage, events = vlm.usage, vlm.events
    for move in (*got["grid"], *got["box"]):
        assert move.tool in ("Crop", "SetGridSize", "Reset", "Finish", "SetBoundingBoxParameters")
        assert move.cost.calls >= 1
        for value in move.arguments.values():
            assert 0 <= value <= 12
    assert all(one.accepted in (True, False) for one in got["first"])
    assert all(0 <= one.score <= 10 for one in got["grade"])
    assert all(one.better in ("first", "second") for one in got["compare"])
    assert all(one.next_action in (*valid, None) for one in got["predict"])
    assert events["answered"] == ROUNDS * len(asked)
    assert events["malformed"] == events["not enforced"] == 0, "constrained by the server, not mended by us"
    assert usage.prompt > 200 * usage.calls, "the server counts text and pictures"


def test_a_reply_that_is_cut_is_truncated(url: str) -> None:
    with connected(url, attempts=1) as vlm, pytest.raises(Truncated):
        vlm.ask(Question("cut", "", ["Grade.", shown(1)], [GradeImage], 4))


def test_more_pictures_than_the_server_takes_are_put_on_a_sheet(url: str) -> None:
    pictures = [shown(i) for i in range(10)]
    with connected(url, profile=replace(QWEN, max_images=16)) as vlm:
        call = vlm.ask(Question("many", "", ["Grade.", *pictures], [GradeImage], 64))
        assert isinstance(call, ToolCall)
        assert vlm.profile.max_images == 8, "learnt from the refusal"
    assert any("on one sheet" in note for note in call.repairs)


def test_a_wrong_model_name_is_refused_with_a_remedy(url: str) -> None:
    with connected(url, model="other") as vlm, pytest.raises(Refused, match="404") as error:
        vlm.ask(Question("wrong", "", ["Grade."], [GradeImage], 64))
    assert "other" in error.value.hint
    assert error.value.attempts == 1
