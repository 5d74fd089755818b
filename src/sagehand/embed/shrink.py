"""Any picture to the 224×224 input of a network, in a fraction of the network's own time.

Pillow's filters take 2 ms for a 640×480 picture (bicubic 3), a third of what the network takes. The usual sizes of a
camera's stream are therefore averaged here, from 8 pixels a cell, with whole-row operations on bytes that NumPy
does many at a time; every other size is left to Pillow.
"""

from __future__ import annotations

import threading
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["RECIPE", "SIDE", "to_input"]

SIDE = 224
_MEAN, _SCALE = np.float32(127.0), np.float32(1.0 / 128.0)
# Pixels of the picture to one of the input for which 2 rows × 4 columns stand for the cell.
_ROWS, _COLUMNS = (1.5, 3.0), (1.5, 4.0)

RECIPE = (
    f"plain-resize {SIDE}x{SIDE}; mean of 2x4 samples for {_ROWS[0]}-{_ROWS[1]} rows and {_COLUMNS[0]}-{_COLUMNS[1]} "
    "columns a cell, else triangle filter after box reduction with gap 2; (x-127)/128; RGB NCHW float32; v1"
)
"""The recipe in words; its digest is part of the identity of every vector made with it."""

_ONE, _LOW_BITS = np.uint64(1), np.uint64(0x7F7F7F7F7F7F7F7F)
_scratch = threading.local()


def to_input(picture: NDArray[np.uint8], out: NDArray[np.float32]) -> None:
    """Fill the network's input from one picture.

    The whole picture is stretched onto the square; nothing is cut off and nothing is added. The reference cuts the
    central 87.5 % of the shorter side, which is right for photos of one centred thing and wrong for a workcell, where
    the part that tells two steps apart may lie at the edge. A border (letterbox) would spend a quarter of
    the input of a 4:3 picture, and more of a long crop's, on a constant that the average over the image mixes into
    every vector, so that the shape of the frame would speak. A stretch of 4:3 is within the aspect ratios that the
    network was trained on (3/4 to 4/3), and a camera stretches the query as it did the cases. This was decided before
    any retrieval was measured.

    Args:
        picture: (H, W, 3) RGB uint8.
        out: (3, 224, 224) float32; filled with ``(x − 127) / 128``, the scale of EfficientNet-Lite's reference.
    """
    height, width = picture.shape[:2]
    if _ROWS[0] <= height / SIDE <= _ROWS[1] and _COLUMNS[0] <= width / SIDE <= _COLUMNS[1]:
        small = _sampled(np.ascontiguousarray(picture))
    else:
        small = _filtered(picture)
    np.subtract(small, _MEAN, out=out)
    np.multiply(out, _SCALE, out=out)


def _filtered(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(3, 224, 224) by Pillow's antialiased triangle filter."""
    from PIL import Image

    image = Image.fromarray(picture)
    small = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, reducing_gap=2.0)
    channels_first: NDArray[np.uint8] = np.asarray(small).transpose(2, 0, 1)
    return channels_first


def _sampled(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(3, 224, 224) view of the means of 2 rows × 4 columns spread over each cell.

    The view is into this thread's scratch memory: good until the thread's next call.
    """
    height, width = picture.shape[:2]
    upper, lower, left, right = _plan(height, width)
    wide, narrow = _buffers(width)
    lines = picture.reshape(height, width * 3)
    first, second, _ = wide.reshape(3, SIDE, width * 3)
    np.take(lines, upper, axis=0, out=first, mode="clip")
    np.take(lines, lower, axis=0, out=second, mode="clip")
    _mean_up(wide)
    _mean_with_next_pixel(wide)
    columns = narrow.reshape(3, SIDE, 3 * SIDE)
    np.take(second, left, axis=1, out=columns[0], mode="clip")
    np.take(second, right, axis=1, out=columns[1], mode="clip")
    _mean_up(narrow)
    channels_first: NDArray[np.uint8] = columns[0].reshape(SIDE, 3, SIDE).transpose(1, 0, 2)
    return channels_first


def _mean_up(rows: NDArray[np.uint8]) -> None:
    """``rows[0] = ceil((rows[0] + rows[1]) / 2)`` byte by byte, eight bytes at a time; ``rows[2]`` is spoilt.

    ``a | b − (a ^ b) >> 1``: no byte borrows from the next.
    """
    a, b, half = rows.view(np.uint64)
    np.bitwise_xor(a, b, out=half)
    _halve(half)
    np.bitwise_or(a, b, out=a)
    np.subtract(a, half, out=a)


def _mean_with_next_pixel(rows: NDArray[np.uint8]) -> None:
    """``rows[1] = floor((rows[0] + rows[0] moved by a pixel) / 2)``; ``rows[2]`` is spoilt.

    Rounded down, ``a & b + (a ^ b) >> 1``: between two roundings up it keeps the mean of a picture in place. A line's last
    pixel is mixed with the next line's first; no cell looks there.
    """
    now, moved = rows[0, :-3], rows[0, 3:]
    np.bitwise_xor(now, moved, out=rows[2, :-3])
    _halve(rows[2].view(np.uint64))
    np.bitwise_and(now, moved, out=rows[1, :-3])
    np.add(rows[1], rows[2], out=rows[1])


def _halve(words: NDArray[np.uint64]) -> None:
    """Halve each byte of each word, in place."""
    np.right_shift(words, _ONE, out=words)
    np.bitwise_and(words, _LOW_BITS, out=words)


@lru_cache(maxsize=32)
def _plan(height: int, width: int) -> tuple[NDArray[np.intp], ...]:
    """Two rows of each cell, (224,) each, and two byte positions in a line for each cell and colour, (672,) each.

    Samples lie a quarter of a cell above and below, left and right of its centre; a column's sample is the mean of
    the two pixels around it.
    """
    centres = np.arange(SIDE) + 0.5
    upper, lower = (
        np.clip(np.floor((centres + shift) * height / SIDE), 0, height - 1).astype(np.intp) for shift in (-0.25, 0.25)
    )
    left, right = (
        np.clip(np.round((centres + shift) * width / SIDE) - 1, 0, width - 2).astype(np.intp) for shift in (-0.25, 0.25)
    )
    colours = np.arange(3)[:, None]
    return upper, lower, (left * 3 + colours).ravel(), (right * 3 + colours).ravel()


def _buffers(width: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """This thread's scratch memory, (3, bytes) twice; fresh memory for every call costs more than the averaging."""
    kept: tuple[NDArray[np.uint8], NDArray[np.uint8]] | None = getattr(_scratch, "buffers", None)
    if kept is None or kept[0].shape[1] != SIDE * width * 3:
        # A row is a multiple of 8 bytes, as 224 is one.
        kept = np.zeros((3, SIDE * width * 3), np.uint8), np.zeros((3, SIDE * SIDE * 3), np.uint8)
        _scratch.buffers = kept
    return kept
