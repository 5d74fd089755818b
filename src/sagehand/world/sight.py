"""What a camera would notice of an object: that it hangs in the air, and within the picture."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sagehand.world.frames import invert
from sagehand.world.scene import Camera

__all__ = ["SEEN_M", "in_view"]

SEEN_M = 0.020
"""What is raised by less is not told from what stands on the table, at a depth camera's noise [m]."""


def in_view(camera: Camera, centre_m: ArrayLike, rise_m: float) -> bool:
    """Whether an object is off the table by 20 mm or more, with its centre in the camera's picture.

    Args:
        camera: Which looks.
        centre_m: (3,) the object's centre of mass in the world [m].
        rise_m: How far that is above where it began [m].
    """
    if rise_m < SEEN_M:
        return False
    x, y, z = (invert(camera.T_world_camera) @ np.append(np.asarray(centre_m, dtype=np.float64), 1.0))[:3]
    if z <= 0:
        return False
    column, row = (camera.intrinsics @ (x / z, y / z, 1.0))[:2]
    return bool(0 <= column < camera.width and 0 <= row < camera.height)
