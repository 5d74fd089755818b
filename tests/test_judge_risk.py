"""The certificate holds."""

from __future__ import annotations

import numpy as np

from sagehand.judge.risk import Answer, certify


def answers(seed: int, n: int, error: float) -> list[Answer]:
    """Confidences that say nothing: every threshold has the same true risk."""
    rng = np.random.default_rng(seed)
    return [
        Answer(float(c), bool(r), f"{seed}-{i}")
        for i, (c, r) in enumerate(zip(rng.random(n), rng.random(n) >= error, strict=True))
    ]


def test_a_risk_above_the_one_asked_for_is_certified_at_most_one_time_in_twenty() -> None:
    trials = 400
    certified = sum(certify(answers(seed, 300, 0.11), 0.10).certified for seed in range(trials))
    # 5 % of 400 is 20; three standard deviations above
    assert certified <= 20 + 3 * (400 * 0.05 * 0.95) ** 0.5


def test_the_smallest_risk_is_honest_too_and_can_be_asked_for() -> None:
    below = 0
    for seed in range(200):
        given = answers(seed, 300, 0.11)
        smallest = certify(given, 0.5).smallest
        below += smallest is not None and smallest <= 0.10
        assert smallest is None or certify(given, smallest).certified
    assert below <= 10 + 3 * (200 * 0.05 * 0.95) ** 0.5


def test_many_pictures_of_one_unit_count_once() -> None:
    """40 units of 10 pictures that are right or wrong together, one unit in ten wrong: 0.08 is certified one time in twenty."""
    certified = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        right = rng.random(40) >= 0.10
        given = [
            Answer(float(rng.random()), bool(right[u]), f"{seed}-{u}", f"{seed}-{u}-{i}")
            for u in range(40)
            for i in range(10)
        ]
        certified += certify(given, 0.08).certified
    assert certified <= 20 + 3 * (400 * 0.05 * 0.95) ** 0.5


def test_with_ample_calibrated_answers_a_reachable_risk_is_almost_always_certified() -> None:
    certified = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        confidence = rng.beta(5, 1, 1000)
        right = rng.random(1000) < confidence
        given = [
            Answer(float(c), bool(r), f"{seed}-{i}") for i, (c, r) in enumerate(zip(confidence, right, strict=True))
        ]
        certified += certify(given, 0.10).certified
    assert certified >= 32


def test_good_answers_are_certified_and_cover_much() -> None:
    rng = np.random.default_rng(0)
    confident = [Answer(float(0.8 + 0.2 * rng.random()), True, f"c{i}") for i in range(300)]
    doubtful = [Answer(float(0.5 * rng.random()), bool(rng.random() < 0.5), f"d{i}") for i in range(100)]
    certificate = certify(confident + doubtful, 0.05)
    assert certificate.certified
    assert certificate.bound <= 0.05
    assert 0.6 < certificate.coverage < 0.9
    assert certificate.threshold is not None
    assert certificate.threshold > 0.3
    assert "certified" in certificate.words()


def test_what_cannot_be_certified_names_the_smallest_that_can() -> None:
    certificate = certify([Answer(0.9, True, str(i)) for i in range(60)], 0.01)
    assert not certificate.certified
    assert certificate.smallest is not None
    assert 0.05 <= certificate.smallest <= 0.15
    assert f"smallest that can be is {certificate.smallest:g}" in certificate.words()
    nothing = certify([], 0.1)
    assert (nothing.certified, nothing.smallest, nothing.bound) == (False, None, 1.0)
    assert "none can be" in nothing.words()


def test_equal_confidences_are_kept_together() -> None:
    mixed = [Answer(0.7, i % 4 != 0, f"{i}") for i in range(200)]
    certificate = certify(mixed, 0.05)
    assert not certificate.certified
    assert certificate.threshold == 0.7
