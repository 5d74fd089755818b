"""What a device is to the generator: a table of parts and a sequence of steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sagehand.study.cell.parts import Part

__all__ = ["END", "Course", "Device", "Step"]

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
        damage: What is not as it should be, in words; None in the normal sequence.
    """

    place: str
    state: str
    facts: frozenset[str]
    next_action: str
    damage: str | None = None


@dataclass(frozen=True)
class Course:
    """One way through a device's steps, from its arrival to the end.

    Attributes:
        name: What befell the unit, in words.
        steps: The steps that it goes through (0-based), in order.
    """

    name: str
    steps: tuple[int, ...]


@dataclass(frozen=True)
class Device:
    """One device model.

    Attributes:
        family: Its family.
        name: Its name, as it goes into the labels.
        parts: Every part of every state, with the facts it needs.
        steps: Its sequence; the last one's action is :data:`END`. Steps that only a damaged unit comes to follow after
            it. Empty for a device that the cell does not know.
        half_width: Half its width along y where jaws grip it [mm].
        half_length: Half its length along x [mm].
        yaw: How far it may stand turned from x, either way, by place [deg].
        sizes: Where its dimensions come from: a public source, or "estimate".
        courses: The ways of damaged units through the steps; the normal way need not be among them.
    """

    family: str
    name: str
    parts: tuple[Part, ...]
    steps: tuple[Step, ...]
    half_width: float
    half_length: float
    yaw: Mapping[str, float]
    sizes: str
    courses: tuple[Course, ...] = ()

    @property
    def normal(self) -> Course:
        """The way of a unit that nothing befell: the steps up to the first :data:`END`."""
        ends = [i for i, step in enumerate(self.steps) if step.next_action == END]
        return Course("normal", tuple(range(ends[0] + 1 if ends else len(self.steps))))

    def through(self, step: int) -> tuple[Course, ...]:
        """The courses on which a unit can have come to ``step`` (0-based), the normal one first where it can.

        Of a damaged unit only what happens from its damage on counts: before, it is a unit like any other.
        """
        normal = self.normal
        damaged = (c for c in self.courses if step in c.steps and set(_until(c, step)) - set(normal.steps))
        return (*((normal,) if step in normal.steps else ()), *damaged)

    def history(self, step: int, course: Course | None = None) -> tuple[str, ...]:
        """The actions done before ``step`` (0-based), oldest first, on ``course`` or the first that comes to it."""
        return tuple(self.steps[s].next_action for s in _until(course or self.through(step)[0], step)[:-1])

    def remaining(self, step: int) -> tuple[str, ...]:
        """The actions from ``step`` (0-based) on, its own first, without :data:`END`, if nothing more goes wrong."""
        steps = self.through(step)[0].steps
        left = (self.steps[s].next_action for s in steps[steps.index(step) :])
        return tuple(action for action in left if action != END)


def _until(course: Course, step: int) -> tuple[int, ...]:
    """The steps of ``course`` up to ``step``, with it."""
    return course.steps[: course.steps.index(step) + 1]
