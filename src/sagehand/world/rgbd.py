"""A picture with depth and owners, and the points that it shows; nothing here needs a renderer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import DepthError, UnknownName
from sagehand.world.frames import Pose

__all__ = ["RgbdFrame", "cloud", "unproject"]


@dataclass(frozen=True, eq=False)
class RgbdFrame:
    """One view of a scene.

    Attributes:
        rgb: (H, W, 3) uint8.
        depth_m: (H, W) float32, distance along the optical axis [m]; 0 where nothing is.
        segmentation: (H, W) int16, whose the pixel is, as a place in ``names``; −1 for what belongs to no one.
        names: "table", "robot", and the objects of the scene.
        intrinsics: (3, 3) camera matrix [px], good for this width and height alone.
        T_world_camera: (4, 4) pose of the optical frame, z forward, x right, y down [m].
        width: Columns [px].
        height: Rows [px].
    """

    rgb: NDArray[np.uint8]
    depth_m: NDArray[np.float32]
    segmentation: NDArray[np.int16]
    names: tuple[str, ...]
    intrinsics: NDArray[np.float64]
    T_world_camera: Pose
    width: int
    height: int

    def __post_init__(self) -> None:
        for what, array in (("rgb", self.rgb), ("depth_m", self.depth_m), ("segmentation", self.segmentation)):
            _fits(what, array, self.width, self.height)

    def mask(self, name: str) -> NDArray[np.bool_]:
        """(H, W) the pixels of one of ``names``.

        Raises:
            UnknownName: It is none of them.
        """
        if name not in self.names:
            raise UnknownName("name in the picture", name, self.names)
        return np.asarray(self.segmentation == self.names.index(name))


def unproject(
    depth_m: NDArray[np.float32], intrinsics: NDArray[np.float64], width: int, height: int
) -> NDArray[np.float64]:
    """(H, W, 3) points in the optical frame [m] of a depth picture (H, W) [m].

    Args:
        depth_m: (H, W) along the optical axis [m].
        intrinsics: (3, 3) camera matrix [px].
        width: Columns of the pictures that the matrix is good for [px].
        height: Rows of them [px].

    Raises:
        DepthError: The depth is of another size than the intrinsics are for.
    """
    _fits("depth_m", depth_m, width, height)
    u, v = np.meshgrid(np.arange(width), np.arange(height))
    z = depth_m.astype(np.float64)
    x = (u - intrinsics[0, 2]) / intrinsics[0, 0] * z
    y = (v - intrinsics[1, 2]) / intrinsics[1, 1] * z
    return np.stack([x, y, z], axis=-1)


def cloud(frame: RgbdFrame, name: str | None = None) -> NDArray[np.float64]:
    """(N, 3) points in the world [m] of all pixels with depth, or of those of one name.

    Raises:
        UnknownName: ``name`` is not in the picture's names.
        DepthError: No pixel is left; the message counts what was lost where.
    """
    mask = np.ones(frame.depth_m.shape, dtype=bool) if name is None else frame.mask(name)
    deep = mask & np.isfinite(frame.depth_m) & (frame.depth_m > 0)
    if not deep.any():
        what = "the picture" if name is None else repr(name)
        raise DepthError(
            f"no valid point: of {mask.size} pixels {int(mask.sum())} show {what}, and none of those has depth",
            hint="it may be out of view or hidden; move the camera",
        )
    points = unproject(frame.depth_m, frame.intrinsics, frame.width, frame.height)[deep]
    T = frame.T_world_camera
    return np.asarray(points @ T[:3, :3].T + T[:3, 3])


def _fits(what: str, array: NDArray[Any], width: int, height: int) -> None:
    if array.shape[:2] != (height, width):
        raise DepthError(
            f"{what} is {'x'.join(str(s) for s in array.shape[1::-1])}; the intrinsics are for {width}x{height}",
            hint="intrinsics are good for one size of picture: scale them, or take the picture's own",
        )
