"""Pictures as they are sent: sizes, byte budget, tokens. The ids are those of FIELD_REPORTS 2 and 3."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from sagehand.errors import InputError, PictureTooLarge
from sagehand.vlm.boxes import smart_resize
from sagehand.vlm.images import EncodedImage, encode, image_tokens
from sagehand.vlm.profile import Profile, builtin_profile

MODELS = ("Qwen2-VL-7B", "Qwen2.5-VL-7B", "Qwen3-VL-8B", "gemini-2.5-pro", "gpt-4o", "some-model")


def noise(height: int, width: int) -> np.ndarray:
    return np.random.default_rng([height, width]).integers(0, 256, (height, width, 3), dtype=np.uint8)


def decoded(image: EncodedImage) -> Image.Image:
    head, _, data = image.data_url.partition(";base64,")
    picture = Image.open(io.BytesIO(base64.b64decode(data, validate=True)))
    picture.load()
    assert head == f"data:image/{picture.format.lower()}"  # type: ignore[union-attr]
    assert picture.mode == "RGB"
    assert picture.size == (image.width, image.height) == (image.frame.width, image.frame.height)
    return picture


@pytest.mark.parametrize("size", [(27, 332), (30, 305), (1, 1000), (690, 15420), (1, 1), (2, 1), (50_000, 3)])
@pytest.mark.parametrize("model", MODELS)
def test_b09_no_side_too_short_and_no_shape_too_long(size: tuple[int, int], model: str) -> None:
    profile = builtin_profile(model)
    image = encode(np.full((size[1], size[0], 3), 90, np.uint8), profile)
    decoded(image)
    assert min(image.width, image.height) >= 2 * profile.patch * profile.merge
    assert max(image.width, image.height) <= 1024
    assert max(image.width, image.height) < profile.max_aspect * min(image.width, image.height)
    left, top, wide, high = image.frame.content
    assert (left, top) == (0, 0)
    assert 1 <= wide <= image.width
    assert 1 <= high <= image.height


@settings(deadline=None, max_examples=120)
@given(
    st.integers(1, 2500),
    st.integers(1, 2500),
    st.sampled_from(MODELS),
    st.sampled_from([224, 512, 1024, 1500]),
    st.sampled_from([256, 1280, 16384]),
)
def test_what_is_sent_is_a_fixed_point_of_the_models_resize(
    width: int, height: int, model: str, long_side: int, tokens: int
) -> None:
    known = builtin_profile(model)
    profile = Profile(patch=known.patch, min_side=known.min_side, max_pixels=tokens * known.factor**2)
    image = encode(np.zeros((height, width, 3), np.uint8), profile, long_side=long_side)
    sent = image.height, image.width
    assert smart_resize(*sent, profile.factor, profile.min_pixels, profile.max_pixels) == sent
    assert max(sent) <= long_side
    _, _, wide, high = image.frame.content
    if (wide, high) == (image.width, image.height) and min(width, height) >= 300 and long_side >= 1024:
        # each side is off by less than a patch, as after the model's own resize
        bent = profile.factor / image.width + profile.factor / image.height
        assert abs(image.width / image.height - width / height) < bent * width / height


def test_i07_the_byte_budget_counts_base64() -> None:
    pixels = noise(4000, 5000)  # 20 MP that no encoder makes small
    for most in (1_000_000, 100_000, 20_000):
        image = encode(pixels, builtin_profile("qwen3-vl"), max_bytes=most)
        decoded(image)
        assert len(image.data_url) <= most
    assert any("byte budget" in note for note in image.notes)
    with pytest.raises(PictureTooLarge, match="do not fit into 300 bytes"):
        encode(pixels[:300, :300], builtin_profile("qwen3-vl"), max_bytes=300)


@pytest.mark.parametrize("model", MODELS)
def test_i10_tokens_follow_the_formula(model: str) -> None:
    profile = builtin_profile(model)
    image = encode(noise(768, 1024), profile)
    if profile.token_rule == "patches":
        patches = (image.width / profile.factor) * (image.height / profile.factor)
        assert abs(image.tokens - patches) < 0.1 * patches
    else:
        # OpenAI: 85 + 170 a tile of 512; Gemini: 258 a tile of 768
        assert image.tokens == {"openai-tiles": 85 + 170 * 4, "gemini-tiles": 258 * 2}[profile.token_rule]
    assert image.tokens == image_tokens(image.width, image.height, profile)


def test_a_photo_goes_as_jpeg_and_a_drawing_as_png_with_its_exact_colours() -> None:
    profile = builtin_profile("qwen3-vl")
    assert encode(noise(320, 320), profile).data_url.startswith("data:image/jpeg;")
    drawing = np.full((320, 320, 3), 255, np.uint8)
    drawing[100:200, 100:200] = (222, 28, 28)
    sent = encode(drawing, profile)
    assert sent.data_url.startswith("data:image/png;")
    assert np.array_equal(np.asarray(decoded(sent)), drawing)
    assert sent.notes == ()


def test_the_same_picture_is_always_encoded_alike() -> None:
    """Servers reuse the prefix of a prompt only where it is the same to the byte."""
    pixels = noise(300, 400)
    assert encode(pixels, builtin_profile("x")).data_url == encode(pixels.copy(), builtin_profile("x")).data_url


def test_a_view_that_is_not_contiguous_is_taken() -> None:
    pixels = noise(200, 300)
    assert (
        encode(pixels[:, ::-1], builtin_profile("x")).data_url
        == encode(pixels[:, ::-1].copy(), builtin_profile("x")).data_url
    )


@pytest.mark.parametrize("bad", [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3)), np.zeros((0, 4, 3), np.uint8)])
def test_pixels_of_another_form_are_refused(bad: np.ndarray) -> None:
    with pytest.raises(InputError, match="not uint8"):
        encode(bad, builtin_profile("x"))


def test_a_long_side_below_the_models_shortest_is_refused() -> None:
    with pytest.raises(InputError, match="long_side 32"):
        encode(noise(50, 50), builtin_profile("qwen3-vl"), long_side=32)
