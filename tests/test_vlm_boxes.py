"""Boxes in every convention, to pixels of the original and back. The ids are those of FIELD_REPORTS 2."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagehand.errors import InputError, Malformed
from sagehand.picture import Box
from sagehand.vlm.boxes import (
    CONVENTIONS,
    Convention,
    Frame,
    convention_limits,
    convention_words,
    named_corners,
    read_box,
    say_box,
    smart_resize,
)
from sagehand.vlm.images import encode
from sagehand.vlm.probe_boxes import iou
from sagehand.vlm.profile import builtin_profile

QWEN = {28: (4 * 28**2, 16384 * 28**2), 32: (4 * 32**2, 16384 * 32**2)}


def mapped_iou(first: Box, second: Box) -> float:
    return iou(tuple(map(float, first.as_tuple())), tuple(map(float, second.as_tuple())))  # type: ignore[arg-type]


@pytest.mark.parametrize(("height", "width"), [(1920, 1080), (663, 407), (480, 640), (3000, 4000)])
@pytest.mark.parametrize("model", ["Qwen2.5-VL-7B-Instruct", "Qwen3-VL-8B", "gemini-2.5-flash", "gpt-4o"])
def test_b01_model_pixels_are_our_pixels_after_the_resize(height: int, width: int, model: str) -> None:
    profile = builtin_profile(model)
    frame = encode(np.zeros((height, width, 3), np.uint8), profile).frame
    # the model's own resize leaves the encoded image alone, so that what it says is in our pixels
    assert smart_resize(frame.height, frame.width, profile.factor, profile.min_pixels, profile.max_pixels) == (
        frame.height,
        frame.width,
    )
    truth = Box(width // 3, height // 5, width // 3 + width // 2, height // 5 + height // 2)
    said = tuple(float(round(v)) if profile.boxes == "pixels" else v for v in say_box(truth, profile.boxes, frame))
    read = read_box(dict(zip(("x1", "y1", "x2", "y2"), said, strict=True)), profile.boxes, frame)
    assert mapped_iou(read.box, truth) > 0.99
    assert read.repairs == ()


def test_b02_thousandths_of_a_large_picture() -> None:
    frame = encode(np.zeros((3000, 4000, 3), np.uint8), builtin_profile("qwen3-vl")).frame
    assert read_box([500, 500, 1000, 1000], "0-1000", frame).box == Box(2000, 1500, 4000, 3000)


def test_b04_corners_are_sorted_and_clipped_and_both_are_recorded() -> None:
    frame = Frame.plain(100, 100)
    turned = read_box([0.9, 0.2, 0.1, 0.8], "0-1", frame)
    assert (turned.box, turned.repairs) == (Box(10, 20, 90, 80), ("x corners sorted",))
    over = read_box([-0.1, 0, 1.2, 1], "0-1", frame)
    assert (over.box, over.repairs) == (Box(0, 0, 100, 100), ("x clipped at the image's edge",))
    assert over.said == (-0.1, 0, 1.2, 1)


def test_b05_an_empty_box_is_refused_or_grown_and_one_outside_is_refused() -> None:
    frame = Frame.plain(200, 100)
    with pytest.raises(Malformed, match="too small: 0x0 pixels") as caught:
        read_box([0.5, 0.5, 0.5, 0.5], "0-1", frame)
    assert "from 0 to 1" in caught.value.hint
    grown = read_box([0.5, 0.5, 0.5, 0.5], "0-1", frame, min_side=32, tiny="grow")
    assert (grown.box, grown.repairs) == (Box(84, 34, 116, 66), ("grown around its centre, it was too small",))
    with pytest.raises(Malformed, match="outside the image"):
        read_box([1.2, 1.2, 1.4, 1.4], "0-1", frame, tiny="grow")


def test_b08_a_gemini_list_is_y_first_and_names_hold_in_every_convention() -> None:
    frame = Frame.plain(1000, 1000)
    assert read_box([100, 500, 200, 700], "yx-1000", frame).box == Box(500, 100, 700, 200)
    named = {"ymin": 100.0, "xmin": 500.0, "ymax": 200.0, "xmax": 700.0}
    assert read_box(named, "yx-1000", frame).box == read_box(named, "0-1000", frame).box == Box(500, 100, 700, 200)


def test_another_familys_numbers_are_refused_and_not_clipped_into_something() -> None:
    with pytest.raises(Malformed, match="far outside") as caught:
        read_box([0.0, 0.0, 700.0, 900.0], "0-1", Frame.plain(1000, 1000))
    assert caught.value.hint == "x is from 0 to 1"
    with pytest.raises(Malformed, match="too small"):  # fractions read as thousandths
        read_box([0.1, 0.2, 0.6, 0.9], "0-1000", Frame.plain(1000, 1000))


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ([1, 2, 3], "3 numbers"),
        ({"x1": 0.1, "y1": 0.2, "x2": 0.3}, "has x1, y1, x2"),
        ([float("nan"), 0, 1, 1], "not a finite number"),
        ([True, 0, 1, 1], "True"),
        (["0.1", 0, 1, 1], "'0.1'"),
        ({"x": 0.1, "y": None, "width": 1, "height": 1}, "y is None"),
    ],
)
def test_no_number_is_guessed(values: Any, word: str) -> None:
    with pytest.raises(Malformed, match=word):
        read_box(values, "0-1", Frame.plain(10, 10))


def test_top_left_and_size_is_read_too() -> None:
    """The parameters of the paper's SetBoundingBoxParameters (paper A §2.2)."""
    read = read_box({"x": 0.25, "y": 0.5, "width": 0.5, "height": 0.25}, "0-1", Frame.plain(400, 200))
    assert read.box == Box(100, 100, 300, 150)
    assert read.fractions == (0.25, 0.5, 0.5, 0.25)


def test_padding_is_no_part_of_the_picture() -> None:
    frame = Frame(64, 1024, (0, 0, 32, 1024), (320, 10240))
    assert read_box([0.25, 0, 1, 0.5], "0-1", frame).box == Box(160, 0, 320, 5120)
    assert "padding cut off" in read_box([0.25, 0, 1, 0.5], "0-1", frame).repairs
    with pytest.raises(Malformed, match="in the padding"):
        read_box([0.6, 0, 1, 0.5], "0-1", frame)


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_the_prompt_says_the_same_range_that_is_read(convention: Convention) -> None:
    frame = Frame.plain(616, 448)
    words = convention_words(convention, frame)
    for most in convention_limits(convention, frame):
        assert f"{most:g}" in words


@st.composite
def boxes_in_pictures(draw: st.DrawFn) -> tuple[Box, int, int]:
    width, height = draw(st.integers(1, 5000)), draw(st.integers(1, 5000))
    left, top = draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1))
    return Box(left, top, draw(st.integers(left + 1, width)), draw(st.integers(top + 1, height))), width, height


@settings(deadline=None, max_examples=150)
@given(boxes_in_pictures(), st.sampled_from(CONVENTIONS), st.integers(1, 40), st.integers(1, 40), st.booleans())
def test_there_and_back(given_box: tuple[Box, int, int], convention: Convention, w: int, h: int, padded: bool) -> None:
    truth, width, height = given_box
    content = (0, 0, max(1, 28 * w // 2), max(1, 28 * h // 3)) if padded else (0, 0, 28 * w, 28 * h)
    frame = Frame(28 * w, 28 * h, content, (width, height))
    said = say_box(truth, convention, frame)
    values = (said[1], said[0], said[3], said[2]) if convention == "yx-1000" else said
    read = read_box(values, convention, frame, min_side=1)
    assert mapped_iou(read.box, truth) > 0.99
    assert read.fractions == pytest.approx(
        (truth.left / width, truth.top / height, truth.width / width, truth.height / height)
    )
    assert Box.from_fractions(*read.fractions, (width, height)) == read.box  # what stands above gets the same box


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True) | st.floats(-0.3, 1.3), min_size=4, max_size=4),
    st.sampled_from(CONVENTIONS),
    st.sampled_from(["refuse", "grow"]),
    st.integers(1, 400),
    st.integers(1, 400),
    st.integers(1, 64),
    st.floats(0, 0.5),
)
def test_whatever_is_said_the_box_lies_in_the_picture_or_is_refused(
    values: list[float], convention: Convention, tiny: Any, width: int, height: int, side: int, area: float
) -> None:
    frame = Frame.plain(width, height)
    try:
        read = read_box(values, convention, frame, min_side=side, min_area=area, tiny=tiny)
    except Malformed:
        return
    box = read.box
    assert box.right <= width
    assert box.bottom <= height
    assert box.width >= min(side, width)
    assert box.height >= min(side, height)
    assert box.area >= area * width * height - 1e-6


@pytest.fixture(scope="module")
def qwen_rule() -> Callable[..., tuple[int, int]]:
    """The rule as Qwen publishes it; its torch and torchvision are not needed for it."""
    names = ("torch", "torchvision", "torchvision.io", "torchvision.transforms")
    with mock.patch.dict(sys.modules, {name: mock.MagicMock(spec=ModuleType, name=name) for name in names}):
        for name in names:
            sys.modules[name].__dict__.update(
                io=mock.MagicMock(), transforms=mock.MagicMock(), InterpolationMode=mock.MagicMock(), Tensor=object
            )
        try:
            from qwen_vl_utils.vision_process import smart_resize as rule  # type: ignore[import-not-found,unused-ignore]
        except ModuleNotFoundError:
            pytest.skip("qwen-vl-utils is not installed")
    return rule  # type: ignore[no-any-return,unused-ignore]


@settings(deadline=None, max_examples=400)
@given(
    st.integers(1, 6000),
    st.integers(1, 6000),
    st.sampled_from([28, 32]),
    st.sampled_from([None, 256, 512, 768, 1280]),
)
def test_the_resize_rule_is_qwens(
    qwen_rule: Callable[..., tuple[int, int]], height: int, width: int, factor: int, tokens: int | None
) -> None:
    least, most = QWEN[factor][0], tokens * factor**2 if tokens else QWEN[factor][1]
    if max(height, width) > 200 * min(height, width):
        with pytest.raises(InputError, match="200 times"):
            smart_resize(height, width, factor, least, most)
        with pytest.raises(ValueError, match="aspect ratio"):
            qwen_rule(height, width, factor, least, most)
        return
    ours = smart_resize(height, width, factor, least, most)
    assert ours == tuple(qwen_rule(height, width, factor, least, most))
    if max(ours) <= 200 * min(ours) and least <= ours[0] * ours[1] <= most:
        assert smart_resize(*ours, factor, least, most) == ours


@pytest.mark.parametrize(
    ("size", "factor", "wanted"),
    [
        ((1080, 1920), 28, (1092, 1932)),
        ((1080, 1920), 32, (1088, 1920)),
        ((434, 368), 28, (448, 364)),
        ((406, 406), 28, (392, 392)),
    ],
)
def test_the_resize_rule_at_published_sizes(size: tuple[int, int], factor: int, wanted: tuple[int, int]) -> None:
    """FIELD_REPORTS, conventions: 406 rounds half to even; other languages' rounding gives 420."""
    assert smart_resize(*size, factor, *QWEN[factor]) == wanted


@pytest.mark.parametrize("bad", [(0, 10, 28), (10, -1, 28), (10, 10, 0)])
def test_the_resize_rule_refuses_nonsense(bad: tuple[int, int, int]) -> None:
    with pytest.raises(InputError):
        smart_resize(*bad, 1, 100)
    with pytest.raises(InputError):
        smart_resize(10, 10, 28, 100, 99)


def test_boxes_are_read_as_supervision_reads_them() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says at import that OpenCV is not installed
        parsers = pytest.importorskip("supervision.detection.vlm", reason="supervision is not installed")
    rng = np.random.default_rng(5)
    for _ in range(40):
        width, height = (int(v) for v in rng.integers(50, 4000, 2))
        low, high = rng.integers(0, 450, 2), rng.integers(550, 999, 2)
        four = [int(v) for v in (low[0], low[1], high[0], high[1])]
        sent = (28 * int(rng.integers(2, 40)), 28 * int(rng.integers(2, 40)))
        frame = Frame(*sent, (0, 0, *sent), (width, height))
        pixels = [
            four[0] * sent[0] // 1000,
            four[1] * sent[1] // 1000,
            four[2] * sent[0] // 1000,
            four[3] * sent[1] // 1000,
        ]
        qwen = json.dumps([{"bbox_2d": four, "label": "a"}])
        resized = json.dumps([{"bbox_2d": pixels, "label": "a"}])
        gemini = json.dumps([{"box_2d": four, "label": "a"}])
        deepseek = f"<|ref|>a<|/ref|><|det|>[{four}]<|/det|>"
        theirs: list[tuple[Convention, list[int], Any]] = [
            ("0-1000", four, parsers.from_qwen_3_vl(qwen, (width, height))[0]),
            ("pixels", pixels, parsers.from_qwen_2_5_vl(resized, sent, (width, height))[0]),
            ("yx-1000", four, parsers.from_google_gemini_2_0(gemini, (width, height))[0]),
            ("0-999", four, parsers.from_deepseek_vl_2(deepseek, (width, height))[0]),
        ]
        for convention, values, wanted in theirs:
            ours = read_box(values, convention, frame).box.as_tuple()
            assert np.abs(np.array(ours) - wanted[0]).max() <= 0.51, (convention, values)


def test_a_list_keeps_its_order_where_x_is_first() -> None:
    assert named_corners([1, 2, 3, 4], "0-1000") == (1, 2, 3, 4)
    assert named_corners([1, 2, 3, 4], "yx-1000") == (2, 1, 4, 3)
