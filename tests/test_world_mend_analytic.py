"""What the analytic executor once said otherwise than the physics: what swings to the table, what putting down feels like."""

from __future__ import annotations

import math

import numpy as np

from sagehand.world.analytic.executor import AnalyticExecutor
from sagehand.world.executor import Observation, PutCommand, Truth
from sagehand.world.failures import Failure
from sagehand.world.frames import Pose, pose, translation
from sagehand.world.grasp import GraspCommand
from sagehand.world.scene import Placed, Scene
from world_physics_things import DOWN, block

HAND = AnalyticExecutor()


def above(z: float = 0.02, x: float = 0.5) -> Pose:
    return pose((x, 0.0, z), DOWN)


def swung(lift_m: float) -> Truth:
    """A beam of 160 mm, gripped 10 mm from its end with too little force for its moment."""
    beam = block(0.02, 0.16, 0.03, mass_kg=0.2, friction=0.5)
    scene = Scene((Placed("it", beam, translation(0.5)),))
    with HAND.start(scene) as trial:
        truth = trial.grasp(GraspCommand("it", above(0.015, 0.43), 0.04, 5.0, lift_m=lift_m)).truth
        assert (trial.held is None) == (not truth.success)
    return truth


def test_what_swings_down_onto_the_table_is_not_held() -> None:
    low, high = swung(0.05), swung(0.25)
    assert low.failure is Failure.DROP
    assert low.why.startswith("one end of it stays on the table")
    assert low.lifted is None
    assert high.success, high.why
    assert high.turn_rad > math.radians(10)
    assert high.why == f"lifted, held and shaken; it swung by {math.degrees(high.turn_rad):.0f} degrees"


def put_at(z: float) -> Observation:
    with HAND.start(Scene((Placed("it", block(0.04), translation(0.5)),))) as trial:
        assert trial.grasp(GraspCommand("it", above(), 0.06, 10.0)).truth.success
        return trial.put(PutCommand(above(z))).observation


def test_a_hand_that_puts_down_feels_what_it_holds_until_it_opens() -> None:
    seen = put_at(0.021)
    assert seen.contact
    assert math.isclose(seen.effort_n, 10.0)
    assert np.isclose(seen.finger_width_m, 0.04, atol=1e-6)


def test_a_hand_that_puts_down_notices_what_stops_it_by_more_than_a_millimetre() -> None:
    early, late = put_at(0.015), put_at(0.0195)
    assert early.touched
    assert math.isclose(early.touched_short_m, 0.005, abs_tol=1e-6)
    assert not late.touched
    assert late.touched_short_m == 0.0
