"""Smoke detectors with an extruded battery outline on their face, round or rectangular; two of them are twins.

Both twins bear the same print on their face, a circle round a rectangle. What differs from outside is the low plateau of the
same plastic under it: the outline of the battery, which says how the housing is to be cut (paper A §4.6: VLMs confuse the two,
"easily distinguishable on depth images"). All outside sizes are estimates; the battery is a CR14250 (14.5 mm × 25 mm, makers'
sheets).
"""

from __future__ import annotations

from dataclasses import dataclass

from sagehand.study.cell.components import battery, chamber, chips
from sagehand.study.cell.device import END, Device, Step
from sagehand.study.cell.parts import Part, moved, needing, ring
from sagehand.study.cell.shapes import Box, Cylinder, Frame, Lathe, Plate, Slab

__all__ = ["TWIN_A", "TWIN_B", "PaddedLooks", "padded_detector"]

OPENING = 27.0
"""Radius of the opening that the cut may reach [mm]."""
ROUND = 25.0
"""Radius of the round plateau [mm]."""
LONG, SHORT = 36.0, 20.0
"""Lengths of the rectangular plateau along x and y [mm]."""
SLOPE = 2.0
"""Width of a plateau's sloping side [mm]."""
LINE = 0.9
"""Width of a printed line [mm]."""
GAP = 1.6
"""Width of the rectangular cut [mm]."""

SHUT, OPENED = ("top",), ("not top",)
LOOSE = ("not top", "battery")
"""The block of the rectangular cut, which holds the battery, is there until both come out."""

CLOSED = frozenset({"top", "battery", "contacts"})
HELD = frozenset({"battery", "contacts"})
FREED = frozenset({"battery"})
OUT = Step("cnc", "battery out", frozenset(), END)
ROUND_STEPS = (
    Step("table", "closed, glued", CLOSED, "place_in_cnc"),
    Step("cnc", "closed, glued", CLOSED, "cnc_cut_circular"),
    Step("cnc", "round outline cut off, battery held by its contacts", HELD, "cnc_cut_battery_contacts"),
    Step("cnc", "battery contacts cut, battery loose", FREED, "remove_battery_by_wiggling"),
    OUT,
)
RECTANGULAR_STEPS = (
    Step("table", "closed, glued", CLOSED, "place_in_cnc"),
    Step("cnc", "closed, glued", CLOSED, "cnc_cut_rectangular"),
    Step("cnc", "battery outline cut, battery in", FREED, "remove_battery_by_wiggling"),
    OUT,
)


@dataclass(frozen=True)
class PaddedLooks:
    """What may differ between detectors of this construction.

    Attributes:
        radius: Outer radius [mm].
        height: Height of the face, without the plateau [mm].
        pad: Height of the plateau [mm].
        plastic: Material of the housing.
        board: Material of the board.
        wrap: Material of the battery's sleeve.
        cell: Radius and length of the battery [mm].
        vents: Number of vents round the side.
        light: Direction of the signal light [deg].
        label: Direction of the label [deg].
        chips: Seed of the small components.
    """

    radius: float = 52.0
    height: float = 30.0
    pad: float = 2.5
    plastic: str = "abs_white"
    board: str = "board_blue"
    wrap: str = "wrap_cr"
    cell: tuple[float, float] = (7.25, 25.0)
    vents: int = 24
    light: float = 62.0
    label: float = -90.0
    chips: int = 51

    @property
    def top(self) -> float:
        """Height of the plateau's top [mm]."""
        return self.height + self.pad

    @property
    def cell_z(self) -> float:
        """Height of the battery's underside [mm]."""
        return self.height - 2 * self.cell[0] - 6.5


def padded_detector(name: str, *, rectangular: bool, looks: PaddedLooks) -> Device:
    """A glued detector whose battery lies under a plateau of its face.

    Args:
        name: Its name.
        rectangular: Whether plateau and cut are rectangular; else round.
        looks: Sizes and materials.
    """
    parts = (
        *_housing(looks),
        *_face(looks, rectangular=rectangular),
        *_board(looks),
        *(_rectangular_plateau(looks) if rectangular else _round_plateau(looks)),
    )
    steps = RECTANGULAR_STEPS if rectangular else ROUND_STEPS
    r, yaw = looks.radius, {"table": 60.0, "vise": 25.0, "cnc": 25.0}
    return Device("smoke_detector", name, parts, steps, r, r, yaw, "outside: estimate; battery: makers' CR14250")


def _housing(looks: PaddedLooks) -> tuple[Part, ...]:
    """What no cut touches: the shell round the opening, and what is on it."""
    r, h, plastic = looks.radius, looks.height, looks.plastic
    shell = (
        (0.01, 0), (r - 4, 0), (r, 3.5), (r, h - 10), (r - 1.5, h - 5), (r - 4.5, h - 1.2), (r - 8, h), (r - 8, h),
        (OPENING, h), (OPENING, h), (OPENING, 6), (OPENING, 6), (0.01, 6),
    )  # fmt: skip
    vent = Part("vent", Box(1.6, 5.2, 9), "black_matt", (r - 0.7, 0, h - 20))
    light = Part("light", Cylinder(1.8, 0.7), "lens_red", (r - 14, 0, h))
    label = Part("label", Slab(7, 20, 0.2, 0.4, fit=True), "label", (r - 15, 0, h))
    return (
        Part("shell", Lathe(shell, segments=80), plastic),
        *ring(vent, looks.vents),
        *moved([light], (0, 0, 0), yaw=looks.light),
        *moved([label], (0, 0, 0), yaw=looks.label),
        Part("button", Slab(9, 9, 1.2, 4.4, 0.5), plastic, (-(r - 15), 0, h)),
    )


def _printed_rectangle(looks: PaddedLooks, when: tuple[str, ...]) -> Part:
    line = Frame(LONG - 2 * SLOPE - 1.4, SHORT - 2 * SLOPE - 1.4, 0.15, LINE, 1.0)
    return Part("printed rectangle", line, "print", (0, 0, looks.top), when=when)


def _face(looks: PaddedLooks, *, rectangular: bool) -> tuple[Part, ...]:
    """The face within the opening and the print that both twins bear; only round a block does the circle outlast the cut."""
    h, inner = looks.height, 21.3
    face = ((0.01, h - 2), (OPENING, h - 2), (OPENING, h - 2), (OPENING, h), (OPENING, h), (0.01, h))
    circle = ((inner, 0), (inner + LINE, 0), (inner + LINE, 0.15), (inner, 0.15), (inner, 0))
    circle_z, circle_when = (h, ()) if rectangular else (looks.top, SHUT)
    return (
        Part("face", Lathe(face, segments=80), looks.plastic, when=SHUT),
        Part("printed circle", Lathe(circle, segments=80), "print", (0, 0, circle_z), when=circle_when),
        _printed_rectangle(looks, SHUT),
    )


def _board(looks: PaddedLooks) -> tuple[Part, ...]:
    """The board, with its components clear of the battery and its contacts."""
    small = chips(
        looks.chips,
        26,
        z=looks.cell_z - 0.6,
        within=(25, 25),
        round_board=True,
        keep_out=((0, 0, 8.5), (-10, 0, 8.5), (10, 0, 8.5), (-17, 0, 4), (17, 0, 4)),
    )
    board = Part("board", Cylinder(OPENING - 0.3, 1.6), looks.board, (0, 0, looks.cell_z - 2.2), when=OPENED)
    return (board, *needing(small, OPENED))


def _rectangular_plateau(looks: PaddedLooks) -> tuple[Part, ...]:
    """The plateau; then the cut round it, and the loose block with the battery under it."""
    h, plastic = looks.height, looks.plastic
    plateau = Slab(LONG, SHORT, looks.pad, 3, SLOPE)
    wide, deep = LONG + 2 * GAP, SHORT + 2 * GAP
    return (
        Part("plateau", plateau, plastic, (0, 0, h), when=SHUT),
        Part("face", Plate(OPENING, wide, deep, 2), plastic, (0, 0, h - 2), when=OPENED),
        Part("cut edge", Frame(wide + 1, deep + 1, 0.2, 0.5, 1.2), "abs_cut", (0, 0, h), when=OPENED),
        Part("loose block", Slab(LONG, SHORT, 8, 1), plastic, (0, 0, h - 8), when=LOOSE),
        Part("loose plateau", plateau, plastic, (0, 0, h), when=LOOSE),
        _printed_rectangle(looks, LOOSE),
        Part("cut", Slab(wide + 1, deep + 1, 0.3, 1), "black_matt", (0, 0, h - 6), when=LOOSE),
    )


def _round_plateau(looks: PaddedLooks) -> tuple[Part, ...]:
    """The plateau; once it is cut off, the rim that is left, and the chamber and the battery that lay under it."""
    h, top = looks.height, looks.top
    plateau = (
        (0.01, h - 0.5), (ROUND, h - 0.5), (ROUND, h), (ROUND - 0.3 * SLOPE, h + 0.5 * looks.pad), (ROUND - SLOPE, top),
        (ROUND - SLOPE, top), (0.01, top),
    )  # fmt: skip
    edge, rim = ROUND + 0.6, h + 0.05
    cut = ((edge, h - 2), (OPENING, h - 2), (OPENING, rim), (edge, rim), (edge, h - 2))
    cell = battery(*looks.cell, looks.wrap, drop=0.6, strip=1.8)
    return (
        Part("plateau", Lathe(plateau, segments=80), looks.plastic, when=SHUT),
        Part("cut rim", Lathe(cut, 80), "abs_cut", when=OPENED),
        *moved(chamber(7.5, 7, "black", "black", OPENED), (-2, 16.5, looks.cell_z - 0.6)),
        *needing(moved(cell, (0, 0, looks.cell_z)), OPENED),
    )


TWIN_A = padded_detector("twin_a", rectangular=False, looks=PaddedLooks())
"""Its round plateau is cut off in a circle."""

TWIN_B = padded_detector("twin_b", rectangular=True, looks=PaddedLooks())
"""Its rectangular plateau is cut out in a rectangle, with the battery under it."""
