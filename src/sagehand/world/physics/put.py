"""Putting down: over the place, down until it stands, open, back off; and how well that went."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sagehand.world.executor import Observation, Put, PutCommand, PutTruth
from sagehand.world.frames import Pose, angle_between, pose, translation
from sagehand.world.noise import Motion
from sagehand.world.nudge import nudged
from sagehand.world.physics.aftermath import measure
from sagehand.world.physics.control import SAMPLE_S, Cell
from sagehand.world.physics.monitor import Touches, force_on_robot
from sagehand.world.physics.motion import timed
from sagehand.world.physics.reach import straight_to
from sagehand.world.physics.record import Record
from sagehand.world.robot.kinematics import Kinematics
from sagehand.world.rules import (
    ABOVE_M,
    APPROACH_SPEED,
    CARRY_SPEED,
    LIES,
    OFF_M,
    SET_N,
    TILT,
    duration,
    put_seconds,
    terminal_of,
    too_long,
)
from sagehand.world.scene import Scene

__all__ = ["put_down"]

Array = NDArray[np.float64]


def put_down(
    cell: Cell, kinematics: Kinematics, scene: Scene, name: str, in_tcp: Pose, command: PutCommand, motion: Motion
) -> tuple[Put, bool]:
    """Put down what is in the hand.

    Args:
        cell: Where.
        kinematics: Of the arm.
        scene: How things are.
        name: What is in the hand.
        in_tcp: (4, 4) where it was in the TCP's frame when it was grasped [m].
        command: Where to.
        motion: What the motion does otherwise than told.

    Returns:
        What came of it, and whether it is still in the hand.
    """
    began = cell.clock_s
    record = Record(cell, scene)
    T_goal = command.T_world_grasp @ motion.T_grasp_actual
    above = translation(z=ABOVE_M) @ T_goal
    ik = kinematics.inverse(command.T_world_grasp, cell.q)
    told_above = translation(z=ABOVE_M) @ command.T_world_grasp
    way = _way(kinematics, cell, told_above, command.T_world_grasp) if ik.reached else None
    if way is None:
        truth = PutTruth(
            False, cell.T_world(name), math.inf, _tilt(cell.T_world(name)), why=ik.why or "no way leads there"
        )
        return Put(Observation(False, ik.position_error_m, ik.rotation_error_rad), truth), True
    there, down = nudged(kinematics, way[0], above, whole=False), nudged(kinematics, way[1], T_goal)
    _, ahead = put_seconds(0.0, 0.0, 0.0, command.speed_scale)
    if why := too_long(ahead, " to go down"):
        truth = PutTruth(False, cell.T_world(name), math.inf, _tilt(cell.T_world(name)), why=why)
        return Put(Observation(False, ik.position_error_m, ik.rotation_error_rad), truth), True
    speed, carry = APPROACH_SPEED * command.speed_scale, CARRY_SPEED * command.speed_scale
    fastest = kinematics.robot.velocity
    over = float(np.linalg.norm(above[:3, 3] - cell.T_world_tcp[:3, 3]))
    turn = angle_between(above, cell.T_world_tcp)
    owner = record.owner(name)
    lost = _Lost(record, owner)
    ended = cell.run(timed(there, duration(max(over, 0.2 * turn), speed=carry), fastest), lost)
    short = 0.0
    if not ended:
        weight = force_on_robot(cell.world, cell.data)
        if cell.run(timed(down, duration(ABOVE_M, speed=speed), fastest), lost, SET_N, weight):
            short = max(float((cell.T_world_tcp[:3, 3] - T_goal[:3, 3])[2]), 0.0)
        cell.rest(0.1, lost)
    width, effort = cell.width_m, float(np.mean(cell.touches().grip(owner)))
    let_go = cell.T_world(name)
    cell.drive_fingers(kinematics.robot.finger_speed * command.speed_scale, kinematics.robot.force_n[1])
    cell.rest(0.5, record.look)
    _retreat(kinematics, cell, command, speed, record)
    cell.settle(1.5, record.look)
    seen = record.cell.T_world(name)
    observation = Observation(
        reached=not ended,
        ik_error_m=ik.position_error_m,
        ik_error_rad=ik.rotation_error_rad,
        touched=short > 0,
        touched_short_m=short,
        finger_width_m=width,
        effort_n=effort,
        contact=not lost.gone,
        clock_s=cell.clock_s - began,
    )
    return Put(observation, _truth(record, name, let_go, seen, command, in_tcp, lost.gone)), False


class _Lost:
    """Stops when what is in the hand has left it for 50 ms."""

    def __init__(self, record: Record, owner: int) -> None:
        self.record, self.owner = record, owner
        self.free_s = 0.0

    @property
    def gone(self) -> bool:
        return self.free_s >= 0.05

    def __call__(self, touches: Touches) -> bool:
        self.record.look(touches)
        self.free_s = 0.0 if max(touches.grip(self.owner)) > 0 else self.free_s + SAMPLE_S
        return self.gone


def _way(kinematics: Kinematics, cell: Cell, above: Pose, T_goal: Pose) -> tuple[Array, Array] | None:
    """Joint paths to a pose above, straight if the joints allow, and from there straight down."""
    q = cell.q
    there = straight_to(kinematics, q, above)
    if there is not None:
        down = straight_to(kinematics, there[-1], T_goal)
        if down is not None:
            return there, down
    for candidate in kinematics.all_inverse(above, 6, q):
        down = straight_to(kinematics, candidate, T_goal)
        if down is not None:
            return np.linspace(q, candidate, 20), down
    return None


def _retreat(kinematics: Kinematics, cell: Cell, command: PutCommand, speed: float, record: Record) -> None:
    back = cell.T_world_tcp @ pose((0, 0, -command.retreat_m))
    path = straight_to(kinematics, cell.q, back)
    if path is not None:
        cell.run(timed(path, duration(command.retreat_m, speed=speed), kinematics.robot.velocity), record.look)
    cell.place(kinematics.robot.home, kinematics.robot.width_m[1])


def _truth(
    record: Record, name: str, let_go: Pose, now: Pose, command: PutCommand, in_tcp: Pose, lost: bool
) -> PutTruth:
    com = record.com_of(name)
    wanted = command.T_world_grasp @ in_tcp
    off = float(np.linalg.norm((now @ com - wanted @ com)[:3]))
    shift = float(np.linalg.norm((now @ com - let_go @ com)[:3]))
    after = measure(record, name, record.cell.touches(), ())
    stands = angle_between_axes(now, let_go) <= TILT
    why = "put down"
    if lost:
        why = "lost on the way"
    elif shift > OFF_M:
        why = f"moved by {shift * 1e3:.0f} mm after the hand had let go of it"
    elif not stands:
        why = f"tilted by {math.degrees(angle_between_axes(now, let_go)):.0f}° after the hand had let go of it"
    elif after.broken:
        why = f"the {next(iter(after.broken))} broke"
    elif record.spilt:
        why = f"the {next(iter(record.spilt))} spilt"
    toppled = now[2, 3] < -0.1 or (in_tcp_upright(wanted) and _tilt(now) > LIES) or bool(after.toppled)
    terminal = terminal_of(broken=bool(after.broken), spilt=bool(record.spilt), toppled=toppled)
    return PutTruth(why == "put down" and terminal is None, now, off, _tilt(now), terminal, why)


def in_tcp_upright(T_world_object: Pose) -> bool:
    """Whether it would stand upright there."""
    return _tilt(T_world_object) < LIES


def angle_between_axes(one: Pose, other: Pose) -> float:
    """Between the z axes of two poses [rad]."""
    return math.acos(max(-1.0, min(1.0, float(one[:3, 2] @ other[:3, 2]))))


def _tilt(T: Pose) -> float:
    return math.acos(max(-1.0, min(1.0, float(T[2, 2]))))
