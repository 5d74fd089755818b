"""What happens in one grasp, told in order, and what is made of it: an observation, and the truth."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sagehand.world.analytic.quality import Measured
from sagehand.world.executor import Attempt, Observation, Truth
from sagehand.world.failures import Failure, Terminal
from sagehand.world.frames import Pose
from sagehand.world.quality import Quality
from sagehand.world.rules import MOVED_M, terminal_of

__all__ = ["Story"]

_SWUNG = math.radians(10)
"""What swung by more than this in the hand is told [rad]."""


@dataclass
class Story:
    """One grasp as it goes.

    Attributes:
        failure: The first thing that went wrong.
        ended: What happened that cannot be undone.
        why: One sentence on the failure.
        seen: What the robot noticed so far: fields of an observation.
        required_n: Force of each finger that the lift needs [N].
        applied_n: Largest force on the target so far [N].
        slip_m: How far the target slid in the hand [m].
        turn_rad: And how far it turned after the fingers closed [rad].
        lifted: What is in the hand at the end.
        T_grasp_object: (4, 4) where that is in the grasp frame [m].
        neighbours_m: Other objects → how far they were moved [m].
        details: For the truth's details.
        measured: What was measured, for its quality.
    """

    failure: Failure | None = None
    ended: set[Terminal] = field(default_factory=set)
    why: str = ""
    seen: dict[str, Any] = field(default_factory=dict)
    required_n: float | None = None
    applied_n: float = 0.0
    slip_m: float = 0.0
    turn_rad: float = 0.0
    lifted: str | None = None
    T_grasp_object: Pose = field(default_factory=lambda: np.eye(4))
    neighbours_m: dict[str, float] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    measured: Measured = field(default_factory=Measured)

    def fail(self, failure: Failure, why: str) -> None:
        """Something went wrong; only the first counts."""
        if self.failure is None:
            self.failure, self.why = failure, why

    def ends_in(self, terminal: Terminal) -> None:
        """Something that cannot be undone; which of them counts is the rules' to say."""
        self.ended.add(terminal)

    def _well(self) -> str:
        """How a success went."""
        swung = f"; it swung by {math.degrees(self.turn_rad):.0f} degrees" if self.turn_rad > _SWUNG else ""
        return "lifted, held and shaken" + swung

    def attempt(self, quality: Quality | None) -> Attempt:
        """What came of it."""
        return Attempt(
            Observation(**self.seen),
            Truth(
                success=self.failure is None,
                failure=self.failure,
                terminal=terminal_of(
                    broken=Terminal.BROKEN in self.ended,
                    spilt=Terminal.SPILT in self.ended,
                    toppled=Terminal.TOPPLED in self.ended,
                ),
                why=self.why or self._well(),
                quality=quality,
                required_n=self.required_n,
                applied_n=self.applied_n,
                slip_m=self.slip_m,
                turn_rad=self.turn_rad,
                lifted=self.lifted,
                neighbours_m={k: round(v, 4) for k, v in self.neighbours_m.items() if v > MOVED_M},
                details=self.details,
            ),
        )
