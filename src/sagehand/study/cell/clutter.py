"""Tools and bits that lie about in the cell."""

from __future__ import annotations

import numpy as np

from sagehand.study.cell.parts import Part, moved
from sagehand.study.cell.shapes import Frame, Lathe, Rod, Shape, Slab, Wire

__all__ = ["cell_part", "clutter"]

Rng = np.random.Generator
Triple = tuple[float, float, float]


def cell_part(name: str, shape: Shape, material: str, at: Triple = (0, 0, 0), turn: Triple = (0, 0, 0)) -> Part:
    """A part that is neither device nor fixture."""
    return Part(name, shape, material, at, turn, role="cell")


def clutter(rng: Rng, reach: float, *, least: int = 2) -> tuple[Part, ...]:
    """Up to four tools and bits that lie round the device.

    Args:
        rng: Draws which and where.
        reach: Nothing is nearer to the device than this [mm].
        least: The fewest things.
    """
    hexagon = ((0.01, 0), (5.5, 0), (5.5, 0), (5.5, 4.4), (5.5, 4.4), (2.6, 4.6), (2.6, 1))
    pool = {
        "screwdriver": (
            cell_part(
                "handle",
                Lathe(((0.01, 0), (7, 0), (10, 6), (10, 60), (6.5, 76), (6.5, 84), (0.01, 84)), 8),
                "yellow",
                (0, 0, 10),
                (0, -90, 0),
            ),
            cell_part("shaft", Rod(2.6, 80), "steel", (40, 0, 7.4)),
        ),
        "pen": (cell_part("pen", Rod(4.6, 110), "sleeve"), cell_part("cap", Rod(5.2, 34), "black", (-52, 0, 0))),
        "bin": (
            cell_part("bin", Frame(100, 74, 42, 2.4, 8), "cast_blue"),
            cell_part("bin floor", Slab(96, 70, 2, 6), "cast_blue"),
            *(
                cell_part(
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
            cell_part("nut", Lathe(hexagon, 6), "steel", (float(x), float(y), 0), (0, 0, float(x * 7)))
            for x, y in rng.uniform(-24, 24, (5, 2))
        ),
        "note": (cell_part("note", Slab(74, 52, 0.3, 1, fit=True), "label"),),
        "cable": (
            cell_part(
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
            cell_part(
                "hex key",
                Wire(((0, 0, 2.5), (70, 0, 2.5), (73, 2, 2.5), (74, 5, 2.5), (74, 26, 2.5)), 2.5),
                "steel_dark",
            ),
        ),
    }
    spots = [(-155, 70), (-150, -50), (155, 60), (150, -60), (-20, 140), (70, 135)]
    names = list(rng.choice(sorted(pool), size=int(rng.integers(least, 5)), replace=False))
    where = rng.permutation(len(spots))[: len(names)]
    parts: tuple[Part, ...] = ()
    for name, spot in zip(names, where, strict=True):
        at = np.asarray(spots[spot]) * max(1.0, (reach + 75) / 150) + rng.uniform(-14, 14, 2)
        parts += moved(pool[str(name)], (float(at[0]), float(at[1]), 0.0), yaw=float(rng.uniform(-180, 180)))
    return parts
