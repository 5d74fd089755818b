"""What stands out from the background, or stands up from the surface: the perceptual crop and the relief crop.

By colour, the background is what the picture's border looks like: up to eight colours. What differs from all of them,
gathered into one region near the middle, is taken for the device and its fixture. It says "cannot tell" rather than guess:
nothing stands out, or nearly everything does. By depth, it is what stands on the supporting surface near the middle: neither
shade nor the colours of the table and the device count.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sagehand.embed.depth import FLOOR, Cells, fit_plane
from sagehand.picture import Box

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["stands_out", "stands_up"]

_SIDE = 96  # pixels of the long side that is looked at
_BORDER = 0.06  # share of a side that counts as background
_MARGIN = 0.08  # of the box, added on each side: keep the fixture (paper A §2.2)
_LIGHT = 12.0  # of 255: distance in colour that shade and noise make
_LEAST, _MOST = 0.02, 0.85  # share of the picture that a region must and may fill
_SURFACES = 2  # the table, and a plate or a fixture's bed that stands on it
_READINGS = 3  # along a cell's side: nine of them average a depth camera's noise to a third
_FILL, _READ = 0.25, 0.5  # share of a cell's pixels, and of the cells, that must have readings
_FITTED = 600  # cells that a surface is fitted to, as many as a depth vector has


def stands_out(pixels: NDArray[np.uint8]) -> tuple[Box | None, str]:
    """Find the region that differs from the border.

    Args:
        pixels: (H, W, 3) RGB.

    Returns:
        The box in pixels and why, or None and why not.
    """
    height, width = pixels.shape[:2]
    region = _coloured(pixels)
    if region is None:
        return None, "the picture is too small or too narrow to tell a device from its background"
    region = _region(region)
    if region is None:
        return None, "nothing stands out from the background"
    share = float(region.mean())
    if not _LEAST <= share <= _MOST:
        return None, f"what stands out fills {share:.0%} of the picture: that is no device before a background"
    return _around(region, (width, height)), f"a region of {share:.0%} of the picture differs from its border"


def stands_up(pixels: NDArray[np.uint8], depth: NDArray[np.float32] | None) -> tuple[Box | None, str]:
    """Find the thing that stands on the supporting surface near the middle; by colour where depth does not show it.

    What reaches the picture's edge is no device but what one stands on (a plate, a vise): its own surface is found, and
    what stands on that. Where this reaches the edge, too, colour decides within it.

    Args:
        pixels: (H, W, 3) RGB.
        depth: (H, W) depth [m]; None where there is none.

    Returns:
        The box in pixels and why, or None and why not.
    """
    height, width = pixels.shape[:2]
    small = _small_size(width, height)
    region = None if depth is None or min(small) < 16 else _standing(depth, (small[1], small[0]))
    if region is None:
        box, text = stands_out(pixels)
        return box, f"by colour, as {'there is no depth' if depth is None else 'depth shows nothing'}: {text}"
    if not _cut(region):
        text = f"what stands up from the surface fills {region.mean():.0%} of the picture"
        return _around(region, (width, height)), text
    coloured = _coloured(pixels)
    within = None if coloured is None else _region(coloured & region)
    if within is not None and within.mean() >= _LEAST:
        text = f"what stands up reaches the edge; {within.mean():.0%} of the picture differs from the border within it"
        return _around(within, (width, height)), text
    if region.mean() <= _MOST:
        return _around(region, (width, height)), f"what stands up reaches the edge and fills {region.mean():.0%}"
    return stands_out(pixels)


def _standing(depth: NDArray[np.float32], grid: tuple[int, int]) -> NDArray[np.bool_] | None:
    """The region that stands up near the middle, on the table or on what stands there; None where nothing does."""
    from scipy import ndimage

    down, across = grid
    step = max(1, min(depth.shape[0] // (_READINGS * down), depth.shape[1] // (_READINGS * across)))
    cells = Cells(depth[::step, ::step], grid)
    read = (cells.fill >= _FILL).reshape(grid)
    if read.mean() < _READ:
        return None
    inverse = cells.mean(1.0 / cells.z).reshape(grid)
    v, u = np.mgrid[0:down, 0:across]
    uv1 = np.stack([(u + 0.5) / across * 2.0 - 1.0, (v + 0.5) / down * 2.0 - 1.0, np.ones(grid)], axis=-1)
    among, found = read, None
    for _ in range(_SURFACES):
        thin = slice(None, None, int(among.sum()) // _FITTED + 1)
        plane = fit_plane(uv1[among][thin], inverse[among][thin])
        if plane is None:
            break
        heights = np.where(among, 1.0 - uv1 @ plane[0] / np.where(among, inverse, 1.0), 0.0)
        region = _region(heights > max(FLOOR, 5.0 * plane[1]))
        if region is None or region.mean() < _LEAST:
            break
        found = region
        if not _cut(region):
            break
        among = np.asarray(ndimage.binary_fill_holes(region) & read)
    return found


def _cut(region: NDArray[np.bool_]) -> bool:
    """Whether a region reaches the picture's edge."""
    return bool(region[0].any() or region[-1].any() or region[:, 0].any() or region[:, -1].any())


def _around(region: NDArray[np.bool_], size: tuple[int, int]) -> Box:
    """The box about a region of the small picture, with its margin, in a picture of (width, height) pixels."""
    down, across = region.shape
    rows, columns = np.flatnonzero(region.any(axis=1)), np.flatnonzero(region.any(axis=0))
    x, y = columns[0] / across, rows[0] / down
    w, h = (columns[-1] + 1) / across - x, (rows[-1] + 1) / down - y
    return Box.from_fractions(x - _MARGIN * w, y - _MARGIN * h, w * (1 + 2 * _MARGIN), h * (1 + 2 * _MARGIN), size)


def _small_size(width: int, height: int) -> tuple[int, int]:
    scale = _SIDE / max(height, width)
    return max(round(width * scale), 1), max(round(height * scale), 1)


def _coloured(pixels: NDArray[np.uint8]) -> NDArray[np.bool_] | None:
    """Where the small picture differs from its border; None where it is too small to tell."""
    from PIL import Image

    size = _small_size(pixels.shape[1], pixels.shape[0])
    if min(size) < 16:
        return None
    distance = _distance(Image.fromarray(pixels).resize(size, Image.Resampling.BOX, reducing_gap=2.0))
    return np.asarray(distance > _otsu(distance))


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
