"""From the bytes of a file to RGB pixels, turned as EXIF asks for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import UnsupportedPicture
from sagehand.picture.arrays import flatten, grey_to_eight_bits
from sagehand.picture.header import Limits, opened

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["Decoded", "decode", "orientation_of"]

_ORIENTATION, _BITS_PER_SAMPLE, _SUBFILE_TYPE, _DNG_VERSION = 0x0112, 0x0102, 0x00FE, 0xC612
_SUFFIXES = {
    "JPEG": {".jpg", ".jpeg", ".jpe", ".jfif", ".mpo"},
    "PNG": {".png", ".apng"},
    "GIF": {".gif"},
    "BMP": {".bmp", ".dib"},
    "TIFF": {".tif", ".tiff"},
    "WebP": {".webp"},
    "JPEG 2000": {".jp2", ".j2k", ".jpx", ".j2c", ".jpf"},
    "PNM": {".ppm", ".pgm", ".pbm", ".pnm", ".pfm"},
    "AVIF": {".avif", ".avifs"},
    "HEIC": {".heic", ".heif", ".hif"},
}
_ANY_SUFFIX = frozenset().union(*_SUFFIXES.values())


@dataclass(frozen=True, eq=False, slots=True)
class Decoded:
    """A decoded file.

    Attributes:
        pixels: (H, W, 3) uint8 RGB, C-contiguous, turned.
        orientation: EXIF orientation 1–8 that was applied; a depth image is to be turned alike.
        notes: What was done that a user should know.
    """

    pixels: NDArray[np.uint8]
    orientation: int
    notes: tuple[str, ...]


def decode(data: bytes, name: str, limits: Limits) -> Decoded:
    """Decode a picture.

    The first frame or page of several; transparency on white; 16-bit grey by :func:`.arrays.grey_to_eight_bits`; of
    16-bit colour the upper 8 bits. Colours are taken as sRGB, whatever profile the file carries.

    Raises:
        PictureError: See :func:`.header.opened`.
    """
    notes: list[str] = []
    with opened(data, name, limits) as (kind, image):
        suffix = PurePath(name).suffix.lower()
        if suffix in _ANY_SUFFIX and suffix not in _SUFFIXES[kind]:
            notes.append(f"{kind} in a file named {suffix}")
        frames = getattr(image, "n_frames", 1)
        if frames > 1:
            notes.append(f"{'main' if kind == 'HEIC' else 'first'} of {frames} frames")
        if kind == "TIFF":
            _refuse_thumbnail(image, name)
        if _wide_colour(kind, image, data):
            notes.append("16-bit colour: upper 8 bits kept")
        # Pillow turns a TIFF itself while it loads, and takes the tag away; PNG may carry its EXIF after the pixels.
        if kind == "TIFF":
            orientation = orientation_of(image, notes)
            image.load()
            upright: Image.Image = image
        else:
            image.load()
            orientation = orientation_of(image, notes)
            upright = _transposed(image, orientation)
        pixels = _rgb(upright, name, notes)
    if orientation != 1:
        notes.append(f"turned by EXIF {orientation}")
    return Decoded(pixels, orientation, tuple(notes))


def orientation_of(image: Image.Image, notes: list[str]) -> int:
    """EXIF orientation 1–8; 1 where there is none, or (with a note) where EXIF cannot be read."""
    try:
        value = image.getexif().get(_ORIENTATION, 1)
    except Exception as error:  # odd EXIF raises what it likes; the pixels are good without it
        notes.append(f"EXIF cannot be read, not turned: {' '.join(str(error).split())}")
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _transposed(image: Image.Image, orientation: int) -> Image.Image:
    if orientation == 1:
        return image
    from PIL.Image import Transpose

    way = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }[orientation]
    return image.transpose(way)


def _rgb(image: Image.Image, name: str, notes: list[str]) -> NDArray[np.uint8]:
    """(H, W, 3) uint8 from any mode of Pillow's."""
    mode = image.mode
    if mode == "F":
        raise UnsupportedPicture(
            f"{name}: a picture of floats has no stated range",
            hint="save it with 8 or 16 bits; a depth image goes into depth=",
        )
    if mode.startswith("I"):
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 65535:
            raise UnsupportedPicture(f"{name}: grey of 32 bits is not read", hint="save it with 8 or 16 bits")
        grey, note = grey_to_eight_bits(values)
        notes.append(note)
        return np.repeat(grey[:, :, None], 3, axis=2)
    if image.has_transparency_data:
        pixels, seen_through = flatten(np.asarray(image.convert("RGBA")))
        if seen_through:
            notes.append("transparency on white")
        return pixels
    if mode == "LAB":
        image = _lab_to_rgb(image)
    return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))


def _lab_to_rgb(image: Image.Image) -> Image.Image:
    from PIL import ImageCms

    profiles = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
    transform = ImageCms.buildTransform(*profiles, "LAB", "RGB")
    return ImageCms.applyTransform(image, transform)  # type: ignore[return-value]  # None only when in place


def _wide_colour(kind: str, image: Image.Image, data: bytes) -> bool:
    """Whether the file holds 16 bits a channel of several; Pillow has no such mode and keeps the upper half."""
    if image.mode.startswith(("I", "F")):
        return False
    if kind == "PNG":
        return data[24] == 16  # IHDR: length, type, width, height, then the bit depth
    if kind == "TIFF":
        bits = image.tag_v2.get(_BITS_PER_SAMPLE, (1,))  # type: ignore[attr-defined]  # TiffImageFile
        return bool(np.max(bits) > 8)
    return False


def _refuse_thumbnail(image: Image.Image, name: str) -> None:
    """Raw camera files are TIFFs that begin with a thumbnail; it must not pass for the picture."""
    tags = image.tag_v2  # type: ignore[attr-defined]  # TiffImageFile
    if _DNG_VERSION in tags or tags.get(_SUBFILE_TYPE) == 1:
        raise UnsupportedPicture(
            f"{name}: a raw camera file, or a TIFF that begins with a thumbnail, is not read",
            hint="save it as PNG or JPEG",
        )
