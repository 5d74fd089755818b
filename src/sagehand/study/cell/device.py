"""What a device is to the generator: a table of parts and a sequence of steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sagehand.study.cell.parts import Part

__all__ = ["END", "Device", "Step"]

END = "end"
"""The ``next_action`` of a device from which nothing remains to be taken."""


@dataclass(frozen=True)
class Step:
    """One step of a device's sequence, before its action is done.

    Attributes:
        place: Where the device is: a name in :data:`sagehand.study.cell.places.PLACES`.
        state: The device's state in words, as it goes into the labels.
        facts: What is true of the device; decides which parts are there.
        next_action: The right action, by its name in the action library; :data:`END` when nothing remains.
    """

    place: str
    state: str
    facts: frozenset[str]
    next_action: str


@dataclass(frozen=True)
class Device:
    """One device model.

    Attributes:
        family: Its family.
        name: Its name, as it goes into the labels.
        parts: Every part of every state, with the facts it needs.
        steps: Its sequence; the last one's action is :data:`END`. Empty for a device that the cell does not know.
        half_width: Half its width along y where jaws grip it [mm].
        half_length: Half its length along x [mm].
        yaw: How far it may stand turned from x, either way, by place [deg].
        sizes: Where its dimensions come from: a public source, or "estimate".
    """

    family: str
    name: str
    parts: tuple[Part, ...]
    steps: tuple[Step, ...]
    half_width: float
    half_length: float
    yaw: Mapping[str, float]
    sizes: str

    def history(self, step: int) -> tuple[str, ...]:
        """The actions done before ``step`` (0-based), oldest first."""
        return tuple(s.next_action for s in self.steps[:step])

    def remaining(self, step: int) -> tuple[str, ...]:
        """The actions from ``step`` (0-based) on, its own first, without :data:`END`."""
        return tuple(s.next_action for s in self.steps[step:] if s.next_action != END)
