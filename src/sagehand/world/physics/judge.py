"""From what happened to whether it failed, and how: the first thing that went wrong gives the failure its name."""

from __future__ import annotations

import math

import numpy as np

from sagehand.world.executor import Truth
from sagehand.world.failures import Failure
from sagehand.world.frames import invert
from sagehand.world.grasp import GraspCommand
from sagehand.world.objects.rays import first_hits
from sagehand.world.physics.aftermath import Aftermath
from sagehand.world.physics.record import Record, Stop
from sagehand.world.physics.setup import TABLE_NAME
from sagehand.world.rules import BROKEN, MOVED_M, PUSHED_M, RAISED_M, TOLERANCE, terminal_of

__all__ = ["TURNED", "judge", "span_between"]

TURNED = math.radians(30)
"""An object that turned more than this as the fingers closed, and was lost, was held at a wrong angle."""
_FAR = 0.5
_OPEN_M = 0.002  # farther apart than this beyond what is between them, fingers did not close


def judge(command: GraspCommand, record: Record, end: Aftermath) -> Truth:
    """The truth of a grasp that was tried."""
    target = command.target
    failure, why = _failure(command, record, end)
    return Truth(
        success=failure is None,
        failure=failure,
        terminal=terminal_of(broken=bool(end.broken), spilt=bool(record.spilt), toppled=bool(end.toppled)),
        why=why,
        applied_n=record.pressed_n.get(target, 0.0),
        slip_m=end.slip_m,
        turn_rad=end.turn_rad,
        lifted=target if target in end.in_hand else next(iter(end.in_hand), None),
        neighbours_m={n: round(m, 4) for n, m in end.moved_m.items() if n != target and m > MOVED_M},
        details={
            "rise_m": round(end.rise_m, 4),
            "top_rise_m": round(record.top_rise_m, 4),
            "clasped": sorted(record.clasped),
            "grasped": list(record.grasped),
            "turned_deg": {n: round(math.degrees(a), 1) for n, a in record.turned.items()},
            "slope_deg": {n: round(math.degrees(a), 1) for n, a in record.slope.items()},
            "stop": None if record.stop is None else record.stop.to_dict(),
            "pressed_n": {n: round(f, 3) for n, f in record.pressed_n.items()},
            "met_n": {n: round(f, 3) for n, f in record.met_n.items()},
            "spilt": sorted(record.spilt),
            "toppled": list(end.toppled),
            "broken": end.broken,
        },
    )


def _failure(command: GraspCommand, record: Record, end: Aftermath) -> tuple[Failure | None, str]:
    target, stop = command.target, record.stop
    if stop is not None and (record.gave_up or not record.grasped):
        return _stopped(command, record, stop)
    safe, pressed = record.scene[target].model.f_safe_n, record.pressed_n.get(target, 0.0)
    if pressed > safe * TOLERANCE:
        failure = Failure.FORCE_DAMAGE if pressed > BROKEN * safe * TOLERANCE else Failure.DEFORMATION
        return failure, f"pressed with {pressed:.1f} N, where {safe:.1f} N are safe"
    if target not in end.in_hand:
        return _missed(command, record, end)
    if end.rise_m < command.lift_m / 2:
        return Failure.SLIP, f"lifted by {end.rise_m * 1e3:.0f} mm only"
    if harm := _harm(command, record, end):
        return Failure.CONSTRAINT_VIOLATION, "; ".join(harm)
    return None, "lifted, held and shaken"


def _stopped(command: GraspCommand, record: Record, stop: Stop) -> tuple[Failure, str]:
    where = f"{stop.short_m * 1e3:.0f} mm before the grasp"
    if stop.other == command.target and stop.part == "finger":
        span = span_between(record, command)
        if span > command.width_m:
            return (
                Failure.WIDTH_MISMATCH,
                f"{span * 1e3:.0f} mm do not fit in {command.width_m * 1e3:.0f} mm; met {where}",
            )
    if stop.other == TABLE_NAME and stop.part != "finger":
        return Failure.APPROACH_ANGLE, f"the {stop.part} met the table {where}"
    return Failure.COLLISION, f"the {stop.part} met the {stop.other} {where}"


def _missed(command: GraspCommand, record: Record, end: Aftermath) -> tuple[Failure, str]:
    target = command.target
    if end.in_hand:
        return Failure.WRONG_OBJECT, f"lifted the {end.in_hand[0]}"
    if target not in record.grasped:
        if target in record.clasped:
            return Failure.ORIENTATION, "squeezed out of the fingers as they closed"
        span = span_between(record, command)
        if 0 < span < record.closed_m - _OPEN_M:
            return Failure.SLIP, f"with {command.force_n:.2g} N the fingers did not close on it"
        return Failure.POSITION_ERROR, "the fingers closed beside it"
    if record.stuck:
        return Failure.UNREACHABLE, "the arm cannot go straight up from here"
    turned = record.turned.get(target, 0.0)
    if turned > TURNED:
        return Failure.ORIENTATION, f"turned by {math.degrees(turned):.0f}° as the fingers closed, and was lost"
    slope, cone = record.slope.get(target, 0.0), math.atan(record.scene[target].model.friction)
    if slope > cone:
        return (
            Failure.ORIENTATION,
            f"met at {math.degrees(slope):.0f}°, where friction holds to {math.degrees(cone):.0f}°",
        )
    if target in record.hangs:
        return Failure.DROP, f"one end of it stayed on the table: it was lifted by {record.top_rise_m * 1e3:.0f} mm"
    if record.top_rise_m < RAISED_M:
        return Failure.SLIP, "slid out of the fingers as they rose"
    return Failure.DROP, f"lost after it was lifted by {record.top_rise_m * 1e3:.0f} mm"


def _harm(command: GraspCommand, record: Record, end: Aftermath) -> list[str]:
    harm = [f"the {name} spilt" for name in sorted(record.spilt)]
    for placed in record.scene.others(command.target):
        name = placed.name
        pressed = record.pressed_n.get(name, 0.0)
        if name in end.broken:
            harm.append(f"the {name} broke: {end.broken[name]}")
        elif pressed > placed.model.f_safe_n * TOLERANCE:
            harm.append(f"the {name} was pressed with {pressed:.1f} N")
        elif name in end.toppled:
            harm.append(f"the {name} was thrown over")
        elif end.moved_m.get(name, 0.0) > PUSHED_M:
            harm.append(f"the {name} was moved by {end.moved_m[name] * 1e3:.0f} mm")
    return harm


def span_between(record: Record, command: GraspCommand) -> float:
    """How wide the target was along the closing direction, where the pads of the commanded grasp would be [m]; 0 if not there."""
    robot, target = record.cell.world.robot, record.scene[command.target]
    lower = robot.finger_root_m - float(robot.T_hand_tcp[2, 3]) + float(robot.pad.centre[2])
    xs, zs = np.meshgrid(np.linspace(-1, 1, 5) * robot.pad.half[0], lower + np.linspace(-1, 1, 5) * robot.pad.half[2])
    T = invert(record.start[command.target]) @ command.T_world_grasp
    reach = 0.0
    for sign in (-1.0, 1.0):
        local = np.column_stack([xs.ravel(), np.full(xs.size, sign * _FAR), zs.ravel()])
        hits = first_hits(target.model.solids, local @ T[:3, :3].T + T[:3, 3], -sign * T[:3, 1])
        reach += _FAR - float(hits.distance.min())
    return reach if math.isfinite(reach) else 0.0
