"""What the phases of one grasp share: the command as it is carried out, the gripper, and rays against objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sagehand.world.analytic.cast import Caster
from sagehand.world.analytic.contact import Closing, close
from sagehand.world.analytic.descent import Descent, descend
from sagehand.world.analytic.jaws import Jaws
from sagehand.world.frames import Pose, invert
from sagehand.world.grasp import GraspCommand
from sagehand.world.objects.model import ObjectModel
from sagehand.world.scene import Placed

__all__ = ["Setup", "down_in"]


def down_in(T_world_grasp: Pose) -> NDArray[np.float64]:
    """(3,) unit, the world's down in the grasp frame."""
    return -T_world_grasp[2, :3]


@dataclass(frozen=True, eq=False)
class Setup:
    """One grasp as it is carried out.

    Attributes:
        command: With the pose that the motion's noise makes of it.
        width_m: Opening of the fingers before they close [m], within the gripper's limits.
        force_n: Normal force of each finger [N], within its limits.
        jaws: The gripper.
        caster: Gives the rays against an object.
    """

    command: GraspCommand
    width_m: float
    force_n: float
    jaws: Jaws
    caster: Callable[[ObjectModel], Caster]

    def descend(self, T: Pose, placed: Placed, stretch_m: float) -> Descent:
        """Bring the open hand to a pose, over a straight last stretch; only this object is looked at."""
        return descend(
            self.caster(placed.model),
            invert(T) @ placed.T_world_object,
            self.jaws,
            self.width_m,
            stretch_m,
            placed.model.friction,
            down_in(T),
        )

    def close(self, T: Pose, placed: Placed) -> Closing:
        """Close the fingers at a pose on an object."""
        T_grasp_object = invert(T) @ placed.T_world_object
        caster, friction = self.caster(placed.model), placed.model.friction
        return close(caster, T_grasp_object, self.jaws, self.width_m, friction, down_in(T))
