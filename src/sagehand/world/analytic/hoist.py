"""Lift, hold and shake what is between the fingers: it is lost, hangs down, or is in the hand at the end."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sagehand.world.analytic.aftermath import Ending
from sagehand.world.analytic.between import Gripped
from sagehand.world.analytic.burden import Carried, borne
from sagehand.world.analytic.contact import Closing
from sagehand.world.analytic.harm import harm_of, spills
from sagehand.world.analytic.lift import Held, Load
from sagehand.world.analytic.reach import Reached
from sagehand.world.analytic.setup import Cell, Setup
from sagehand.world.analytic.statics import weight_force
from sagehand.world.analytic.story import Story
from sagehand.world.analytic.support import bottom_of, riders, tilt_of
from sagehand.world.constants import GRAVITY
from sagehand.world.failures import Failure
from sagehand.world.frames import Pose, translation
from sagehand.world.rules import LIES, SHAKE_ACCELERATION
from sagehand.world.scene import Placed

__all__ = ["hoist"]


@dataclass(frozen=True, eq=False)
class _Hanging:
    """What hangs in the hand, and how.

    Attributes:
        closing: How it lies between the pads.
        held: What the pads make of its load.
        load: With what comes along.
        on_top: What stands on it.
        inside: What lies in it.
    """

    closing: Closing
    held: Held
    load: Load
    on_top: tuple[Placed, ...]
    inside: tuple[Placed, ...]

    @property
    def T_grasp_object(self) -> Pose:
        """(4, 4) where it is in the grasp frame, after it slid and swung in the fingers [m]."""
        return translation(*(self.held.slid_m * -self.load.up)) @ self.held.swing @ self.closing.T_grasp_object


def hoist(cell: Cell, setup: Setup, story: Story, gripped: Gripped, reached: Reached) -> Ending:
    """Lift, hold, shake.

    Args:
        cell: Where.
        setup: The grasp.
        story: What happened so far.
        gripped: What is between the fingers.
        reached: How the hand came there.
    """
    what, own, command = gripped.what, gripped.own, setup.command
    on_top, inside = riders(cell.scene, what.name)
    closing, held, load = borne(setup, gripped.T, gripped.closing, what, (*on_top, *inside))
    if own and held is not None:
        story.required_n, story.measured.held = held.required_n, held
        story.measured.weight_n = weight_force(load.mass_kg, what.model.friction, command.lift_acceleration)
    lost = Ending(gripped.T, gripped.let_go(closing), command.lift_m)
    if held is None:
        why = "the pads touch it above its widest part: squeezed down and out as they rise"
        story.fail(Failure.ORIENTATION, why)
        return lost
    hanging = _Hanging(closing, held, load, on_top, inside)
    if held.stage != "held":
        story.fail(Failure.SLIP if held.stage == "slip" else Failure.DROP, held.why)
        if held.shaken:
            seen = own and cell.sees(what, lost.T_up @ hanging.T_grasp_object)
            story.seen |= {"lift_width_m": closing.width_m, "lifted_in_view": seen}
        return replace(lost, fell=held.shaken)
    if own:
        story.applied_n = max(story.applied_n, setup.force_n + _pull(setup, load) / 2)
    lost = replace(lost, lift_m=_height(cell, setup, reached))
    story.seen |= {"lift_width_m": closing.width_m, "hold_width_m": closing.width_m}
    if lost.lift_m == 0.0:
        story.fail(Failure.UNREACHABLE, "the arm cannot lift it straight up from there")
        return lost
    T_up = lost.T_up @ hanging.T_grasp_object
    seen = own and cell.sees(what, T_up)
    story.seen["lifted_in_view"] = seen
    if _hangs_down(gripped, held, T_up):
        swung = f"it swung by {math.degrees(held.swing_rad):.0f}° under its moment"
        story.fail(Failure.DROP, f"one end of it stays on the table: {swung}, which needs {held.required_n:.1f} N")
        return replace(lost, hangs=True)
    story.seen["held_in_view"] = seen
    return _in_hand(setup, story, gripped, hanging, lost.lift_m)


def _in_hand(setup: Setup, story: Story, gripped: Gripped, hanging: _Hanging, lift_m: float) -> Ending:
    """It was lifted so far [m], held and shaken, and is in the hand."""
    what, closing, held = gripped.what, hanging.closing, hanging.held
    story.lifted, story.T_grasp_object = what.name, hanging.T_grasp_object
    story.slip_m, story.turn_rad = held.slid_m, held.swing_rad
    height = lift_m - held.slid_m
    if gripped.own and height <= setup.command.lift_m / 2:
        story.fail(Failure.SLIP, f"lifted by {height * 1e3:.0f} mm only")
    lean = tilt_of(gripped.T @ story.T_grasp_object) if tilt_of(what.T_world_object) < LIES else 0.0
    return Ending(
        gripped.T,
        gripped.target,
        lift_m,
        grip=None if closing.statics is None else Carried(closing.statics, hanging.load, setup.force_n),
        along=(*hanging.on_top, *hanging.inside),
        spilt=spills(what, lean),
        harmed=harm_of(lean, hanging.on_top, story.neighbours_m),
    )


def _pull(setup: Setup, load: Load) -> float:
    """What pulls along the closing axis in the lift or the shake, whichever is more [N]; the two fingers share it."""
    weighs = abs(float(load.up[1]))
    lift = weighs * (GRAVITY + setup.command.lift_acceleration)
    shake = weighs * GRAVITY + SHAKE_ACCELERATION * float(np.abs(load.sideways[:, 1]).max())
    return load.mass_kg * max(lift, shake)


def _height(cell: Cell, setup: Setup, reached: Reached) -> float:
    """How high the arm can lift it, of what was commanded [m]."""
    command = setup.command
    if cell.reacher is None or reached.q is None:
        return command.lift_m
    return cell.reacher.highest_lift(reached, command.T_world_grasp, command.lift_m)


def _hangs_down(gripped: Gripped, held: Held, T_up: Pose) -> bool:
    """Whether it swung so far that it still stands on what it stood on, with the hand up; then it is not held."""
    if held.swing_rad == 0.0:
        return False
    model = gripped.what.model
    return bottom_of(model, T_up) <= bottom_of(model, gripped.what.T_world_object)
