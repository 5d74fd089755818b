"""One grasp under way, phase by phase: reach, last stretch, closing, lift, hold, shake."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sagehand.world.analytic.burden import borne
from sagehand.world.analytic.contact import Closing
from sagehand.world.analytic.harm import broken_by, harm_of, spills
from sagehand.world.analytic.jaws import jaws_of
from sagehand.world.analytic.lift import SHAKE_ACCELERATION, Held, Load
from sagehand.world.analytic.quality import Measured, faithful_failure, quality_of
from sagehand.world.analytic.reach import Reached
from sagehand.world.analytic.setup import Setup
from sagehand.world.analytic.statics import GRAVITY, weight_force
from sagehand.world.analytic.story import Story
from sagehand.world.analytic.stretch import GIVE_UP_M, Arrival, arrive, table_short
from sagehand.world.analytic.support import laid_down, riders, tilt_of
from sagehand.world.executor import Attempt
from sagehand.world.failures import Failure, Terminal
from sagehand.world.frames import Pose, pose, translation
from sagehand.world.grasp import GraspCommand
from sagehand.world.noise import Motion
from sagehand.world.scene import Placed

if TYPE_CHECKING:
    from sagehand.world.analytic.executor import AnalyticTrial

__all__ = ["Try"]

Array = NDArray[np.float64]
_SPEED = 0.25
"""Largest speed of the TCP on the last stretch [m/s]: the reduced speed of ISO 10218-1."""
_PEAK = 1.875
"""Largest speed of the minimum-jerk law over its mean (Flash & Hogan 1985)."""
_TRANSIT = 0.5
"""Share of the joints' speed limits at which the arm comes from home."""
_HOLD_S, _SHAKE_S = 2.0, 2.2
_NEAR_JAWS_M = 0.075


class Try:
    """One grasp under way."""

    def __init__(self, trial: AnalyticTrial, command: GraspCommand, motion: Motion) -> None:
        """Take the command, as the motion carries it out."""
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
        self.fell = self.spilt = False
        self.late: tuple[str, ...] = ()
        self.carried: tuple[Placed, ...] = ()
        self.lift_m = self.command.lift_m
        self.T: Pose = self.command.T_world_grasp

    def run(self) -> Attempt:
        """All phases."""
        story, setup = self.story, self.setup
        short = table_short(setup, self.robot, self.trial.scene.table)
        aim = self.command.T_world_grasp @ translation(z=-short)
        reached = self._reach(aim)
        if reached.reached and self._in_time(reached):
            arrival = arrive(setup, self.trial.scene, aim, short, reached)
            if self._arrived(arrival) and (gripped := self._close(arrival)) is not None:
                self._carry(*gripped, reached)
        self._judge_late()
        self._clock(reached)
        quality = quality_of(self.command, self.began, self.measured, self.robot.widest_m, setup.width_m, reached.gap_m)
        if self.executor.faithful:
            failure, why = faithful_failure(story.failure, story.why, quality, self.measured, self.command.type)
            story.failure, story.why = failure, why
        self._settle_scene()
        return story.attempt(quality)

    def _reach(self, T: Pose) -> Reached:
        reacher, command = self.executor.reacher, self.command
        reached = Reached(True)
        if reacher is not None:
            clearance, width = self.trial.clearance, self.setup.width_m
            reached = reacher.reach(clearance, command.T_world_pregrasp, T, width, (command.target,))
        self.story.seen |= {
            "reached": reached.reached,
            "ik_error_m": reached.position_error_m,
            "ik_error_rad": reached.rotation_error_rad,
        }
        if not reached.reached:
            self.story.fail(Failure.UNREACHABLE, reached.why)
        return reached

    def _in_time(self, reached: Reached) -> bool:
        """A grasp that would take longer than allowed is not begun."""
        travel = self.robot.width_m[1] / 2 / (self.robot.finger_speed * self.command.speed_scale)
        seconds = self._way_s(reached) + travel + _HOLD_S + 4.0
        if seconds <= self.executor.limit_s:
            return True
        self.story.fail(Failure.TIMEOUT, f"it would take {seconds:.0f} s, allowed are {self.executor.limit_s:.0f}")
        self.story.seen["reached"] = False
        return False

    def _way_s(self, reached: Reached) -> float:
        share = self.command.speed_scale
        return (reached.from_home / _TRANSIT + _PEAK * max(self.command.pregrasp_m, 1e-3) / _SPEED) / share

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
        if held is None or held.stage != "held":
            self._lost(closing, held, own)
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
        self._lifted(closing, held, load, what)
        lean = tilt_of(self.T @ story.T_grasp_object) if tilt_of(what.T_world_object) < math.radians(45) else 0.0
        self.spilt = spills(what, lean)
        self.late = harm_of(lean, on_top, story.neighbours_m)
        self.carried = (*on_top, *inside)

    def _lifted(self, closing: Closing, held: Held, load: Load, what: Placed) -> None:
        story, own = self.story, what.name == self.command.target
        story.lifted = what.name
        story.T_grasp_object = translation(*(held.slid_m * -load.up)) @ held.swing @ closing.T_grasp_object
        story.slip_m, story.turn_rad = held.slid_m, held.swing_rad
        height = self.lift_m - held.slid_m
        up = height > self.command.lift_m / 2
        story.seen |= {"lifted_in_view": own and up, "held_in_view": own}
        if own and not up:
            story.fail(Failure.SLIP, f"lifted by {height * 1e3:.0f} mm only")

    def _lost(self, closing: Closing, held: Held | None, own: bool) -> None:
        story = self.story
        if held is None:
            why = "the pads touch it above its widest part: squeezed down and out as they rise"
            story.fail(Failure.ORIENTATION, why)
        else:
            story.fail(Failure.SLIP if held.stage == "slip" else Failure.DROP, held.why)
        self.fell = held is not None and held.shaken
        story.seen |= {"lift_width_m": closing.width_m if self.fell else 0.0, "lifted_in_view": self.fell and own}
        if own:
            self._leave(closing)

    def _judge_late(self) -> None:
        """Crushing first, then what the lift did (the order in which they are noticed)."""
        story, model = self.story, self.target.model
        pressed = story.applied_n
        if pressed > model.f_safe_n:
            kind = Failure.FORCE_DAMAGE if pressed > 1.5 * model.f_safe_n else Failure.DEFORMATION
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
            trial.hold(story.lifted, story.T_grasp_object, translation(z=self.lift_m) @ self.T)
            for other in self.carried:
                trial.moved(other.name, translation(z=self.lift_m) @ other.T_world_object)
            return
        T = self.target.T_world_object
        if self.fallen is not None:
            T = laid_down(self.target, self.fallen[:2])
        if not np.array_equal(T, trial.scene[self.target.name].T_world_object):
            trial.moved(self.target.name, T)

    def _clock(self, reached: Reached) -> None:
        share, seen = self.command.speed_scale, self.story.seen
        if not reached.reached:
            seen["clock_s"] = 0.0
            return
        if self.story.failure is Failure.TIMEOUT:
            seen["clock_s"] = self.executor.limit_s
            return
        seconds = self._way_s(reached)
        if "finger_width_m" in seen:
            travel = (self.setup.width_m - float(seen["finger_width_m"])) / 2
            seconds += travel / (self.robot.finger_speed * share) + 0.2
        if seen.get("contact"):
            seconds += math.sqrt(10 / math.sqrt(3) * self.command.lift_m / self.command.lift_acceleration)
        if self.story.lifted is not None:
            seconds += _HOLD_S + _SHAKE_S
        seen["clock_s"] = seconds
