"""Objects for the tests of the physics."""

from __future__ import annotations

import numpy as np

from sagehand.world.frames import translation
from sagehand.world.objects.model import ObjectModel
from sagehand.world.objects.shapes import Box, Cylinder, Shape, Sphere, solids_of

__all__ = ["DOWN", "ball", "block", "post", "thing"]

DOWN = np.diag([1.0, -1.0, -1.0])
"""A hand from above, closing along −y."""


def thing(shape: Shape, height_m: float, name: str, **rest: object) -> ObjectModel:
    """An object of one solid that stands on its base."""
    values: dict[str, object] = {"fragility": 0.0, "mass_kg": 0.05, "friction": 0.5, "f_safe_n": 70.0} | rest
    solids = tuple(solids_of(shape, translation(z=height_m / 2)))
    return ObjectModel(name, name, "block", "wood", solids=solids, regions={}, **values)  # type: ignore[arg-type]


def block(width_m: float, depth_m: float = 0.04, height_m: float = 0.04, **rest: object) -> ObjectModel:
    """A block; its width is along y."""
    return thing(Box((depth_m, width_m, height_m)), height_m, "block", **rest)


def post(radius_m: float, height_m: float, **rest: object) -> ObjectModel:
    """An upright cylinder."""
    return thing(Cylinder(radius_m, height_m), height_m, "post", **rest)


def ball(radius_m: float, **rest: object) -> ObjectModel:
    """A ball."""
    return thing(Sphere(radius_m), 2 * radius_m, "ball", **({"rolling_friction": 0.002} | rest))
