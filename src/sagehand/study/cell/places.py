"""The places of the cell: table, vise, CNC machine and pneumatic cutter, each a table of parts, a camera and lights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from sagehand.study.cell.clutter import cell_part as _cell
from sagehand.study.cell.clutter import clutter
from sagehand.study.cell.parts import Part, moved
from sagehand.study.cell.shapes import Box, Capsule, Cylinder, Lathe, Rod, Slab, Wire

__all__ = ["PLACES", "Place"]

Rng = np.random.Generator
Range = tuple[float, float]
Triple = tuple[float, float, float]


@dataclass(frozen=True)
class Place:
    """One place of the cell. The frame of a place has its origin where a device's foot stands, z up, the camera at -y.

    Attributes:
        name: Its name, as it goes into the labels.
        build: Gives its parts for half the width and half the length of what is gripped [mm], and a generator for what
            varies from view to view.
        shift: How far a device may stand from the origin along x and y, either way [mm].
        azimuth: Camera's angle about z, 0 from -y [deg].
        elevation: Camera's angle above the horizon [deg].
        distance: Camera's distance from the point it looks at [mm].
        look_at_z: Height of the point it looks at [mm].
        key: Colour of the main light.
        key_from: Direction towards the main light.
        ambient: Strength of the light from everywhere, 0–1.
        floor_z: Height of the plane that things lie on beside what holds the device [mm].
    """

    name: str
    build: Callable[[float, float, Rng], tuple[Part, ...]]
    shift: tuple[float, float]
    azimuth: Range
    elevation: Range
    distance: Range
    look_at_z: float
    key: tuple[float, float, float]
    key_from: tuple[float, float, float]
    ambient: float
    floor_z: float = 0.0


def _table(half_width: float, half_length: float, rng: Rng) -> tuple[Part, ...]:
    lie = float(rng.uniform(-4, 4))
    return (
        _cell("bench", Slab(1400, 1200, 20, 1), "wood", (60, 40, -23)),
        *moved(
            [_cell("mat", Slab(420, 300, 3, 12), "mat", (0, 0, -3))],
            (float(rng.uniform(-25, 25)), float(rng.uniform(-20, 20)), 0),
            yaw=lie,
        ),
        *clutter(rng, max(half_width, half_length)),
    )


def _jaw(half_width: float, side: float, travel: float) -> tuple[Part, ...]:
    """One vise jaw on the ``side`` ±1 of y: a serrated plate on a block, with two screws."""
    y = side * (half_width + travel)
    return (
        Part("jaw plate", Box(130, 6, 14), "steel_knurled", (0, y + side * 3, -1), role="fixture"),
        Part("jaw", Slab(134, 30, 12, 2, 1.2), "steel", (0, y + side * 21, -2), role="fixture"),
        *(
            Part("jaw screw", Cylinder(5, 1.2), "steel_dark", (x, y + side * 21, 9.6), role="fixture")
            for x in (-42.0, 42.0)
        ),
        *(
            Part("hex socket", Cylinder(2.4, 0.2), "black_matt", (x, y + side * 21, 10.8), role="fixture")
            for x in (-42.0, 42.0)
        ),
    )


def _vise(half_width: float, half_length: float, rng: Rng) -> tuple[Part, ...]:
    tail = half_width + 40
    handle = float(rng.uniform(-50, 50))
    return (
        _cell("plate", Slab(1400, 1200, 10, 1), "plate", (0, 0, -72)),
        *_jaw(half_width, 1.0, 0.0),
        *_jaw(half_width, -1.0, 0.0),
        _cell("ways", Box(96, 2 * tail + 30, 8), "steel", (0, -10, -8.4)),
        _cell("body", Slab(120, 2 * tail + 50, 52, 8, 3), "cast_blue", (0, -10, -62)),
        _cell("flange", Slab(200, 110, 18, 10, 3), "cast_blue", (0, 0, -62)),
        *(
            _cell("bolt", Lathe(((0.01, 0), (9, 0), (9, 0), (9, 8), (8, 9), (0.01, 9)), 6), "steel_dark", (x, 0, -44))
            for x in (-84.0, 84.0)
        ),
        _cell("back block", Slab(140, 26, 30, 4, 2), "cast_blue", (0, tail + 12, -32)),
        _cell("nut block", Slab(70, 30, 24, 4, 2), "cast_blue", (0, -tail - 14, -32)),
        _cell("screw", Rod(8, 70), "steel", (0, -tail - 60, -28), (0, 0, 90)),
        _cell("handle", Rod(4.5, 130), "steel", (handle, -tail - 88, -24)),
    )


def _bed() -> tuple[Part, ...]:
    """T-slotted bed: bars with dark slots between them."""
    bars = [_cell("bed bar", Box(760, 44, 14), "alu_bed", (0, y, -30)) for y in np.arange(-290.0, 291.0, 58.0)]
    return (*bars, _cell("slot floor", Box(760, 640, 2), "steel_dark", (0, 0, -38)))


def _grip(half_width: float, side: float) -> tuple[Part, ...]:
    """One soft jaw of the machine's fixture, on the ``side`` ±1 of y."""
    y = side * (half_width + 13)
    return (
        Part("soft jaw", Slab(84, 26, 11, 2, 1), "alu", (0, y, 0), role="fixture"),
        *(
            Part("jaw bolt", Cylinder(5.5, 4.5), "steel_dark", (x, y + side * 3, 11), role="fixture")
            for x in (-28.0, 28.0)
        ),
        *(
            Part("hex socket", Cylinder(2.8, 0.2), "black_matt", (x, y + side * 3, 15.5), role="fixture")
            for x in (-28.0, 28.0)
        ),
    )


def _spindle(x: float, y: float, z: float) -> tuple[Part, ...]:
    """A retracted spindle nose with a collet nut and an end mill; z is the mill's tip."""
    nose = ((0.01, 0), (15, 0), (17, 4), (17, 22), (17, 22), (30, 26), (30, 26), (30, 90), (30, 90), (0.01, 90))
    return (
        _cell("end mill", Cylinder(3, 34), "steel", (x, y, z)),
        _cell("spindle", Lathe(nose), "steel_dark", (x, y, z + 30)),
        _cell("head", Slab(120, 90, 120, 10), "abs_grey", (x, y + 14, z + 110)),
    )


def _nozzle(rng: Rng) -> tuple[Part, ...]:
    """A jointed coolant hose that reaches in from the left."""
    bend = rng.uniform(-12, 12, 3)
    points = [(-190 + 13 * i + bend[0], 128 - 8 * i + bend[1], 62 - 0.25 * (i - 3) ** 2 + bend[2]) for i in range(8)]
    link = Lathe(((4, 0), (7.4, 3), (7.8, 7), (6.6, 11), (5, 14)), 20)
    parts = [
        _cell("hose link", link, "orange" if i % 2 else "cast_blue", (float(x), float(y), float(z)), (0, 90, -32))
        for i, (x, y, z) in enumerate(points)
    ]
    x, y, z = points[-1]
    tip = Lathe(((6, 0), (6, 3), (2.4, 20), (1.2, 20)), 20)
    return (*parts, _cell("hose tip", tip, "orange", (float(x) + 12, float(y) - 7.5, float(z)), (0, 104, -32)))


def _cnc(half_width: float, half_length: float, rng: Rng) -> tuple[Part, ...]:
    holes = [(x, y) for x in np.arange(-90.0, 91.0, 30.0) for y in np.arange(-90.0, 91.0, 30.0)]
    free = [(x, y) for x, y in holes if max(abs(x) - half_length, abs(y) - half_width) > 4]
    return (
        *_bed(),
        _cell("fixture plate", Slab(210, 210, 16, 5, 1), "anodised", (0, 0, -16)),
        *(_cell("hole", Cylinder(3.2, 0.25), "black_matt", (float(x), float(y), -0.1)) for x, y in free),
        *_grip(half_width, 1.0),
        *_grip(half_width, -1.0),
        *(Part("stop", Cylinder(5, 9), "steel", (s * (half_length + 5.2), 0, 0), role="fixture") for s in (-1.0, 1.0)),
        _cell("back wall", Box(900, 10, 420), "abs_grey", (0, 330, -40)),
        _cell("rail", Capsule(14, 700), "steel", (0, 306, 20)),
        *_spindle(float(rng.uniform(60, 110)), float(rng.uniform(120, 145)), float(rng.uniform(25, 45))),
        *_nozzle(rng),
    )


def _cutter(half_width: float, half_length: float, rng: Rng) -> tuple[Part, ...]:
    """A linear pneumatic cutter: a blade that a cylinder pushes along y, against an anvil in front of the device."""
    open_by = float(rng.uniform(16, 26))  # how far the blade is drawn back
    edge = half_width + open_by
    wedge = ((0.01, 0), (9, 0), (9, 0), (9, 30), (9, 30), (0.01, 30))
    lamp = "lens_red" if rng.random() < 0.5 else "yellow"
    rails = [
        _cell("guide rail", Rod(7, 2 * (half_width + 95)), "steel", (s * (half_length + 34), 30, -14), (0, 0, 90))
        for s in (-1.0, 1.0)
    ]
    posts = [
        _cell("guard post", Box(10, 10, 70), "yellow", (s * (half_length + 70), y, -24))
        for s in (-1.0, 1.0)
        for y in (-half_width - 50, edge + 96)
    ]
    guards = [
        _cell(
            "guard",
            Box(2.5, edge + half_width + 136, 56),
            "guard",
            (s * (half_length + 70), (edge - half_width + 46) / 2, -22),
        )
        for s in (-1.0, 1.0)
    ]
    return (
        _cell("base", Slab(1400, 1200, 16, 1), "cast_grey", (0, 0, -40)),
        Part("bed", Slab(2 * half_length + 34, 2 * half_width + 24, 14, 3), "steel", (0, 0, -14.2), role="fixture"),
        Part(
            "anvil",
            Slab(2 * half_length + 26, 22, 26, 2, 1.5),
            "steel_dark",
            (0, -half_width - 11.5, -10),
            role="fixture",
        ),
        *(
            Part("anvil bolt", Cylinder(5, 2.5), "steel", (x, -half_width - 12, 16), role="fixture")
            for x in (-36.0, 36.0)
        ),
        *rails,
        _cell("blade", Slab(2 * half_length + 18, 16, 1.8, 1), "steel", (0, edge + 8, 9)),
        _cell("blade edge", Box(2 * half_length + 18, 3, 0.8), "nickel", (0, edge, 9.4)),
        _cell("blade holder", Slab(2 * half_length + 44, 30, 20, 3, 2), "anodised", (0, edge + 28, -2)),
        *(_cell("holder bolt", Cylinder(4.5, 3), "steel_dark", (x, edge + 28, 18)) for x in (-40.0, 0.0, 40.0)),
        *(
            _cell("slide", Slab(26, 40, 22, 3, 1), "steel_dark", (s * (half_length + 34), edge + 28, -18))
            for s in (-1.0, 1.0)
        ),
        _cell("piston rod", Rod(6, 60), "nickel", (0, edge + 72, 4), (0, 0, 90)),
        _cell("cylinder cap", Slab(58, 16, 52, 4, 2), "black", (0, edge + 96, -20)),
        _cell("cylinder", Rod(24, 120), "alu", (0, edge + 164, -16), (0, 0, 90)),
        _cell("air fitting", Lathe(wedge, 6), "brass", (16, edge + 96, 32)),
        _cell(
            "air hose",
            Wire(
                tuple((16 + 2.2 * t, edge + 96 + 1.2 * t**1.5, 60 - 0.12 * t * t) for t in np.arange(0.0, 30.0, 2.0)), 4
            ),
            "sleeve",
        ),
        _cell("lamp", Cylinder(8, 16), lamp, (half_length + 52, edge + 70, -24)),
        *posts,
        *guards,
    )


PLACES: Mapping[str, Place] = MappingProxyType(
    {
        p.name: p
        for p in (
            Place(
                "table",
                _table,
                (22, 18),
                (-22, 22),
                (56, 78),
                (285, 350),
                12,
                (1.0, 0.93, 0.83),
                (-0.5, 0.35, 1.0),
                0.42,
            ),
            Place(
                "vise",
                _vise,
                (9, 0),
                (-24, 24),
                (54, 76),
                (285, 345),
                8,
                (0.98, 0.97, 0.94),
                (0.55, 0.25, 1.0),
                0.40,
                -62,
            ),
            Place(
                "cnc",
                _cnc,
                (0, 0),
                (-20, 20),
                (54, 74),
                (290, 350),
                10,
                (0.90, 0.96, 1.0),
                (-0.25, -0.3, 1.0),
                0.44,
                -16,
            ),
            Place(
                "pneumatic_cutter",
                _cutter,
                (6, 0),
                (-22, 22),
                (56, 76),
                (290, 350),
                10,
                (1.0, 0.97, 0.9),
                (0.4, -0.2, 1.0),
                0.42,
                -24,
            ),
        )
    }
)
"""Every place by name."""
