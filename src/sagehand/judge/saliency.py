"""What stands out from the background: the perceptual crop.

The background is what the picture's border looks like: up to eight colours. What differs from all of them, gathered into
one region near the middle, is taken for the device and its fixture. It says "cannot tell" rather than guess: nothing
stands out, or nearly everything does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sagehand.picture import Box

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["stands_out"]

_SIDE = 96  # pixels of the long side that is looked at
_BORDER = 0.06  # share of a side that counts as background
_MARGIN = 0.08  # of the box, added on each side: keep the fixture (paper A §2.2)
_LIGHT = 12.0  # of 255: distance in colour that shade and noise make
_LEAST, _MOST = 0.02, 0.85  # share of the picture that a region must and may fill


def stands_out(pixels: NDArray[np.uint8]) -> tuple[Box | None, str]:
    """Find the region that differs from the border.

    Args:
        pixels: (H, W, 3) RGB.

    Returns:
        The box in pixels and why, or None and why not.
    """
    from PIL import Image

    height, width = pixels.shape[:2]
    scale = _SIDE / max(height, width)
    size = (max(round(width * scale), 1), max(round(height * scale), 1))
    if min(size) < 16:
        return None, "the picture is too small or too narrow to tell a device from its background"
    small = Image.fromarray(pixels).resize(size, Image.Resampling.BOX, reducing_gap=2.0)
    distance = _distance(small)
    threshold = _otsu(distance)
    region = _region(distance > threshold)
    if region is None:
        return None, "nothing stands out from the background"
    share = float(region.mean())
    if not _LEAST <= share <= _MOST:
        return None, f"what stands out fills {share:.0%} of the picture: that is no device before a background"
    rows, columns = np.flatnonzero(region.any(axis=1)), np.flatnonzero(region.any(axis=0))
    x, y = columns[0] / size[0], rows[0] / size[1]
    w, h = (columns[-1] + 1) / size[0] - x, (rows[-1] + 1) / size[1] - y
    box = Box.from_fractions(
        x - _MARGIN * w, y - _MARGIN * h, w * (1 + 2 * _MARGIN), h * (1 + 2 * _MARGIN), (width, height)
    )
    return box, f"a region of {share:.0%} of the picture differs from its border"


def _distance(small: Image.Image) -> NDArray[np.float32]:
    """Distance in colour [0–255] of each pixel to the nearest of the border's colours."""
    from PIL import Image

    colours = np.asarray(_to_lab()(small), dtype=np.float32)
    height, width = colours.shape[:2]
    edge = max(round(_BORDER * min(height, width)), 1)
    frame = np.ones((height, width), dtype=bool)
    frame[edge:-edge, edge:-edge] = False
    border = Image.fromarray(colours[frame].astype(np.uint8).reshape(1, -1, 3))
    palette = border.quantize(8, method=Image.Quantize.MEDIANCUT)
    used = palette.getcolors() or []
    table = np.array((palette.getpalette() or [])[: 3 * 8], dtype=np.float32).reshape(-1, 3)
    # a colour that only a few border pixels have is the device reaching the edge, not background
    common = [index for count, index in used if count >= 0.04 * border.width and isinstance(index, int)]
    background = table[common] if common else table[:1]
    between = np.sqrt(((colours[:, :, None, :] - background[None, None]) ** 2).sum(axis=-1))
    return np.asarray(between.min(axis=-1), dtype=np.float32)


@cache
def _to_lab() -> Callable[[Image.Image], Image.Image]:
    """RGB to CIELAB, built once: Pillow's own ``convert("LAB")`` builds it at every call, most of a crop's time."""
    from PIL import ImageCms

    profiles = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
    transform = ImageCms.buildTransform(*profiles, "RGB", "LAB")
    return transform.apply


def _otsu(values: NDArray[np.float32]) -> float:
    """Otsu's threshold (IEEE SMC 9, 1979), but what differs less than light does is no thing."""
    if np.ptp(values) < 1e-6:
        return max(float(values.max()), _LIGHT)
    counts, edges = np.histogram(values, bins=64)
    middle = (edges[:-1] + edges[1:]) / 2
    below = np.cumsum(counts)
    above = below[-1] - below
    mass = np.cumsum(counts * middle)
    with np.errstate(divide="ignore", invalid="ignore"):
        between = below * above * (mass / below - (mass[-1] - mass) / above) ** 2
    return max(float(edges[int(np.nanargmax(between)) + 1]), _LIGHT)


def _region(mask: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
    """The connected region with most weight near the middle, holes closed, or None."""
    from scipy import ndimage

    closed = ndimage.binary_closing(np.pad(mask, 3), iterations=2)[3:-3, 3:-3]
    opened = ndimage.binary_opening(closed, iterations=1)
    labels, count = ndimage.label(opened)
    if not count:
        return None
    height, width = mask.shape
    y, x = np.mgrid[0:height, 0:width]
    centre = np.exp(-2 * (((y / height - 0.5) / 0.5) ** 2 + ((x / width - 0.5) / 0.5) ** 2))
    weight = ndimage.sum_labels(centre, labels, index=np.arange(1, count + 1))
    return np.asarray(labels == int(np.argmax(weight)) + 1)
