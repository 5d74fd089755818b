"""One object as it stands on the table: every number settled, whatever file, instance and noise it came from.

The object's frame: z up as it stands by itself, the origin in the middle of its base, x along its long side.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import UnknownName
from sagehand.world.frames import Pose
from sagehand.world.grasp import GraspType
from sagehand.world.objects.shapes import Solid, reach

__all__ = ["Affordance", "Cavity", "ObjectModel", "Region", "Turn"]

FRAGILE = 0.6
"""Fragility from which an object counts as fragile (GRASPING §1)."""


class Affordance(StrEnum):
    """What a region is good for: the eight types of paper B §III-A."""

    GRASPABLE_BODY = "Graspable_Body"
    GRASPABLE_HANDLE = "Graspable_Handle"
    GRASPABLE_EDGE = "Graspable_Edge"
    PINCHABLE = "Pinchable"
    WRAPPABLE = "Wrappable"
    FRAGILE = "Fragile"
    TOOL_HANDLE = "Tool_Handle"
    CLAMPABLE = "Clampable"


class Turn(StrEnum):
    """How a region repeats itself."""

    NONE = "none"
    """Only as it is, and with the fingers changed round."""
    ROUND = "round"
    """At every angle about the object's z."""


@dataclass(frozen=True, eq=False)
class Region:
    """Where an object may be held.

    The region's frame: **z** points out of the object, against the natural approach; **y** is the natural closing direction;
    **x** runs along the region. The natural grasp puts the TCP at its origin, approaching along −z.

    Attributes:
        name: Its name, as in "rim".
        T_object_region: (4, 4) its frame [m].
        size_m: (3,) how far it reaches along its x, y, z [m]; along y it is what the fingers must span.
        affordance: What it is good for.
        types: Grasp types that suit it.
        turn: How it repeats itself.
    """

    name: str
    T_object_region: Pose
    size_m: tuple[float, float, float]
    affordance: Affordance
    types: tuple[GraspType, ...]
    turn: Turn = Turn.NONE

    @property
    def width_m(self) -> float:
        """What the fingers must span [m]."""
        return self.size_m[1]


@dataclass(frozen=True)
class Cavity:
    """The hollow of a vessel about the object's z.

    Attributes:
        radius_m: Radius of the cylinder between floor and rim that holds as much [m].
        floor_m: Height of its floor [m].
        rim_m: Height of its rim [m].
    """

    radius_m: float
    floor_m: float
    rim_m: float


@dataclass(frozen=True, eq=False)
class ObjectModel:
    """An object with every number settled.

    Attributes:
        name: Name of the instance, as in "cup" or "cup-small".
        category: As in "cup".
        superclass: As in "vessel".
        material: As in "enamel".
        fragility: From 0 (durable) to 1.
        mass_kg: Mass, empty [kg].
        friction: Coulomb's coefficient between its surface and the rubber of a finger pad.
        f_safe_n: Largest normal force of one finger that does no harm [N].
        solids: The convex solids it is made of; mass shares sum to 1.
        regions: Name → region.
        cavity: Its hollow, if it is a vessel.
        affordances: What the whole object is said to afford.
        rolling_friction: Coefficient of rolling resistance on the table [m]; 0 for what does not roll.
        base: Name of the data file it comes from.
    """

    name: str
    category: str
    superclass: str
    material: str
    fragility: float
    mass_kg: float
    friction: float
    f_safe_n: float
    solids: tuple[Solid, ...]
    regions: dict[str, Region]
    cavity: Cavity | None = None
    affordances: tuple[Affordance, ...] = ()
    rolling_friction: float = 0.0
    base: str = ""
    _bounds: list[NDArray[np.float64]] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def is_fragile(self) -> bool:
        """Whether neighbours have to be careful of it."""
        return self.fragility >= FRAGILE

    @property
    def com_m(self) -> NDArray[np.float64]:
        """(3,) centre of mass in the object's frame, empty [m]."""
        shares = np.array([s.mass_share for s in self.solids])
        places = np.array([s.T_object_solid[:3, 3] for s in self.solids])
        return np.asarray(shares @ places / shares.sum())

    @property
    def bounds_m(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(3,) lowest and (3,) highest corner of its box in the object's frame [m]."""
        if not self._bounds:
            half = [reach(s) for s in self.solids]
            centres = [s.T_object_solid[:3, 3] for s in self.solids]
            self._bounds[:] = [
                np.min([c - r for c, r in zip(centres, half, strict=True)], axis=0),
                np.max([c + r for c, r in zip(centres, half, strict=True)], axis=0),
            ]
        return self._bounds[0], self._bounds[1]

    @property
    def size_m(self) -> NDArray[np.float64]:
        """(3,) lengths of its box [m]."""
        low, high = self.bounds_m
        return high - low

    def region(self, name: str) -> Region:
        """One region by name.

        Raises:
            UnknownName: There is none of this name.
        """
        if name not in self.regions:
            raise UnknownName(f"region of {self.name}", name, self.regions)
        return self.regions[name]
