"""The probe: finds out what a model honours, whatever it promises. The ids are those of FIELD_REPORTS 1 and 2."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sagehand.errors import (
    DeadlineExceeded,
    InputError,
    RateLimited,
    Refused,
    ServerFault,
    Truncated,
    Unreachable,
    VlmError,
)
from sagehand.vlm.base import RawReply, Request, Usage
from sagehand.vlm.boxes import Convention, smart_resize
from sagehand.vlm.probe import ProbeReport, probe
from sagehand.vlm.probe_boxes import SIZES, BoxAnswer, iou, judge_boxes, red_square
from sagehand.vlm.profile import Profile, builtin_profile
from vlm_servers import DIALECTS, stand_in


@dataclass
class FakeModel:
    """A model that sees the red square, and a server in front of it with habits of its own."""

    model: str = "fake"
    boxes: Convention = "0-1000"
    factor: int | None = None  # pixels are those after a resize to its multiples
    cap: int = 16384 * 28**2
    error: float = 0.0  # of a corner, as a share of the side
    blind: bool = False
    constrained: str | None = "response_format"
    tools: bool = True
    required: bool = True
    thinks: bool = False
    switch: str = "works"  # what enable_thinking: false does: works, ignored, breaks, refused
    most_images: int = 99
    rambles: bool = False  # prose runs on to the limit
    needs: int = 0  # tokens of a thought before the answer
    caps: tuple[int, ...] = ()
    text_only_error: VlmError | None = None
    hiccups: list[VlmError] = field(default_factory=list)
    asked: int = 0

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(3)

    async def close(self) -> None:
        pass

    async def complete(self, request: Request) -> RawReply:
        self.asked += 1
        self.caps += (request.max_tokens,)
        if self.hiccups:
            raise self.hiccups.pop(0)
        if request.max_tokens < self.needs:
            return RawReply(None, "I think and think", (), "length", Usage(10, request.max_tokens, 1))
        content = request.messages[-1]["content"]
        pictures = [p["image_url"]["url"] for p in content if p["type"] == "image_url"]
        text = "\n".join(p["text"] for p in content if p["type"] == "text")
        if pictures and self.text_only_error:
            raise self.text_only_error
        if len(pictures) > self.most_images:
            raise Refused(f"http://fake answered 400: at most {self.most_images} images", status=400)
        off = request.options.get("chat_template_kwargs", {}).get("enable_thinking") is False
        if off and self.switch == "refused":
            raise Refused("http://fake answered 400: unknown field", status=400)
        thought = "I think first." if self.thinks and not (off and self.switch in ("works", "breaks")) else None
        bound = not (off and self.switch == "breaks")
        schema: Any = None
        if bound and self.constrained == "response_format" and request.mode == "json_schema":
            schema = request.schema
        if bound and self.constrained == "structured_outputs" and "structured_outputs" in request.options:
            schema = request.options["structured_outputs"]["json"]
        if request.mode == "tools":
            if not self.tools:
                raise Refused("http://fake answered 400: no tools here", status=400)
            if self.required or self.asked % 2:
                return self._said(None, thought, (("reply", self._filled(request.schema, pictures)),))
        elif schema is None and "JSON schema" in text:
            schema = json.loads(text[text.index("{") :])
        if schema is None and self.rambles:
            return RawReply("Hello. I am happy to say hello, and", thought, (), "length", Usage(10, 64, 1))
        return self._said(self._filled(schema, pictures) if schema else "hello", thought)

    def _said(self, content: str | None, thought: str | None, calls: tuple[tuple[str, str], ...] = ()) -> RawReply:
        return RawReply(content, thought, calls, "stop", Usage(10, 5, 1))

    def _filled(self, schema: Any, pictures: list[str]) -> str:
        names = list(schema["properties"])
        if names == ["code"]:
            return json.dumps({"code": schema["properties"]["code"]["enum"][0]})
        box = [1.0, 2.0, 3.0, 4.0] if self.blind else self._box(pictures[-1])
        if names == ["box_2d"]:
            return json.dumps({"box_2d": [box[i] for i in ((1, 0, 3, 2) if self.boxes == "yx-1000" else range(4))]})
        return json.dumps(dict(zip(names, box, strict=True)))

    def _box(self, url: str) -> list[float]:
        image = np.asarray(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).convert("RGB")).astype(int)
        red = (image[..., 0] > 180) & (image[..., 1] < 90)
        rows, columns = np.flatnonzero(red.any(axis=1)), np.flatnonzero(red.any(axis=0))
        height, width = image.shape[:2]
        box = np.array([columns[0] / width, rows[0] / height, (columns[-1] + 1) / width, (rows[-1] + 1) / height])
        box = box + self._rng.normal(0, self.error, 4) * (box[2] - box[0])
        if self.boxes == "pixels":
            if self.factor:
                height, width = smart_resize(height, width, self.factor, 4 * self.factor**2, self.cap)
            return [round(float(v), 1) for v in box * [width, height, width, height]]
        unit = {"0-1": 1.0, "0-999": 999.0}.get(self.boxes, 1000.0)
        return [round(float(v) * unit, 3) for v in box]


def probed(backend: Any, **changes: Any) -> ProbeReport:
    return asyncio.run(probe(backend, **changes))


def said(report: ProbeReport, what: str) -> str:
    return next(f.answered for f in report.findings if f.what == what)


@pytest.mark.parametrize("error", [0.0, 0.04])
@pytest.mark.parametrize("boxes", ["0-1", "0-1000", "yx-1000", "pixels"])
def test_b06_the_square_tells_the_convention(boxes: Convention, error: float) -> None:
    report = probed(FakeModel(boxes=boxes, error=error))
    assert report.profile.boxes == boxes
    assert report.profile.probed
    assert next(f.honoured for f in report.findings if f.what == "box check")


@pytest.mark.parametrize("factor", [28, 32])
def test_pixels_after_a_resize_tell_the_patches(factor: int) -> None:
    profile = probed(FakeModel(boxes="pixels", factor=factor)).profile
    assert (profile.boxes, profile.factor, profile.min_side) == ("pixels", factor, 2 * factor)
    assert probed(FakeModel(boxes="pixels")).profile.factor == builtin_profile("x").factor


def test_b06_a_servers_own_pixel_cap_shows() -> None:
    """Right on one server and wrong on another: the cap is found, and pictures are sent below it."""
    cap = 256 * 28**2
    report = probed(FakeModel(model="qwen2.5vl:7b", boxes="pixels", factor=28, cap=cap))
    assert (report.profile.boxes, report.profile.max_pixels) == ("pixels", cap)
    assert next(f.honoured for f in report.findings if f.what == "box check")


def test_the_familys_convention_wins_where_two_fit_alike() -> None:
    assert probed(FakeModel(model="deepseek-vl2", boxes="0-999")).profile.boxes == "0-999"
    assert probed(FakeModel(model="qwen3-vl", boxes="0-999", error=0.03)).profile.boxes == "0-1000"


def test_a_family_that_is_served_in_another_convention_is_corrected() -> None:
    assert probed(FakeModel(model="qwen3-vl-8b", boxes="0-1")).profile.boxes == "0-1"


def test_b09_a_model_that_does_not_see_is_noticed() -> None:
    report = probed(FakeModel(model="qwen3-vl", blind=True))
    assert "may not see pictures" in said(report, "boxes")
    assert report.profile.boxes == "0-1000"  # of the family
    assert "box check" not in [f.what for f in report.findings]


def test_a_text_only_model_behind_llama_cpp() -> None:
    report = probed(FakeModel(text_only_error=ServerFault("http://fake answered 500: no mmproj")), call_seconds=0.1)
    assert report.profile.max_images == 0
    assert "no mmproj" in said(report, "images")
    assert said(report, "boxes") == "not tried: pictures are refused"


@pytest.mark.parametrize("most", [1, 2, 3, 5, 11, 16])
def test_s20_how_many_pictures(most: int) -> None:
    report = probed(FakeModel(most_images=most))
    assert report.profile.max_images == most
    assert ("at least 16" in said(report, "images")) is (most == 16)


@pytest.mark.parametrize(
    ("habits", "modes", "constrained"),
    [
        ({}, ("json_schema", "tools", "text"), "response_format"),
        ({"constrained": "structured_outputs"}, ("json_schema", "tools", "text"), "structured_outputs"),
        ({"constrained": None}, ("tools", "text"), "response_format"),
        ({"constrained": None, "required": False}, ("text",), "response_format"),
        ({"tools": False}, ("json_schema", "text"), "response_format"),
        ({"constrained": None, "tools": False}, ("text",), "response_format"),
    ],
)
def test_s01_s06_only_what_is_kept_to_becomes_a_rung(
    habits: dict[str, Any], modes: tuple[str, ...], constrained: str
) -> None:
    report = probed(FakeModel(**habits))
    assert (report.profile.modes, report.profile.constrained) == (modes, constrained)
    assert report.profile.required is (habits.get("tools", True) and habits.get("required", True))
    assert report.profile.boxes == "0-1000"  # asked for by whichever rung there is


@pytest.mark.parametrize(
    ("switch", "thinking", "words"),
    [
        ("works", False, "thought is gone and the schema is kept to"),
        ("ignored", None, "taken and ignored"),
        ("breaks", None, "no longer kept to"),
        ("refused", None, "refused: 400: unknown field"),
    ],
)
def test_s02_thinking_is_switched_off_only_where_the_constraint_survives(
    switch: str, thinking: bool | None, words: str
) -> None:
    report = probed(FakeModel(thinks=True, switch=switch))
    assert report.profile.thinking is thinking
    assert words in said(report, "thinking")
    assert report.profile.modes[0] == "json_schema"


def test_a_model_that_does_not_think_is_left_alone() -> None:
    report = probed(FakeModel())
    assert report.profile.thinking is None
    assert said(report, "thinking") == "no thoughts: nothing is switched"


def test_hiccups_are_no_findings() -> None:
    hiccups: list[VlmError] = [RateLimited("429", retry_after=0.01), ServerFault("500"), Unreachable("reset")]
    model = FakeModel(hiccups=hiccups)
    report = probed(model, call_seconds=0.2)
    assert report.profile.modes == ("json_schema", "tools", "text")
    assert report.usage.calls == model.asked  # those that failed are counted too


def test_prose_that_runs_on_is_an_answer_and_costs_no_more() -> None:
    """Seen on a real llama.cpp server with a small model: it says hello for as long as it may."""
    model = FakeModel(rambles=True, required=False)
    report = probed(model)
    assert report.profile.modes == ("json_schema", "tools", "text")
    assert max(model.caps) <= 128


def test_s21_a_thought_that_was_cut_off_gets_more_room() -> None:
    report = probed(FakeModel(needs=500, thinks=True, switch="ignored"))
    assert report.profile.modes == ("json_schema", "tools", "text")
    assert report.profile.boxes == "0-1000"
    with pytest.raises(Truncated, match="did not end within 1024 tokens"):
        probed(FakeModel(needs=5000))


@pytest.mark.parametrize("error", [Refused("answered 401"), Unreachable("gone"), DeadlineExceeded("late")])
def test_a_server_that_gives_no_answer_at_all_is_an_error(error: VlmError) -> None:
    with pytest.raises(type(error)):
        probed(FakeModel(hiccups=[error] * 9), call_seconds=0.01)


def test_a_senseless_number_of_pictures_is_refused() -> None:
    with pytest.raises(InputError, match="most_images is 0"):
        probed(FakeModel(), most_images=0)


def test_the_report_says_what_was_asked_and_answered_and_holds_the_profile() -> None:
    seen = []
    report = probed(FakeModel(), on_finding=seen.append)
    assert tuple(seen) == report.findings
    doc = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert Profile.from_dict(doc["profile"]) == report.profile
    assert all(f["asked"] and f["answered"] for f in doc["findings"])
    assert doc["requests"] == report.usage.calls
    assert set(report.profile.evidence) == {f"{f.what}: {f.answered}" for f in report.findings}


def test_without_answers_nothing_is_found() -> None:
    assert judge_boxes([], Profile()).convention is None


def test_lists_alone_are_enough_to_tell_the_convention() -> None:
    answers = []
    for size in SIZES:
        _, (x1, y1, x2, y2) = red_square(size)
        answers.append(BoxAnswer(size, (x1, y1, x2, y2), (1000 * y1, 1000 * x1, 1000 * y2, 1000 * x2), named=False))
    assert judge_boxes(answers, Profile()).convention == "yx-1000"


def test_the_drawn_square_is_where_it_is_said_to_be() -> None:
    for size in SIZES:
        pixels, truth = red_square(size)
        rows, columns = np.nonzero(pixels[..., 0].astype(int) - pixels[..., 1] > 100)
        found = (
            columns.min() / size[0],
            rows.min() / size[1],
            (columns.max() + 1) / size[0],
            (rows.max() + 1) / size[1],
        )
        assert iou(found, truth) == pytest.approx(1)
        assert abs(truth[0] - truth[1]) > 0.1  # a transposed box shows
    assert iou((0, 0, 1, 1), (2, 2, 3, 3)) == iou((1, 1, 0, 0), (0, 0, 1, 1)) == 0


# on the stand-in ------------------------------------------------------------------------------------------------------


def on_stand_in(dialect: str, boxes: str, faults: str = "", **flags: object) -> ProbeReport:
    pytest.importorskip("openai", reason="the extra vlm is not installed")
    from sagehand.vlm.server import OpenAiBackend

    async def run(url: str) -> ProbeReport:
        backend = OpenAiBackend(url, "stand-in", profile=builtin_profile("stand-in"))
        try:
            return await probe(backend)
        finally:
            await backend.close()

    with stand_in(dialect, faults, see="square", boxes=boxes, **flags) as url:
        return asyncio.run(run(url))


def test_ollama_takes_required_and_ignores_it() -> None:
    faults = "fenced=.05,think=.05,strings=.05,http429=.05,truncated=.05"
    report = on_stand_in("ollama", "0-1000", faults, max_images=5)
    profile = report.profile
    assert (profile.boxes, profile.required, profile.max_images, profile.thinking) == ("0-1000", False, 5, None)
    assert profile.modes == ("json_schema", "tools", "text")
    assert re.match(r"ignored: \d+ of 1\d replies are calls", said(report, "required"))


@pytest.mark.slow
@pytest.mark.parametrize("boxes", ["0-1", "0-1000", "pixels", "pixels-28", "yx-1000"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_with_every_convention(dialect: str, boxes: str) -> None:
    report = on_stand_in(dialect, boxes, max_images=7)
    profile = report.profile
    assert profile.boxes == boxes.removesuffix("-28")
    assert profile.max_images == 7
    assert profile.modes == (("text",) if dialect == "bare" else ("json_schema", "tools", "text"))
    assert profile.required is (dialect in ("openai", "vllm", "vllm-thinking", "sglang"))
    assert profile.thinking is None
    if dialect == "vllm-thinking":
        assert "no longer kept to" in said(report, "thinking")
    assert next(f.honoured for f in report.findings if f.what == "box check")
