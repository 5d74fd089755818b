"""Putting down: what the object meets first, whether it stands when the hand lets go, where it comes to rest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.world.analytic.burden import InGrip
from sagehand.world.analytic.harm import broken_by, spills
from sagehand.world.analytic.support import base_half, bottom_of, laid_down, tilt_of, tips_at, world_bounds
from sagehand.world.executor import Observation, Put, PutCommand, PutTruth
from sagehand.world.frames import Pose, angle_between, pose, translation
from sagehand.world.noise import Motion
from sagehand.world.rules import ABOVE_M, LIES, OFF_M, TILT, put_seconds, terminal_of, too_long
from sagehand.world.scene import Placed, Scene

__all__ = ["put_down"]

Array = NDArray[np.float64]
_FELT_M = 0.001
"""What stops the hand later than this before where it is to be stops nothing that it could notice [m]."""


@dataclass(frozen=True, eq=False)
class _LetGo:
    """Where the hand lets go of what it holds, and what becomes of it.

    Attributes:
        held: Where it is then: as low as the hand brings it, or on what bears it.
        short_m: How much of the hand's way down is left when it stands [m].
        fall_m: How far it falls [m].
        rest: (4, 4) where it comes to rest [m].
        why: Why that is not where it was let go; "" if it is.
    """

    held: Placed
    short_m: float
    fall_m: float
    rest: Pose
    why: str


def put_down(scene: Scene, kinematics: Any, in_hand: InGrip, command: PutCommand, motion: Motion) -> tuple[Put, bool]:
    """Put down what is in the hand; also whether the hand let go of it.

    The hand goes down until what it holds stands on the table or on another object: on its lowest point. Let go, it falls what is
    left, and turns about that edge: back onto its base while its centre of mass is above it (tilt < atan b/h), else over.
    What the grip cannot bear with the hand turned as it is to be there falls on the way.

    Args:
        scene: How things are.
        kinematics: Of the arm; None for a free-flying hand.
        in_hand: What is in the hand.
        command: Where to.
        motion: What the motion does otherwise than told.
    """
    placed, T_tcp_object, T_world_tcp = scene[in_hand.name], in_hand.T_tcp_object, in_hand.T_world_tcp
    goal = command.T_world_grasp @ motion.T_grasp_actual
    seen: dict[str, Any] = {"reached": True, "ik_error_m": 0.0, "ik_error_rad": 0.0}
    if kinematics is not None:
        answer = kinematics.inverse(command.T_world_grasp)
        seen |= {"ik_error_m": answer.position_error_m, "ik_error_rad": answer.rotation_error_rad}
        if not answer.reached:
            return _kept(placed, seen, answer.why or "no way there")
    above = translation(z=ABOVE_M) @ goal
    way, turn = float(np.linalg.norm(above[:3, 3] - T_world_tcp[:3, 3])), angle_between(goal, T_world_tcp)
    seconds, down = put_seconds(way, turn, command.retreat_m, command.speed_scale)
    if why := too_long(down, " to go down"):
        return _kept(placed, seen, why)
    lost = in_hand.grip is not None and not in_hand.grip.holds_at(goal)
    let_go = _let_go(scene, placed.at((above if lost else goal) @ T_tcp_object))
    stopped = let_go.short_m > _FELT_M
    observation = Observation(
        **(seen | {"reached": not lost}),
        touched=stopped,
        touched_short_m=let_go.short_m if stopped else 0.0,
        finger_width_m=0.0 if lost else in_hand.width_m,
        effort_n=0.0 if lost else in_hand.effort_n,
        contact=not lost,
        clock_s=seconds,
    )
    return Put(observation, _truth(scene, placed, let_go, command.T_world_grasp @ T_tcp_object, lost)), True


def _let_go(scene: Scene, held: Placed) -> _LetGo:
    """Let go of an object where the hand would bring it, if nothing bore it before."""
    ground = _ground(scene, held)
    bottom = bottom_of(held.model, held.T_world_object)
    short, fall = max(ground - bottom, 0.0), max(bottom - ground, 0.0)
    held = held.at(translation(z=short) @ held.T_world_object)
    return _LetGo(held, short, fall, *_at_rest(held, ground, fall))


def _truth(scene: Scene, placed: Placed, let_go: _LetGo, wanted: Pose, lost: bool) -> PutTruth:
    """What was true of it.

    Args:
        scene: How things were before.
        placed: The object, as it was in the hand.
        let_go: What became of it.
        wanted: (4, 4) where it would have been had it stayed in the hand as it was grasped [m].
        lost: It fell out of the hand on the way.
    """
    rest, why, tilt = let_go.rest, let_go.why, tilt_of(let_go.rest)
    broken, spilt = broken_by(placed, let_go.fall_m), spills(placed, tilt)
    on_table = scene.table.holds(float(rest[0, 3]), float(rest[1, 3]))
    toppled = tilt_of(wanted) < LIES < tilt or not on_table
    if lost:
        why = "lost on the way"
    elif broken:
        why = f"the {placed.name} broke as it fell {let_go.fall_m * 1e3:.0f} mm"
    elif spilt:
        why = f"the {placed.name} spilt"
    elif toppled:
        why = why or "it fell off the table"
    if hit := _overlapped(scene, let_go.held):
        why = why or f"it was put into the {hit}"
    com = np.append(placed.com_m, 1.0)
    off = float(np.linalg.norm(((rest - wanted) @ com)[:3]))
    shift = float(np.linalg.norm(((rest - let_go.held.T_world_object) @ com)[:3]))
    if not why and shift > OFF_M:
        why = f"moved by {shift * 1e3:.0f} mm after the hand had let go of it"
    terminal = terminal_of(broken=broken, spilt=spilt, toppled=toppled)
    return PutTruth(not why, rest, off, tilt, terminal, why or "put down")


def _kept(placed: Placed, seen: dict[str, Any], why: str) -> tuple[Put, bool]:
    """It was not begun, and is still in the hand."""
    T = placed.T_world_object
    truth = PutTruth(False, T, math.inf, tilt_of(T), why=why)
    return Put(Observation(**(seen | {"reached": False})), truth), False


def _ground(scene: Scene, held: Placed) -> float:
    """Height of what bears it: the top of the highest object below its middle, else the table [m]."""
    low, high = world_bounds(held.model, held.T_world_object)
    middle = (low + high) / 2
    tops = [0.0]
    for other in scene.others(held.name):
        a, b = world_bounds(other.model, other.T_world_object)
        if np.all(a[:2] < middle[:2]) and np.all(middle[:2] < b[:2]) and b[2] < high[2]:
            cavity = other.model.cavity
            inside = cavity is not None and np.all(high[:2] - low[:2] < 2 * cavity.radius_m)
            tops.append(float(other.T_world_object[2, 3] + cavity.floor_m) if inside and cavity else float(b[2]))
    return max(tops)


def _overlapped(scene: Scene, held: Placed) -> str:
    """Name of another object beside, whose place it would take; "" if there is none."""
    low, high = world_bounds(held.model, held.T_world_object)
    for other in scene.others(held.name):
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
