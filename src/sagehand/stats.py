"""Intervals and paired tests, thin over SciPy. SciPy is imported where it is used: it is slow to start.

The intervals are those of paper A: 95 % Wilson (§4.2) and McNemar's test (§3.2.1); the one-sided Clopper–Pearson bound
is what a certified risk stands on (SPEC C3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Discordance", "clopper_pearson_upper", "discordance", "wilson"]


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


@dataclass(frozen=True)
class Discordance:
    """Where two methods differ on the same items.

    Attributes:
        only_first: Items that the first has right and the second wrong.
        only_second: Items that the second has right and the first wrong.
        p_value: McNemar's exact two-sided p; 1 when no item is discordant.
    """

    only_first: int
    only_second: int
    p_value: float


def discordance(first: Sequence[bool], second: Sequence[bool]) -> Discordance:
    """McNemar's exact test of two paired columns of right/wrong (paper A §3.2.1).

    Args:
        first: Whether the first method had each item right.
        second: The same for the second method, in the same order.
    """
    if len(first) != len(second):
        raise ValueError(f"paired columns of different length: {len(first)} and {len(second)}")
    only_first = sum(a and not b for a, b in zip(first, second, strict=True))
    only_second = sum(b and not a for a, b in zip(first, second, strict=True))
    if only_first + only_second == 0:
        return Discordance(0, 0, 1.0)
    from scipy.stats import binomtest

    return Discordance(only_first, only_second, float(binomtest(only_first, only_first + only_second).pvalue))
