"""What a grasp leaves behind: where hand and target are, what came to harm, what is in the hand, what was moved."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sagehand.world.analytic.burden import Carried, InGrip
from sagehand.world.analytic.harm import broken_by
from sagehand.world.analytic.setup import Cell, Setup
from sagehand.world.analytic.story import Story
from sagehand.world.analytic.support import laid_down
from sagehand.world.executor import Attempt
from sagehand.world.failures import Failure, Terminal
from sagehand.world.frames import Pose, pose, translation
from sagehand.world.quality import Quality
from sagehand.world.rules import BROKEN, TOLERANCE
from sagehand.world.scene import Placed

__all__ = ["Ending", "Outcome", "judge_harm", "left_standing", "outcome_of"]

Array = NDArray[np.float64]
_FOLLOWS_M = 0.15
"""What the fingers would have shifted along the table by more than this did not go with them [m]."""


@dataclass(frozen=True, eq=False)
class Ending:
    """How the motions of a grasp ended.

    Attributes:
        T: (4, 4) where the fingers closed, or would have [m].
        target: The target, where it was left; where it was taken from, if it is in the hand.
        lift_m: How high the hand goes from there [m].
        fallen: (3,) which way the target was thrown over, if it was.
        grip: What bears what is in the hand.
        along: What came along with that.
        fell: The target was lifted, and lost in the shake.
        hangs: What was gripped still stands on the table, with the hand up.
        spilt: Water came over the rim.
        harmed: What else came to harm by the lift, one sentence each.
    """

    T: Pose
    target: Placed
    lift_m: float
    fallen: Array | None = None
    grip: Carried | None = None
    along: tuple[Placed, ...] = ()
    fell: bool = False
    hangs: bool = False
    spilt: bool = False
    harmed: tuple[str, ...] = ()

    @property
    def T_up(self) -> Pose:
        """(4, 4) where the hand is after the lift [m]."""
        return translation(z=self.lift_m) @ self.T


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of a grasp.

    Attributes:
        attempt: What the robot noticed, and what was true.
        in_hand: What is in the hand, if anything.
        moved: Object → (4, 4) where it is now [m], in the order in which they are moved.
    """

    attempt: Attempt
    in_hand: InGrip | None
    moved: Mapping[str, Pose]


def left_standing(placed: Placed, T_world_object: Pose) -> Placed:
    """An object that the fingers let go of where they had brought it: it stands as it stood, turned and shifted by them."""
    was, now = placed.T_world_object, T_world_object
    shift = now[:3, 3] - was[:3, 3]
    if np.linalg.norm(shift[:2]) > _FOLLOWS_M:
        return placed
    yaw = math.atan2(
        float(now[1, 0] * was[0, 0] - now[0, 0] * was[1, 0]), float(now[0, 0] * was[0, 0] + now[1, 0] * was[1, 0])
    )
    c, s = math.cos(yaw), math.sin(yaw)
    turned = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1.0]]) @ was[:3, :3]
    return placed.at(pose((now[0, 3], now[1, 3], was[2, 3]), turned))


def judge_harm(story: Story, ending: Ending) -> None:
    """Tell what came to harm: crushing first, then what the lift did (the order in which they are noticed)."""
    target = ending.target
    model, pressed = target.model, story.applied_n
    if pressed > model.f_safe_n * TOLERANCE:
        kind = Failure.FORCE_DAMAGE if pressed > BROKEN * model.f_safe_n * TOLERANCE else Failure.DEFORMATION
        why = f"pressed with {pressed:.1f} N, where {model.f_safe_n:.1f} N are safe"
        if story.failure in {None, Failure.SLIP, Failure.DROP, Failure.ORIENTATION, Failure.WRONG_OBJECT}:
            story.failure, story.why = kind, why
        if kind is Failure.FORCE_DAMAGE:
            story.ends_in(Terminal.BROKEN)
    if ending.fell and broken_by(target, ending.lift_m):
        story.ends_in(Terminal.BROKEN)
    if ending.spilt:
        story.ends_in(Terminal.SPILT)
        story.fail(Failure.CONSTRAINT_VIOLATION, f"the {target.name} spilt")
    for why in ending.harmed:
        story.fail(Failure.CONSTRAINT_VIOLATION, why)


def outcome_of(cell: Cell, setup: Setup, story: Story, ending: Ending, quality: Quality) -> Outcome:
    """The attempt, and how it leaves the hand and the scene."""
    attempt = story.attempt(quality)
    if story.lifted is not None:
        width = float(story.seen.get("finger_width_m", 0.0))
        in_hand = InGrip(story.lifted, story.T_grasp_object, ending.T_up, ending.grip, width, setup.force_n)
        moved = {story.lifted: in_hand.T_world_tcp @ in_hand.T_tcp_object}
        moved |= {other.name: translation(z=ending.lift_m) @ other.T_world_object for other in ending.along}
        return Outcome(attempt, in_hand, moved)
    T = ending.target.T_world_object if ending.fallen is None else laid_down(ending.target, ending.fallen[:2])
    stays = np.array_equal(T, cell.scene[ending.target.name].T_world_object)
    return Outcome(attempt, None, {} if stays else {ending.target.name: T})
