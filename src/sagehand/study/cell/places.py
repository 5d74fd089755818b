"""The places of the cell: table, vise and CNC machine, each a table of parts, a camera and lights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from sagehand.study.cell.parts import Part, moved
from sagehand.study.cell.shapes import Box, Capsule, Cylinder, Frame, Lathe, Rod, Shape, Slab, Wire

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


def _cell(name: str, shape: Shape, material: str, at: Triple = (0, 0, 0), turn: Triple = (0, 0, 0)) -> Part:
    """A part that is neither device nor fixture."""
    return Part(name, shape, material, at, turn, role="cell")


def _clutter(rng: Rng, reach: float) -> tuple[Part, ...]:
    """Two to four tools and bits that lie round the device, none nearer than ``reach`` [mm]."""
    hexagon = ((0.01, 0), (5.5, 0), (5.5, 0), (5.5, 4.4), (5.5, 4.4), (2.6, 4.6), (2.6, 1))
    pool = {
        "screwdriver": (
            _cell(
                "handle",
                Lathe(((0.01, 0), (7, 0), (10, 6), (10, 60), (6.5, 76), (6.5, 84), (0.01, 84)), 8),
                "yellow",
                (0, 0, 10),
                (0, -90, 0),
            ),
            _cell("shaft", Rod(2.6, 80), "steel", (40, 0, 7.4)),
        ),
        "pen": (_cell("pen", Rod(4.6, 110), "sleeve"), _cell("cap", Rod(5.2, 34), "black", (-52, 0, 0))),
        "bin": (
            _cell("bin", Frame(100, 74, 42, 2.4, 8), "cast_blue"),
            _cell("bin floor", Slab(96, 70, 2, 6), "cast_blue"),
            *(
                _cell(
                    "nut",
                    Lathe(hexagon, 6),
                    "steel",
                    (float(x), float(y), 2.0 + 3 * (i % 3)),
                    (float(i * 9 % 40), 0.0, float(i * 37)),
                )
                for i, (x, y) in enumerate(rng.uniform(-26, 26, (18, 2)))
            ),
        ),
        "nuts": tuple(
            _cell("nut", Lathe(hexagon, 6), "steel", (float(x), float(y), 0), (0, 0, float(x * 7)))
            for x, y in rng.uniform(-24, 24, (5, 2))
        ),
        "note": (_cell("note", Slab(74, 52, 0.3, 1, fit=True), "label"),),
        "cable": (
            _cell(
                "cable",
                Wire(
                    tuple(
                        (float((34 - t * 0.5) * np.cos(t)), float((30 - t * 0.5) * np.sin(t)), 2.6 + 0.55 * t)
                        for t in np.linspace(0, 13, 60)
                    ),
                    2.3,
                ),
                "black",
            ),
        ),
        "hex key": (
            _cell(
                "hex key",
                Wire(((0, 0, 2.5), (70, 0, 2.5), (73, 2, 2.5), (74, 5, 2.5), (74, 26, 2.5)), 2.5),
                "steel_dark",
            ),
        ),
    }
    spots = [(-155, 70), (-150, -50), (155, 60), (150, -60), (-20, 140), (70, 135)]
    names = list(rng.choice(sorted(pool), size=int(rng.integers(2, 5)), replace=False))
    where = rng.permutation(len(spots))[: len(names)]
    parts: tuple[Part, ...] = ()
    for name, spot in zip(names, where, strict=True):
        at = np.asarray(spots[spot]) * max(1.0, (reach + 75) / 150) + rng.uniform(-14, 14, 2)
        parts += moved(pool[str(name)], (float(at[0]), float(at[1]), 0.0), yaw=float(rng.uniform(-180, 180)))
    return parts


def _table(half_width: float, half_length: float, rng: Rng) -> tuple[Part, ...]:
    lie = float(rng.uniform(-4, 4))
    return (
        _cell("bench", Slab(1400, 1200, 20, 1), "wood", (60, 40, -23)),
        *moved(
            [_cell("mat", Slab(420, 300, 3, 12), "mat", (0, 0, -3))],
            (float(rng.uniform(-25, 25)), float(rng.uniform(-20, 20)), 0),
            yaw=lie,
        ),
        *_clutter(rng, max(half_width, half_length)),
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
                "vise", _vise, (9, 0), (-24, 24), (54, 76), (285, 345), 8, (0.98, 0.97, 0.94), (0.55, 0.25, 1.0), 0.40
            ),
            Place(
                "cnc", _cnc, (0, 0), (-20, 20), (54, 74), (290, 350), 10, (0.90, 0.96, 1.0), (-0.25, -0.3, 1.0), 0.44
            ),
        )
    }
)
"""Every place by name."""
