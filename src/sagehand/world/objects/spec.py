"""What a data file of an object may say: one dataclass a block.

Lengths in metres, angles in degrees, forces in newtons, as each name says. Every constant that was measured by somebody is a
:class:`Constant`: a value with the key of its source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Annotated, Any, ClassVar, Literal

from sagehand.world.data_file import FORMAT
from sagehand.world.grasp import GraspType
from sagehand.world.objects.model import Affordance, Turn

__all__ = [
    "PARTS",
    "BoxPart",
    "CapsulePart",
    "CavitySpec",
    "Constant",
    "CylinderPart",
    "EllipsoidPart",
    "InstanceSpec",
    "ObjectSpec",
    "Part",
    "RegionSpec",
    "Repeat",
    "ShellPart",
    "Size",
    "SpherePart",
    "Split",
    "Three",
]


class _NoText:
    """Neither text nor a truth value is taken for a number."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return {**handler(source), "strict": True}


Number = Annotated[float, _NoText()]
"""A number, as it is written: neither "0.5" nor true."""
Count = Annotated[int, _NoText()]
"""And a whole one."""
Three = tuple[Number, Number, Number]
"""Lengths, or a direction, along x, y, z."""
Split = Literal["benchmark", "base", "far"]
"""benchmark: what benchmarks are run on; base: what experiences are collected on; far: categories in neither (GRASPING §7)."""
_STRICT = {"extra": "forbid", "allow_inf_nan": False}


@dataclass(frozen=True)
class Constant:
    """A measured number and the key of its source."""

    __pydantic_config__: ClassVar[Any] = _STRICT
    value: Number
    source: str


@dataclass(frozen=True)
class Size:
    """The published lengths along x, y, z [m] and the key of their source."""

    __pydantic_config__: ClassVar[Any] = _STRICT
    value: Three
    source: str


@dataclass(frozen=True)
class Repeat:
    """Copies of a part: each one step further along and one turn further about an axis through a point.

    Attributes:
        count: How many in all.
        step_m: From one to the next [m].
        turn_deg: From one to the next [deg].
        axis: About which axis of the object they turn.
        about_m: A point of that axis [m].
    """

    __pydantic_config__: ClassVar[Any] = _STRICT
    count: Count
    step_m: Three = (0.0, 0.0, 0.0)
    turn_deg: Number = 0.0
    axis: Literal["x", "y", "z"] = "z"
    about_m: Three = (0.0, 0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class Part:
    """What all parts have.

    Attributes:
        name: Its name.
        at_m: Where its middle (of a shell: the middle of its foot) is in the object's frame [m].
        rpy_deg: How it is turned there, about the object's fixed x, y, z [deg].
        color: "#rrggbb" or "#rrggbbaa".
        mass_share: Its share of the object's mass, with all its copies; by volume if not given.
        repeat: Copies of it.
    """

    __pydantic_config__: ClassVar[Any] = _STRICT
    name: str = "body"
    at_m: Three = (0.0, 0.0, 0.0)
    rpy_deg: Three = (0.0, 0.0, 0.0)
    color: str = "#b0b0b0"
    mass_share: Number | None = None
    repeat: Repeat | None = None


@dataclass(frozen=True, kw_only=True)
class BoxPart(Part):
    """A box of full lengths ``size_m`` [m]."""

    shape: Literal["box"]
    size_m: Three


@dataclass(frozen=True, kw_only=True)
class CylinderPart(Part):
    """A cylinder about its z [m]."""

    shape: Literal["cylinder"]
    radius_m: Number
    height_m: Number


@dataclass(frozen=True, kw_only=True)
class SpherePart(Part):
    """A ball [m]."""

    shape: Literal["sphere"]
    radius_m: Number


@dataclass(frozen=True, kw_only=True)
class EllipsoidPart(Part):
    """An ellipsoid of half axes ``half_axes_m`` [m]."""

    shape: Literal["ellipsoid"]
    half_axes_m: Three


@dataclass(frozen=True, kw_only=True)
class CapsulePart(Part):
    """A cylinder about its z with round ends, ``length_m`` from tip to tip [m]."""

    shape: Literal["capsule"]
    radius_m: Number
    length_m: Number


@dataclass(frozen=True, kw_only=True)
class ShellPart(Part):
    """A hollow vessel, open at the top, outer radii [m]."""

    shape: Literal["shell"]
    radius_bottom_m: Number
    radius_top_m: Number
    height_m: Number
    wall_m: Number
    floor_m: Number
    sides: Count = 24


PARTS: dict[str, type[Part]] = {
    "box": BoxPart,
    "cylinder": CylinderPart,
    "sphere": SpherePart,
    "ellipsoid": EllipsoidPart,
    "capsule": CapsulePart,
    "shell": ShellPart,
}
"""Name of a shape → what a part of it may say."""


@dataclass(frozen=True)
class RegionSpec:
    """Where it may be held; the fields of :class:`~sagehand.world.objects.model.Region`.

    Attributes:
        at_m: Where the TCP goes in the natural grasp [m].
        outward: Direction against the natural approach.
        closing: Natural closing direction; made square to ``outward``.
        size_m: Reach along its x, y, z [m]; y is what the fingers span.
        affordance: What it is good for.
        types: Grasp types that suit it.
        turn: How it repeats itself.
    """

    __pydantic_config__: ClassVar[Any] = _STRICT
    at_m: Three
    outward: Three
    closing: Three
    size_m: Three
    affordance: Affordance
    types: tuple[GraspType, ...]
    turn: Turn = Turn.NONE


@dataclass(frozen=True)
class CavitySpec:
    """The hollow of a vessel about its z.

    Attributes:
        radius_m: Radius of the cylinder between floor and rim that holds as much [m].
        floor_m: Height of its floor [m].
        rim_m: Height of its rim [m].
    """

    __pydantic_config__: ClassVar[Any] = _STRICT
    radius_m: Number
    floor_m: Number
    rim_m: Number


@dataclass(frozen=True)
class InstanceSpec:
    """Another one of the same kind; what is not given is as in the object.

    Attributes:
        title: What it is.
        split: What it may be used for.
        scale: Factor on all lengths, or one along each axis.
        material: Another material.
        fragility: Another fragility.
        density: Factor on the density; the mass follows from it and the scale.
        mass_kg: Or the mass itself.
        friction: Another friction.
        f_safe_n: Another safe force; else it goes with the area, so that the stress stays.
        color: Another colour for all its parts.
    """

    __pydantic_config__: ClassVar[Any] = _STRICT
    title: str
    split: Split | None = None
    scale: Number | Three = 1.0
    material: str | None = None
    fragility: Number | None = None
    density: Number = 1.0
    mass_kg: Constant | None = None
    friction: Constant | None = None
    f_safe_n: Constant | None = None
    color: str | None = None


@dataclass(frozen=True)
class ObjectSpec:
    """A data file.

    Attributes:
        name: As in "cup"; the file's name without its ending.
        title: What it is, in words.
        category: As in "cup".
        superclass: Categories that are easily taken for one another.
        material: As in "enamel".
        fragility: From 0 (durable) to 1.
        affordances: What the whole object affords.
        size_m: Its published lengths; the shapes are held against them.
        mass_kg: Mass, empty.
        friction: Coulomb's coefficient against a rubber pad.
        f_safe_n: Largest force of one finger that does no harm.
        parts: The shapes it is made of.
        regions: Name → where it may be held.
        cavity: Its hollow, if it is a vessel.
        rolling_friction_m: Rolling resistance on the table [m].
        instances: Name → another one of the same kind.
        sources: Key → source, beside the shared ones.
        notes: What a reader of the table ought to know.
        format: Version of the form of the file.
    """

    __pydantic_config__: ClassVar[Any] = _STRICT
    name: str
    title: str
    category: str
    superclass: str
    material: str
    fragility: Number
    affordances: tuple[Affordance, ...]
    size_m: Size
    mass_kg: Constant
    friction: Constant
    f_safe_n: Constant
    parts: list[dict[str, Any]]
    regions: dict[str, RegionSpec]
    cavity: CavitySpec | None = None
    rolling_friction_m: Constant | None = None
    instances: dict[str, InstanceSpec] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    notes: str = ""
    format: Count = FORMAT
    shapes: tuple[Part, ...] = ()

    @property
    def constants(self) -> Iterator[tuple[str, Constant | Size]]:
        """Path of each constant with a source, and the constant."""
        yield from _constants(self, "")


def _constants(block: Any, path: str) -> Iterator[tuple[str, Constant | Size]]:
    if isinstance(block, Constant | Size):
        yield path, block
    elif is_dataclass(block):
        for f in fields(block):
            yield from _constants(getattr(block, f.name), f"{path}.{f.name}" if path else f.name)
    elif isinstance(block, Mapping):
        for name, value in block.items():
            yield from _constants(value, f"{path}.{name}" if path else str(name))
