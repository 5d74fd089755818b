"""How a published network wants its pictures: read from its processor's file, done with Pillow and NumPy alone.

The processors that ship with ``transformers`` give other pixels with torchvision than without it, and an exported
network must run where neither is. So the recipe is carried out here, in one way everywhere; a test holds it against the
Pillow processors of ``transformers``.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import InputError

__all__ = ["FAMILIES", "Recipe"]

_VERSION = 1  # goes into the digest: counts up when the same words come to mean other pixels
_CLIP_MEAN, _CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
_NEAREST, _BILINEAR, _BICUBIC = 0, 2, 3
_FILTERS = (_NEAREST, 1, _BILINEAR, _BICUBIC, 4, 5)

# What a processor's file leaves out, by the network's family.
FAMILIES: dict[str, dict[str, Any]] = {
    "clip": {
        "size": {"shortest_edge": 224},
        "crop_size": {"height": 224, "width": 224},
        "do_center_crop": True,
        "resample": _BICUBIC,
        "image_mean": _CLIP_MEAN,
        "image_std": _CLIP_STD,
    },
    "siglip": {
        "size": {"height": 224, "width": 224},
        "resample": _BICUBIC,
        "image_mean": (0.5, 0.5, 0.5),
        "image_std": (0.5, 0.5, 0.5),
    },
    "siglip2": {
        "patch_size": 16,
        "max_num_patches": 256,
        "resample": _BILINEAR,
        "image_mean": (0.5, 0.5, 0.5),
        "image_std": (0.5, 0.5, 0.5),
    },
}
"""Families of networks (``model_type`` of ``config.json``) and the defaults of their processors."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One way to make a network's input.

    Attributes:
        how: "crop": the shorter side is resized to ``height`` and the middle square cut out; "stretch": the whole
            picture is resized to ``height`` × ``width``; "patches": resized in its own proportions to at most
            ``patches`` squares of ``patch`` pixels.
        height: Of the input [pixels]; 0 for "patches".
        width: Of the input [pixels]; 0 for "patches".
        resample: Pillow's number of the filter.
        scale: Factor of a byte.
        mean: Subtracted, by colour.
        std: Divided by, by colour.
        patch: Side of a patch [pixels]; 0 except for "patches".
        patches: Most patches; 0 except for "patches".
        shorter: For "crop": what the shorter side becomes before the cut [pixels]; else 0.
    """

    how: Literal["crop", "stretch", "patches"]
    height: int
    width: int
    resample: int
    scale: float
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    patch: int = 0
    patches: int = 0
    shorter: int = 0

    @classmethod
    def from_config(cls, family: str, config: Mapping[str, Any]) -> Recipe:
        """The recipe of a processor's file (``preprocessor_config.json``).

        Args:
            family: A key of :data:`FAMILIES`.
            config: The file; what it leaves out is the family's default.

        Raises:
            InputError: It asks for something that is not done here; nothing is guessed.
        """
        asked = FAMILIES[family] | {k: v for k, v in config.items() if v is not None}
        try:
            return cls._read(family, asked)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"the picture processor's file cannot be read: {type(error).__name__}: {error}") from error

    @classmethod
    def _read(cls, family: str, asked: Mapping[str, Any]) -> Recipe:
        normalise = asked.get("do_normalize", True)
        resample = int(asked["resample"])
        common: dict[str, Any] = {
            "resample": resample,
            "scale": float(asked.get("rescale_factor", 1 / 255)) if asked.get("do_rescale", True) else 1.0,
            "mean": _three(asked["image_mean"]) if normalise else (0.0, 0.0, 0.0),
            "std": _three(asked["image_std"]) if normalise else (1.0, 1.0, 1.0),
        }
        if resample not in _FILTERS:
            raise InputError(f"the picture processor asks for the filter {resample}, which Pillow does not have")
        if min(common["std"]) <= 0 or not asked.get("do_resize", True) or asked.get("do_pad"):
            raise InputError(
                "the picture processor asks for no resize, for a border, or divides by zero: not supported"
            )
        if family == "siglip2":
            patch, patches = int(asked["patch_size"]), int(asked["max_num_patches"])
            if min(patch, patches) < 1:
                raise InputError(f"the picture processor asks for {patches} patches of {patch} pixels")
            return cls("patches", 0, 0, patch=patch, patches=patches, **common)
        size, crop = _size(asked["size"], shorter=family == "clip"), asked.get("do_center_crop", False)
        if "shortest_edge" in size:
            cut = _size(asked["crop_size"], shorter=False) if crop else {}
            shorter = int(size["shortest_edge"])
            if "longest_edge" in size or not cut or max(int(cut["height"]), int(cut["width"])) > shorter:
                raise InputError("the picture processor does not end in one fixed size: not supported")
            return cls("crop", int(cut["height"]), int(cut["width"]), shorter=shorter, **common)
        height, width = int(size["height"]), int(size["width"])
        if crop and _size(asked["crop_size"], shorter=False) != {"height": height, "width": width}:
            raise InputError("the picture processor stretches and then cuts: not supported")
        return cls("stretch", height, width, **common)

    def to_dict(self) -> dict[str, Any]:
        """The recipe as plain data, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Recipe:
        """The recipe that :meth:`to_dict` wrote.

        Raises:
            InputError: It is another one's, or a later version's.
        """
        try:
            return cls(**{**data, "mean": _three(data["mean"]), "std": _three(data["std"])})
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"the recipe of a picture's input cannot be read: {error}") from error

    @property
    def digest(self) -> str:
        """Twelve hex digits that change with anything that changes the input."""
        text = json.dumps({"version": _VERSION, **self.to_dict()}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def batch(self, pictures: Sequence[NDArray[np.uint8]]) -> dict[str, NDArray[Any]]:
        """The network's input by the names that ``transformers`` gives it.

        Args:
            pictures: Each (H, W, 3) RGB, of any size.

        Returns:
            ``pixel_values`` (n, 3, height, width) float32; for "patches" (n, patches, patch · patch · 3), with
            ``pixel_attention_mask`` (n, patches) int32 and ``spatial_shapes`` (n, 2) int64, rows and columns of patches.
        """
        if self.how == "patches":
            return self._patches(pictures)
        pixels = np.empty((len(pictures), 3, self.height, self.width), np.float32)
        for picture, out in zip(pictures, pixels, strict=True):
            np.copyto(out, self._resized(picture).transpose(2, 0, 1))
            self._normalise(out, (3, 1, 1))
        return {"pixel_values": pixels}

    def _resized(self, picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
        from PIL import Image

        image, box = Image.fromarray(picture), None
        if self.how == "crop":
            # The square is cut while resizing: the same pixels as cutting it afterwards, and a picture of 1 × 3000
            # does not become one of 224 × 672,000 on the way.
            w, h = image.size
            new_w, new_h = (
                (_longer(self.shorter, w, h), self.shorter) if w > h else (self.shorter, _longer(self.shorter, h, w))
            )
            left, top = (new_w - self.width) // 2, (new_h - self.height) // 2
            box = (left * w / new_w, top * h / new_h, (left + self.width) * w / new_w, (top + self.height) * h / new_h)
        return np.asarray(image.resize((self.width, self.height), Image.Resampling(self.resample), box=box))

    def _normalise(self, pixels: NDArray[np.float32], shape: tuple[int, ...]) -> None:
        """``(byte · scale − mean) / std`` in place."""
        std = np.array(self.std, np.float64)
        pixels *= (self.scale / std).astype(np.float32).reshape(shape)
        pixels -= (np.array(self.mean) / std).astype(np.float32).reshape(shape)

    def _patches(self, pictures: Sequence[NDArray[np.uint8]]) -> dict[str, NDArray[Any]]:
        from PIL import Image

        p = self.patch
        values = np.zeros((len(pictures), self.patches, p * p * 3), np.float32)
        mask = np.zeros((len(pictures), self.patches), np.int32)
        shapes = np.empty((len(pictures), 2), np.int64)
        for i, picture in enumerate(pictures):
            rows, columns = shapes[i] = self._grid(*picture.shape[:2])
            image = Image.fromarray(picture).resize((int(columns) * p, int(rows) * p), Image.Resampling(self.resample))
            pixels = np.array(image, np.float32)
            self._normalise(pixels, (1, 1, 3))
            tiles = pixels.reshape(rows, p, columns, p, 3).transpose(0, 2, 1, 3, 4)
            values[i, : rows * columns] = tiles.reshape(rows * columns, -1)
            mask[i, : rows * columns] = 1
        return {"pixel_values": values, "pixel_attention_mask": mask, "spatial_shapes": shapes}

    def _grid(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of patches: the largest scale, to 1e-5, under which they are not too many."""
        low, high = 1e-6, 100.0
        while high - low >= 1e-5:
            middle = (low + high) / 2
            rows, columns = (max(1, math.ceil(side * middle / self.patch)) for side in (height, width))
            low, high = (middle, high) if rows * columns <= self.patches else (low, middle)
        rows, columns = (max(1, math.ceil(side * low / self.patch)) for side in (height, width))
        return rows, columns


def _longer(shorter: int, long: int, short: int) -> int:
    return int(shorter * long / short)


def _size(value: Any, *, shorter: bool) -> dict[str, int]:
    """A size as the files write it: a number, or sides by name. A number is the shorter side or a square's."""
    if isinstance(value, int):
        return {"shortest_edge": value} if shorter else {"height": value, "width": value}
    return {k: int(v) for k, v in dict(value).items() if v is not None}


def _three(values: Any) -> tuple[float, float, float]:
    red, green, blue = (float(v) for v in values)
    return red, green, blue
