"""From what a data file says to an object with every number settled."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sagehand.errors import InputError
from sagehand.world.frames import Pose, axis_rotation, pose, rpy, translation
from sagehand.world.objects.model import Cavity, ObjectModel, Region
from sagehand.world.objects.shapes import Box, Capsule, Cylinder, Ellipsoid, Shape, Shell, Solid, Sphere, solids_of
from sagehand.world.objects.spec import (
    BoxPart,
    CapsulePart,
    CylinderPart,
    EllipsoidPart,
    ObjectSpec,
    Part,
    RegionSpec,
    ShellPart,
    SpherePart,
)

__all__ = ["build_object", "rgba_of"]

BESIDE_M = 0.006
"""How far a region may lie outside the object's box [m]: over a thin thing the TCP stays above it."""
SIZE_M = 0.003
"""How far the parts may be from the stated size [m]: a model is plainer than the thing,"""
SIZE_SHARE = 0.03
"""or by what share of it, if that is more."""


def build_object(spec: ObjectSpec, where: str) -> ObjectModel:
    """The object itself, without instances.

    Args:
        spec: What its file says.
        where: The file, for messages.

    Raises:
        InputError: It does not stand on z = 0, a region lies outside it, or it is not of its stated size.
    """
    model = ObjectModel(
        name=spec.name,
        category=spec.category,
        superclass=spec.superclass,
        material=spec.material,
        fragility=spec.fragility,
        mass_kg=spec.mass_kg.value,
        friction=spec.friction.value,
        f_safe_n=spec.f_safe_n.value,
        solids=tuple(_solids(spec)),
        regions={name: _region(name, region) for name, region in spec.regions.items()},
        cavity=Cavity(spec.cavity.radius_m, spec.cavity.floor_m, spec.cavity.rim_m) if spec.cavity else None,
        affordances=spec.affordances,
        rolling_friction=spec.rolling_friction_m.value if spec.rolling_friction_m else 0.0,
        base=spec.name,
    )
    low, high = model.bounds_m
    if abs(low[2]) > 0.001:
        raise InputError(
            f"{where}: parts: the lowest point is at z = {low[2]:.4f} m", hint="an object stands on z = 0 of its frame"
        )
    for name, region in model.regions.items():
        at = region.T_object_region[:3, 3]
        if np.any(at < low - BESIDE_M) or np.any(at > high + BESIDE_M):
            raise InputError(
                f"{where}: regions.{name}.at_m: {np.round(at, 4).tolist()} lies outside the object",
                hint=f"its box is from {np.round(low, 4).tolist()} to {np.round(high, 4).tolist()} m",
            )
    stated = np.array(spec.size_m.value)
    if np.any(np.abs(high - low - stated) > np.maximum(SIZE_M, SIZE_SHARE * stated)):
        raise InputError(
            f"{where}: size_m: it is {stated.tolist()} m, but the parts reach over {np.round(high - low, 4).tolist()} m",
            hint=f"they must agree within {1000 * SIZE_M:g} mm or {100 * SIZE_SHARE:g} %, whichever is more",
        )
    return model


def rgba_of(color: str) -> tuple[float, float, float, float]:
    """Red, green, blue and opacity, from 0 to 1, of "#rrggbb" or "#rrggbbaa"."""
    text = color.removeprefix("#").ljust(8, "f")
    r, g, b, a = (int(text[i : i + 2], 16) / 255 for i in (0, 2, 4, 6))
    return r, g, b, a


def _solids(spec: ObjectSpec) -> Iterator[Solid]:
    """All solids, with their shares of the mass: a part's own, or by volume of what is left."""
    made = [[s for T in _places(part) for s in _of_part(part, T)] for part in spec.shapes]
    volumes = [sum(s.volume_m3 for s in solids) for solids in made]
    left = 1 - sum(p.mass_share or 0 for p in spec.shapes)
    loose = sum(v for p, v in zip(spec.shapes, volumes, strict=True) if p.mass_share is None)
    for part, solids, volume in zip(spec.shapes, made, volumes, strict=True):
        share = left * volume / loose if part.mass_share is None else part.mass_share
        for solid in solids:
            yield replace(solid, mass_share=share * solid.volume_m3 / volume)


def _of_part(part: Part, T: Pose) -> list[Solid]:
    return solids_of(_shape(part), T, part=part.name, rgba=rgba_of(part.color))


def _shape(part: Part) -> Shape:
    match part:
        case BoxPart():
            return Box(part.size_m)
        case CylinderPart():
            return Cylinder(part.radius_m, part.height_m)
        case SpherePart():
            return Sphere(part.radius_m)
        case EllipsoidPart():
            return Ellipsoid(part.half_axes_m)
        case CapsulePart():
            return Capsule(part.radius_m, part.length_m)
        case ShellPart():
            return Shell(part.radius_bottom_m, part.radius_top_m, part.height_m, part.wall_m, part.floor_m, part.sides)
    raise InputError(f"{type(part).__name__} is no shape")


def _places(part: Part) -> Iterator[Pose]:
    first = pose(part.at_m, rpy(*(math.radians(a) for a in part.rpy_deg))[:3, :3])
    repeat = part.repeat
    if repeat is None:
        yield first
        return
    about = pose(repeat.about_m)
    back = translation(*(-v for v in repeat.about_m))
    for number in range(repeat.count):
        turn = axis_rotation(repeat.axis, math.radians(repeat.turn_deg) * number)
        yield pose(np.array(repeat.step_m) * number) @ about @ turn @ back @ first


def _region(name: str, spec: RegionSpec) -> Region:
    z = np.array(spec.outward) / math.hypot(*spec.outward)
    y = np.array(spec.closing) - (np.array(spec.closing) @ z) * z
    y = y / np.linalg.norm(y)
    T = pose(spec.at_m, np.column_stack([np.cross(y, z), y, z]))
    return Region(name, T, spec.size_m, spec.affordance, spec.types, spec.turn)
