"""What a closed grip bears of the object and of what comes along with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sagehand.world.analytic.contact import Closing, close
from sagehand.world.analytic.lift import Held, Load, carry
from sagehand.world.analytic.setup import Setup, down_in
from sagehand.world.analytic.statics import GripStatics
from sagehand.world.constants import GRAVITY
from sagehand.world.frames import Pose, invert
from sagehand.world.scene import Placed
from sagehand.world.trial import InHand

__all__ = ["Carried", "InGrip", "borne", "load_of", "way_out"]

_LEAST_M, _COVERED_M = 0.002, 0.003
_LOOSE = 0.02
"""Friction of what a load has loosened: next to none, for it gives way bit by bit."""


@dataclass(frozen=True, eq=False)
class Carried:
    """What is carried, and by what grip.

    Attributes:
        statics: What the grip bears.
        load: What hangs in it.
        force_n: Normal force of each finger [N].
    """

    statics: GripStatics
    load: Load
    force_n: float

    def holds_at(self, T_world_tcp: Pose) -> bool:
        """Whether its weight is borne with the hand at a pose (4, 4), turned as it may be; free to swing about the pads."""
        pull = -self.load.mass_kg * GRAVITY * T_world_tcp[2, :3]
        wrench = np.concatenate([pull, np.cross(self.load.pivot_m, pull)])
        return self.statics.required_force(wrench) <= self.force_n


@dataclass(frozen=True, eq=False)
class InGrip(InHand):
    """What is in the hand, which holds still where the grasp ended.

    Attributes:
        T_world_tcp: (4, 4) where the hand is [m].
        grip: What bears it, if that is known.
        width_m: Between the fingers [m].
        effort_n: Force of each finger [N].
    """

    T_world_tcp: Pose
    grip: Carried | None = None
    width_m: float = 0.0
    effort_n: float = 0.0


def borne(
    setup: Setup, T: Pose, closing: Closing, what: Placed, along: tuple[Placed, ...]
) -> tuple[Closing, Held | None, Load]:
    """What becomes of an object in the lift: how it lies between the pads, what they bear, the load.

    Where friction alone had kept the object from lying flat on the pads and the load is too much for it so, the load loosens it,
    and it comes to lie flat after all. Nothing is held (None) where the pads only press it on the table.

    Args:
        setup: The grasp.
        T: (4, 4) where the hand is [m].
        closing: How the fingers closed.
        what: The object, where it stood before.
        along: What stands on it or lies in it.
    """
    load = load_of(T, closing, what, along)
    held = _held(setup, closing, load)
    heavy = load.mass_kg * GRAVITY > 2 * what.model.friction * setup.force_n  # however it lies
    if heavy or (held is not None and held.stage == "held"):
        return closing, held, load
    flat = close(
        setup.caster(what.model),
        closing.T_grasp_object,
        setup.jaws,
        setup.width_m,
        what.model.friction,
        down_in(T),
        on_table=False,
        lock=_LOOSE,
    )
    if flat.statics is None or not flat.held:
        return closing, held, load
    loosened = load_of(T, flat, what, along)
    again = _held(setup, flat, loosened)
    if again is not None and (held is None or again.hanging_n < held.hanging_n):
        return flat, again, loosened
    return closing, held, load


def load_of(T: Pose, closing: Closing, what: Placed, along: tuple[Placed, ...]) -> Load:
    """The load of an object between the pads and of what comes along, with the hand at a pose (4, 4) [m]."""
    mass = what.mass_kg
    moment = mass * (closing.T_grasp_object @ np.append(what.com_m, 1.0))[:3]
    for other in along:
        place = invert(what.T_world_object) @ other.T_world_object @ np.append(other.com_m, 1.0)
        moment = moment + other.mass_kg * (closing.T_grasp_object @ place)[:3]
        mass += other.mass_kg
    pivot = closing.contacts.points.mean(axis=0) if closing.contacts is not None else np.zeros(3)
    return Load(mass, moment / mass, pivot, T[2, :3].copy(), T[:2, :3].copy())


def way_out(setup: Setup, closing: Closing, load: Load) -> float:
    """How far the object can slide down before it leaves the pads [m].

    Where it covers the pads to their upper end new surface follows, and it is lost when its own top leaves them; else when the
    middle of what they touch does.
    """
    if closing.contacts is None:
        return 0.0
    xz = closing.contacts.points[:, [0, 2]]
    down = -load.up[[0, 2]]
    size = float(np.linalg.norm(down))
    if size < 1e-3:
        return max(closing.overlap_m, _LEAST_M)
    down = down / size
    x, (low, high) = setup.jaws.pad_x_m, setup.jaws.pad_z_m
    corners = np.array([(a, b) for a in (-x, x) for b in (low, high)]) @ down
    touched = xz @ down
    if touched.min() < corners.min() + _COVERED_M:
        return max(closing.overlap_m, _LEAST_M)
    return max(float(corners.max() - touched.mean()), _LEAST_M)


def _held(setup: Setup, closing: Closing, load: Load) -> Held | None:
    if closing.pressed_down or closing.statics is None:
        return None
    command = setup.command
    return carry(
        closing.statics,
        load,
        setup.force_n,
        command.lift_acceleration,
        command.lift_m,
        way_out(setup, closing, load),
    )
