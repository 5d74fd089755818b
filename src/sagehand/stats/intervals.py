"""Intervals of a share: Wilson's, and the one-sided Clopper–Pearson bounds."""

from __future__ import annotations

__all__ = ["clopper_pearson_lower", "clopper_pearson_upper", "wilson"]


def wilson(right: int, n: int, confidence: float = 0.95) -> tuple[float, float] | None:
    """Wilson score interval of a share.

    Args:
        right: Number of successes, 0 ≤ right ≤ n.
        n: Number of trials.
        confidence: Two-sided confidence.

    Returns:
        (low, high), or None when n is 0.
    """
    if n == 0:
        return None
    from scipy.stats import binomtest

    interval = binomtest(right, n).proportion_ci(confidence, method="wilson")
    return float(interval.low), float(interval.high)


def clopper_pearson_upper(wrong: int, n: int, confidence: float = 0.95) -> float:
    """One-sided exact upper bound of an error rate (SPEC C3).

    59 answers without an error bound the risk by 0.05; no answers bound it by 1.

    Args:
        wrong: Number of errors, 0 ≤ wrong ≤ n.
        n: Number of answers.
        confidence: One-sided confidence.

    Returns:
        The bound, in [0, 1].
    """
    if wrong >= n:
        return 1.0
    from scipy.special import betaincinv

    return float(betaincinv(wrong + 1, n - wrong, confidence))


def clopper_pearson_lower(wrong: int, n: int, confidence: float = 0.95) -> float:
    """One-sided exact lower bound of an error rate (SPEC C3): a rate under it would give so many errors too rarely.

    Args:
        wrong: Number of errors, 0 ≤ wrong ≤ n.
        n: Number of answers.
        confidence: One-sided confidence.

    Returns:
        The bound, in [0, 1]; 0 where nothing was wrong.
    """
    if wrong <= 0:
        return 0.0
    from scipy.special import betaincinv

    return float(betaincinv(wrong, n - wrong + 1, 1 - confidence))
