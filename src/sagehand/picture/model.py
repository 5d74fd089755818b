"""A picture, a box in it, and a crop that knows where it came from.

Pixel coordinates are those of the original picture as it is looked at (EXIF turn applied): x to the right, y down, the
corner of the top left pixel at (0, 0).
"""

from __future__ import annotations

import hashlib
import math
import operator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import DepthError, InputError, PictureError

__all__ = ["Box", "Crop", "Picture"]

_Scalar = TypeVar("_Scalar", bound=np.generic)
_EDGE = 1e-6  # pixels [px]; keeps 0.1 + 0.2 from spilling over into the next pixel


@dataclass(frozen=True, slots=True)
class Box:
    """A half-open box in whole pixels of the original: ``left <= x < right``, ``top <= y < bottom``.

    Attributes:
        left: First column [px].
        top: First row [px].
        right: One past the last column [px].
        bottom: One past the last row [px].

    Raises:
        InputError: The box is empty, starts left of or above the picture, or is not in whole pixels.
    """

    left: int
    top: int
    right: int
    bottom: int

    def __post_init__(self) -> None:
        for name in ("left", "top", "right", "bottom"):
            value = getattr(self, name)
            try:
                object.__setattr__(self, name, operator.index(value))
            except TypeError as error:
                raise InputError(f"box: {name} is {value!r}, not a whole number of pixels") from error
        if self.left < 0 or self.top < 0:
            raise InputError(f"box {self.as_tuple()} starts outside the picture", hint="left and top are 0 or more")
        if self.right <= self.left or self.bottom <= self.top:
            raise InputError(f"box {self.as_tuple()} is empty", hint="the order is left, top, right, bottom")

    @classmethod
    def from_fractions(cls, x: float, y: float, w: float, h: float, size: tuple[int, int]) -> Box:
        """The smallest box that covers a rectangle given in fractions of the picture, cut off at the picture's edge.

        Args:
            x: Left edge, 0 to 1 of the width.
            y: Top edge, 0 to 1 of the height.
            w: Width, as a fraction of the picture's width.
            h: Height, as a fraction of the picture's height.
            size: (width, height) of the picture [px].

        Raises:
            InputError: A number is not finite, or nothing of the rectangle lies in the picture.
        """
        said = f"box of fractions ({x:g}, {y:g}, {w:g}, {h:g})"
        if not all(map(math.isfinite, (x, y, w, h))):
            raise InputError(f"{said} holds a number that is not finite", hint="x, y, w, h are fractions from 0 to 1")
        if w <= 0 or h <= 0:
            raise InputError(f"{said} is empty", hint="the order is x, y, width, height")
        width, height = size
        left, right = math.floor(x * width + _EDGE), math.ceil((x + w) * width - _EDGE)
        top, bottom = math.floor(y * height + _EDGE), math.ceil((y + h) * height - _EDGE)
        # A sliver thinner than the edge tolerance still covers the pixel it lies in.
        left, right = max(0, left), min(width, max(right, left + 1))
        top, bottom = max(0, top), min(height, max(bottom, top + 1))
        if left >= right or top >= bottom:
            raise InputError(f"{said} lies outside the picture", hint="x, y, w, h are fractions from 0 to 1")
        return cls(left, top, right, bottom)

    @property
    def width(self) -> int:
        """Width [px]."""
        return self.right - self.left

    @property
    def height(self) -> int:
        """Height [px]."""
        return self.bottom - self.top

    @property
    def area(self) -> int:
        """Area [px²]."""
        return self.width * self.height

    def as_tuple(self) -> tuple[int, int, int, int]:
        """(left, top, right, bottom) [px]."""
        return self.left, self.top, self.right, self.bottom


@dataclass(frozen=True, eq=False)
class Picture:
    """A normalised picture. Two pictures are the same picture where their ``pixel_id`` is the same.

    Attributes:
        pixels: (H, W, 3) uint8 RGB, C-contiguous; held as a view that cannot be written.
        name: The file's name, or "array" or "bytes".
        data: The bytes of the original file, or None for an array or a crop.
        depth: (H, W) float32 [m], NaN = no reading; None where there is no depth image.
        notes: What the normaliser did that a user should know, as in "first of 3 frames".

    Raises:
        PictureError: ``pixels`` has another shape, type or memory layout, or holds no pixel.
        DepthError: ``depth`` is not (H, W) float32.
    """

    pixels: NDArray[np.uint8]
    name: str = "array"
    data: bytes | None = None
    depth: NDArray[np.float32] | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        pixels = self.pixels
        well_laid = pixels.ndim == 3 and pixels.shape[2] == 3 and pixels.flags.c_contiguous
        if pixels.dtype != np.uint8 or not well_laid or pixels.size == 0:
            raise PictureError(
                f"{self.name}: pixels are {pixels.dtype} {pixels.shape}, not contiguous uint8 (H, W, 3)",
                hint="sagehand.picture.load brings any picture into this form",
            )
        object.__setattr__(self, "pixels", _read_only(pixels))
        if self.depth is not None:
            if self.depth.shape != pixels.shape[:2] or self.depth.dtype != np.float32:
                raise DepthError(
                    f"{self.name}: depth is {self.depth.dtype} {self.depth.shape}, not float32 {pixels.shape[:2]}",
                    hint="sagehand.picture.load reads depth with its unit",
                )
            object.__setattr__(self, "depth", _read_only(self.depth))

    @property
    def width(self) -> int:
        """Width [px]."""
        return int(self.pixels.shape[1])

    @property
    def height(self) -> int:
        """Height [px]."""
        return int(self.pixels.shape[0])

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) [px]."""
        return self.width, self.height

    @cached_property
    def pixel_id(self) -> str:
        """Identity of the picture: 32 hex characters, the first half of SHA-256 over ``b"{W}x{H}:"`` and the RGB bytes.

        Depth, name and the file's format do not matter: a PNG and the array it was made from are one picture.
        """
        digest = hashlib.sha256(f"{self.width}x{self.height}:".encode())
        digest.update(self.pixels.data)
        return digest.hexdigest()[:32]

    def crop(self, box: Box) -> Crop:
        """Cut out ``box``; depth is cut alike.

        Raises:
            PictureError: The box reaches beyond the picture.
        """
        if box.right > self.width or box.bottom > self.height:
            raise PictureError(
                f"{self.name}: box {box.as_tuple()} reaches beyond the picture of {self.width}x{self.height} pixels"
            )
        if (box.width, box.height) == self.size:
            return Crop(self, box, self.size)
        rows, columns = slice(box.top, box.bottom), slice(box.left, box.right)
        part = replace(
            self,
            pixels=np.ascontiguousarray(self.pixels[rows, columns]),
            data=None,
            depth=None if self.depth is None else np.ascontiguousarray(self.depth[rows, columns]),
        )
        return Crop(part, box, self.size)


@dataclass(frozen=True, eq=False)
class Crop:
    """A part of a picture and where it lies in the original.

    Attributes:
        picture: The part, a picture of its own (with its part of the depth image).
        box: Where the part lies, in pixels of the original.
        size: (width, height) of the original [px].
    """

    picture: Picture
    box: Box
    size: tuple[int, int]

    def to_original(self, x: float, y: float) -> tuple[float, float]:
        """A point of the crop in coordinates of the original [px]."""
        return x + self.box.left, y + self.box.top

    def to_crop(self, x: float, y: float) -> tuple[float, float]:
        """A point of the original in coordinates of the crop [px]; it may lie outside the crop."""
        return x - self.box.left, y - self.box.top

    def crop(self, box: Box) -> Crop:
        """Cut again: ``box`` is in pixels of this crop, the result's box in pixels of the original.

        Raises:
            PictureError: The box reaches beyond this crop.
        """
        inner = self.picture.crop(box)
        dx, dy = self.box.left, self.box.top
        return Crop(inner.picture, Box(box.left + dx, box.top + dy, box.right + dx, box.bottom + dy), self.size)


def _read_only(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """``array`` itself where it cannot be written, else a view of it that cannot."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view
