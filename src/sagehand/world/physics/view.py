"""What a camera would notice of an object: that it hangs in the air, and within the picture."""

from __future__ import annotations

import numpy as np

from sagehand.world.frames import invert
from sagehand.world.physics.record import Record

__all__ = ["in_view"]

SEEN_M = 0.020
"""What is raised by less is not told from what stands on the table, at a depth camera's noise [m]."""


def in_view(record: Record, name: str) -> bool:
    """Whether an object is off the table by 20 mm or more, with its centre in the camera's picture."""
    if record.rise(name) < SEEN_M:
        return False
    camera = record.scene.camera
    x, y, z = (invert(camera.T_world_camera) @ np.append(record.cell.com(name), 1.0))[:3]
    if z <= 0:
        return False
    column, row = (camera.intrinsics @ (x / z, y / z, 1.0))[:2]
    return bool(0 <= column < camera.width and 0 <= row < camera.height)
