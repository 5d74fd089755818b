"""Heat cost allocators that are glued all round: the pneumatic cutter opens them, the mill then frees the battery.

Outer sizes are estimates; the battery is an ER14335, 2/3 AA (14.5 mm × 33.5 mm, makers' sheets).
"""

from __future__ import annotations

from dataclasses import dataclass

from sagehand.study.cell.components import battery, chips
from sagehand.study.cell.device import END, Course, Device, Step
from sagehand.study.cell.parts import Part, moved, needing
from sagehand.study.cell.shapes import Box, Cylinder, Frame, Slab

__all__ = ["SLIM", "BladeLooks", "blade_allocator"]


@dataclass(frozen=True)
class BladeLooks:
    """What may differ between allocators of this construction.

    Attributes:
        length: Along x [mm].
        width: Along y [mm].
        height: Height of the cover over the back [mm].
        plastic: Material of the housing.
        board: Material of the board.
        wrap: Material of the battery's sleeve.
        cell: Radius and length of the battery [mm].
        ribs: Number of ribs on the face.
        chips: Seed of the small components.
    """

    length: float = 122.0
    width: float = 36.0
    height: float = 20.0
    plastic: str = "abs_ivory"
    board: str = "board_dark"
    wrap: str = "wrap_grey"
    cell: tuple[float, float] = (7.25, 33.5)
    ribs: int = 5
    chips: int = 61


def blade_allocator(name: str, looks: BladeLooks) -> Device:
    """A glued allocator.

    Args:
        name: Its name.
        looks: Sizes and materials.
    """
    shut, opened = ("cover",), ("not cover",)
    x, y, z, plastic = looks.length, looks.width, looks.height, looks.plastic
    face = 3 + z
    radius, length = looks.cell
    cell_x = x / 2 - length / 2 - 12
    board = x - 10
    small = chips(looks.chips, 44, z=0, within=(board / 2 - 2, y / 2 - 5), keep_out=(
        *((cell_x + d, 0, radius + 1.5) for d in (-length / 2, -length / 4, 0, length / 4, length / 2)),
        (cell_x - length / 2 - 5, 0, 4), (cell_x + length / 2 + 5, 0, 4), (-x / 4, 0, 13),
    ))  # fmt: skip
    rib = Box(1.4, y * 0.6, 0.7)
    ribs = [Part("rib", rib, "abs_grey", (x * 0.34 + 3.2 * i, 0, face - 0.1), when=shut) for i in range(looks.ribs)]
    parts = (
        Part("back", Slab(x - 3, y - 3, 3, 3), "alu"),
        Part("cover", Slab(x, y, z, 7, 3.5), plastic, (0, 0, 3), when=shut),
        Part("glue line", Frame(x + 0.4, y + 0.4, 0.5, 2, 7), "abs_grey", (0, 0, 9), when=shut),
        Part("window", Slab(26, y * 0.42, 0.4, 2, 0.2), "glass_dark", (-x * 0.22, 0, face - 0.1), when=shut),
        Part("display", Slab(21, y * 0.28, 0.2, 1, fit=True), "display", (-x * 0.22, 0, face + 0.3), when=shut),
        Part("button", Cylinder(2.6, 0.8), "abs_grey", (-x * 0.43, 0, face), when=shut),
        Part("label", Slab(30, y * 0.5, 0.2, 1, fit=True), "label", (x * 0.12, 0, face), when=shut),
        *ribs,
        Part("tray", Frame(x, y, 6, 2.2, 7), plastic, (0, 0, 3), when=opened),
        Part("cut edge", Frame(x - 0.2, y - 0.2, 0.2, 1.9, 7), "abs_cut", (0, 0, 9), when=opened),
        Part("board", Slab(board, y - 6, 1.6, 2), looks.board, (0, 0, 4), when=opened),
        Part("display module", Slab(25, y * 0.46, 4, 1, fit=True), "glass_dark", (-x / 4, 0, 5.6), when=opened),
        Part("display face", Slab(21, y * 0.3, 0.2, 1, fit=True), "display", (-x / 4, 0, 9.6), when=opened),
        Part("antenna", Box(1.0, y - 12, 4), "brass", (-board / 2 + 3, 0, 5.6), when=opened),
        *needing(moved(small, (0, 0, 5.6)), opened),
        *needing(moved(battery(radius, length, looks.wrap, drop=0.6, strip=1.8), (cell_x, 0, 6.2)), opened),
    )
    closed, bare = frozenset({"cover", "battery", "contacts"}), frozenset({"battery", "contacts"})
    split = "housing split open on arrival"
    steps = (
        Step("table", "closed, glued", closed, "pneumatic_cut"),
        Step("pneumatic_cutter", "housing cut open, battery held by its contacts", bare, "place_in_cnc"),
        Step("cnc", "housing cut open, battery held by its contacts", bare, "cnc_cut_battery_contacts"),
        Step("cnc", "battery contacts cut, battery loose", frozenset({"battery"}), "remove_battery_by_wiggling"),
        Step("cnc", "battery out", frozenset(), END),
        Step("table", f"{split}, battery held by its contacts", bare, "place_in_cnc", split),
    )
    yaw = {"table": 40.0, "vise": 1.5, "cnc": 2.0, "pneumatic_cutter": 1.5}
    return Device(
        "heat_cost_allocator", name, parts, steps, y / 2, x / 2, yaw, "outside: estimate; battery: makers' ER14335",
        (Course(split, (5, 2, 3, 4)),),
    )  # fmt: skip


SLIM = blade_allocator("slim", BladeLooks())
"""Glued; the pneumatic cutter opens it."""
