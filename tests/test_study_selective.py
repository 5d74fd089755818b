"""Risk against coverage, and whether a certified risk held, by hand (SPEC C3)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagehand.errors import InputError
from sagehand.study.report.refs import ArmRecords
from sagehand.study.report.selective import bound_held, coverage_at, risk_coverage
from sagehand.study.run.record import Record


def record(
    item: int, right: bool, confidence: float | None, *, held_back: bool = False, seed: int = 0, **more: Any
) -> Record:
    action = "lever" if right else "place_in_vise"
    answer = {
        "next_action": None if held_back else action,
        "proposed": action if held_back else None,
        "abstained": held_back,
        "confidence": confidence,
    }
    truth = {"next_action": "lever"}
    marks = {"next_action": right and not held_back}
    return Record("perceptual", seed, 0, f"{item}.png", "query", truth, answer, marks, **more)


def arm(records: Sequence[Record], risk: float | None) -> ArmRecords:
    return ArmRecords("run:perceptual", "perceptual", tuple(records), risk=risk)


def test_a_curve_by_hand() -> None:
    curve = risk_coverage([record(0, True, 0.7), record(1, True, 0.9), record(2, False, 0.8)])
    assert [(p.threshold, p.answered, p.wrong) for p in curve.points] == [(0.9, 1, 0), (0.8, 2, 1), (0.7, 3, 1)]
    assert [p.coverage for p in curve.points] == pytest.approx([1 / 3, 2 / 3, 1])
    assert [p.risk for p in curve.points] == pytest.approx([0, 1 / 2, 1 / 3])
    assert curve.area == pytest.approx((0 + 1 / 2 + 1 / 3) / 3)
    assert curve.area_best == pytest.approx((0 + 0 + 1 / 3) / 3)
    assert curve.area_chance == pytest.approx(1 / 3)


def test_equal_confidences_are_answered_together() -> None:
    curve = risk_coverage([record(0, True, 0.5), record(1, False, 0.5), record(2, True, 0.5), record(3, False, 0.5)])
    assert [(p.answered, p.wrong) for p in curve.points] == [(4, 2)]
    assert curve.area == pytest.approx(curve.area_chance or 0) == pytest.approx(0.5)


def test_what_was_held_back_counts_as_the_answer_it_would_have_been() -> None:
    told = risk_coverage([record(0, True, 0.9), record(1, True, 0.6), record(2, False, 0.3)])
    held = risk_coverage(
        [record(0, True, 0.9), record(1, True, 0.6, held_back=True), record(2, False, 0.3, held_back=True)]
    )
    assert held == told


def test_failures_are_never_covered_and_never_dropped() -> None:
    failed = Record("perceptual", 0, 0, "9.png", "query", {"next_action": "lever"}, {}, {}, failure="timeout")
    curve = risk_coverage([record(0, True, 0.9), failed])
    assert (curve.n, curve.without, curve.points[-1].coverage) == (2, 1, 0.5)
    empty = risk_coverage([failed])
    assert (empty.points, empty.area, empty.without) == ((), None, 1)


def test_coverage_at_a_risk() -> None:
    curve = risk_coverage([record(i, i != 3, 1 - i / 10) for i in range(5)])  # risks 0, 0, 0, 1/4, 1/5
    point = coverage_at(curve, 0.2)
    assert point is not None
    assert point.coverage == 1  # more answers may have less risk again
    point = coverage_at(curve, 0.1)
    assert point is not None
    assert point.answered == 3
    assert coverage_at(risk_coverage([record(0, False, 0.9)]), 0.5) is None


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=40))
def test_the_best_order_is_the_least_area(rows: list[tuple[int, bool]]) -> None:
    curve = risk_coverage([record(i, right, confidence / 5) for i, (confidence, right) in enumerate(rows)])
    assert curve.area is not None
    assert curve.area_best is not None
    assert curve.area_best <= curve.area + 1e-12 <= 1 + 1e-12
    assert curve.points[-1].coverage == 1
    assert curve.points[-1].risk == pytest.approx(sum(not right for _, right in rows) / len(rows))
    json.dumps(curve.to_dict(), allow_nan=False)


def test_the_bound_by_hand() -> None:
    records = [record(i, True, 0.9) for i in range(59)] + [record(99, False, 0.2, held_back=True)]
    pooled, seed = bound_held(arm(records, 0.05))
    assert (pooled.n, pooled.answered, pooled.wrong, pooled.risk) == (60, 59, 0, 0)
    assert pooled.coverage == pytest.approx(59 / 60)
    assert pooled.upper == pytest.approx(1 - 0.05 ** (1 / 59))
    assert (pooled.lower, pooled.verdict) == (0, "shown")
    assert (pooled.seed, seed.seed) == (None, 0)


@pytest.mark.parametrize(
    ("wrong", "answered", "verdict"),
    [
        (0, 59, "shown"),
        (0, 58, "held"),
        (2, 50, "held"),
        (3, 50, "exceeded"),
        (12, 50, "broken"),
        (0, 0, "nothing answered"),
    ],
)
def test_what_the_queries_say_of_a_bound_of_five_percent(wrong: int, answered: int, verdict: str) -> None:
    records = [record(i, i >= wrong, 0.9) for i in range(answered)] + [record(999, True, 0.1, held_back=True)]
    found = bound_held(arm(records, 0.05))[0]
    assert found.verdict == verdict
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["verdict"] == verdict


def test_seeds_are_pooled_and_told_one_by_one() -> None:
    records = [record(i, i > 0, 0.9, seed=seed) for seed in (3, 1) for i in range(10)]
    pooled, *seeds = bound_held(arm(records, 0.2))
    assert (pooled.n, pooled.wrong) == (20, 2)
    assert [(s.seed, s.n, s.wrong, s.risk) for s in seeds] == [(1, 10, 1, 0.1), (3, 10, 1, 0.1)]


def test_a_failure_is_not_a_choice() -> None:
    failed = Record("perceptual", 0, 0, "9.png", "query", {"next_action": "lever"}, {}, {}, error="no picture")
    found = bound_held(arm([record(0, True, 0.9), failed], 0.05))[0]
    assert (found.n, found.answered, found.failures, found.coverage) == (2, 1, 1, 0.5)


def test_an_arm_without_a_risk_has_no_bound() -> None:
    with pytest.raises(InputError, match="run without a risk"):
        bound_held(arm([record(0, True, 0.9)], None))
