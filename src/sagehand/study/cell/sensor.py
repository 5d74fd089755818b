"""What a camera makes of a clean render: shade, exposure, white balance, the lens's fall-off, blur and noise.

Shade in corners and under edges comes from the depth image alone: a pixel that lies behind the mean of its surroundings
is darkened (unsharp masking of the depth buffer, Luft et al. 2006). What a depth camera makes of an exact depth image is
here, too.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sagehand.study.cell.scene import Scene

__all__ = ["measure_depth", "shoot"]


def shoot(rgb: NDArray[np.uint8], depth: NDArray[np.float32], scene: Scene) -> NDArray[np.uint8]:
    """The picture that a camera takes of a clean render.

    Args:
        rgb: (H, W, 3), the clean render.
        depth: (H, W), distance along the optical axis [m].
        scene: Gives exposure, white balance, field of view and the seed of the noise.

    Returns:
        (H, W, 3) RGB.
    """
    from scipy import ndimage

    height, width = depth.shape
    coarse = depth[::2, ::2]
    shade = np.zeros_like(coarse)
    focal = height / 2 / (2 * math.tan(math.radians(scene.camera.fovy) / 2))  # of the halved picture [px]
    for reach, weight in ((0.005, 9.0), (0.018, 5.0)):  # [m]
        behind = coarse - ndimage.gaussian_filter(coarse, focal * reach / float(np.median(coarse)))
        shade += weight * np.clip(behind, 0.0, 0.02)
    shade = ndimage.zoom(
        ndimage.gaussian_filter(shade, 0.7), (height / shade.shape[0], width / shade.shape[1]), order=1
    )
    light = rgb.astype(np.float32) / np.float32(255)
    light *= (1 - np.clip(3.0 * shade, 0, 0.5))[:, :, None]
    across = (
        np.linspace(-1, 1, width, dtype=np.float32) ** 2 + np.linspace(-1, 1, height, dtype=np.float32)[:, None] ** 2
    )
    light *= ((1 - 0.12 * across) * np.float32(scene.exposure))[:, :, None]
    light *= np.array([scene.balance[0], 1.0, scene.balance[1]], dtype=np.float32)
    for axis in (0, 1):
        light = ndimage.convolve1d(light, [0.13, 0.74, 0.13], axis=axis, mode="nearest")
    grain = np.random.default_rng([scene.seed, 9]).standard_normal((height, width, 1), dtype=np.float32)
    light += grain * np.float32(0.004)
    return np.ascontiguousarray(np.clip(light * 255 + 0.5, 0, 255).astype(np.uint8))


def measure_depth(depth: NDArray[np.float32], focal: float, seed: int) -> NDArray[np.float32]:
    """The depth image that a structured-light camera would take of exact depths.

    Noise of the first Kinect as measured by Nguyen, Izadi and Lovell (3DIMPVT 2012, eqs. 1–2), for a surface at depth z
    turned by θ from the camera: lateral σ_L = 0.8 + 0.035 θ / (π/2 − θ) px, axial σ_z = 0.0012 + 0.0019 (z − 0.4)² m. Their
    axial term for θ > 60° is left out, θ in the lateral one is kept under 80°; so are holes, and the noise is independent
    from pixel to pixel. They measured from 0.4 m on; below it the axial term is held at its value there.

    Args:
        depth: (H, W), distance along the optical axis [m].
        focal: Focal length [px].
        seed: Seed of the view.

    Returns:
        (H, W) [m].
    """
    height, width = depth.shape
    rng = np.random.default_rng([seed, 10])
    down, right = np.gradient(depth)
    slope = np.hypot(down, right) * np.float32(focal) / depth  # tan θ, for rays near the axis
    theta = np.minimum(np.arctan(slope), np.float32(math.radians(80)))
    lateral = 0.8 + 0.035 * theta / (np.float32(math.pi / 2) - theta)
    shift = rng.standard_normal((2, height, width), dtype=np.float32) * lateral
    rows = np.clip(np.rint(np.arange(height, dtype=np.float32)[:, None] + shift[0]), 0, height - 1).astype(np.intp)
    columns = np.clip(np.rint(np.arange(width, dtype=np.float32) + shift[1]), 0, width - 1).astype(np.intp)
    seen = depth[rows, columns]
    axial = 0.0012 + 0.0019 * np.maximum(seen - 0.4, 0) ** 2
    return np.asarray(seen + axial * rng.standard_normal((height, width), dtype=np.float32), dtype=np.float32)
