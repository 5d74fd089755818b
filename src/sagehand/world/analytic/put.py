"""Putting down: what the object meets first, whether it stands when the hand lets go, where it comes to rest."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sagehand.world.analytic.burden import Carried
from sagehand.world.analytic.harm import broken_by, spills
from sagehand.world.analytic.support import base_half, bottom_of, laid_down, tilt_of, tips_at, world_bounds
from sagehand.world.executor import Observation, Put, PutCommand, PutTruth
from sagehand.world.frames import Pose, angle_between, pose, translation
from sagehand.world.noise import Motion
from sagehand.world.rules import ABOVE_M, LIES, OFF_M, TILT, put_seconds, terminal_of, too_long
from sagehand.world.scene import Placed

if TYPE_CHECKING:
    from sagehand.world.analytic.executor import AnalyticTrial

__all__ = ["put_down"]

Array = NDArray[np.float64]
_FELT_M = 0.001
"""What stops the hand later than this before where it is to be stops nothing that it could notice [m]."""


def put_down(
    trial: AnalyticTrial,
    name: str,
    grip: Carried | None,
    T_tcp_object: Pose,
    T_world_tcp: Pose,
    command: PutCommand,
    motion: Motion,
    felt: tuple[float, float] = (0.0, 0.0),
) -> tuple[Put, bool]:
    """Put down what is in the hand; also whether the hand let go of it.

    The hand goes down until what it holds stands on the table or on another object: on its lowest point. Let go, it falls what is
    left, and turns about that edge: back onto its base while its centre of mass is above it (tilt < atan b/h), else over.
    What the grip cannot bear with the hand turned as it is to be there falls on the way. ``felt`` is the width between the
    fingers [m] and the force of each [N] until they open.
    """
    placed = trial.scene[name]
    goal = command.T_world_grasp @ motion.T_grasp_actual
    seen: dict[str, Any] = {"reached": True, "ik_error_m": 0.0, "ik_error_rad": 0.0}
    reacher = trial.executor.reacher
    if reacher is not None:
        answer = reacher.kinematics.inverse(command.T_world_grasp)
        seen |= {"ik_error_m": answer.position_error_m, "ik_error_rad": answer.rotation_error_rad}
        if not answer.reached:
            return _kept(placed, seen, answer.why or "no way there")
    above = translation(z=ABOVE_M) @ goal
    way, turn = float(np.linalg.norm(above[:3, 3] - T_world_tcp[:3, 3])), angle_between(goal, T_world_tcp)
    seconds, down = put_seconds(way, turn, command.retreat_m, command.speed_scale)
    if why := too_long(down, " to go down"):
        return _kept(placed, seen, why)
    lost = grip is not None and not grip.holds_at(goal)
    wanted = command.T_world_grasp @ T_tcp_object
    held = placed.at((above if lost else goal) @ T_tcp_object)
    ground = _ground(trial, held)
    bottom = bottom_of(placed.model, held.T_world_object)
    short = max(ground - bottom, 0.0)
    held = held.at(translation(z=short) @ held.T_world_object)
    fall = max(bottom - ground, 0.0)
    rest, why = _at_rest(held, ground, fall)
    broken, spilt = broken_by(placed, fall), spills(placed, tilt_of(rest))
    toppled = tilt_of(wanted) < LIES < tilt_of(rest) or not _on_table(trial, rest)
    if lost:
        why = "lost on the way"
    elif broken:
        why = f"the {name} broke as it fell {fall * 1e3:.0f} mm"
    elif spilt:
        why = f"the {name} spilt"
    elif toppled:
        why = why or "it fell off the table"
    terminal = terminal_of(broken=broken, spilt=spilt, toppled=toppled)
    if hit := _overlapped(trial, held):
        why = why or f"it was put into the {hit}"
    com = np.append(placed.com_m, 1.0)
    off = float(np.linalg.norm(((rest - wanted) @ com)[:3]))
    shift = float(np.linalg.norm(((rest - held.T_world_object) @ com)[:3]))
    if not why and shift > OFF_M:
        why = f"moved by {shift * 1e3:.0f} mm after the hand had let go of it"
    trial.moved(name, rest)
    observation = Observation(
        **(seen | {"reached": not lost}),
        touched=short > _FELT_M,
        touched_short_m=short if short > _FELT_M else 0.0,
        finger_width_m=0.0 if lost else felt[0],
        effort_n=0.0 if lost else felt[1],
        contact=not lost,
        clock_s=seconds,
    )
    return Put(observation, PutTruth(not why, rest, off, tilt_of(rest), terminal, why or "put down")), True


def _kept(placed: Placed, seen: dict[str, Any], why: str) -> tuple[Put, bool]:
    """It was not begun, and is still in the hand."""
    T = placed.T_world_object
    truth = PutTruth(False, T, math.inf, tilt_of(T), why=why)
    return Put(Observation(**(seen | {"reached": False})), truth), False


def _ground(trial: AnalyticTrial, held: Placed) -> float:
    """Height of what bears it: the top of the highest object below its middle, else the table [m]."""
    low, high = world_bounds(held.model, held.T_world_object)
    middle = (low + high) / 2
    tops = [0.0]
    for other in trial.scene.others(held.name):
        a, b = world_bounds(other.model, other.T_world_object)
        if np.all(a[:2] < middle[:2]) and np.all(middle[:2] < b[:2]) and b[2] < high[2]:
            cavity = other.model.cavity
            inside = cavity is not None and np.all(high[:2] - low[:2] < 2 * cavity.radius_m)
            tops.append(float(other.T_world_object[2, 3] + cavity.floor_m) if inside and cavity else float(b[2]))
    return max(tops)


def _overlapped(trial: AnalyticTrial, held: Placed) -> str:
    """Name of another object beside, whose place it would take; "" if there is none."""
    low, high = world_bounds(held.model, held.T_world_object)
    for other in trial.scene.others(held.name):
        a, b = world_bounds(other.model, other.T_world_object)
        deep = np.minimum(high, b) - np.maximum(low, a)
        if np.all(deep > 0.002) and other.model.cavity is None:
            return other.name
    return ""


def _at_rest(held: Placed, ground: float, fall: float) -> tuple[Pose, str]:
    """Where it comes to rest, and why that is not where it was let go."""
    T = held.T_world_object
    down = translation(z=-fall) @ T
    tilt = tilt_of(T)
    if tilt > LIES or base_half(held.model) <= 0:
        return down, ""  # it lies, or is round: it rests as it is held
    if tilt < tips_at(held.model, held.com_m):
        yaw = math.atan2(float(T[1, 0]), float(T[0, 0]))
        c, s = math.cos(yaw), math.sin(yaw)
        flat = pose((T[0, 3], T[1, 3], ground), np.array([[c, -s, 0], [s, c, 0], [0, 0, 1.0]]))
        flat[2, 3] += ground - bottom_of(held.model, flat)
        why = f"tilted by {math.degrees(tilt):.0f}° after the hand had let go of it" if tilt > TILT else ""
        return flat, why
    over = laid_down(held, T[:2, 2])
    over[2, 3] += ground
    return over, f"held at {math.degrees(tilt):.0f}°, it fell over"


def _on_table(trial: AnalyticTrial, T: Pose) -> bool:
    return trial.scene.table.holds(float(T[0, 3]), float(T[1, 3]))
