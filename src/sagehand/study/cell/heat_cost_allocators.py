"""A heat cost allocator, named after one of the paper's two; its looks are our own.

Outer size is an estimate within what is common (about 40 mm × 105 mm × 30 mm, on an aluminium back that meets the
radiator). The battery's size is the makers' for ER14335, 2/3 AA (14.5 mm × 33.5 mm).
"""

from __future__ import annotations

from sagehand.study.cell.components import battery, chips
from sagehand.study.cell.device import END, Device, Step
from sagehand.study.cell.parts import Part, moved, needing
from sagehand.study.cell.shapes import Box, Cylinder, Frame, Rod, Slab

__all__ = ["QUNDIS"]


def _qundis() -> Device:
    shut, opened = ("cover",), ("not cover",)
    block_at = 25.0
    # only what stands above the block shows of the contacts, and they leave with it: no stubs, no cut marks
    cell = [p for p in battery(7.25, 33.5, "wrap_er", drop=0.3, strip=1.6) if p.name in {"battery", "cap", "contact"}]
    small = chips(37, 30, z=9.6, within=(22, 15), keep_out=((-2, 0, 13), (-12, 0, 10.5), (8, 0, 10.5)))
    parts = (
        Part("back", Slab(104, 38, 4, 3), "alu"),
        Part("back lip", Box(108, 14, 2), "alu"),
        Part("cover", Slab(105, 40, 25, 6, 5), "abs_white", (0, 0, 4), when=shut),
        Part("seam", Frame(105.3, 40.3, 0.6, 3, 6), "abs_grey", (0, 0, 8), when=shut),
        Part("window", Slab(40, 23, 0.7, 3, 0.3), "glass_dark", (-20, 0, 28.7), when=shut),
        Part("display", Slab(30, 13, 0.2, 1, fit=True), "display", (-20, 0, 29.4), when=shut),
        Part("label", Slab(24, 17, 0.2, 1, fit=True), "label", (29, 0, 29.0), when=shut),
        Part("eye", Cylinder(2.2, 0.6), "glass_dark", (6, 9, 28.9), when=shut),
        Part("eye", Cylinder(2.2, 0.6), "glass_dark", (6, -9, 28.9), when=shut),
        *(Part("rib", Box(1.0, 24, 0.5), "abs_grey", (x, 0, 28.8), when=shut) for x in (11, 13.5)),
        Part("tray", Frame(103, 38, 10, 2, 5), "abs_inside", (0, 0, 4), when=opened),
        Part("floor", Slab(99, 34, 1, 3), "abs_inside", (0, 0, 4), when=(*opened, "battery")),
        Part("floor", Slab(46, 34, 1, 3), "abs_inside", (-26, 0, 4), when=(*opened, "not battery")),
        Part("board", Slab(46, 32, 1.6, 1), "board_green", (-25, 0, 8), when=opened),
        Part("display holder", Frame(32, 20, 6, 1.5, 1), "abs_inside", (-27, 0, 9.6), when=opened),
        Part("display", Slab(29, 17, 4.5, 1, fit=True), "glass_dark", (-27, 0, 9.6), when=opened),
        Part("display face", Slab(26, 12, 0.2, 1, fit=True), "display", (-27, 0, 14.1), when=opened),
        Part("sensor lead", Rod(0.9, 14), "black", (-5, 11, 10.2), when=opened),
        Part("antenna", Box(1.2, 28, 5), "brass", (-46, 0, 9.6), when=opened),
        *needing(moved(small, (-25, 0, 0)), opened),
        *needing(moved(cell, (block_at, 0, 12.2)), opened),
        # the battery sits cast into a block; the rectangular cut goes round it
        Part("block rim", Frame(51, 33, 8, 3.5, 1.5), "abs_grey", (block_at, 0, 4), when=opened),
        Part("web", Frame(44.2, 26.2, 7.8, 1.8, 0.5), "abs_grey", (block_at, 0, 4), when=(*opened, "not outline_cut")),
        Part(
            "cut",
            Frame(44.6, 26.6, 0.3, 2.2, 0.5),
            "black_matt",
            (block_at, 0, 5),
            when=(*opened, "outline_cut", "battery"),
        ),
        Part(
            "cut edge", Frame(45.4, 27.4, 0.25, 0.6, 0.5), "abs_cut", (block_at, 0, 12), when=(*opened, "outline_cut")
        ),
        Part("block", Slab(40.6, 22.6, 8, 0.8), "abs_grey", (block_at, 0, 4), when=(*opened, "battery")),
        Part("rest", Slab(44, 26, 0.4, 0.5), "alu", (block_at, 0, 4), when=(*opened, "not battery")),
        Part("residue", Slab(17, 6, 0.5, 2.5), "abs_grey", (block_at + 5, 4, 4.2), when=(*opened, "not battery")),
    )
    closed, bare = frozenset({"cover", "battery", "contacts"}), frozenset({"battery", "contacts"})
    steps = (
        Step("table", "closed", closed, "place_in_vise"),
        Step("vise", "closed", closed, "lever"),
        Step("vise", "cover off, battery in", bare, "place_in_cnc"),
        Step("cnc", "cover off, battery in", bare, "cnc_cut_rectangular"),
        Step("cnc", "battery outline cut, battery in", bare | {"outline_cut"}, "remove_battery_by_wiggling"),
        Step("cnc", "battery out", frozenset({"outline_cut"}), END),
    )
    yaw = {"table": 40.0, "vise": 1.5, "cnc": 2.0}
    sizes = "outside: estimate; battery: makers' ER14335"
    return Device("heat_cost_allocator", "qundis", parts, steps, 20, 54, yaw, sizes)


QUNDIS = _qundis()
"""Levered open in the vise; its battery is cut out in a rectangle."""
