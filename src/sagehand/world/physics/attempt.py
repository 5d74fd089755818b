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
from sagehand.world.physics.motion import shake, timed
from sagehand.world.physics.reach import line_up
from sagehand.world.physics.record import Record, Stop
from sagehand.world.physics.setup import TABLE_NAME
from sagehand.world.robot.description import Robot
from sagehand.world.robot.kinematics import Kinematics
from sagehand.world.rules import GIVE_UP_M, GUARD_N, HOLD_S, LIFT_SHARES, REST_S, SETTLE_S, Clock, duration
from sagehand.world.scene import Scene
from sagehand.world.sight import in_view

__all__ = ["Try", "clock_of"]

Array = NDArray[np.float64]

_OVERLAP_M = 0.001  # deeper in something than this, the arm could not have come there
_HELD_SHARE = 0.2  # a finger that presses with less than this share of its force does not hold


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
        clock: Clock,
        opening_m: float,
        force_n: float,
    ) -> None:
        """Make ready.

        Args:
            cell: Where it happens.
            kinematics: Of the arm.
            scene: How things are.
            command: Where the TCP goes, with the noise of the motion in it.
            way: How it comes there, with the noise in it.
            clock: The times of the grasp as it is commanded.
            opening_m: Between the fingers on the way [m].
            force_n: With which each finger closes [N].
        """
        if way.path is None:
            raise InputError("there is no way to this grasp", hint=way.why)
        self.cell, self.kinematics, self.robot = cell, kinematics, kinematics.robot
        self.command, self.way, self.path, self.clock = command, way, way.path, clock
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
        self._seen_held = target in hand and self._sees()
        if hand:
            cell.settle(SETTLE_S, record.look)
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
        if not cell.run(timed(self.path, self.clock.approach_s, self.robot.velocity), record.look_approaching, GUARD_N):
            cell.rest(REST_S, record.look_approaching)
            return
        meets = cell.touches().robot_with()
        part, other = meets[0][:2] if meets else (0, FIXED)
        record.stop = self._stop(part, other)
        record.gave_up = record.stop.short_m > GIVE_UP_M
        cell.rest(REST_S, record.look_approaching)

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
        for share in LIFT_SHARES:
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
        self._seen_lifted = self._sees()
        return not lost

    def _hold_and_shake(self) -> None:
        cell, record = self.cell, self.record
        if cell.rest(HOLD_S, record.look_holding):
            return
        for axis in (0, 1):
            if cell.run(shake(cell.q, cell.jacobian(), axis), record.look_holding):
                return

    def _sees(self) -> bool:
        target, camera = self.command.target, self.record.scene.camera
        return in_view(camera, self.cell.com(target), self.record.rise(target))

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
            clock_s=self.cell.clock_s - self._began_s + self.clock.transit_s,
        )


def clock_of(robot: Robot, path: Array, command: GraspCommand) -> Clock:
    """The times of a grasp along a joint path (K, n)."""
    from_home = float((np.abs(path[0] - robot.home) / robot.velocity).max())
    return Clock(
        from_home,
        command.pregrasp_m,
        command.speed_scale,
        robot.finger_speed,
        command.lift_m,
        command.lift_acceleration,
    )
