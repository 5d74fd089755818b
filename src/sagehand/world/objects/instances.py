"""Others of the same kind: scaled, of another material, or drawn at random about a model (GRASPING §3)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sagehand.errors import InputError
from sagehand.world.objects.build import rgba_of
from sagehand.world.objects.model import Cavity, ObjectModel, Region
from sagehand.world.objects.shapes import Solid, SolidKind
from sagehand.world.objects.spec import InstanceSpec

__all__ = ["HARMLESS_N", "instance_of", "perturbed", "stretched"]

HARMLESS_N = 70.0
"""A safe force that says: nothing the hand can do does harm; it is the hand's largest [N] (GRASPING §8)."""


def instance_of(model: ObjectModel, name: str, spec: InstanceSpec) -> ObjectModel:
    """An instance of an object.

    The mass goes with volume and density, the safe force with the area (the stress stays), unless the file gives them; a safe
    force at the hand's limit stays there.
    """
    scale = np.broadcast_to(np.asarray(spec.scale, dtype=np.float64), 3)
    volume = float(np.prod(scale))
    f_safe = model.f_safe_n if model.f_safe_n >= HARMLESS_N else min(model.f_safe_n * volume ** (2 / 3), HARMLESS_N)
    made = stretched(model, scale)
    solids = made.solids
    if spec.color is not None:
        solids = tuple(replace(s, rgba=rgba_of(spec.color)) for s in solids)
    return replace(
        made,
        name=f"{model.name}-{name}",
        material=spec.material or model.material,
        fragility=model.fragility if spec.fragility is None else spec.fragility,
        mass_kg=spec.mass_kg.value if spec.mass_kg else model.mass_kg * volume * spec.density,
        friction=spec.friction.value if spec.friction else model.friction,
        f_safe_n=spec.f_safe_n.value if spec.f_safe_n else f_safe,
        solids=solids,
    )


def stretched(model: ObjectModel, scale: ArrayLike) -> ObjectModel:
    """The same object with its lengths multiplied, mass and forces as they are.

    Exact for one factor, and along each axis for solids that stand along the axes; a turned or round one keeps its kind and gets
    the factor of each of its own axes.

    Args:
        model: The object.
        scale: One factor, or (3,) along x, y, z of the object.

    Raises:
        InputError: A factor is not above 0.
    """
    factors: NDArray[np.float64] = np.broadcast_to(np.asarray(scale, dtype=np.float64), 3)
    if not (np.isfinite(factors).all() and (factors > 0).all()):
        raise InputError(f"the scale is {np.asarray(scale).tolist()}; it must be above 0")
    cavity = model.cavity
    wide = math.sqrt(float(factors[0] * factors[1]))
    return replace(
        model,
        solids=tuple(_solid(s, factors) for s in model.solids),
        regions={name: _region(r, factors) for name, r in model.regions.items()},
        cavity=cavity and Cavity(cavity.radius_m * wide, cavity.floor_m * factors[2], cavity.rim_m * factors[2]),
        rolling_friction=model.rolling_friction * float(np.prod(factors)) ** (1 / 3),
    )


def perturbed(model: ObjectModel, rng: np.random.Generator, scale: float = 1.0) -> ObjectModel:
    """One drawn about a model: size ×N(1, .03), mass ×U(.8, 1.2), friction ×U(.8, 1.2), f_safe ×lognormal .2 (GRASPING §3).

    Four draws, always, in this order; regions and cavity go with the size.

    Args:
        model: The object.
        rng: Where the draws come from.
        scale: Multiplies all of the noise; 0 changes nothing.

    Raises:
        InputError: The scale is negative or so large that a mass could vanish.
    """
    if not 0 <= scale < 5:
        raise InputError(f"the noise scale is {scale}; it must be from 0 to below 5")
    size = max(1 + 0.03 * scale * float(rng.normal()), 0.2)
    mass = 1 + 0.2 * scale * float(rng.uniform(-1, 1))
    friction = 1 + 0.2 * scale * float(rng.uniform(-1, 1))
    f_safe = math.exp(0.2 * scale * float(rng.normal()))
    return replace(
        stretched(model, size),
        mass_kg=model.mass_kg * mass,
        friction=model.friction * friction,
        f_safe_n=model.f_safe_n * f_safe,
    )


def _solid(solid: Solid, factors: NDArray[np.float64]) -> Solid:
    T = solid.T_object_solid.copy()
    own = np.linalg.norm(factors[:, None] * T[:3, :3], axis=0)  # how much each of its axes grows
    T[:3, 3] *= factors
    across = math.sqrt(float(own[0] * own[1]))
    match solid.kind:
        case SolidKind.BOX | SolidKind.ELLIPSOID:
            size = solid.size * own
        case SolidKind.SPHERE:
            size = solid.size * float(np.prod(own)) ** (1 / 3)
        case SolidKind.CYLINDER | SolidKind.CAPSULE:
            size = solid.size * (across, own[2], 1.0)
    return replace(solid, size=size, T_object_solid=T, volume_m3=solid.volume_m3 * float(np.prod(factors)))


def _region(region: Region, factors: NDArray[np.float64]) -> Region:
    T = region.T_object_region.copy()
    own = np.linalg.norm(factors[:, None] * T[:3, :3], axis=0)
    T[:3, 3] *= factors
    x, y, z = (float(v) for v in np.array(region.size_m) * own)
    changes: dict[str, Any] = {"T_object_region": T, "size_m": (x, y, z)}
    return replace(region, **changes)
