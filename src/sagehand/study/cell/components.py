"""What several devices and places are made of: batteries with contacts, measuring chambers, small components, swarf."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sagehand.study.cell.parts import Part, ring
from sagehand.study.cell.shapes import Box, Cylinder, Lathe, Rod, Shape, Wire

__all__ = ["battery", "chamber", "chips", "swarf"]


def battery(radius: float, length: float, wrap: str, *, drop: float, strip: float = 2.0) -> tuple[Part, ...]:
    """A lying battery with one welded metal strip at each end that goes down to the board.

    The strips are whole while ``contacts`` holds, cut through once it does not, and what stands on the board stays when
    the battery is out. The difference that a cut makes is a gap of about 3 mm: pictures before and after it look alike
    on purpose (paper A §4.6).

    Args:
        radius: Radius of the battery [mm].
        length: Its length [mm].
        wrap: Material of its sleeve.
        drop: How far the board lies under the battery's underside [mm].
        strip: Half the width of the strips [mm].
    """
    end = length / 2
    foot = end + 4.5
    parts = [Part("battery", Rod(radius, length), wrap, when=("battery",))]
    for side, half_turn in ((1.0, 0.0), (-1.0, 180.0)):
        cap = 0.62 if side > 0 else 0.85
        turn = (0.0, 0.0, half_turn)
        parts.append(
            Part(
                "cap", Rod(radius * cap, 1.6), "nickel", (side * (end + 0.4), 0, radius * (1 - cap)), turn, ("battery",)
            )
        )
        whole = ((end + 0.6, 0.0, radius), (foot - 0.8, 0.0, radius), (foot, 0.0, radius - 0.8), (foot, 0.0, -drop))
        held = ((end + 0.6, 0.0, radius), (end + 1.9, 0.0, radius))
        left = ((foot, 0.0, radius - 2.2), (foot, 0.0, -drop))
        parts += [
            Part("contact", Wire(whole, strip, 0.22), "nickel", (0, 0, 0), turn, ("battery", "contacts")),
            Part("contact, cut", Wire(held, strip, 0.22), "nickel", (0, 0, 0), turn, ("battery", "not contacts")),
            Part("contact stub", Wire(left, strip, 0.22), "nickel", (0, 0, 0), turn, ("not contacts",)),
            Part("solder", Cylinder(2.4, 0.9), "solder", (side * foot, 0, -drop)),
            Part(
                "cut mark",
                Box(1.3, 6.5, 0.12),
                "black_matt",
                (side * (end + 3.0), 0, -drop),
                (0, 0, 0),
                ("not contacts",),
            ),
        ]
    return tuple(parts)


def chamber(radius: float, height: float, shell: str, top: str, when: tuple[str, ...]) -> tuple[Part, ...]:
    """The optical measuring chamber: a dark drum with fins and a lid."""
    r, h = radius, height
    drum = Lathe(((0.01, 0), (r - 2.5, 0), (r - 2.5, 0), (r - 2.5, h), (r - 2.5, h), (0.01, h)))
    foot = Lathe(((r - 2.5, 0), (r, 0), (r, 0), (r, 1.4), (r, 1.4), (r - 2.5, 1.4)))
    lid = Lathe(
        ((0.01, h), (r - 1, h), (r - 1, h), (r - 1, h + 0.6), (r - 2, h + 1.4), (r - 5, h + 1.6), (0.01, h + 1.6))
    )
    fin = Part("fin", Box(2.6, 0.9, h - 1.4), shell, (r - 1.9, 0, 1.4), (0, 0, 24), when)
    return (
        Part("chamber", drum, "black_matt", when=when),
        Part("chamber foot", foot, shell, when=when),
        Part("chamber lid", lid, top, when=when),
        *ring(fin, 22),
    )


def chips(
    seed: int,
    count: int,
    *,
    z: float,
    within: tuple[float, float],
    keep_out: Iterable[tuple[float, float, float]],
    round_board: bool = False,
    when: tuple[str, ...] = (),
) -> tuple[Part, ...]:
    """Small electronic components on a board, the same for the same seed.

    Args:
        seed: Seed of this board.
        count: How many to try to place; one that finds no room is left out.
        z: Top of the board [mm].
        within: Half lengths of the board (x, y) [mm].
        keep_out: Circles (x, y, radius) [mm] to leave free.
        round_board: Whether the board is a disc of radius ``within[0]``.
        when: Conditions of every component.
    """
    rng = np.random.default_rng(seed)
    taken = [tuple(circle) for circle in keep_out]
    kinds: tuple[tuple[str, Shape, str, float], ...] = (
        ("resistor", Box(2.0, 1.2, 0.6), "chip", 1.8),
        ("capacitor", Box(2.0, 1.2, 1.0), "ceramic", 1.8),
        ("circuit", Box(5.0, 4.0, 1.5), "chip", 3.8),
        ("transistor", Box(2.9, 1.6, 1.1), "chip", 2.2),
        ("electrolytic", Cylinder(2.6, 5.5), "sleeve", 3.2),
        ("diode", Box(3.6, 1.8, 1.2), "chip", 2.4),
    )
    parts: list[Part] = []
    for _ in range(count):
        name, shape, material, reach = kinds[int(rng.choice(len(kinds), p=[0.3, 0.27, 0.13, 0.14, 0.08, 0.08]))]
        for _ in range(12):
            x, y = rng.uniform(-1, 1, 2) * (np.asarray(within) - reach)
            outside = round_board and np.hypot(x, y) > within[0] - reach
            if not outside and all(np.hypot(x - a, y - b) > reach + r for a, b, r in taken):
                break
        else:
            continue
        taken.append((x, y, reach))
        quarter = float(rng.integers(0, 2) * 90)
        parts.append(Part(name, shape, material, (float(x), float(y), z), (0.0, 0.0, quarter), when))
    return tuple(parts)


def swarf(
    rng: np.random.Generator,
    count: int,
    *,
    material: str,
    centre: tuple[float, float, float],
    spread: float,
) -> tuple[Part, ...]:
    """Cut chips lying about ``centre`` [mm], normally distributed with deviation ``spread`` [mm]."""
    parts = []
    for x, y in rng.normal(0.0, spread, (count, 2)):
        size = rng.uniform(0.7, 2.6)
        turn = rng.uniform((-35, -35, 0), (35, 35, 180))
        parts.append(
            Part(
                "swarf",
                Box(size * 1.8, size * 0.5, 0.25),
                material,
                (centre[0] + float(x), centre[1] + float(y), centre[2] + 0.2),
                (float(turn[0]), float(turn[1]), float(turn[2])),
                role="cell",
            )
        )
    return tuple(parts)
