"""How an array becomes RGB: grey, transparency, 16 bit, and the turn that EXIF asks for.

Decoded files go through the same functions, so that a file and the array read from it are one picture.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import NotAPicture, PictureError

__all__ = ["flatten", "grey_to_eight_bits", "rgb_from_array", "turned"]

_Scalar = TypeVar("_Scalar", bound=np.generic)
_BIT_DEPTHS = (8, 10, 12, 14, 16)  # those of cameras
_TAKEN = "arrays are uint8 (H, W), (H, W, 3) RGB or (H, W, 4) RGBA, or uint16 (H, W)"


def rgb_from_array(array: NDArray[Any], name: str) -> tuple[NDArray[np.uint8], tuple[str, ...]]:
    """RGB pixels of an array, and notes on what was done.

    Args:
        array: uint8 (H, W), (H, W, 1), (H, W, 3) RGB or (H, W, 4) RGBA; uint16 (H, W) or (H, W, 1).
        name: What to call it in an error.

    Returns:
        (H, W, 3) uint8, C-contiguous; the array's own memory where it is that already.

    Raises:
        PictureError: Another type or shape; the hint says how to convert it.
        NotAPicture: There is no pixel in it.
    """
    array = np.asarray(array)
    if array.size == 0:
        raise NotAPicture(f"{name}: an array of shape {array.shape} holds no pixels")
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    sixteen_bit = array.dtype.kind == "u" and array.dtype.itemsize == 2
    if array.dtype != np.uint8 and not sixteen_bit:
        raise PictureError(f"{name}: an array of {array.dtype}; {_TAKEN}", hint=_type_hint(array))
    if array.ndim == 2:
        if sixteen_bit:
            grey, note = grey_to_eight_bits(array)
            return _grey_to_rgb(grey), (note,)
        return _grey_to_rgb(array), ()
    if array.ndim != 3 or sixteen_bit or array.shape[2] not in (3, 4):
        raise PictureError(f"{name}: a {array.dtype} array of shape {array.shape}; {_TAKEN}", hint=_shape_hint(array))
    if array.shape[2] == 4:
        pixels, seen_through = flatten(array)
        return pixels, ("transparency on white",) if seen_through else ()
    return np.ascontiguousarray(array), ()


def grey_to_eight_bits(grey: NDArray[Any]) -> tuple[NDArray[np.uint8], str]:
    """Scale 16-bit grey to 8 bits, never clipping: white is the full range of the camera, not of the container.

    Cameras of 10 to 14 bits write their values unshifted into 16, where the upper 8 bits alone would be nearly black.
    White is therefore ``2**b - 1`` for the smallest b of 8, 10, 12, 14 and 16 that holds the brightest pixel, and grey
    becomes ``round(255 * v / white)``. The rule sees one picture at a time: one that is dark throughout is brightened
    by a power of two, and the note tells the b that was taken.

    Args:
        grey: (H, W) whole numbers from 0 to 65535.

    Returns:
        (H, W) uint8, and the note.
    """
    brightest = int(grey.max())
    bits = next(b for b in _BIT_DEPTHS if brightest < 1 << b)
    white = (1 << bits) - 1
    table = (np.arange(white + 1, dtype=np.uint32) * 255 + white // 2) // white
    said = "16-bit scaled to 8" if bits == 16 else f"16-bit scaled to 8, its values taken as {bits}-bit"
    return table.astype(np.uint8)[grey], said


def flatten(rgba: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], bool]:
    """Lay (H, W, 4) RGBA on white.

    Returns:
        (H, W, 3) uint8, ``round((a * c + (255 - a) * 255) / 255)``, and whether anything was transparent.
    """
    alpha = rgba[:, :, 3:]
    if alpha.min() == 255:
        return np.ascontiguousarray(rgba[:, :, :3]), False
    wide = alpha.astype(np.uint16)
    mixed = rgba[:, :, :3] * wide + 255 * (255 - wide)  # at most 65025, in range of uint16
    return ((mixed + 127) // 255).astype(np.uint8), True


def turned(array: NDArray[_Scalar], orientation: int) -> NDArray[_Scalar]:
    """Turn (H, W, …) the way EXIF orientation 1–8 asks for; contiguous."""
    if orientation >= 5:
        array = array.swapaxes(0, 1)
    rows = -1 if orientation in (3, 4, 7, 8) else 1
    columns = -1 if orientation in (2, 3, 6, 7) else 1
    return np.ascontiguousarray(array[::rows, ::columns])


def _grey_to_rgb(grey: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.repeat(grey[:, :, None], 3, axis=2)


def _type_hint(array: NDArray[Any]) -> str:
    if array.dtype.kind == "f":
        low, high = float(np.min(array)), float(np.max(array))
        if low >= 0 and high <= 1:
            return "values from 0 to 1: (array * 255).round().astype('uint8')"
        return "scale to 0…255, then .round().astype('uint8'); depth goes into depth="
    if array.dtype.kind == "b":
        return "array.astype('uint8') * 255"
    return "scale to 0…255, then .astype('uint8')"


def _shape_hint(array: NDArray[Any]) -> str:
    if array.ndim == 3 and array.shape[2] in (3, 4):
        return "16-bit colour: (array // 257).astype('uint8')"
    if array.ndim == 3 and array.shape[0] in (1, 3, 4):
        return "channels come last: numpy.moveaxis(array, 0, -1)"
    if array.ndim == 4:
        return "one picture a call: array[0]"
    return ""
