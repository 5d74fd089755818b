"""One grasp under way, phase by phase: reach, last stretch, closing, lift, hold, shake."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sagehand.world.analytic.burden import Carried, borne
from sagehand.world.analytic.contact import Closing
from sagehand.world.analytic.harm import broken_by, harm_of, spills
from sagehand.world.analytic.jaws import jaws_of
from sagehand.world.analytic.lift import Held, Load
from sagehand.world.analytic.quality import NOT_FACTORS, Measured, faithful_failure, quality_of
from sagehand.world.analytic.reach import Reached
from sagehand.world.analytic.setup import Setup
from sagehand.world.analytic.statics import weight_force
from sagehand.world.analytic.story import Story
from sagehand.world.analytic.stretch import Arrival, arrive, table_short
from sagehand.world.analytic.support import bottom_of, laid_down, riders, tilt_of
from sagehand.world.constants import GRAVITY
from sagehand.world.executor import Attempt
from sagehand.world.failures import Failure, Terminal
from sagehand.world.frames import Pose, invert, pose, translation
from sagehand.world.grasp import GraspCommand
from sagehand.world.noise import Motion
from sagehand.world.quality import Quality
from sagehand.world.rules import (
    BROKEN,
    GIVE_UP_M,
    HOLD_S,
    LIES,
    LIMIT_S,
    REST_S,
    SETTLE_S,
    SHAKE_ACCELERATION,
    SHAKE_S,
    TOLERANCE,
    Clock,
)
from sagehand.world.scene import Placed
from sagehand.world.sight import in_view

if TYPE_CHECKING:
    from sagehand.world.analytic.executor import AnalyticTrial

__all__ = ["Try"]

Array = NDArray[np.float64]
_NEAR_JAWS_M = 0.075


class Try:
    """One grasp under way."""

    def __init__(self, trial: AnalyticTrial, command: GraspCommand, motion: Motion | None) -> None:
        """Take the command, and what the motion makes of it; the arm plans with what was commanded."""
        self.told, self.moves = command, motion is not None
        motion = motion or Motion(np.eye(4), 1.0)
        self.trial, self.executor = trial, trial.executor
        robot = self.robot = trial.executor.robot
        self.setup = Setup(
            command.moved(command.T_world_grasp @ motion.T_grasp_actual),
            float(np.clip(command.width_m, *robot.width_m)),
            float(np.clip(command.force_n * motion.force_factor, *robot.force_n)),
            jaws_of(robot),
            trial.executor.caster,
        )
        self.command, self.force_n = self.setup.command, self.setup.force_n
        self.target = self.began = trial.scene[command.target]
        self.story = Story()
        self.measured = Measured(
            force_n=self.force_n,
            weight_n=weight_force(self.target.mass_kg, self.target.model.friction, command.lift_acceleration),
            safe_n=self.target.model.f_safe_n,
            tilt_rad=math.acos(float(np.clip(-self.command.T_world_grasp[2, 2], -1, 1))),
        )
        self.fallen: Array | None = None
        self.fell = self.spilt = self.hangs = False
        self.late: tuple[str, ...] = ()
        self.carried: tuple[Placed, ...] = ()
        self.lift_m = self.command.lift_m
        self.T: Pose = self.command.T_world_grasp
        self.grip: Carried | None = None

    def run(self) -> Attempt:
        """All phases."""
        story, setup = self.story, self.setup
        short = table_short(setup, self.command.T_world_grasp, self.robot, self.trial.scene.table)
        aim = self.command.T_world_grasp @ translation(z=-short)
        reached = self._reach(aim)
        clock = self._clock_of(reached)
        if not reached.reached or not self._in_time(clock):
            self._as_if_there(aim)
        else:
            arrival = arrive(setup, self.trial.scene, aim, short, reached)
            if self._arrived(arrival) and (gripped := self._close(arrival)) is not None:
                self._carry(*gripped, reached)
        self._judge_late()
        self._clock(clock, reached)
        quality = quality_of(self.command, self.began, self.measured, self.robot.widest_m, setup.width_m, reached.gap_m)
        if self.executor.faithful:
            self._read_faithfully(quality)
        self._settle_scene()
        return story.attempt(quality)

    def _reach(self, T: Pose) -> Reached:
        reacher, command = self.executor.reacher, self.command
        reached = Reached(True)
        if reacher is not None:
            scene, width, told = self.trial.scene, self.setup.width_m, self.told
            grasp = told.T_world_grasp
            if self.moves:
                grasp = grasp @ translation(z=-table_short(self.setup, grasp, self.robot, scene.table))
            reached = reacher.reach(
                self.trial.clearance,
                told.T_world_pregrasp,
                grasp if self.moves else T,
                width,
                scene,
                command.target,
                command.lift_m,
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

    def _clock_of(self, reached: Reached) -> Clock:
        told = self.told
        return Clock(
            reached.from_home,
            told.pregrasp_m,
            told.speed_scale,
            self.robot.finger_speed,
            told.lift_m,
            told.lift_acceleration,
        )

    def _in_time(self, clock: Clock) -> bool:
        """A grasp that would take longer than allowed is not begun."""
        if why := clock.too_long(self.setup.width_m):
            self.story.fail(Failure.TIMEOUT, why)
            self.story.seen["reached"] = False
        return not why

    def _as_if_there(self, T: Pose) -> None:
        """A grasp that is not begun is measured as if the hand were there (4, 4), for its quality; nothing happens."""
        closing = self.setup.close(T, self.target)
        if closing.statics is None:
            return
        measured = self.measured
        measured.object_m, measured.overlap_m = closing.width_m, closing.overlap_m
        if closing.held and not closing.pressed_down:
            on_top, inside = riders(self.trial.scene, self.target.name)
            _, measured.held, load = borne(self.setup, T, closing, self.target, (*on_top, *inside))
            friction = self.target.model.friction
            measured.weight_n = weight_force(load.mass_kg, friction, self.command.lift_acceleration)

    def _arrived(self, arrival: Arrival) -> bool:
        """Whether the hand came near enough for the fingers to close."""
        story = self.story
        self.target, self.T, self.fallen = arrival.target, arrival.T, arrival.fallen
        self.measured.object_m = arrival.object_m
        story.applied_n = arrival.pressed_n
        story.neighbours_m |= arrival.neighbours_m
        story.seen |= {"touched": bool(arrival.why), "touched_short_m": arrival.short_m}
        story.details["stop"] = {"what": arrival.why, "short_m": round(arrival.short_m, 4)} if arrival.why else None
        if arrival.fallen is not None:
            story.ends_in(Terminal.TOPPLED)
        if arrival.short_m > GIVE_UP_M or arrival.fallen is not None:
            story.fail(arrival.failure, f"{arrival.why} {arrival.short_m * 1e3:.0f} mm before the grasp")
            story.seen["reached"] = False
            return False
        return True

    def _close(self, arrival: Arrival) -> tuple[Closing, Placed] | None:
        """Close the fingers; what they hold, and how."""
        story = self.story
        closing = self.setup.close(self.T, self.target)
        others = [(o, c) for o in self._near() if (c := self.setup.close(self.T, o)).statics is not None]
        story.seen |= {"finger_width_m": 0.0, "effort_n": self.force_n}
        if closing.statics is not None:
            self.measured.object_m, self.measured.overlap_m = closing.width_m, closing.overlap_m
            if others:
                story.fail(Failure.UNKNOWN, f"the {others[0][0].name} is between the fingers, too")
                story.seen |= {"finger_width_m": closing.width_m, "contact": True}
                return None
            return self._gripped(closing, self.target)
        if others:
            story.fail(Failure.WRONG_OBJECT, f"the {others[0][0].name} is between the fingers")
            return self._gripped(others[0][1], others[0][0])
        if arrival.why:
            story.fail(arrival.failure, f"{arrival.why} {arrival.short_m * 1e3:.0f} mm before the grasp")
        elif closing.turn_rad or closing.slid_m:
            story.fail(Failure.ORIENTATION, "squeezed out of the fingers as they closed")
        else:
            story.fail(Failure.POSITION_ERROR, "the fingers closed beside it")
        self._leave(closing)
        return None

    def _gripped(self, closing: Closing, what: Placed) -> tuple[Closing, Placed] | None:
        story = self.story
        if what.name == self.command.target:
            story.applied_n = max(story.applied_n, self.force_n)
        if not closing.held and not closing.pressed_down:
            story.fail(Failure.ORIENTATION, "the faces slope more than friction holds: squeezed out")
            return None
        story.seen |= {"finger_width_m": closing.width_m, "contact": closing.width_m > 0.001}
        return closing, what

    def _near(self) -> list[Placed]:
        if len(self.trial.scene.objects) == 1:
            return []
        near = []
        for other in self.trial.scene.others(self.command.target):
            low, high = other.model.bounds_m
            middle = other.T_world_object @ np.append((low + high) / 2, 1.0)
            if np.linalg.norm(middle[:3] - self.T[:3, 3]) < _NEAR_JAWS_M + np.linalg.norm(high - low) / 2:
                near.append(other)
        return near

    def _carry(self, closing: Closing, what: Placed, reached: Reached) -> None:
        """Lift, hold, shake."""
        story, own = self.story, what.name == self.command.target
        on_top, inside = ((), ()) if len(self.trial.scene.objects) == 1 else riders(self.trial.scene, what.name)
        closing, held, load = borne(self.setup, self.T, closing, what, (*on_top, *inside))
        if own and held is not None:
            story.required_n, self.measured.held = held.required_n, held
            self.measured.weight_n = weight_force(load.mass_kg, what.model.friction, self.command.lift_acceleration)
        if closing.statics is not None:
            self.grip = Carried(closing.statics, load, self.force_n)
        if held is None or held.stage != "held":
            self._lost(closing, held, load, what)
            return
        if own:  # what pulls along the closing axis, in the lift or the shake, is shared by the two fingers
            weighs = abs(float(load.up[1]))
            lift = weighs * (GRAVITY + self.command.lift_acceleration)
            shake = weighs * GRAVITY + SHAKE_ACCELERATION * float(np.abs(load.sideways[:, 1]).max())
            story.applied_n = max(story.applied_n, self.force_n + load.mass_kg * max(lift, shake) / 2)
        if self.executor.reacher is not None and reached.q is not None:
            height = self.command.lift_m
            self.lift_m = self.executor.reacher.highest_lift(reached, self.command.T_world_grasp, height)
        story.seen |= {"lift_width_m": closing.width_m, "hold_width_m": closing.width_m}
        if self.lift_m == 0.0:
            story.fail(Failure.UNREACHABLE, "the arm cannot lift it straight up from there")
            if own:
                self._leave(closing)
            return
        if self._hangs_down(closing, held, load, what):
            return
        self._lifted(closing, held, load, what)
        lean = tilt_of(self.T @ story.T_grasp_object) if tilt_of(what.T_world_object) < LIES else 0.0
        self.spilt = spills(what, lean)
        self.late = harm_of(lean, on_top, story.neighbours_m)
        self.carried = (*on_top, *inside)

    def _hangs_down(self, closing: Closing, held: Held, load: Load, what: Placed) -> bool:
        """Whether it swung so far that it still stands on what it stood on, with the hand up; then it is not held."""
        if held.swing_rad == 0.0:
            return False
        story, up = self.story, translation(z=self.lift_m) @ self.T
        hanging = what.at(up @ _carried(held, closing, load.up))
        if bottom_of(what.model, hanging.T_world_object) > bottom_of(what.model, what.T_world_object):
            return False
        self.hangs = True
        swung = f"it swung by {math.degrees(held.swing_rad):.0f}° under its moment"
        story.fail(Failure.DROP, f"one end of it stays on the table: {swung}, which needs {held.required_n:.1f} N")
        if what.name == self.command.target:
            story.seen["lifted_in_view"] = self._sees(what, _carried(held, closing, load.up))
            self._leave(closing)
        return True

    def _lifted(self, closing: Closing, held: Held, load: Load, what: Placed) -> None:
        story, own = self.story, what.name == self.command.target
        story.lifted = what.name
        story.T_grasp_object = _carried(held, closing, load.up)
        story.slip_m, story.turn_rad = held.slid_m, held.swing_rad
        height = self.lift_m - held.slid_m
        seen = own and self._sees(what, story.T_grasp_object)
        story.seen |= {"lifted_in_view": seen, "held_in_view": seen}
        if own and height <= self.command.lift_m / 2:
            story.fail(Failure.SLIP, f"lifted by {height * 1e3:.0f} mm only")

    def _sees(self, what: Placed, T_grasp_object: Pose) -> bool:
        """Whether the camera sees an object off the table, when the hand that holds it is up."""
        com = np.append(what.com_m, 1.0)
        now, before = translation(z=self.lift_m) @ self.T @ T_grasp_object @ com, what.T_world_object @ com
        return in_view(self.trial.scene.camera, now[:3], float(now[2] - before[2]))

    def _lost(self, closing: Closing, held: Held | None, load: Load, what: Placed) -> None:
        story, own = self.story, what.name == self.command.target
        if held is None:
            why = "the pads touch it above its widest part: squeezed down and out as they rise"
            story.fail(Failure.ORIENTATION, why)
        else:
            story.fail(Failure.SLIP if held.stage == "slip" else Failure.DROP, held.why)
        self.fell = held is not None and held.shaken
        seen = held is not None and self.fell and own and self._sees(what, _carried(held, closing, load.up))
        story.seen |= {"lift_width_m": closing.width_m if self.fell else 0.0, "lifted_in_view": seen}
        if own:
            self._leave(closing)

    def _judge_late(self) -> None:
        """Crushing first, then what the lift did (the order in which they are noticed)."""
        story, model = self.story, self.target.model
        pressed = story.applied_n
        if pressed > model.f_safe_n * TOLERANCE:
            kind = Failure.FORCE_DAMAGE if pressed > BROKEN * model.f_safe_n * TOLERANCE else Failure.DEFORMATION
            why = f"pressed with {pressed:.1f} N, where {model.f_safe_n:.1f} N are safe"
            if story.failure in {None, Failure.SLIP, Failure.DROP, Failure.ORIENTATION, Failure.WRONG_OBJECT}:
                story.failure, story.why = kind, why
            if kind is Failure.FORCE_DAMAGE:
                story.ends_in(Terminal.BROKEN)
        if self.fell and broken_by(self.target, self.command.lift_m):
            story.ends_in(Terminal.BROKEN)
        if self.spilt:
            story.ends_in(Terminal.SPILT)
            story.fail(Failure.CONSTRAINT_VIOLATION, f"the {self.target.name} spilt")
        for why in self.late:
            story.fail(Failure.CONSTRAINT_VIOLATION, why)

    def _leave(self, closing: Closing) -> None:
        """Where the target is left standing: as it stood, turned and shifted by the fingers."""
        was, now = self.target.T_world_object, self.T @ closing.T_grasp_object
        shift = now[:3, 3] - was[:3, 3]
        if np.linalg.norm(shift[:2]) > 0.15:
            return
        yaw = math.atan2(
            float(now[1, 0] * was[0, 0] - now[0, 0] * was[1, 0]), float(now[0, 0] * was[0, 0] + now[1, 0] * was[1, 0])
        )
        c, s = math.cos(yaw), math.sin(yaw)
        turned = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1.0]]) @ was[:3, :3]
        self.target = self.target.at(pose((now[0, 3], now[1, 3], was[2, 3]), turned))

    def _settle_scene(self) -> None:
        story, trial = self.story, self.trial
        if story.lifted is not None:
            felt = (float(story.seen.get("finger_width_m", 0.0)), self.force_n)
            trial.hold(story.lifted, story.T_grasp_object, translation(z=self.lift_m) @ self.T, self.grip, felt)
            for other in self.carried:
                trial.moved(other.name, translation(z=self.lift_m) @ other.T_world_object)
            return
        T = self.target.T_world_object
        if self.fallen is not None:
            T = laid_down(self.target, self.fallen[:2])
        if not np.array_equal(T, trial.scene[self.target.name].T_world_object):
            trial.moved(self.target.name, T)

    def _clock(self, clock: Clock, reached: Reached) -> None:
        seen = self.story.seen
        if not reached.reached:
            seen["clock_s"] = 0.0
            return
        if self.story.failure is Failure.TIMEOUT:
            seen["clock_s"] = LIMIT_S
            return
        seconds = clock.transit_s + clock.approach_s + REST_S
        if "finger_width_m" in seen:
            seconds += clock.closing_s((self.setup.width_m - float(seen["finger_width_m"])) / 2)
        if seen.get("contact"):
            seconds += clock.lift_s
        if self.story.lifted is not None or self.hangs:
            seconds += HOLD_S + SHAKE_S + SETTLE_S
        seen["clock_s"] = seconds

    def _read_faithfully(self, quality: Quality) -> None:
        """Let the factors decide, and let what the hand holds follow: the target after a success, nothing after a failure."""
        story, name = self.story, self.command.target
        was = story.failure
        story.failure, story.why = faithful_failure(was, story.why, quality, self.measured, self.command.type)
        if was in NOT_FACTORS:
            return
        if story.failure is None and story.lifted != name:
            closing = self.setup.close(self.T, self.target)
            there = invert(self.T) @ self.target.T_world_object
            story.lifted, story.T_grasp_object = name, closing.T_grasp_object if closing.statics is not None else there
            story.ended.clear()
            width = closing.width_m or self.measured.object_m or 0.0
            seen = self._sees(self.target, story.T_grasp_object)
            story.seen |= {"reached": True, "finger_width_m": width, "effort_n": self.force_n, "contact": True}
            story.seen |= {"lift_width_m": width, "hold_width_m": width, "lifted_in_view": seen, "held_in_view": seen}
            self.fallen, self.grip, self.carried = None, None, ()
        elif story.failure is not None:
            if story.failure is Failure.FORCE_DAMAGE:
                story.ends_in(Terminal.BROKEN)
            if story.lifted == name:
                story.lifted = None
                story.seen |= {"lift_width_m": 0.0, "hold_width_m": 0.0}
                story.seen |= {"lifted_in_view": False, "held_in_view": False}


def _carried(held: Held, closing: Closing, up: Array) -> Pose:
    """(4, 4) where an object is in the grasp frame, after it slid and swung in the fingers [m]."""
    return translation(*(held.slid_m * -up)) @ held.swing @ closing.T_grasp_object
