"""ROS image messages to files, with NumPy alone: ``sensor_msgs`` Image and CompressedImage, in ROS 1 and ROS 2 alike.

Encodings are those of ``sensor_msgs/image_encodings``. Depth is 16UC1 in millimetres or 32FC1 in metres (REP 118), and
becomes a 16-bit PNG in millimetres, 0 where there is no reading. What is compressed already is kept byte for byte.
"""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import PictureError

__all__ = ["ENCODINGS", "compressed_picture", "decode", "depth_file", "picture_file", "png_file"]

# name → (type, channels, which of them are red, green and blue; None for grey)
ENCODINGS: dict[str, tuple[str, int, tuple[int, ...] | None]] = {
    "rgb8": ("u1", 3, (0, 1, 2)),
    "bgr8": ("u1", 3, (2, 1, 0)),
    "rgba8": ("u1", 4, (0, 1, 2)),
    "bgra8": ("u1", 4, (2, 1, 0)),
    "mono8": ("u1", 1, None),
    "mono16": ("u2", 1, None),
    "8UC1": ("u1", 1, None),
    "8UC3": ("u1", 3, (2, 1, 0)),  # OpenCV's order, as cv_bridge takes it
    "16UC1": ("u2", 1, None),
    "32FC1": ("f4", 1, None),
}
"""Encodings that are read."""

_BEGINNINGS = ((b"\xff\xd8\xff", ".jpg"), (b"\x89PNG\r\n\x1a\n", ".png"))
_MOST_MM = 65_535


def decode(message: Any, where: str) -> NDArray[Any]:
    """The pixels of an Image message: (H, W) or (H, W, 3) RGB, of the encoding's own type, in the machine's byte order.

    Args:
        message: ``height``, ``width``, ``encoding``, ``is_bigendian``, ``step`` [bytes a row] and ``data``.
        where: What errors call it.

    Raises:
        PictureError: An encoding that is not read, or fewer bytes than the message says.
    """
    encoding, height, width, step = str(message.encoding), int(message.height), int(message.width), int(message.step)
    if encoding not in ENCODINGS:
        hint = "record the debayered topic (image_proc)" if encoding.startswith("bayer") else ""
        raise PictureError(f"{where}: encoding {encoding!r} is not read; known: {', '.join(ENCODINGS)}", hint=hint)
    kind, channels, order = ENCODINGS[encoding]
    dtype = np.dtype((">" if message.is_bigendian else "<") + kind)
    row = width * channels * dtype.itemsize
    data = np.frombuffer(bytes(message.data), np.uint8)
    if height < 1 or width < 1 or step < row or data.size < step * (height - 1) + row:
        raise PictureError(
            f"{where}: {data.size} bytes are no {width}x{height} picture of {encoding} with {step} bytes a row",
            hint="the message was cut off, or its publisher is at fault",
        )
    data = np.pad(
        data[: step * height], (0, max(0, step * height - data.size))
    )  # some leave out the last row's padding
    rows = np.ascontiguousarray(data.reshape(height, step)[:, :row]).view(dtype)
    pixels = rows.astype(dtype.newbyteorder("="), copy=False)
    if order is None:
        return pixels.reshape(height, width)
    return np.ascontiguousarray(pixels.reshape(height, width, channels)[:, :, list(order)])


def picture_file(message: Any, where: str) -> bytes:
    """An Image message as a PNG that loses nothing.

    Raises:
        PictureError: It cannot be read, or is 32FC1, which is depth and no picture.
    """
    pixels = decode(message, where)
    if pixels.dtype.kind == "f":
        raise PictureError(f"{where}: encoding 32FC1 is depth, no picture", hint="name it with --depth-topic")
    return png_file(pixels)


def compressed_picture(message: Any, where: str) -> tuple[bytes, str]:
    """The file in a CompressedImage message, as it is, and its ending.

    Raises:
        PictureError: It is neither JPEG nor PNG.
    """
    data = bytes(message.data)
    for start, suffix in _BEGINNINGS:
        if data.startswith(start):
            return data, suffix
    raise PictureError(
        f"{where}: format {message.format!r} is not read; known: JPEG and PNG", hint="record one of them"
    )


def depth_file(message: Any, where: str) -> tuple[bytes, tuple[int, int]]:
    """A depth message (Image, or CompressedImage of ``compressedDepth``) as a PNG [mm], and its (width, height) [px].

    Raises:
        PictureError: It is no depth image, or cannot be read.
    """
    pixels = decode(message, where) if hasattr(message, "encoding") else _compressed_depth(message, where)
    if pixels.ndim != 2 or pixels.dtype == np.uint8:
        raise PictureError(f"{where}: is no depth image", hint="depth is 16UC1 [mm] or 32FC1 [m]")
    if pixels.dtype.kind == "f":
        pixels = _millimetres(pixels)
    return png_file(pixels), (pixels.shape[1], pixels.shape[0])


def _compressed_depth(message: Any, where: str) -> NDArray[Any]:
    """What compressed_depth_image_transport writes: 12 bytes of header (a kind, and two quantisers), then a PNG."""
    from PIL import Image, UnidentifiedImageError

    data = bytes(message.data)
    encoding, _, rest = str(message.format).partition(";")
    png = data[12:]
    if "compressedDepth" not in rest or not png.startswith(_BEGINNINGS[1][0]):
        raise PictureError(
            f"{where}: format {message.format!r} is not read; known: 16UC1 and 32FC1 as compressedDepth png",
            hint="record the raw depth topic, or compressedDepth with png",
        )
    try:
        with Image.open(io.BytesIO(png)) as image:
            values: NDArray[Any] = np.asarray(image).astype(np.float64 if encoding.strip() == "32FC1" else np.uint16)
    except (OSError, UnidentifiedImageError, SyntaxError) as error:
        raise PictureError(f"{where}: the depth image is damaged: {error}") from error
    if values.dtype != np.float64:
        return values
    _, a, b = struct.unpack("<iff", data[:12])
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(values > 0, a / (values - b), np.nan), dtype=np.float32)


def _millimetres(metres: NDArray[Any]) -> NDArray[np.uint16]:
    with np.errstate(invalid="ignore", over="ignore"):
        millimetres = np.asarray(np.rint(metres.astype(np.float64) * 1000), dtype=np.float64)
        good = np.isfinite(millimetres) & (millimetres > 0) & (millimetres <= _MOST_MM)
    return np.where(good, millimetres, 0).astype(np.uint16)


def png_file(pixels: NDArray[Any]) -> bytes:
    """Pixels as a PNG: (H, W) of 8 or 16 bits, or (H, W, 3) uint8 RGB."""
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()
