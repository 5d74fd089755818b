"""Depth in metres, from an image or an array, with a unit that was said and not guessed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import DepthError, UnknownName
from sagehand.picture.arrays import turned
from sagehand.picture.decode import orientation_of
from sagehand.picture.header import Limits, opened

__all__ = ["DEPTH_UNITS", "attach_depth", "decode_depth"]

DEPTH_UNITS = {"m": 1.0, "mm": 1e-3, "um": 1e-6}
"""Metres in one unit of depth."""

_NEAREST, _FARTHEST = 0.01, 20.0  # [m], of the median: what a camera over a workpiece or in a room can see


def decode_depth(data: bytes, name: str, limits: Limits) -> NDArray[Any]:
    """The raw values of a depth image, (H, W), in the file's own unit: 16 or 32-bit grey, or float.

    Raises:
        PictureError: The file cannot be read; see :func:`.header.opened`.
        DepthError: It is in colour or of 8 bits, that is, made for looking at; or it carries an EXIF turn.
    """
    with opened(data, name, limits) as (_, image):
        orientation = orientation_of(image, [])  # unreadable EXIF turns nothing
        image.load()
        if not (image.mode == "F" or image.mode.startswith("I")):
            raise DepthError(
                f"{name}: a depth image of mode {image.mode} is made for looking at, not for measuring",
                hint="save depth as 16-bit PNG or TIFF in millimetres, or as float TIFF in metres",
            )
        if orientation != 1:
            raise DepthError(
                f"{name}: a depth image with EXIF orientation {orientation}",
                hint="save depth as the sensor gave it; it is turned with its picture",
            )
        return np.asarray(image)


def attach_depth(
    values: NDArray[Any], unit: str | None, *, picture: tuple[int, int], orientation: int, name: str
) -> NDArray[np.float32]:
    """Depth in metres, turned like its picture.

    Zero, negative and not finite values are "no reading" and become NaN (a RealSense writes 0).

    Args:
        values: (H, W) or (H, W, 1), whole numbers of 16 bits or more, or floats.
        unit: "m", "mm" or "um"; None means metres for floats (as ROS's 32FC1), and is refused for whole numbers.
        picture: (H, W) of the picture as it is looked at, that is, turned.
        orientation: EXIF orientation of the picture; ``values`` are not turned yet.
        name: Name of the picture, for errors.

    Returns:
        (H, W) float32 [m].

    Raises:
        UnknownName: No such unit.
        DepthError: No unit; another type or shape; or a median that no such camera can see.
    """
    if unit is not None and unit not in DEPTH_UNITS:
        raise UnknownName("depth unit", unit, DEPTH_UNITS)
    values = np.asarray(values)
    if values.ndim == 3 and values.shape[2] == 1:
        values = values[:, :, 0]
    whole = values.dtype.kind in "iu" and values.dtype.itemsize > 1
    if not whole and values.dtype.kind != "f":
        raise DepthError(
            f"{name}: depth of type {values.dtype} cannot be measured in",
            hint="hand in uint16 with depth_unit='mm', or float32 metres",
        )
    if whole and unit is None:
        raise DepthError(
            f"{name}: depth in whole numbers needs a unit; known: {', '.join(DEPTH_UNITS)}",
            hint="depth_unit='mm' for a RealSense and most 16-bit depth images",
        )
    expected = picture if orientation < 5 else picture[::-1]
    if values.shape != expected:
        raise DepthError(
            f"{name}: the depth image is {_size(values.shape)}, its picture {_size(expected)} pixels",
            hint="hand in depth aligned to the colour camera" + (", not turned by EXIF" if orientation != 1 else ""),
        )
    with np.errstate(over="ignore", invalid="ignore"):  # too large for float32: no reading
        metres = np.multiply(values, DEPTH_UNITS[unit or "m"], dtype=np.float32)
    metres[~((metres > 0) & np.isfinite(metres))] = np.nan
    _refuse_implausible(metres, unit or "m", name)
    return turned(metres, orientation)


def _refuse_implausible(metres: NDArray[np.float32], unit: str, name: str) -> None:
    readings = metres[~np.isnan(metres)]
    if not readings.size:
        return
    median = float(np.median(readings))
    if _NEAREST <= median <= _FARTHEST:
        return
    raw = median / DEPTH_UNITS[unit]
    fitting = [u for u, scale in DEPTH_UNITS.items() if _NEAREST <= raw * scale <= _FARTHEST]
    raise DepthError(
        f"{name}: the median depth would be {median:.4g} m; plausible is {_NEAREST:g} to {_FARTHEST:g} m",
        hint=f"is the unit {' or '.join(map(repr, fitting))} rather than {unit!r}?" if fitting else "check the unit",
    )


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[1]}x{shape[0]}" if len(shape) == 2 else f"of shape {shape}"
