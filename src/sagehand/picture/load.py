"""The one door for pictures: a path, bytes or an array in, a :class:`Picture` out."""

from __future__ import annotations

import itertools
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import PictureError, near_misses
from sagehand.picture.arrays import rgb_from_array
from sagehand.picture.decode import decode
from sagehand.picture.depth import attach_depth, decode_depth
from sagehand.picture.header import DEFAULT_LIMITS, Limits, check_bytes, check_size
from sagehand.picture.model import Picture

__all__ = ["load"]

_FilePath = str | os.PathLike[str]
_Bytes = bytes | bytearray | memoryview


def load(
    source: _FilePath | _Bytes | NDArray[Any] | Picture,
    *,
    name: str | None = None,
    depth: _FilePath | _Bytes | NDArray[Any] | None = None,
    depth_unit: Literal["m", "mm", "um"] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Picture:
    """Load and normalise a picture. What was done to it is told in ``notes``.

    The kind is told by magic bytes, and size and bytes are checked against ``limits`` before anything is decoded. EXIF
    turns are applied; of an animation or a TIFF of several pages the first frame is taken; transparency is laid on
    white; 16-bit grey is scaled to 8 bits (the rule: :func:`.arrays.grey_to_eight_bits`).

    Args:
        source: A path; the bytes of a file; an array: uint8 (H, W), (H, W, 3) RGB or (H, W, 4) RGBA, or uint16 (H, W);
            or a picture, which comes back as it is but for ``name`` and ``depth``. A contiguous uint8 (H, W, 3) array
            is not copied: do not write into it afterwards.
        name: What to call it; by default the file's name, "bytes" or "array".
        depth: A depth image, aligned to the picture and not turned: path, bytes, or (H, W) array. Values of 0 or less,
            NaN and infinity are "no reading".
        depth_unit: Unit of ``depth``. Whole numbers need one; floats are metres by default.
        limits: Caps on pixels and bytes.

    Raises:
        PictureError: The picture cannot be used: :class:`NotAPicture`, :class:`TruncatedPicture`,
            :class:`PictureTooLarge`, :class:`UnsupportedPicture`, or the file cannot be read.
        DepthError: The depth image has no unit, does not fit the picture, or is implausible.
        UnknownName: There is no such depth unit.
    """
    name = None if name is None else _printable(name)
    orientation = 1
    if isinstance(source, Picture):
        picture = source if name is None else replace(source, name=name)
    elif isinstance(source, np.ndarray):
        name = name or "array"
        if source.ndim >= 2:
            check_size(source.shape[1], source.shape[0], name, limits)
        pixels, notes = rgb_from_array(source, name)
        picture = Picture(pixels, name, notes=notes)
    else:
        data, found_name = _read(source, limits)
        name = name or found_name
        decoded = decode(data, name, limits)
        orientation = decoded.orientation
        picture = Picture(decoded.pixels, name, data, notes=decoded.notes)
    if depth is None:
        return picture
    return _with_depth(picture, depth, depth_unit, orientation, limits)


def _with_depth(
    picture: Picture, depth: _FilePath | _Bytes | NDArray[Any], unit: str | None, orientation: int, limits: Limits
) -> Picture:
    if isinstance(depth, np.ndarray):
        values = depth
    else:
        data, depth_name = _read(depth, limits)
        values = decode_depth(data, depth_name, limits)
    size = picture.height, picture.width
    metres = attach_depth(values, unit, picture=size, orientation=orientation, name=picture.name)
    notes = picture.notes
    if bool(np.isnan(metres).all()):
        notes = (*notes, "depth image without a reading")
    return replace(picture, depth=metres, notes=notes)


def _read(source: _FilePath | _Bytes, limits: Limits) -> tuple[bytes, str]:
    """The bytes, and a name for them."""
    if isinstance(source, bytes):
        return source, "bytes"
    if isinstance(source, bytearray | memoryview):
        return bytes(source), "bytes"
    if not isinstance(source, str | os.PathLike):
        raise PictureError(
            f"{type(source).__name__}: not a picture's path, bytes or array",
            hint="of an image object, hand in numpy.asarray(image.convert('RGB'))",
        )
    if isinstance(source, str) and source.startswith(("http://", "https://", "data:")):
        raise PictureError(f"{_printable(source)[:60]}: an address is not loaded", hint="download it first")
    path = Path(source)
    name = _printable(path.name or str(path))
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # a pipe or device might never end
            what = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
            raise PictureError(f"{name}: is {what}, not a picture")
        check_bytes(status.st_size, name, limits)
        with path.open("rb") as file:
            data = file.read(limits.max_bytes + 1)  # it may have grown since
    except FileNotFoundError as error:
        raise PictureError(f"{name}: no such file in {_printable(str(path.parent))}", hint=_similar(path)) from error
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise PictureError(f"{name[:120]}: cannot be read: {said}") from error
    return data, name


def _similar(path: Path) -> str:
    """A hint that names files that look like ``path``, or ""."""
    try:
        with os.scandir(path.parent) as entries:
            there = [entry.name for entry in itertools.islice(entries, 1000)]  # a folder may hold millions
    except OSError:
        return f"there is no folder {_printable(str(path.parent))}"
    close = near_misses(path.name, there)
    return f"did you mean {' or '.join(repr(_printable(name)) for name in close)}?" if close else ""


def _printable(name: str) -> str:
    """``name`` in one line that any terminal and any JSON file takes; file names may hold anything."""
    text = name.encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
