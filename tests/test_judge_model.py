"""The small model: its gradient, its constraints, and that it learns what the data say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagehand.judge import model
from sagehand.judge.evidence import FEATURES, Scaling, agreement, picture_likeness, stack


def problem(seed: int, m: int = 12, n: int = 9) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(m, n, 4))
    allowed = rng.random((m, n)) < 0.9
    right = allowed & (rng.random((m, n)) < 0.3)
    return features, allowed, right


@pytest.mark.parametrize("seed", range(4))
def test_the_weights_are_where_the_objective_is_flat(seed: int) -> None:
    features, allowed, right = problem(seed)

    def objective(w: np.ndarray) -> float:
        mass = (model.belief(features, w, allowed) * right).sum(axis=1)
        teaches = right.any(axis=1) & (allowed & ~right).any(axis=1)
        return float(np.log(mass[teaches]).sum() - 0.5 * ((w - 1) ** 2).sum())

    w = model.fit_belief(features, allowed, right)
    assert (w >= 0).all()
    for k in range(4):
        step = np.zeros(4)
        step[k] = 1e-4
        slope = (objective(w + step) - objective(w - step)) / 2e-4
        # at a bound the objective may still fall into it
        assert abs(slope) < 2e-2 if w[k] > 1e-3 else slope < 2e-2


def test_without_data_every_kind_of_evidence_counts_alike() -> None:
    features, allowed, right = problem(0)
    assert model.fit_belief(features, allowed, np.zeros_like(right)).tolist() == [1, 1, 1, 1]
    assert model.fit_belief(features, allowed, np.zeros_like(right), ("picture", "place")).tolist() == [1, 0, 1, 0]


def test_it_learns_which_evidence_is_worth_something() -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(80, 20, 4))
    right = features[:, :, 1] > 1.0
    weights = model.fit_belief(features, np.ones_like(right), right)
    assert weights[1] > 3 * max(weights[0], weights[2], weights[3])


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_belief_is_a_distribution_over_the_allowed(seed: int) -> None:
    features, allowed, _ = problem(seed)
    allowed[0] = False
    shares = model.belief(features * 100, np.ones(4), allowed)
    assert np.isfinite(shares).all()
    assert (shares[~allowed] == 0).all()
    np.testing.assert_allclose(shares.sum(axis=1), allowed.any(axis=1), atol=1e-12)


def test_match_is_learnt_from_pairs() -> None:
    rng = np.random.default_rng(2)
    features = rng.normal(size=(400, 4))
    matches = features[:, 0] + 0.3 * rng.normal(size=400) > 0.8
    weights = model.fit_match(features, matches)
    p = model.match_probability(features, weights)
    assert p[matches].mean() > 0.7 > 0.3 > p[~matches].mean()
    assert abs(p.mean() - matches.mean()) < 0.03


def test_unknown_is_neutral_and_agreement_is_symmetric() -> None:
    codes = np.array([-1, 0, 1], dtype=np.int32)
    assert agreement(0, codes).tolist() == [0, 1, -1]
    assert agreement(-1, codes).tolist() == [0, 0, 0]
    zeros = np.zeros(3, dtype=np.int8)
    features = stack(
        picture_likeness(np.array([0.5, 0.9, 1.0])), agreement(-1, codes), zeros, np.full(3, np.nan), Scaling()
    )
    assert features.shape == (3, len(FEATURES))
    assert (features[:, 1:] == 0).all()
    assert (np.diff(features[:, 0]) > 0).all()


def test_scaling_keeps_its_defaults_without_data() -> None:
    nothing = np.array([])
    assert Scaling.of(nothing, np.array([np.nan])) == Scaling()
    measured = Scaling.of(np.array([1.0, 3.0]), np.array([0.2, np.nan, 0.4]))
    assert (measured.picture_mean, measured.picture_sd) == (2.0, 1.0)
    assert measured.depth_mean == pytest.approx(0.3)
