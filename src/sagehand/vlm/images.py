"""Pictures as they go to a model: sized so that the model's own resize leaves them alone, within a byte budget."""

from __future__ import annotations

import base64
import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import InputError, PictureTooLarge
from sagehand.vlm.boxes import Frame, smart_resize
from sagehand.vlm.profile import Profile

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["MAX_BYTES", "EncodedImage", "encode", "image_tokens"]

MAX_BYTES = 2 * 2**20
"""Longest data URL [bytes], counted after base64: sixteen stay under the 50 MB that servers take in one body."""
_GREY = (127, 127, 127)
_QUALITIES = (90, 80, 65, 50)
_FLAT = 64  # a drawing has fewer colours than this in a sample; PNG is then smaller and keeps its edges


@dataclass(frozen=True)
class EncodedImage:
    """A picture in the form that a request carries.

    Attributes:
        data_url: ``data:image/jpeg;base64,…`` or PNG.
        width: Of the encoded image [px].
        height: Of the encoded image [px].
        tokens: What it costs in the prompt, by the rule of the profile [tokens].
        frame: The encoded image and where the original lies in it; boxes are read with it.
        notes: What was done that matters to a reader, as in "padded to 56x336".
    """

    data_url: str
    width: int
    height: int
    tokens: int
    frame: Frame
    notes: tuple[str, ...] = ()


def encode(
    pixels: NDArray[np.uint8], profile: Profile, *, long_side: int = 1024, max_bytes: int = MAX_BYTES
) -> EncodedImage:
    """Encode a picture for a model.

    The picture is scaled down to ``long_side`` and to a fixed point of the model's resize rule, so that the pixels the
    model speaks of are ours. A side below ``profile.min_side`` is scaled up as far as ``long_side`` allows, then padded
    with grey at the right and the bottom; so is a shape longer than ``profile.max_aspect``.

    Args:
        pixels: (H, W, 3) uint8 RGB.
        profile: Of the model.
        long_side: Longest side of the encoded image [px].
        max_bytes: Longest data URL [bytes], counted after base64.

    Raises:
        InputError: ``pixels`` is of another form, or ``long_side`` is below the shortest side that the model takes.
        PictureTooLarge: It does not fit into ``max_bytes`` even at the smallest size that the model takes.
    """
    from PIL import Image

    if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8 or 0 in pixels.shape:
        raise InputError(f"pixels are {pixels.dtype} {pixels.shape}, not uint8 (H, W, 3)")
    least = _ceil(profile.min_side, profile.factor)
    if long_side < least:
        raise InputError(f"long_side {long_side} is below the {least} pixels that the model needs along a side")
    height, width = pixels.shape[:2]
    source = Image.fromarray(np.ascontiguousarray(pixels))
    longest = long_side
    while True:
        frame = _frame(width, height, profile, longest)
        canvas = _drawn(source, frame)
        for quality in (None, *_QUALITIES) if _is_drawing(canvas) else _QUALITIES:
            url = _data_url(canvas, quality)
            if len(url) <= max_bytes:
                notes = _notes(frame, quality, longest < long_side)
                tokens = image_tokens(frame.width, frame.height, profile)
                return EncodedImage(url, frame.width, frame.height, tokens, frame, notes)
        if longest == least:
            raise PictureTooLarge(
                f"{width}x{height} pixels do not fit into {max_bytes} bytes, not even at {frame.width}x{frame.height}",
                hint="raise max_bytes",
            )
        longest = max(least, longest * 3 // 4)


def image_tokens(width: int, height: int, profile: Profile) -> int:
    """What an image costs in the prompt [tokens]; an estimate where the server does its own resizing.

    Args:
        width: Of the encoded image [px].
        height: Of the encoded image [px].
        profile: Of the model; its ``token_rule`` is used.
    """
    if profile.token_rule == "openai-tiles":
        scale = min(1.0, 2048 / max(width, height), 768 / min(width, height))
        return 85 + 170 * math.ceil(width * scale / 512) * math.ceil(height * scale / 512)
    if profile.token_rule == "gemini-tiles":
        return 258 if max(width, height) <= 384 else 258 * math.ceil(width / 768) * math.ceil(height / 768)
    return math.ceil(width / profile.factor) * math.ceil(height / profile.factor) + 2  # and its start and end marks


def _frame(width: int, height: int, profile: Profile, long_side: int) -> Frame:
    """Size of the encoded image and of the original in it."""
    factor, least = profile.factor, _ceil(profile.min_side, profile.factor)
    scale = min(1.0, long_side / max(width, height))
    if min(width, height) * scale < least:
        scale = min(least / min(width, height), long_side / max(width, height))
    wide, high = max(1, round(width * scale)), max(1, round(height * scale))
    # the shape that is sent: padded where it is too narrow
    narrowest = max(least, math.ceil(max(wide, high) / profile.max_aspect))
    padded = max(wide, narrowest), max(high, narrowest)
    caps = (max(profile.min_pixels, least**2), max(profile.max_pixels, least**2))
    tall, broad = smart_resize(padded[1], padded[0], factor, *caps)
    most = long_side // factor * factor
    broad, tall = (max(least, min(side, most)) for side in (broad, tall))
    if broad * tall > caps[1]:  # a narrow picture whose short side had to grow
        longest = max(least, caps[1] // min(broad, tall) // factor * factor)
        broad, tall = min(broad, longest), min(tall, longest)
    # a side that was padded keeps its pixels; one that was not fills the frame, as in the model's own resize
    content = (0, 0, broad if wide >= narrowest else min(wide, broad), tall if high >= narrowest else min(high, tall))
    return Frame(broad, tall, content, (width, height))


def _ceil(side: int, factor: int) -> int:
    return math.ceil(side / factor) * factor


def _drawn(source: Image.Image, frame: Frame) -> Image.Image:
    from PIL import Image

    size = frame.content[2:]
    # reducing_gap: whole blocks are averaged first, which makes a large photo cost a third and does not alias
    part = source if size == source.size else source.resize(size, Image.Resampling.BILINEAR, reducing_gap=1.1)
    if size == (frame.width, frame.height):
        return part
    canvas = Image.new("RGB", (frame.width, frame.height), _GREY)
    canvas.paste(part, (0, 0))
    return canvas


def _data_url(image: Image.Image, quality: int | None) -> str:
    """As PNG where there is no quality, else as JPEG."""
    buffer = io.BytesIO()
    kind = "png" if quality is None else "jpeg"
    if quality is None:
        image.save(buffer, "PNG")
    else:
        image.save(buffer, "JPEG", quality=quality, subsampling=0 if quality >= 90 else 2)
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _is_drawing(image: Image.Image) -> bool:
    sample = np.asarray(image)[:: max(1, image.height // 64), :: max(1, image.width // 64)].reshape(-1, 3)
    return len(np.unique(sample, axis=0)) < _FLAT


def _notes(frame: Frame, quality: int | None, shrunk: bool) -> tuple[str, ...]:
    notes = []
    if (frame.width, frame.height) != frame.source:
        notes.append(f"{frame.source[0]}x{frame.source[1]} sent as {frame.width}x{frame.height}")
    if frame.content[2:] != (frame.width, frame.height):
        notes.append(f"grey padding around {frame.content[2]}x{frame.content[3]}")
    if shrunk or (quality or 100) < _QUALITIES[0]:
        notes.append(f"made smaller to fit the byte budget: {f'JPEG quality {quality}' if quality else 'PNG'}")
    return tuple(notes)
