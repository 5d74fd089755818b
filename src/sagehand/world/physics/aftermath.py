"""How things are after a grasp, measured: what is in the hand, what moved, lies, broke."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sagehand.world.frames import angle_between, invert
from sagehand.world.objects.model import ObjectModel
from sagehand.world.objects.shapes import Solid, reach
from sagehand.world.physics.monitor import FIXED, Touches
from sagehand.world.physics.record import Record
from sagehand.world.rules import BROKEN, LIES, TOLERANCE, harmed_by_falling
from sagehand.world.scene import Placed

__all__ = ["Aftermath", "height_along", "measure"]

Array = NDArray[np.float64]

_FELL_OFF_M = -0.1
_SAME_HEIGHT = 0.05


@dataclass(frozen=True)
class Aftermath:
    """How it was at the end.

    Attributes:
        in_hand: Objects that the fingers hold off the table.
        moved_m: Object → how far its centre of mass was moved [m]; of what the target carries, how far on the target.
        slip_m: How far that point of the target which was at the TCP when it was grasped has moved in the hand since [m]: a
            target that pivots about the pads does not slip, however far its own origin swings.
        turn_rad: And how far the target turned [rad].
        rise_m: How far above its start the target's centre of mass is [m].
        toppled: Objects that stood and lie.
        broken: Object that broke → by what.
    """

    in_hand: tuple[str, ...]
    moved_m: dict[str, float]
    slip_m: float
    turn_rad: float
    rise_m: float
    toppled: tuple[str, ...]
    broken: dict[str, str]


def measure(record: Record, target: str, touches: Touches, hand: tuple[str, ...]) -> Aftermath:
    """Measure the end of a grasp.

    Args:
        record: What happened.
        target: Name of the object it was meant for.
        touches: Contacts now.
        hand: Objects that were in the hand when the motion ended.
    """
    cell = record.cell
    slip = turn = 0.0
    if target in record.in_tcp and target in hand:
        before, now = record.in_tcp[target], cell.T_tcp(target)
        slip = float(np.linalg.norm((now @ invert(before))[:3, 3]))  # of the point at the TCP's origin
        turn = angle_between(before, now)
    return Aftermath(
        in_hand=hand,
        moved_m={o.name: _moved(record, touches, target, o.name) for o in record.scene.objects},
        slip_m=slip,
        turn_rad=turn,
        rise_m=record.rise(target),
        toppled=tuple(o.name for o in record.scene.objects if o.name not in hand and _toppled(o, record)),
        broken={o.name: by for o in record.scene.objects if (by := _broken(o, record))},
    )


def height_along(model: ObjectModel, direction: Array) -> float:
    """How far an object reaches along a direction (3,) of its frame [m]."""
    ends = [_support(s, direction) for s in model.solids]
    return max(e[1] for e in ends) - min(e[0] for e in ends)


def _support(solid: Solid, direction: Array) -> tuple[float, float]:
    far = float(reach(solid, direction[None])[0])
    middle = float(solid.T_object_solid[:3, 3] @ direction)
    return middle - far, middle + far


def _moved(record: Record, touches: Touches, target: str, name: str) -> float:
    cell = record.cell
    owner = record.owner(name)
    if name != target and touches.on(owner, record.owner(target)) and not touches.on(owner, FIXED):
        com = record.com_of(name)
        before = invert(record.start[target]) @ record.start[name] @ com
        now = invert(cell.T_world(target)) @ cell.T_world(name) @ com
        return float(np.linalg.norm((now - before)[:3]))
    return float(np.linalg.norm(cell.com(name) - record.start_com[name]))


def _toppled(placed: Placed, record: Record) -> bool:
    """Whether it stood and lies, or is off the table.

    What rolls has no upright; and a box that fell on a face like the one it stood on stands again.
    """
    before, now = record.start[placed.name], record.cell.T_world(placed.name)
    if now[2, 3] < _FELL_OFF_M <= before[2, 3]:
        return True
    model = placed.model
    if (
        before[2, 2] <= math.cos(LIES)
        or now[2, 2] > math.cos(LIES)
        or (model.rolling_friction > 0 and model.cavity is None)
    ):
        return False
    change = height_along(model, now[2, :3]) / height_along(model, before[2, :3]) - 1
    return model.cavity is not None or abs(change) > _SAME_HEIGHT


def _broken(placed: Placed, record: Record) -> str:
    """By what it broke, or "": pressed; run into, unless it is durable; or, if fragile, fallen: its momentum stopped in 5 ms."""
    limit = BROKEN * placed.model.f_safe_n * TOLERANCE
    pressed = record.pressed_n.get(placed.name, 0.0)
    if pressed > limit:
        return f"pressed with {pressed:.1f} N"
    met = record.met_n.get(placed.name, 0.0)
    if met > limit and placed.model.fragility > 0:
        return f"run into with {met:.1f} N"
    landed = harmed_by_falling(placed, record.fall_speed.get(placed.name, 0.0))
    return f"fell with {landed:.0f} N" if landed > limit else ""
