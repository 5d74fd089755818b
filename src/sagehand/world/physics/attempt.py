"""One grasp under way: approach until something is met, close with a force, lift, hold for two seconds, shake."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import InputError
from sagehand.world.approach import Approach
from sagehand.world.executor import Attempt, Observation, Truth
from sagehand.world.failures import Failure
from sagehand.world.frames import Pose, angle_between
from sagehand.world.grasp import GraspCommand
from sagehand.world.physics.aftermath import measure
from sagehand.world.physics.control import Cell
from sagehand.world.physics.judge import judge
from sagehand.world.physics.monitor import FIXED, Touches, force_on_robot, grip_slope, part_name
from sagehand.world.physics.motion import APPROACH_SPEED, duration, shake, timed
from sagehand.world.physics.reach import line_up
from sagehand.world.physics.record import Record, Stop
from sagehand.world.physics.setup import TABLE_NAME
from sagehand.world.physics.view import in_view
from sagehand.world.robot.kinematics import Kinematics
from sagehand.world.scene import Scene

__all__ = ["GIVE_UP_M", "GUARD_N", "HOLD_S", "Try", "seconds_ahead"]

Array = NDArray[np.float64]

GUARD_N = 10.0
"""A guarded motion stops when the robot is pushed with more than this [N]: the nominal threshold of libfranka's examples."""
GIVE_UP_M = 0.010
"""The fingers close where the approach was stopped, if no more than this was left of the way [m]."""
HOLD_S = 2.0
"""How long what was lifted is held still [s]."""
_TRANSIT = 0.5  # share of the joints' speed limits at which the arm comes from home; for the clock
_REST_S = 4.0  # closing's last, lift and shake, about; for the clock
_OVERLAP_M = 0.001  # deeper in something than this, the arm could not have come there
_HELD_SHARE = 0.2  # a finger that presses with less than this share of its force does not hold
_HEIGHTS = (1.0, 0.75, 0.5)  # shares of the lift that are tried, where the joints do not allow all of it


class Try:
    """One grasp under way.

    Attributes:
        record: What happened so far.
        held: What is in the hand at the end.
        in_tcp: (4, 4) where that was in the TCP's frame when it was grasped [m].
    """

    def __init__(
        self,
        cell: Cell,
        kinematics: Kinematics,
        scene: Scene,
        command: GraspCommand,
        way: Approach,
        opening_m: float,
        force_n: float,
    ) -> None:
        """Make ready.

        Args:
            cell: Where it happens.
            kinematics: Of the arm.
            scene: How things are.
            command: Where the TCP goes, with the noise of the motion in it.
            way: How it comes there.
            opening_m: Between the fingers on the way [m].
            force_n: With which each finger closes [N].
        """
        if way.path is None:
            raise InputError("there is no way to this grasp", hint=way.why)
        self.cell, self.kinematics, self.robot = cell, kinematics, kinematics.robot
        self.command, self.way, self.path = command, way, way.path
        self.opening_m, self.force_n = opening_m, force_n
        self.record = Record(cell, scene)
        self.held: str | None = None
        self.in_tcp: Pose | None = None
        self._began_s = cell.clock_s
        self._width_m = self._effort_n = self._lift_width_m = self._hold_width_m = 0.0
        self._contact = self._seen_lifted = self._seen_held = False

    def run(self) -> Attempt:
        """Carry it out."""
        record, cell, target = self.record, self.cell, self.command.target
        self._approach()
        if not record.gave_up:
            self._close()
        hand: tuple[str, ...] = ()
        if record.grasped and self._lift():
            self._hold_and_shake()
            hand = self._in_hand(cell.touches())
        self._hold_width_m = cell.width_m if record.grasped else 0.0
        self._seen_held = target in hand and in_view(record, target)
        if hand:
            cell.settle(0.2, record.look)
            self.held = target if target in hand else hand[0]
            self.in_tcp = record.in_tcp[self.held]
        else:
            self._withdraw()
        if cell.broke_down:
            return self._break_down()
        end = measure(record, target, cell.touches(), hand)
        return Attempt(self._observation(), judge(self.command, record, end))

    def _approach(self) -> None:
        cell, record = self.cell, self.record
        cell.show_way(self.path[0])
        cell.place(self.path[0], self.opening_m)
        deep = cell.touches().robot_in()
        if deep is not None and deep[2] > _OVERLAP_M:
            record.stop = self._stop(deep[0], deep[1])
            record.gave_up = True
            return
        if not cell.run(
            timed(self.path, _approach_s(self.command), self.robot.velocity), record.look_approaching, GUARD_N
        ):
            cell.rest(0.05, record.look_approaching)
            return
        meets = cell.touches().robot_with()
        part, other = meets[0][:2] if meets else (0, FIXED)
        record.stop = self._stop(part, other)
        record.gave_up = record.stop.short_m > GIVE_UP_M
        cell.rest(0.05, record.look_approaching)

    def _close(self) -> None:
        cell, record, target = self.cell, self.record, self.command.target
        before = {name: cell.T_world(name) for name in cell.world.names}
        cell.close(self.force_n, self.robot.finger_speed * self.command.speed_scale, self._look_closing)
        touches = cell.touches()
        least = _HELD_SHARE * self.force_n
        grasped = [n for n in cell.world.names if min(touches.grip(record.owner(n))) > least]
        record.grasped = tuple(sorted(grasped, key=lambda n: n != target))  # the target first: it is followed
        for name in record.clasped:
            record.turned[name] = angle_between(before[name], cell.T_world(name))
        closing = cell.T_world_tcp[:3, 1]
        record.slope = {n: grip_slope(cell.world, cell.data, record.owner(n), closing) for n in record.grasped}
        record.in_tcp = {name: cell.T_tcp(name) for name in record.grasped}
        self._width_m = record.closed_m = cell.width_m
        totals = [sum(f for pair, f in touches.normal_n.items() if finger in pair) for finger in (0, 1)]
        self._effort_n = sum(totals) / 2
        self._contact = self._width_m > 0.001 and min(totals) > least

    def _look_closing(self, touches: Touches) -> bool:
        """Where a finger climbs on what it closes on, the guard of the approach still watches: the arm gives way."""
        cell = self.cell
        if float(np.linalg.norm(force_on_robot(cell.world, cell.data))) > GUARD_N:
            cell.give_way()
        return self.record.look_closing(touches)

    def _lift(self) -> bool:
        """Whether what was grasped was lifted, and not lost."""
        cell, command, record = self.cell, self.command, self.record
        for share in _HEIGHTS:
            height = command.lift_m * share
            path = line_up(self.kinematics, cell.q, height)
            if path is not None:
                break
        else:
            record.stuck = True
            return False
        seconds = duration(height, acceleration=command.lift_acceleration)
        lost = cell.run(timed(path, seconds, self.robot.velocity), record.look_holding)
        self._lift_width_m = cell.width_m
        self._seen_lifted = in_view(record, command.target)
        return not lost

    def _hold_and_shake(self) -> None:
        cell, record = self.cell, self.record
        if cell.rest(HOLD_S, record.look_holding):
            return
        for axis in (0, 1):
            if cell.run(shake(cell.q, cell.jacobian(), axis), record.look_holding):
                return

    def _withdraw(self) -> None:
        """Open, go home, and let what fell come to rest."""
        cell, record = self.cell, self.record
        if not record.gave_up:
            cell.drive_fingers(self.robot.finger_speed, self.robot.force_n[1])
            cell.rest(0.2, record.look)
        cell.place(self.robot.home, self.robot.width_m[1])
        cell.settle(1.5, record.look)

    def _break_down(self) -> Attempt:
        """Nothing is known of a simulation that broke down; all is as before."""
        self.held = self.in_tcp = None
        observation = self._observation()
        self.cell.reset(self.record.scene)
        return Attempt(observation, Truth(False, Failure.UNKNOWN, why="the simulation broke down"))

    def _in_hand(self, touches: Touches) -> tuple[str, ...]:
        record = self.record
        held = [n for n in record.grasped if max(touches.grip(record.owner(n))) > 0]
        record.hangs = tuple(n for n in held if touches.on(record.owner(n), FIXED))
        return tuple(n for n in held if n not in record.hangs)

    def _stop(self, part: int, other: int) -> Stop:
        T = self.command.T_world_grasp
        left = float((T[:3, 3] - self.cell.T_world_tcp[:3, 3]) @ T[:3, 2])
        name = TABLE_NAME if other == FIXED else self.cell.world.names[other - 2]
        return Stop(part_name(part), name, max(left, 0.0))

    def _observation(self) -> Observation:
        stop, ik = self.record.stop, self.way.ik
        return Observation(
            reached=not self.record.gave_up,
            ik_error_m=ik.position_error_m,
            ik_error_rad=ik.rotation_error_rad,
            touched=stop is not None,
            touched_short_m=0.0 if stop is None else stop.short_m,
            finger_width_m=self._width_m,
            effort_n=self._effort_n,
            contact=self._contact,
            lift_width_m=self._lift_width_m,
            hold_width_m=self._hold_width_m,
            lifted_in_view=self._seen_lifted,
            held_in_view=self._seen_held,
            clock_s=self.cell.clock_s - self._began_s + _transit_s(self.kinematics, self.path, self.command),
        )


def seconds_ahead(kinematics: Kinematics, path: Array, command: GraspCommand) -> float:
    """How long a grasp along a joint path (K, n) will take, but for what it meets [s]."""
    robot = kinematics.robot
    close = robot.width_m[1] / 2 / (robot.finger_speed * command.speed_scale)
    return _transit_s(kinematics, path, command) + _approach_s(command) + close + HOLD_S + _REST_S


def _transit_s(kinematics: Kinematics, path: Array, command: GraspCommand) -> float:
    robot = kinematics.robot
    return float((np.abs(path[0] - robot.home) / robot.velocity).max() / _TRANSIT / command.speed_scale)


def _approach_s(command: GraspCommand) -> float:
    return duration(max(command.pregrasp_m, 1e-3), speed=APPROACH_SPEED * command.speed_scale)
