"""Devices that nobody has seen: procedural ones of both families, for big data sets and for tests on unseen devices.

Each is one of the five constructions of the known devices, and so has one of their sequences; sizes, plastics, board, layout,
battery, vents and marks are its own. All sizes are drawn from ranges that are estimates; batteries are makers' sizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sagehand.study.cell.blade_allocators import BladeLooks, blade_allocator
from sagehand.study.cell.components import battery, chamber, chips
from sagehand.study.cell.damage import damaged_levered
from sagehand.study.cell.device import Device
from sagehand.study.cell.heat_cost_allocators import QUNDIS
from sagehand.study.cell.padded_detectors import PaddedLooks, padded_detector
from sagehand.study.cell.parts import Part, moved, needing, ring
from sagehand.study.cell.shapes import Box, Cylinder, Frame, Lathe, Slab
from sagehand.study.cell.smoke_detectors import FUMONIC, KALO

__all__ = ["random_device"]

PLASTICS = ("abs_white", "abs_cool", "abs_cream", "abs_ivory", "abs_sand", "abs_silver", "abs_anthracite")
SHARES = (0.27, 0.2, 0.15, 0.15, 0.08, 0.1, 0.05)
BOARDS = ("board_green", "board_dark", "board_blue", "board_black", "board_red", "board_white")
BATTERIES = ((8.5, 34.5), (7.25, 50.5), (7.25, 33.5), (7.25, 25.0), (7.8, 27.0))
"""Radius and length [mm]: CR17345, FR6, ER14335, CR14250, CR2."""
WRAPS = ("wrap_cr123", "wrap_aa", "wrap_er", "wrap_cr", "wrap_grey")
SIZES = "estimate; battery: makers' sheets"

Rng = np.random.Generator


def random_device(seed: int, *, name: str | None = None) -> Device:
    """A device that follows from its seed.

    Args:
        seed: Decides all of it.
        name: Its name; one made of the seed for None.
    """
    rng = np.random.default_rng([seed, 77])
    makers = (_levered_detector, _glued_detector, _padded, _padded, _levered_allocator, _blade)
    return makers[int(rng.integers(0, len(makers)))](rng, name or f"random_seed_{seed}")


def _looks(rng: Rng) -> dict[str, Any]:
    """What every construction has: plastic, board, battery, and a seed of the components."""
    return {
        "plastic": str(rng.choice(PLASTICS, p=SHARES)),
        "board": str(rng.choice(BOARDS)),
        "wrap": str(rng.choice(WRAPS)),
        "chips": int(rng.integers(0, 2**31)),
    }


def _padded(rng: Rng, name: str) -> Device:
    looks = PaddedLooks(
        radius=float(rng.uniform(45, 60)),
        height=float(rng.uniform(27, 42)),
        pad=float(rng.uniform(2, 4.5)),
        cell=((7.25, 25.0), (7.8, 27.0))[int(rng.integers(0, 2))],
        vents=int(rng.integers(10, 36)),
        light=float(rng.uniform(0, 150)),
        label=float(rng.uniform(-120, -40)),
        **_looks(rng),
    )
    return padded_detector(name, rectangular=bool(rng.random() < 0.5), looks=looks)


def _blade(rng: Rng, name: str) -> Device:
    looks = BladeLooks(
        length=float(rng.uniform(98, 138)),
        width=float(rng.uniform(30, 48)),
        height=float(rng.uniform(17, 28)),
        cell=BATTERIES[int(rng.choice([2, 3, 4]))],
        ribs=int(rng.integers(0, 8)),
        **_looks(rng),
    )
    return blade_allocator(name, looks)


def _inside(
    rng: Rng, looks: dict[str, Any], radius: float, z: float, when: tuple[str, ...], *, most: float
) -> list[Part]:
    """A round board at ``z`` with chamber, buzzer, components, and the battery on the -y side."""
    fitting = [b for b in BATTERIES if b[1] / 2 + 6 < most]
    cell_radius, cell_length = fitting[int(rng.integers(0, len(fitting)))]
    cell_y = -float(rng.uniform(0.36, 0.46)) * radius
    reach = np.sqrt(max((radius - 3) ** 2 - (abs(cell_y) + 2) ** 2, 0.0))
    cell_x = float(rng.uniform(-1, 1)) * max(0.0, min(8.0, reach - cell_length / 2 - 7))
    side = float(rng.choice([-1.0, 1.0]))
    drum, disc = float(rng.uniform(0.27, 0.36)) * radius, float(rng.uniform(0.17, 0.24)) * radius
    drum_at = (-side * 0.34 * radius, 0.34 * radius)
    disc_at = (side * 0.46 * radius, 0.36 * radius)
    top = z + 1.6
    circles = [(*drum_at, drum + 1), (*disc_at, disc + 1)]
    circles += [(cell_x + d * cell_length, cell_y, cell_radius + 1) for d in (-0.45, -0.2, 0.05, 0.3, 0.45)]
    circles += [(cell_x + s * (cell_length / 2 + 5), cell_y, 4.5) for s in (-1.0, 1.0)]
    small = chips(
        looks["chips"],
        int(rng.integers(24, 56)),
        z=top,
        within=(radius - 2, radius - 2),
        round_board=True,
        keep_out=circles,
    )
    lid = str(rng.choice(["black", "steel", "abs_grey"]))
    cell = battery(cell_radius, cell_length, looks["wrap"], drop=0.6, strip=float(rng.uniform(1.6, 2.6)))
    disc_material = str(rng.choice(["black", "brass", "steel_dark"]))
    return [
        Part("board", Cylinder(radius, 1.6), looks["board"], (0, 0, z), when=when),
        *moved(chamber(drum, float(rng.uniform(7, 12)), "black", lid, when), (*drum_at, top)),
        Part("buzzer", Cylinder(disc, float(rng.uniform(2, 7))), disc_material, (*disc_at, top), when=when),
        *needing(small, when),
        *needing(moved(cell, (cell_x, cell_y, top + 0.6)), when),
    ]


def _levered_detector(rng: Rng, name: str) -> Device:
    shut, opened = ("cover",), ("not cover",)
    looks, r = _looks(rng), float(rng.uniform(44, 58))
    low = float(rng.uniform(11, 16))  # height of the base
    vent = float(rng.uniform(3, 8))
    rise = float(rng.uniform(6, 15))  # of the cover over the vents
    plastic = looks["plastic"]
    base = (
        (0.01, 0), (r - 3, 0), (r, 2.5), (r, low - 1), (r - 1, low), (r - 1, low), (r - 2.4, low), (r - 2.4, low),
        (r - 2.4, 3), (r - 2.4, 3), (0.01, 3),
    )  # fmt: skip
    z = low + vent
    flat = float(rng.uniform(0.3, 0.8))
    cover = (
        (r - 4, z), (r, z), (r, z), (r, z + 0.25 * rise), (r - 3, z + 0.62 * rise), (r * (0.55 + 0.4 * flat), z + 0.9 * rise),
        (r * 0.45 * flat, z + rise), (0.01, z + rise),
    )  # fmt: skip
    ribs = int(rng.integers(12, 40))
    button = float(rng.uniform(5, 14))
    light = float(rng.uniform(0, 360))
    press = Slab(2 * button, 2 * button, 1.4, button - 0.1, 0.8)
    parts = (
        Part("base", Lathe(base), plastic),
        Part("vent", Cylinder(r - 4, vent), "black_matt", (0, 0, low), when=shut),
        *ring(Part("vent rib", Box(3, float(rng.uniform(1.6, 3.4)), vent), plastic, (r - 2.6, 0, low), when=shut), ribs),
        Part("cover", Lathe(cover, segments=72), plastic, when=shut),
        Part("button", press, str(rng.choice([plastic, "abs_grey"])), (0, 0, z + rise - 0.4), when=shut),
        *moved([Part("light", Cylinder(1.8, 1.2), "lens_red", (0.42 * r, 0, z + 0.9 * rise), when=shut)], (0, 0, 0), yaw=light),
        *_inside(rng, looks, r - 3.2, 6, opened, most=0.8 * r),
    )  # fmt: skip
    yaw = {"table": 60.0, "vise": 25.0, "cnc": 25.0}
    plain = Device("smoke_detector", name, parts, KALO.steps, r, r, yaw, SIZES)
    return damaged_levered(plain, hinge=(r - 2, low + 1), angle=float(rng.uniform(9, 17)))


def _glued_detector(rng: Rng, name: str) -> Device:
    top, opened = ("top",), ("not top",)
    looks, r = _looks(rng), float(rng.uniform(46, 60))
    side, rise = float(rng.uniform(22, 34)), float(rng.uniform(5, 16))
    plastic, edge = looks["plastic"], r - 4
    shell = (
        (0.01, 0), (r - 4, 0), (r, 3.5), (r, side - 5), (r - 2, side - 1), (edge, side), (edge, side), (edge - 5, side),
        (edge - 5, side), (edge - 5, 4), (edge - 5, 4), (0.01, 4),
    )  # fmt: skip
    dome = (
        (edge, side), (edge - 2, side + 0.4 * rise), (0.8 * edge, side + 0.75 * rise), (0.5 * edge, side + 0.95 * rise),
        (0.01, side + rise),
    )  # fmt: skip
    rim = (
        (edge - 5, side - 0.2),
        (edge, side - 0.2),
        (edge, side + 0.15),
        (edge - 5, side + 0.15),
        (edge - 5, side - 0.2),
    )
    slit = Box(float(rng.uniform(1.4, 3)), float(rng.uniform(4, 11)), 0.6)
    slot = Part(
        "vent", slit, "black_matt", (0.7 * edge, 0, side + 0.82 * rise), (0, float(rng.uniform(12, 22)), 0), top
    )
    parts = (
        Part("shell", Lathe(shell, segments=80), plastic),
        Part("dome", Lathe(dome, segments=80), plastic, when=top),
        *ring(slot, int(rng.integers(6, 26))),
        Part("light", Cylinder(2.2, 1.2), "lens_red", (0, -0.35 * r, side + 0.9 * rise), when=top),
        Part("sounder", Cylinder(float(rng.uniform(3, 9)), 0.4), "abs_grey", (0.2 * r, 0.15 * r, side + 0.97 * rise), when=top),
        Part("label", Slab(17, 7, 0.2, 0.4, fit=True), "label", (-0.2 * r, 0.02 * r, side + rise - 0.2), when=top),
        Part("cut rim", Lathe(rim, segments=80), "abs_cut", when=opened),
        *_inside(rng, looks, edge - 5.2, side - 19, opened, most=0.8 * edge),
    )  # fmt: skip
    yaw = {"table": 60.0, "vise": 25.0, "cnc": 25.0}
    return Device("smoke_detector", name, parts, FUMONIC.steps, r, r, yaw, SIZES)


def _levered_allocator(rng: Rng, name: str) -> Device:
    shut, opened = ("cover",), ("not cover",)
    looks = _looks(rng)
    x, y, z = float(rng.uniform(92, 130)), float(rng.uniform(37, 50)), float(rng.uniform(20, 30))
    plastic, face = looks["plastic"], 4 + z
    radius, length = BATTERIES[int(rng.choice([2, 3, 4]))]
    long, short = length + 8, 2 * radius + 8
    at = x / 2 - long / 2 - 6
    held = [
        p
        for p in battery(radius, length, looks["wrap"], drop=0.3, strip=1.6)
        if p.name in {"battery", "cap", "contact"}
    ]
    width = x - long - 16
    small = chips(looks["chips"], 34, z=9.6, within=(width / 2 - 1, y / 2 - 5), keep_out=((0, 0, 12),))
    ribs = int(rng.integers(0, 7))
    round_cell = Frame(long + 4, short + 4, 0.3, 2.2, 0.5)
    parts = (
        Part("back", Slab(x - 1, y - 2, 4, 3), "alu"),
        Part("cover", Slab(x, y, z, float(rng.uniform(3, 9)), float(rng.uniform(1.5, 5))), plastic, (0, 0, 4), when=shut),
        Part("seam", Frame(x + 0.3, y + 0.3, 0.6, 3, 6), "abs_grey", (0, 0, 8), when=shut),
        Part("window", Slab(34, 0.5 * y, 0.6, 2, 0.3), "glass_dark", (-0.2 * x, 0, face - 0.2), when=shut),
        Part("display", Slab(27, 0.32 * y, 0.2, 1, fit=True), "display", (-0.2 * x, 0, face + 0.4), when=shut),
        Part("label", Slab(22, 0.4 * y, 0.2, 1, fit=True), "label", (0.26 * x, 0, face), when=shut),
        *(Part("rib", Box(1.2, 0.6 * y, 0.6), "abs_grey", (2.8 * i, 0, face - 0.1), when=shut) for i in range(ribs)),
        Part("tray", Frame(x - 2, y - 2, 10, 2, 5), "abs_inside", (0, 0, 4), when=opened),
        Part("floor", Slab(x - 6, y - 6, 1, 3), "abs_inside", (0, 0, 4), when=(*opened, "battery")),
        Part("floor", Slab(width, y - 6, 1, 3), "abs_inside", (-x / 2 + width / 2 + 3, 0, 4), when=(*opened, "not battery")),
        Part("board", Slab(width, y - 8, 1.6, 1), looks["board"], (-x / 2 + width / 2 + 4, 0, 8), when=opened),
        Part("display module", Slab(22, 15, 4.5, 1, fit=True), "glass_dark", (-x / 2 + width / 2 + 4, 0, 9.6), when=opened),
        Part("display face", Slab(18, 10, 0.2, 1, fit=True), "display", (-x / 2 + width / 2 + 4, 0, 14.1), when=opened),
        *needing(moved(small, (-x / 2 + width / 2 + 4, 0, 0)), opened),
        *needing(moved(held, (at, 0, 12.2)), opened),
        Part("block rim", Frame(long + 10, short + 10, 8, 3, 1.5), "abs_grey", (at, 0, 4), when=opened),
        Part("web", Frame(long + 4, short + 4, 7.8, 2, 0.5), "abs_grey", (at, 0, 4), when=(*opened, "not outline_cut")),
        Part("cut", round_cell, "black_matt", (at, 0, 5), when=(*opened, "outline_cut", "battery")),
        Part("cut edge", Frame(long + 5, short + 5, 0.25, 0.6, 0.5), "abs_cut", (at, 0, 12), when=(*opened, "outline_cut")),
        Part("block", Slab(long, short, 8, 0.8), "abs_grey", (at, 0, 4), when=(*opened, "battery")),
        Part("rest", Slab(long + 4, short + 4, 0.4, 0.5), "alu", (at, 0, 4), when=(*opened, "not battery")),
    )  # fmt: skip
    yaw = {"table": 40.0, "vise": 1.5, "cnc": 2.0}
    return Device("heat_cost_allocator", name, parts, QUNDIS.steps, y / 2, x / 2, yaw, SIZES)
