"""Tests of paired columns of right/wrong: McNemar's for two methods on the same items, Cochran's Q for more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sagehand.errors import MissingExtra

__all__ = [
    "EXACT_UP_TO",
    "CochranQ",
    "Discordance",
    "McNemar",
    "check_paired",
    "cochran_q",
    "discordance",
    "mcnemar",
]

EXACT_UP_TO = 25
"""Up to so many discordant pairs McNemar's test is exact."""


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
    check_paired(first, second)
    only_first = sum(a and not b for a, b in zip(first, second, strict=True))
    only_second = sum(b and not a for a, b in zip(first, second, strict=True))
    if only_first + only_second == 0:
        return Discordance(0, 0, 1.0)
    from scipy.stats import binomtest

    return Discordance(only_first, only_second, float(binomtest(only_first, only_first + only_second).pvalue))


@dataclass(frozen=True)
class McNemar:
    """McNemar's test of two paired columns of right/wrong.

    Attributes:
        both_right: Items that both have right.
        only_first: Items that the first alone has right.
        only_second: Items that the second alone has right.
        both_wrong: Items that neither has right.
        statistic: The corrected χ², or None where the test is exact or there is no discordant pair.
        p_value: Two-sided; 1 when no pair is discordant.
        method: "exact", "chi-squared, continuity-corrected", or "none: no discordant pair".
    """

    both_right: int
    only_first: int
    only_second: int
    both_wrong: int
    statistic: float | None
    p_value: float
    method: str


def mcnemar(first: Sequence[bool], second: Sequence[bool], *, exact: bool | None = None) -> McNemar:
    """McNemar's test (paper A §3.2.1): exact when few pairs are discordant, else χ² with continuity correction.

    The χ² is (abs(b − c) − 1)² / (b + c), 1 degree of freedom, with b and c the discordant pairs.

    Args:
        first: Whether the first method had each item right.
        second: The same for the second method, in the same order.
        exact: True or False to choose the test; None for exact up to :data:`EXACT_UP_TO` discordant pairs.

    Raises:
        ValueError: The columns differ in length.
        MissingExtra: statsmodels is not installed.
    """
    check_paired(first, second)
    pairs = list(zip(map(bool, first), map(bool, second), strict=True))
    b, c = pairs.count((True, False)), pairs.count((False, True))
    both, neither = pairs.count((True, True)), pairs.count((False, False))
    if b + c == 0:
        return McNemar(both, 0, 0, neither, None, 1.0, "none: no discordant pair")
    use_exact = b + c <= EXACT_UP_TO if exact is None else exact
    # statsmodels corrects 0 − 1 to a χ² above 0 where b = c, as R does not: nothing differs, so nothing is tested
    if not use_exact and b == c:
        return McNemar(both, b, c, neither, 0.0, 1.0, "chi-squared, continuity-corrected")
    found = _statsmodels("McNemar's test").mcnemar([[both, b], [c, neither]], exact=use_exact, correction=True)
    statistic = None if use_exact else float(found.statistic)
    method = "exact" if use_exact else "chi-squared, continuity-corrected"
    return McNemar(both, b, c, neither, statistic, float(found.pvalue), method)


@dataclass(frozen=True)
class CochranQ:
    """Cochran's Q test of three or more paired columns of right/wrong.

    Attributes:
        statistic: Q.
        df: Degrees of freedom, columns − 1.
        p_value: From the χ² distribution; 1 where all columns agree on every item.
        n: Number of items.
        informative: Items on which the columns do not all agree: only they count.
    """

    statistic: float
    df: int
    p_value: float
    n: int
    informative: int


def cochran_q(columns: Sequence[Sequence[bool]]) -> CochranQ:
    """Cochran's Q: whether several methods, asked the same items, differ in their share of right answers.

    Args:
        columns: For each method, whether it had each item right, in the same order.

    Raises:
        ValueError: Fewer than two columns, or they differ in length.
        MissingExtra: statsmodels is not installed.
    """
    if len(columns) < 2:
        raise ValueError(f"Cochran's Q compares two columns or more, not {len(columns)}")
    for column in columns[1:]:
        check_paired(columns[0], column)
    rows = [tuple(map(bool, row)) for row in zip(*columns, strict=True)]
    informative = [row for row in rows if any(row) and not all(row)]
    df = len(columns) - 1
    if not informative:
        return CochranQ(0.0, df, 1.0, len(rows), 0)
    # rows on which all agree add nothing to Q, and without them statsmodels always sees both values
    found = _statsmodels("Cochran's Q").cochrans_q([[int(mark) for mark in row] for row in informative])
    return CochranQ(float(found.statistic), df, float(found.pvalue), len(rows), len(informative))


def check_paired(first: Sequence[Any], second: Sequence[Any]) -> None:
    """Refuse columns that cannot be compared item by item.

    Raises:
        ValueError: They differ in length.
    """
    if len(first) != len(second):
        raise ValueError(f"paired columns of different length: {len(first)} and {len(second)}")


def _statsmodels(what: str) -> Any:
    try:
        from statsmodels.stats import contingency_tables
    except ImportError:
        raise MissingExtra(what, "study") from None
    return contingency_tables
