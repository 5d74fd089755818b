"""Pixels to JPEG, for pages and thumbnails."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import InputError

__all__ = ["to_jpeg"]


def to_jpeg(pixels: NDArray[np.uint8], *, long_side: int | None = None, quality: int = 85) -> bytes:
    """Encode as JPEG, scaled down so that neither side is longer than ``long_side``; never scaled up.

    Args:
        pixels: (H, W, 3) uint8 RGB.
        long_side: Most pixels along the longer side [px]; None keeps the size.
        quality: JPEG quality, 1 to 95.

    Raises:
        InputError: ``long_side`` or ``quality`` is out of range, or a side is longer than JPEG allows.
    """
    from PIL import Image

    if not 1 <= quality <= 95:
        raise InputError(f"JPEG quality {quality} is not from 1 to 95")
    if long_side is not None and long_side < 1:
        raise InputError(f"long_side {long_side} is not 1 or more")
    image = Image.fromarray(pixels)
    longest = max(image.size)
    if long_side is not None and longest > long_side:
        width, height = (max(1, round(side * long_side / longest)) for side in image.size)
        # reducing_gap: whole blocks are averaged first, which makes a large photo cost a third and does not alias
        image = image.resize((width, height), Image.Resampling.BILINEAR, reducing_gap=1.1)
    elif longest > 65_500:
        raise InputError(f"a side of {longest} pixels is longer than JPEG allows", hint="give long_side")
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()
