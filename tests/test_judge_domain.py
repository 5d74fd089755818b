"""The domain test turns away strangers, and no more right pictures than it says."""

from __future__ import annotations

import numpy as np
import pytest

from builders import base_of, draft, near, separable, unit
from sagehand.judge.calibration import learn
from sagehand.judge.domain import Domain, in_domain, own_nearest, strangeness
from sagehand.judge.questions import Query
from sagehand.recall.rank import rank


def look(index, calibration, vector, level: float) -> Domain:  # type: ignore[no-untyped-def]
    ranking = rank(index, Query(vector), calibration)
    assert ranking.nearest is not None
    return in_domain(calibration.strange, ranking.nearest.evidence.picture, ranking.apart, level)


@pytest.mark.parametrize("level", [0.05, 0.2])
def test_right_pictures_are_turned_away_no_more_often_than_said(level: float) -> None:
    turned_away = asked = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        centres = np.eye(8)[:6] * 3
        drawn = [(int(c), near(centres[c], 0.5, rng)) for c in rng.integers(0, 6, 60)]
        rows = [{"family": "f", "device": f"d{c}", "next_action": "a"} for c, _ in drawn]
        index = base_of(
            [draft(f"{seed}-{i}", v, r) for i, ((_, v), r) in enumerate(zip(drawn, rows, strict=True))]
        ).index()
        calibration = learn(index)
        for c in rng.integers(0, 6, 10):
            turned_away += look(index, calibration, near(centres[c], 0.5, rng), level).in_domain is False
            asked += 1
    assert turned_away / asked <= level + 3 * (level * (1 - level) / asked) ** 0.5
    assert turned_away > 0


def test_a_stranger_beside_dense_cases_is_seen_where_the_bare_cosine_would_not_see_it() -> None:
    """An empty fixture is nearer to the cases in that fixture than loose cases are to each other."""
    rng = np.random.default_rng(0)
    dense = [near([3, 0, 0], 0.25, rng) for _ in range(30)]
    loose = [near([0, 3, 0], 0.6, rng) for _ in range(30)]
    rows = [{"family": "f", "device": "dense" if i < 30 else "loose", "next_action": "a"} for i in range(60)]
    drafts = [draft(str(i), v, r) for i, (v, r) in enumerate(zip(dense + loose, rows, strict=True))]
    index = base_of(drafts).index()
    calibration = learn(index)
    stranger = unit([3, 0, 0, 0, 0, 0, 0, 1.5])
    found = look(index, calibration, stranger, 0.05)
    assert found.in_domain is False
    # its cosine alone is nothing unusual in this base
    assert found.similarity > np.quantile(calibration.usual, 0.05)


def test_new_devices_are_not_turned_away_where_the_base_has_learnt_to_meet_new_ones() -> None:
    turned_away = asked = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        devices = [rng.normal(size=8) for _ in range(14)]
        rows = [{"family": "f", "device": f"d{d}", "next_action": "a"} for d in range(12) for _ in range(4)]
        drafts = [draft(f"{seed}-{i}", near(devices[i // 4], 0.25, rng), row) for i, row in enumerate(rows)]
        index = base_of(drafts).index()
        calibration = learn(index, "device")
        for device in devices[12:]:
            for _ in range(4):
                turned_away += look(index, calibration, near(device, 0.25, rng), 0.1).in_domain is False
                asked += 1
    assert turned_away / asked <= 0.25


def test_strangeness_grows_with_distance_and_with_the_density_of_the_cases_nearby() -> None:
    assert strangeness(1.0, 0.9) < strangeness(0.9, 0.9) < strangeness(0.5, 0.9)
    assert strangeness(0.8, 0.5) < strangeness(0.8, 0.9)


def test_near_duplicates_and_the_own_unit_do_not_count_as_the_nearest_other() -> None:
    vectors = np.stack([unit([1]), unit([1, 0.01]), unit([1, 0.4]), unit([1, 1])])
    same = np.array([True, False, False, False])
    assert own_nearest(vectors, vectors[0], same) == pytest.approx(float(vectors[0] @ vectors[2]))
    same[2] = True
    assert own_nearest(vectors, vectors[0], same) == pytest.approx(float(vectors[0] @ vectors[3]))
    assert own_nearest(vectors[:2], vectors[0], same[:2]) is None


def test_a_small_base_cannot_tell() -> None:
    assert in_domain(tuple(np.linspace(0.5, 1.5, 10)), -1.0, 0.9, 0.05).in_domain is None
    assert in_domain((), 0.9, 0.9, 0.05).in_domain is None
    assert in_domain(tuple(np.linspace(0.5, 1.5, 40)), 0.9, None, 0.05).in_domain is None
    assert in_domain(tuple(np.linspace(0.5, 1.5, 40)), 0.1, 0.9, 0.05).in_domain is False
    assert in_domain(tuple(np.linspace(0.5, 1.5, 40)), 0.1, 0.9, 0.0).in_domain is None
    base = separable(views=1, devices=1, steps=2)
    assert look(base.index(), learn(base.index()), unit([0, 0, 0, 1]), 0.05).in_domain is None
