"""Two smoke detectors, named after the paper's (paper A §2.3.2, §4.1); their looks are our own.

Outer sizes are estimates within what is common for domestic detectors (100–115 mm across, 35–50 mm high). Battery sizes
are those of IEC 60086-2: CR17345 (17 mm × 34.5 mm) and FR6, size AA (14.5 mm × 50.5 mm).
"""

from __future__ import annotations

from sagehand.study.cell.components import battery, chamber, chips
from sagehand.study.cell.device import END, Device, Step
from sagehand.study.cell.parts import Part, moved, needing, ring
from sagehand.study.cell.shapes import Box, Cylinder, Lathe, Slab, Wire

__all__ = ["FUMONIC", "KALO"]


YAW = {"table": 60.0, "vise": 25.0, "cnc": 25.0}
SIZES = "outside: estimate; battery: IEC 60086-2"


def _kalo() -> Device:
    base = (
        (0.01, 0), (47, 0), (50, 2.5), (50, 13), (49, 14), (49, 14), (47.6, 14), (47.6, 14), (47.6, 3), (47.6, 3), (0.01, 3),
    )  # fmt: skip
    parts = (Part("base", Lathe(base), "abs_white"), *_kalo_cover(), *_kalo_board())
    closed, bare = frozenset({"cover", "battery", "contacts"}), frozenset({"battery", "contacts"})
    steps = (
        Step("table", "closed", closed, "place_in_vise"),
        Step("vise", "closed", closed, "lever"),
        Step("vise", "cover off, battery soldered in", bare, "place_in_cnc"),
        Step("cnc", "cover off, battery soldered in", bare, "cnc_cut_battery_contacts"),
        Step("cnc", "battery contacts cut, battery loose", frozenset({"battery"}), "remove_battery_by_wiggling"),
        Step("cnc", "battery out", frozenset(), END),
    )
    return Device("smoke_detector", "kalo", parts, steps, 50, 50, YAW, SIZES)


def _kalo_cover() -> tuple[Part, ...]:
    """What comes off when it is levered: the cover on its band, the vents between them, and what is on its face."""
    shut = ("cover",)
    band = ((46, 14), (50.4, 14), (50.4, 14), (50.4, 18), (49.8, 18.6), (49.8, 18.6), (46, 18.6))
    cover = (
        (46, 24), (49.6, 24), (49.6, 24), (49.6, 27), (48, 31.5), (43.5, 35.2), (36, 37), (20, 38), (0.01, 38.2),
    )  # fmt: skip
    return (
        Part("band", Lathe(band, segments=72), "abs_white", when=shut),
        Part("vent", Cylinder(46.5, 6), "black_matt", (0, 0, 18.4), when=shut),
        *ring(Part("vent rib", Box(3.2, 2.2, 5.8), "abs_white", (47.6, 0, 18.4), when=shut), 30),
        Part("cover", Lathe(cover, segments=72), "abs_white", when=shut),
        Part("button groove", Cylinder(11.2, 0.3), "abs_grey", (0, 0, 37.95), when=shut),
        Part("button", Slab(20, 20, 1.2, 9.9, 0.8), "abs_white", (0, 0, 37.8), when=shut),
        Part("light", Cylinder(1.8, 0.8), "lens_red", (25, 0, 37.1), when=shut),
    )


def _kalo_board() -> tuple[Part, ...]:
    """The board in its catches, with all that stands on it; the battery is soldered to it."""
    opened = ("not cover",)
    board = ((0.01, 0), (46.4, 0), (46.4, 0), (46.4, 1.6), (46.4, 1.6), (0.01, 1.6))
    buzzer_ring = ((9.2, 6.5), (10.6, 6.5), (10.6, 6.9), (9.2, 6.9))
    keep_out = (
        (-16, 15, 18.5), (24, 17, 12), (6, 2, 5), (-8, -25, 11), (6, -23, 12), (19, -21, 12), (32, -19, 6), (-22, -27, 6),
        (35, -4, 3),
    )  # fmt: skip
    cell = moved(battery(8.5, 34.5, "wrap_cr123", drop=0.6), (6, -23, 8.2), yaw=8)
    return (
        Part("board", Lathe(board, segments=72), "board_green", (0, 0, 6), when=opened),
        *ring(Part("catch", Box(2.4, 9, 6), "abs_white", (46.6, 0, 8.5), when=opened), 4, start=30),
        *moved(chamber(17.5, 12, "black", "black", opened), (-16, 15, 7.6)),
        Part("buzzer", Cylinder(11, 6.5), "black", (24, 17, 7.6), when=opened),
        Part("buzzer hole", Cylinder(2.2, 0.2), "black_matt", (24, 17, 14.1), when=opened),
        Part("buzzer ring", Lathe(buzzer_ring), "steel", (24, 17, 7.6), when=opened),
        Part("light", Cylinder(1.8, 6), "lens_red", (35, -4, 7.6), when=opened),
        Part("switch", Slab(6, 6, 4, 0.6), "black", (6, 2, 7.6), when=opened),
        Part("plunger", Cylinder(1.7, 2), "abs_white", (6, 2, 11.6), when=opened),
        *chips(11, 46, z=7.6, within=(44, 44), round_board=True, when=opened, keep_out=keep_out),
        *needing(cell, opened),
    )


def _fumonic() -> Device:
    closed, cut = frozenset({"top", "battery", "contacts"}), frozenset({"battery", "contacts"})
    steps = (
        Step("table", "closed, glued", closed, "place_in_cnc"),
        Step("cnc", "closed, glued", closed, "cnc_cut_circular"),
        Step("cnc", "top cut off, battery held by its contacts", cut, "cnc_cut_battery_contacts"),
        Step("cnc", "battery contacts cut, battery loose", frozenset({"battery"}), "remove_battery_by_wiggling"),
        Step("cnc", "battery out", frozenset(), END),
    )
    parts = (*_fumonic_shell(), *_fumonic_top(), *_fumonic_board())
    return Device("smoke_detector", "fumonic", parts, steps, 55, 55, YAW, SIZES)


def _fumonic_shell() -> tuple[Part, ...]:
    shell = (
        (0.01, 0), (51, 0), (54.5, 3.5), (55, 8), (55, 25), (53.6, 29.5), (51.5, 31), (51.5, 31), (45.5, 31), (45.5, 31),
        (45.5, 4), (45.5, 4), (0.01, 4),
    )  # fmt: skip
    seam = ((54.5, 11.2), (55.4, 11.2), (55.4, 11.2), (55.4, 12.2), (55.4, 12.2), (54.5, 12.2))
    return (
        Part("shell", Lathe(shell, segments=80), "abs_cool"),
        Part("seam", Lathe(seam, segments=80), "abs_grey"),
    )


def _fumonic_top() -> tuple[Part, ...]:
    """What the circular cut takes off, and the rim that it leaves."""
    top = ("top",)
    dome = (
        (51.5, 31), (49.5, 34.5), (45, 38.6), (38, 41.8), (27, 44.2), (27, 44.2), (26, 43.2), (26, 43.2), (24.5, 43.4),
        (24.5, 44.4), (12, 45.6), (0.01, 46),
    )  # fmt: skip
    slit = Wire(((0, -7, 0), (0.6, -2, 0.4), (0.6, 2, 0.4), (0, 7, 0)), 1.5, 0.5)
    rim = ((48.2, 31.0), (47.6, 31.2), (45.3, 31.2), (45.3, 31.2), (45.3, 30.2))
    return (
        Part("dome", Lathe(dome, segments=80), "abs_cool", when=top),
        *ring(Part("vent", slit, "black_matt", (42.6, 0, 39.4), (0, 38, 0), top), 14),
        Part("light", Cylinder(2.4, 1), "lens_red", (0, -18.5, 44.6), when=top),
        Part("sounder", Cylinder(4.6, 0.25), "abs_grey", (13, 8, 45.2), when=top),
        Part("label", Slab(17, 7, 0.2, 0.4, fit=True), "label", (-9, 3, 45.3), when=top),
        Part("cut rim", Lathe(rim, segments=80), "abs_cut", when=("not top",)),
    )


def _fumonic_board() -> tuple[Part, ...]:
    """The board with all that stands on it; the battery lies in a holder."""
    opened = ("not top",)
    board = ((0.01, 0), (44.6, 0), (44.6, 0), (44.6, 1.6), (44.6, 1.6), (0.01, 1.6))
    keep_out = (
        (10, 17, 16.5), (-23, 17, 12.5), (30, 27, 4), (-5, 34, 5), (36, 3, 4), (-37, 1, 4), (-24, -14, 10.5),
        (-12, -15, 10.5), (0, -15, 10.5), (12, -15, 10.5), (26, -16, 11),
    )  # fmt: skip
    cell = moved(battery(7.25, 50.5, "wrap_aa", drop=1.2, strip=2.6), (2, -15, 15.2), yaw=-4)
    return (
        Part("board", Lathe(board, segments=72), "board_dark", (0, 0, 12.4), when=opened),
        Part("holder", Slab(63, 18.5, 1.6, 1), "black", (2, -15, 14), (0, 0, -4), opened),
        Part("holder wall", Box(50, 1.6, 6), "black", (2.6, -6.3, 14), (0, 0, -4), opened),
        Part("holder wall", Box(50, 1.6, 6), "black", (1.4, -23.7, 14), (0, 0, -4), opened),
        *moved(chamber(15.5, 11, "black", "steel", opened), (10, 17, 14)),
        Part("buzzer", Cylinder(11.5, 1.2), "brass", (-23, 17, 16), when=opened),
        Part("buzzer disc", Cylinder(7.5, 0.4), "abs_cream", (-23, 17, 17.2), when=opened),
        Part("buzzer foot", Cylinder(9.5, 2), "black", (-23, 17, 14), when=opened),
        Part("capacitor", Cylinder(3.4, 8), "sleeve", (30, 27, 14), when=opened),
        Part("inductor", Cylinder(4, 5), "chip", (-5, 34, 14), when=opened),
        Part("screw", Cylinder(2.8, 1.2), "steel", (36, 3, 14), when=opened),
        Part("screw", Cylinder(2.8, 1.2), "steel", (-37, 1, 14), when=opened),
        *chips(23, 40, z=14, within=(42, 42), round_board=True, when=opened, keep_out=keep_out),
        *needing(cell, opened),
    )


KALO = _kalo()
"""Levered open in the vise; its battery hangs on two soldered strips."""

FUMONIC = _fumonic()
"""Glued: its top is cut off in the CNC machine."""
