"""What is between the fingers when they have closed: the target, another object, both, or nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sagehand.world.analytic.aftermath import Ending, left_standing
from sagehand.world.analytic.contact import Closing
from sagehand.world.analytic.setup import Cell, Setup
from sagehand.world.analytic.story import Story
from sagehand.world.analytic.stretch import Arrival
from sagehand.world.failures import Failure
from sagehand.world.frames import Pose
from sagehand.world.scene import Placed, Scene

__all__ = ["Gripped", "close_fingers", "stopped_by"]

_NEAR_JAWS_M = 0.075


@dataclass(frozen=True, eq=False)
class Gripped:
    """The closed hand, and what it grips.

    Attributes:
        T: (4, 4) where the hand is [m].
        closing: How the fingers closed.
        what: What they grip, where it stood before.
        target: The target, where it was pushed to; it may be something else.
    """

    T: Pose
    closing: Closing
    what: Placed
    target: Placed

    @property
    def own(self) -> bool:
        """It is the target."""
        return self.what.name == self.target.name

    def let_go(self, closing: Closing) -> Placed:
        """Where the target is left if the fingers, closed so, do not hold it."""
        return left_standing(self.target, self.T @ closing.T_grasp_object) if self.own else self.target


def stopped_by(arrival: Arrival) -> str:
    """What stopped the hand, and where, in words."""
    return f"{arrival.why} {arrival.short_m * 1e3:.0f} mm before the grasp"


def close_fingers(cell: Cell, setup: Setup, story: Story, arrival: Arrival) -> Gripped | Ending:
    """Close the fingers where the hand came to: what they grip and how, or how the grasp ended."""
    T, target = arrival.T, arrival.target
    missed = Ending(T, target, setup.command.lift_m)
    closing = setup.close(T, target)
    others = [(o, c) for o in _near(cell.scene, T, target.name) if (c := setup.close(T, o)).statics is not None]
    story.seen |= {"finger_width_m": 0.0, "effort_n": setup.force_n}
    if closing.statics is not None:
        story.measured.object_m, story.measured.overlap_m = closing.width_m, closing.overlap_m
        if others:
            story.fail(Failure.UNKNOWN, f"the {others[0][0].name} is between the fingers, too")
            story.seen |= {"finger_width_m": closing.width_m, "contact": True}
            return missed
        story.applied_n = max(story.applied_n, setup.force_n)
        gripped = Gripped(T, closing, target, target)
    elif others:
        story.fail(Failure.WRONG_OBJECT, f"the {others[0][0].name} is between the fingers")
        gripped = Gripped(T, others[0][1], others[0][0], target)
    else:
        _tell_missed(story, arrival, closing)
        return Ending(T, left_standing(target, T @ closing.T_grasp_object), setup.command.lift_m)
    width = gripped.closing.width_m
    if not gripped.closing.held and not gripped.closing.pressed_down:
        story.fail(Failure.ORIENTATION, "the faces slope more than friction holds: squeezed out")
        return missed
    story.seen |= {"finger_width_m": width, "contact": width > 0.001}
    return gripped


def _tell_missed(story: Story, arrival: Arrival, closing: Closing) -> None:
    """Why nothing is between the fingers."""
    if arrival.why:
        story.fail(arrival.failure, stopped_by(arrival))
    elif closing.turn_rad or closing.slid_m:
        story.fail(Failure.ORIENTATION, "squeezed out of the fingers as they closed")
    else:
        story.fail(Failure.POSITION_ERROR, "the fingers closed beside it")


def _near(scene: Scene, T: Pose, target: str) -> list[Placed]:
    """Objects beside the target that may reach between the jaws of a hand at a pose (4, 4) [m]."""
    near = []
    for other in scene.others(target):
        low, high = other.model.bounds_m
        middle = other.T_world_object @ np.append((low + high) / 2, 1.0)
        if np.linalg.norm(middle[:3] - T[:3, 3]) < _NEAR_JAWS_M + np.linalg.norm(high - low) / 2:
            near.append(other)
    return near
