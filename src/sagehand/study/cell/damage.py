"""Damage: the known devices with steps off their normal sequence (each after the normal ones, with a number of its own).

The steps make the right action hang on the picture: after the same previous action an intact and a damaged unit need different
actions. The guard lets all of them through only under the study's own library, where an action may have failed unseen.
"""

from __future__ import annotations

from dataclasses import replace

from sagehand.study.cell.device import END, Course, Device, Step
from sagehand.study.cell.heat_cost_allocators import QUNDIS
from sagehand.study.cell.parts import Part, tilted
from sagehand.study.cell.shapes import Lathe
from sagehand.study.cell.smoke_detectors import FUMONIC, KALO

__all__ = ["DAMAGED_FUMONIC", "DAMAGED_KALO", "DAMAGED_QUNDIS", "damaged_levered"]

BARE = frozenset({"battery", "contacts"})


def damaged_levered(device: Device, *, hinge: tuple[float, float], angle: float) -> Device:
    """A detector that is levered open and whose contacts are cut, with three kinds of damage.

    Args:
        device: Its normal steps are those of kalo.
        hinge: Where its half-levered cover still hangs (x, z) [mm].
        angle: How far that cover stands open [deg].
    """
    up = [replace(p, when=("cover_up",)) for p in device.parts if p.when == ("cover",)]
    whole = next(p for p in device.parts if p.name == "contact")
    held = replace(whole, name="contact, still whole", when=("not cover", "battery", "one_contact"))
    bare, slipped, left = "cover missing on arrival", "lever slipped, cover half up", "one contact still whole"
    steps = (
        Step("table", f"{bare}, battery soldered in", BARE, "place_in_cnc", bare),
        Step("vise", slipped, BARE | {"cover_up"}, "lever", slipped),
        Step(
            "cnc", f"contacts milled, {left}", frozenset({"battery", "one_contact"}), "cnc_cut_battery_contacts", left
        ),
    )
    courses = (Course(bare, (6, 3, 4, 5)), Course(slipped, (0, 1, 7, 2, 3, 4, 5)), Course(left, (0, 1, 2, 3, 8, 4, 5)))
    parts = (*device.parts, *tilted(up, angle, hinge), held)
    return replace(device, parts=parts, steps=device.steps + steps, courses=courses)


def _fumonic() -> Device:
    groove = ((49.4, 33.2), (50.3, 33.2), (50.7, 33.4), (50.3, 34.5), (49.7, 34.6), (49.4, 33.2))
    chips = ((50.6, 32.9), (51.9, 31.6), (51.4, 33.0), (50.9, 33.6), (50.6, 32.9))
    parts = (
        *FUMONIC.parts,
        Part("cut, not through", Lathe(groove, segments=80), "black_matt", when=("top", "groove")),
        Part("burr", Lathe(chips, segments=80), "abs_cut", when=("top", "groove")),
    )
    shallow = "circular cut not through"
    facts = BARE | {"top", "groove"}
    steps = (*FUMONIC.steps, Step("cnc", f"{shallow}, top still on", facts, "cnc_cut_circular", shallow))
    return replace(FUMONIC, parts=parts, steps=steps, courses=(Course(shallow, (0, 1, 5, 2, 3, 4)),))


def _qundis() -> Device:
    empty = "cover and battery missing on arrival"
    steps = (*QUNDIS.steps, Step("table", empty, frozenset({"outline_cut"}), END, empty))
    return replace(QUNDIS, steps=steps, courses=(Course(empty, (6,)),))


DAMAGED_KALO = damaged_levered(KALO, hinge=(48.0, 15.0), angle=13.0)
"""kalo: without its cover, with its cover half up, with one contact left."""

DAMAGED_FUMONIC = _fumonic()
"""fumonic: its circular cut does not go through."""

DAMAGED_QUNDIS = _qundis()
"""qundis: arrives without cover and battery."""
