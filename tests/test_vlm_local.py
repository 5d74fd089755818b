"""A VLM in process: a tiny random Qwen3-VL from disk, through the real loading code and the real constraint."""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sagehand.errors import DeadlineExceeded, InputError, MissingExtra, Refused, Truncated, Unreachable
from sagehand.judge import vlm_tools as tools
from sagehand.vlm.ask import Vlm
from sagehand.vlm.base import ImagePart, Question, Request, ToolCall
from sagehand.vlm.local import LocalBackend
from sagehand.vlm.profile import Profile
from sagehand.vlm.prompt import PictureShelf, render
from sagehand.vlm.tools import Tool

NEEDED = ("torch", "transformers", "xgrammar", "safetensors")
MARKS = (
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in NEEDED), reason=f"needs {', '.join(NEEDED)}"
    ),
    pytest.mark.slow,
    pytest.mark.torch,
    pytest.mark.xdist_group("local"),
)


def needs_torch(test: Any) -> Any:
    """The real libraries, and a few seconds."""
    for mark in MARKS:
        test = mark(test)
    return test


CROP = tools.crop_tool(12)
PREDICT = tools.prediction_tool(("pry", "unscrew"), ("pry", "unscrew", "cut"), ("phone", "smoke_detector"))
SETS: dict[str, tuple[type[Tool], ...]] = {
    "grade": (tools.GradeImage,),
    "compare": (tools.CompareImages,),
    "crop": (CROP, tools.SetGridSize, tools.Reset, tools.Finish),
    "box": (tools.bounding_box_tool(1000, 1000, "in thousandths"), tools.Finish),
    "leaf": (tools.LeafFinalScore,),
    "predict": (PREDICT,),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tiny_qwen3vl import save_tiny

    return save_tiny(tmp_path_factory.mktemp("weights") / "Tiny-Qwen3-VL")


@pytest.fixture(scope="module")
def backend(folder: Path) -> Iterator[LocalBackend]:
    backend = LocalBackend(folder)
    yield backend
    asyncio.run(backend.close())


class Kept:
    """The same backend for many ``Vlm``: closing one of them leaves the weights."""

    def __init__(self, backend: LocalBackend, modes: tuple[Any, ...] = ("json_schema",)) -> None:
        self.model, self.profile = backend.model, replace(backend.profile, modes=modes)
        self.complete = backend.complete

    async def close(self) -> None:
        """Nothing."""


def shown(seed: int, size: tuple[int, int] = (120, 96)) -> ImagePart:
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return ImagePart(pixels, f"noise {seed}", f"picture {seed}")


def question(kinds: tuple[type[Tool], ...], *seeds: int, most: int = 256) -> Question:
    return Question("test", "You look at pictures.", ["Look.", *map(shown, seeds)], kinds, most)


def request(backend: LocalBackend, asked: Question, **more: Any) -> Request:
    prompt = render(asked, PictureShelf(backend.profile), max_images=8)
    fields = {
        "mode": "json_schema", "schema": prompt.schema, "tools": [], "max_tokens": asked.max_tokens, "timeout": 60.0,
    }  # fmt: skip
    fields |= more
    return Request(messages=prompt.messages(fields["mode"]), **fields)


def logits(backend: LocalBackend, asked: Question) -> Any:
    import torch

    weights = backend._writer._weights  # type: ignore[union-attr]
    with torch.inference_mode():
        return weights.model(**weights.inputs(request(backend, asked).messages, {})).logits[0, -1].numpy()


@needs_torch
@pytest.mark.parametrize("name", SETS)
def test_every_answer_is_a_valid_call_at_the_first_try(backend: LocalBackend, name: str) -> None:
    kinds = SETS[name]
    with Vlm(Kept(backend), concurrency=1) as vlm:
        for seeds in ((1,), (2, 3), ()):
            call = vlm.ask(question(kinds, *seeds))
            assert type(call.tool) in kinds
            assert call.attempts == 1
            assert call.mode == "json_schema"
            assert call.usage.completion > 5
        assert vlm.events["truncated"] == vlm.events["malformed"] == 0


@needs_torch
def test_two_at_once_are_both_answered_and_one_after_the_other(backend: LocalBackend) -> None:
    with Vlm(Kept(backend), concurrency=2) as vlm:
        calls = vlm.ask_many([question(SETS["grade"], 1), question(SETS["compare"], 2, 3)])
        alone = vlm.ask(question(SETS["grade"], 1))
    assert all(isinstance(call, ToolCall) for call in calls)
    assert calls[0].tool == alone.tool  # type: ignore[union-attr]  # greedy
    names = [t.name for t in threading.enumerate() if t.name.startswith("sagehand-local-vlm")]
    assert len(names) == 1


@needs_torch
def test_a_picture_is_seen_and_costs_what_the_profile_says(backend: LocalBackend) -> None:
    with Vlm(Kept(backend), concurrency=1) as vlm:
        image = vlm.encoded(shown(1))
        one, two, three = (vlm.ask(question(SETS["grade"], *s)).usage.prompt for s in ((1,), (1, 2), (1, 2, 3)))
    patches = (image.width // 32) * (image.height // 32)
    assert patches + 2 < two - one < patches + 20, "its patches, the two marks around them, and its label"
    assert three - two == two - one
    same, again, other = (logits(backend, question(SETS["grade"], seed)) for seed in (1, 1, 5))
    np.testing.assert_array_equal(same, again)
    assert np.abs(same - other).max() > 1e-4


@needs_torch
def test_profile_and_name_come_from_the_weights(folder: Path, backend: LocalBackend, tmp_path: Path) -> None:
    profile = backend.profile
    assert (profile.family, profile.boxes, profile.patch, profile.merge) == ("qwen3-vl", "0-1000", 16, 2)
    assert (profile.min_pixels, profile.max_pixels) == (64 * 64, 512 * 512), "of this image processor, not the family's"
    assert profile.modes == ("json_schema", "text")
    assert backend.model.startswith("Tiny-Qwen3-VL@")
    other = tmp_path / folder.name
    other.mkdir()
    for file in folder.iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    assert LocalBackend(other).model == backend.model
    data = bytearray((other / "model.safetensors").read_bytes())
    data[-2] ^= 1
    (other / "model.safetensors").write_bytes(data)
    assert LocalBackend(other).model != backend.model


@needs_torch
def test_a_cut_reply_is_truncated(backend: LocalBackend) -> None:
    reply = asyncio.run(backend.complete(request(backend, question(SETS["grade"], 1, most=5))))
    assert reply.finish_reason == "length"
    assert reply.usage.completion == 5
    with Vlm(Kept(backend), concurrency=1, attempts=1) as vlm, pytest.raises(Truncated):
        vlm.ask(question(SETS["grade"], 1, most=5))


@needs_torch
def test_a_deadline_stops_the_writing(backend: LocalBackend) -> None:
    endless = replace(request(backend, question(SETS["grade"], 1)), mode="text", max_tokens=8000)
    started = time.monotonic()
    with pytest.raises(DeadlineExceeded, match="not finished"):
        asyncio.run(backend.complete(replace(endless, timeout=0.5)))
    assert time.monotonic() - started < 10
    with pytest.raises(DeadlineExceeded, match="turn"):
        asyncio.run(backend.complete(replace(endless, timeout=0.0)))


@needs_torch
def test_cancelling_stops_the_writing_and_frees_the_worker(backend: LocalBackend) -> None:
    endless = replace(request(backend, question(SETS["grade"], 1)), mode="text", max_tokens=8000, timeout=600.0)
    short = request(backend, question(SETS["grade"], 1))

    async def cancelled() -> str:
        task = asyncio.create_task(backend.complete(endless))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(60):
            return (await backend.complete(short)).content or ""

    assert asyncio.run(cancelled()).startswith('{"reasoning":')


@needs_torch
def test_what_cannot_be_asked_is_refused(backend: LocalBackend) -> None:
    fine = request(backend, question(SETS["grade"], 1))
    text = base64.b64encode(b"no picture").decode()
    for bad, told in (
        (replace(fine, mode="tools"), "native tools"),
        (replace(fine, max_tokens=20_000), "context length"),
        (replace(fine, messages=[{"role": "user", "content": "<|image_pad|>"}]), "places for pictures"),
        (replace(fine, messages=[_with("data:image/png;base64," + text)]), "cannot be read"),
        (replace(fine, messages=[_with("http://127.0.0.1/a.png")]), "data URL"),
    ):
        with pytest.raises(Refused, match=told):
            asyncio.run(backend.complete(bad))


def _with(url: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}


@needs_torch
def test_changed_sampling_is_seeded_and_leaves_the_callers_seed_alone(backend: LocalBackend) -> None:
    import torch

    warm = replace(request(backend, question(SETS["leaf"], 1)), mode="text", max_tokens=12, temperature=0.7)
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    first, again = (asyncio.run(backend.complete(warm)).content for _ in range(2))
    assert first == again
    assert torch.equal(torch.random.get_rng_state(), before)
    assert asyncio.run(backend.complete(replace(warm, temperature=0.0))).content != first


@needs_torch
def test_closed_means_closed(folder: Path) -> None:
    backend = LocalBackend(folder)
    asked = request(backend, question(SETS["grade"]))
    with Vlm(backend, concurrency=1) as vlm:
        vlm.ask(question(SETS["grade"]))
    with pytest.raises(Unreachable, match="closed"):
        asyncio.run(backend.complete(asked))


@needs_torch
def test_weights_that_are_not_there_or_of_another_family(folder: Path, tmp_path: Path) -> None:
    from transformers import BertConfig

    with pytest.raises(InputError, match="cannot be loaded") as error:
        LocalBackend(tmp_path / "missing")
    assert "download" in error.value.hint
    with pytest.raises(InputError, match="cannot be loaded"):
        LocalBackend("some-body/not-in-the-cache")
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    BertConfig().save_pretrained(tmp_path)
    with pytest.raises(InputError, match="'bert', not of the Qwen-VL family"):
        LocalBackend(tmp_path)


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import sys

    for name in ("xgrammar", "transformers"):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, name, None)
            with pytest.raises(MissingExtra, match=r"sagehand\[local\]"):
                LocalBackend(tmp_path)


@needs_torch
def test_four_bits_need_bitsandbytes(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "bitsandbytes" else real(name, *rest)
    )
    with pytest.raises(MissingExtra, match=r"bitsandbytes.*sagehand\[fourbit\]"):
        LocalBackend(folder, four_bit=True)


def test_a_vlm_takes_the_profile_of_its_backend() -> None:
    class Named:
        model = "any"
        profile = Profile(family="from the backend")

        async def complete(self, request: Request) -> Any:
            raise AssertionError("nothing is asked")

        async def close(self) -> None:
            pass

    with Vlm(Named()) as vlm:
        assert vlm.profile.family == "from the backend"
