"""A network's own recipe for its input: read from its processor's file, and the same pixels as the processor's."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from sagehand.embed.recipe import FAMILIES, Recipe
from sagehand.errors import InputError

# as published with openai/clip-vit-base-patch32 and google/siglip2-large-patch16-512
OPENAI = {
    "crop_size": 224,
    "do_center_crop": True,
    "do_normalize": True,
    "do_resize": True,
    "feature_extractor_type": "CLIPFeatureExtractor",
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
    "resample": 3,
    "size": 224,
}
GOOGLE = {
    "do_convert_rgb": None,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_processor_type": "SiglipImageProcessor",
    "image_std": [0.5, 0.5, 0.5],
    "processor_class": "SiglipProcessor",
    "resample": 2,
    "rescale_factor": 0.00392156862745098,
    "size": {"height": 512, "width": 512},
}
SIZES = [(480, 640), (640, 480), (224, 224), (97, 301), (1, 1), (3, 500), (600, 7), (1080, 1920)]


def picture(seed: int, height: int, width: int) -> NDArray[np.uint8]:
    coarse = np.random.default_rng(seed).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    return np.array(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))


def test_the_published_files_are_read() -> None:
    clip = Recipe.from_config("clip", OPENAI)
    assert (clip.how, clip.shorter, clip.height, clip.width, clip.resample) == ("crop", 224, 224, 224, 3)
    assert clip == Recipe.from_config("clip", {})
    siglip = Recipe.from_config("siglip", GOOGLE)
    assert (siglip.how, siglip.height, siglip.width, siglip.resample) == ("stretch", 512, 512, 2)
    assert Recipe.from_config("siglip2", {}).patches == 256


@pytest.mark.parametrize("family", FAMILIES)
def test_a_recipe_survives_its_dict(family: str) -> None:
    recipe = Recipe.from_config(family, {})
    assert Recipe.from_dict(recipe.to_dict()) == recipe
    with pytest.raises(InputError, match="cannot be read"):
        Recipe.from_dict(recipe.to_dict() | {"later": 1})


@pytest.mark.parametrize(
    "change",
    [
        {"resample": 2},
        {"image_mean": [0.4, 0.4, 0.4]},
        {"size": 336, "crop_size": 336},
        {"do_rescale": False},
        {"size": 256},
    ],
)
def test_the_digest_changes_with_what_changes_the_pixels(change: dict[str, Any]) -> None:
    assert Recipe.from_config("clip", OPENAI | change).digest != Recipe.from_config("clip", OPENAI).digest
    assert (
        Recipe.from_config("clip", OPENAI | {"processor_class": "Other"}).digest
        == Recipe.from_config("clip", OPENAI).digest
    )


@pytest.mark.parametrize(
    ("family", "change", "text"),
    [
        ("clip", {"do_center_crop": False}, "one fixed size"),
        ("clip", {"size": {"shortest_edge": 224, "longest_edge": 300}}, "one fixed size"),
        ("clip", {"crop_size": 300}, "one fixed size"),
        ("clip", {"do_resize": False}, "not supported"),
        ("siglip", {"do_center_crop": True, "crop_size": 100}, "stretches and then cuts"),
        ("siglip", {"do_pad": True}, "not supported"),
        ("siglip", {"image_std": [0.5, 0.0, 0.5]}, "divides by zero"),
        ("siglip", {"resample": 9}, "filter 9"),
        ("siglip", {"image_mean": [0.5]}, "cannot be read"),
        ("siglip", {"size": "large"}, "cannot be read"),
        ("siglip2", {"max_num_patches": 0}, "0 patches"),
    ],
)
def test_what_is_not_done_is_refused_and_not_guessed(family: str, change: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        Recipe.from_config(family, change)


def test_a_line_does_not_become_a_huge_picture_on_the_way() -> None:
    line = np.full((1, 200_000, 3), 200, np.uint8)  # resized first and cut afterwards, it would be one of 30 GB
    assert np.ptp(Recipe.from_config("clip", {}).batch([line])["pixel_values"], axis=(2, 3)).max() < 1e-6


_NO_TRANSFORMERS = importlib.util.find_spec("transformers") is None or importlib.util.find_spec("torch") is None


@pytest.mark.torch
@pytest.mark.skipif(_NO_TRANSFORMERS, reason="torch and transformers are not installed")
@pytest.mark.parametrize("family", FAMILIES)
def test_the_pixels_are_those_of_the_networks_own_processor(family: str) -> None:
    from transformers import CLIPImageProcessorPil, Siglip2ImageProcessorPil, SiglipImageProcessorPil

    processor = {
        "clip": lambda: CLIPImageProcessorPil(),
        "siglip": lambda: SiglipImageProcessorPil(size={"height": 96, "width": 96}, resample=2),
        "siglip2": lambda: Siglip2ImageProcessorPil(),
    }[family]()
    recipe = Recipe.from_config(family, processor.to_dict())
    pictures = [picture(i, *size) for i, size in enumerate(SIZES)]
    ours = recipe.batch(pictures)
    for i, pixels in enumerate(pictures):
        theirs = processor(images=[pixels], input_data_format="channels_last", return_tensors="np")
        for name, values in ours.items():
            # in either of Pillow's two passes a byte may be rounded the other way: 2 steps of 255, by the smallest std
            step = 2.01 / 255 / min(recipe.std) if name == "pixel_values" else 0
            difference = np.abs(values[i].astype(np.float64) - theirs[name][0])
            assert difference.max() <= step, (SIZES[i], name)
            if max(SIZES[i]) < 10 * min(SIZES[i]):  # Pillow may swap the passes of a long one
                assert np.mean(difference > 1e-5) < 1e-3, (SIZES[i], name)
