"""One grasp, phase by phase: reach, last stretch, closing, lift, hold, shake; each is decided elsewhere, here is their order."""

from __future__ import annotations

import math

import numpy as np

from sagehand.world.analytic.aftermath import Ending, Outcome, judge_harm, outcome_of
from sagehand.world.analytic.between import close_fingers, stopped_by
from sagehand.world.analytic.burden import borne
from sagehand.world.analytic.faithful import read_faithfully
from sagehand.world.analytic.hoist import hoist
from sagehand.world.analytic.quality import Measured, quality_of
from sagehand.world.analytic.reach import Reached
from sagehand.world.analytic.setup import Cell, Setup
from sagehand.world.analytic.statics import weight_force
from sagehand.world.analytic.story import Story
from sagehand.world.analytic.stretch import Arrival, arrive, table_short
from sagehand.world.analytic.support import riders
from sagehand.world.failures import Failure, Terminal
from sagehand.world.frames import Pose, translation
from sagehand.world.grasp import GraspCommand
from sagehand.world.noise import Motion
from sagehand.world.rules import GIVE_UP_M, HOLD_S, LIMIT_S, REST_S, SETTLE_S, SHAKE_S, Clock

__all__ = ["Try"]


class Try:
    """One grasp under way; what happens is told to the story, what a phase makes of things goes on to the next."""

    def __init__(self, cell: Cell, command: GraspCommand, motion: Motion | None = None, faithful: bool = False) -> None:
        """Make ready.

        Args:
            cell: Where it is tried.
            command: What the arm is told, and plans with.
            motion: What the motion does otherwise.
            faithful: The factors decide, not the statics.
        """
        self.cell, self.told, self.moves, self.faithful = cell, command, motion is not None, faithful
        self.setup = Setup.of(cell, command, motion or Motion(np.eye(4), 1.0))
        self.began = cell.scene[command.target]
        self.story = Story()
        self.story.measured = Measured(
            force_n=self.setup.force_n,
            weight_n=weight_force(self.began.mass_kg, self.began.model.friction, command.lift_acceleration),
            safe_n=self.began.model.f_safe_n,
            tilt_rad=math.acos(float(np.clip(-self.setup.command.T_world_grasp[2, 2], -1, 1))),
        )

    def run(self) -> Outcome:
        """All phases."""
        cell, setup, story = self.cell, self.setup, self.story
        command = setup.command
        short = table_short(setup, command.T_world_grasp, cell.robot, cell.scene.table)
        aim = command.T_world_grasp @ translation(z=-short)
        reached = self._reach(aim)
        clock = self._clock(reached)
        if reached.reached and self._in_time(clock):
            ending = self._carried_out(aim, short, reached)
        else:
            self._measure_as_if_there(aim)
            ending = Ending(command.T_world_grasp, self.began, command.lift_m)
        judge_harm(story, ending)
        story.seen["clock_s"] = self._seconds(clock, reached, ending)
        quality = quality_of(command, self.began, story.measured, cell.robot.widest_m, setup.width_m, reached.gap_m)
        if self.faithful:
            ending = read_faithfully(cell, setup, story, ending, quality)
        return outcome_of(cell, setup, story, ending, quality)

    def _reach(self, T: Pose) -> Reached:
        """Whether the arm comes to a pose (4, 4) [m]; it plans with what was commanded."""
        cell, told = self.cell, self.told
        reached = Reached(True)
        if cell.reacher is not None:
            grasp = told.T_world_grasp
            if self.moves:
                grasp = grasp @ translation(z=-table_short(self.setup, grasp, cell.robot, cell.scene.table))
            reached = cell.reacher.reach(
                cell.clearance,
                told.T_world_pregrasp,
                grasp if self.moves else T,
                self.setup.width_m,
                cell.scene,
                told.target,
                told.lift_m,
                T if self.moves else None,
            )
        self.story.seen |= {
            "reached": reached.reached,
            "ik_error_m": reached.position_error_m,
            "ik_error_rad": reached.rotation_error_rad,
        }
        if not reached.reached:
            self.story.fail(Failure.UNREACHABLE, reached.why)
        return reached

    def _clock(self, reached: Reached) -> Clock:
        told, speed = self.told, self.cell.robot.finger_speed
        return Clock(reached.from_home, told.pregrasp_m, told.speed_scale, speed, told.lift_m, told.lift_acceleration)

    def _in_time(self, clock: Clock) -> bool:
        """A grasp that would take longer than allowed is not begun."""
        if why := clock.too_long(self.setup.width_m):
            self.story.fail(Failure.TIMEOUT, why)
            self.story.seen["reached"] = False
        return not why

    def _measure_as_if_there(self, T: Pose) -> None:
        """A grasp that is not begun is measured as if the hand were there (4, 4), for its quality; nothing happens."""
        setup, target, measured = self.setup, self.began, self.story.measured
        closing = setup.close(T, target)
        if closing.statics is None:
            return
        measured.object_m, measured.overlap_m = closing.width_m, closing.overlap_m
        if closing.held and not closing.pressed_down:
            on_top, inside = riders(self.cell.scene, target.name)
            _, measured.held, load = borne(setup, T, closing, target, (*on_top, *inside))
            measured.weight_n = weight_force(load.mass_kg, target.model.friction, setup.command.lift_acceleration)

    def _carried_out(self, aim: Pose, short_m: float, reached: Reached) -> Ending:
        """The last stretch to a pose (4, 4), of whose way the table leaves so much [m]; closing; lift, hold, shake."""
        cell, setup, story = self.cell, self.setup, self.story
        arrival = arrive(setup, cell.scene, aim, short_m, reached)
        if not self._near_enough(arrival):
            return Ending(arrival.T, arrival.target, setup.command.lift_m, arrival.fallen)
        gripped = close_fingers(cell, setup, story, arrival)
        return gripped if isinstance(gripped, Ending) else hoist(cell, setup, story, gripped, reached)

    def _near_enough(self, arrival: Arrival) -> bool:
        """Whether the hand came near enough for the fingers to close."""
        story = self.story
        story.measured.object_m = arrival.object_m
        story.applied_n = arrival.pressed_n
        story.neighbours_m |= arrival.neighbours_m
        story.seen |= {"touched": bool(arrival.why), "touched_short_m": arrival.short_m}
        story.details["stop"] = {"what": arrival.why, "short_m": round(arrival.short_m, 4)} if arrival.why else None
        if arrival.fallen is not None:
            story.ends_in(Terminal.TOPPLED)
        if arrival.short_m > GIVE_UP_M or arrival.fallen is not None:
            story.fail(arrival.failure, stopped_by(arrival))
            story.seen["reached"] = False
            return False
        return True

    def _seconds(self, clock: Clock, reached: Reached, ending: Ending) -> float:
        """How long it took on the robot's clock [s]."""
        story, seen = self.story, self.story.seen
        if not reached.reached:
            return 0.0
        if story.failure is Failure.TIMEOUT:
            return LIMIT_S
        seconds = clock.transit_s + clock.approach_s + REST_S
        if "finger_width_m" in seen:
            seconds += clock.closing_s((self.setup.width_m - float(seen["finger_width_m"])) / 2)
        if seen.get("contact"):
            seconds += clock.lift_s
        if story.lifted is not None or ending.hangs:
            seconds += HOLD_S + SHAKE_S + SETTLE_S
        return seconds
