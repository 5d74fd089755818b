"""The faithful reading of a grasp that was carried out: its factors decide, and what the hand holds follows."""

from __future__ import annotations

from dataclasses import replace

from sagehand.world.analytic.aftermath import Ending
from sagehand.world.analytic.quality import NOT_FACTORS, faithful_failure
from sagehand.world.analytic.setup import Cell, Setup
from sagehand.world.analytic.story import Story
from sagehand.world.failures import Failure, Terminal
from sagehand.world.frames import invert
from sagehand.world.quality import Quality

__all__ = ["read_faithfully"]


def read_faithfully(cell: Cell, setup: Setup, story: Story, ending: Ending, quality: Quality) -> Ending:
    """Let the factors decide: after a success the target is in the hand, after a failure nothing is.

    Returns:
        How the motions end in this reading; the story is told anew where it went otherwise.
    """
    name, was = setup.command.target, story.failure
    story.failure, story.why = faithful_failure(was, story.why, quality, story.measured, setup.command.type)
    if was in NOT_FACTORS:
        return ending
    if story.failure is None and story.lifted != name:
        return _held_after_all(cell, setup, story, ending)
    if story.failure is Failure.FORCE_DAMAGE:
        story.ends_in(Terminal.BROKEN)
    if story.failure is not None and story.lifted == name:
        story.lifted = None
        story.seen |= {"lift_width_m": 0.0, "hold_width_m": 0.0}
        story.seen |= {"lifted_in_view": False, "held_in_view": False}
    return ending


def _held_after_all(cell: Cell, setup: Setup, story: Story, ending: Ending) -> Ending:
    """What was not held is, and no harm was done."""
    target = ending.target
    closing = setup.close(ending.T, target)
    there = invert(ending.T) @ target.T_world_object
    story.lifted = target.name
    story.T_grasp_object = closing.T_grasp_object if closing.statics is not None else there
    story.ended.clear()
    width = closing.width_m or story.measured.object_m or 0.0
    seen = cell.sees(target, ending.T_up @ story.T_grasp_object)
    story.seen |= {"reached": True, "finger_width_m": width, "effort_n": setup.force_n, "contact": True}
    story.seen |= {"lift_width_m": width, "hold_width_m": width, "lifted_in_view": seen, "held_in_view": seen}
    return replace(ending, fallen=None, grip=None, along=())
