"""Intervals and paired tests, thin over SciPy and statsmodels. Both are imported where they are used: they start slowly.

The intervals are those of paper A: 95 % Wilson (§4.2) and McNemar's test (§3.2.1); the one-sided Clopper–Pearson bound
is what a certified risk stands on (SPEC C3). Where more than two methods meet: Cochran's Q, then pairs with Holm's
adjustment. Views of one step are not independent: :func:`cluster_difference` takes them as one thing.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sagehand.errors import MissingExtra

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "EXACT_UP_TO",
    "ClusterDifference",
    "CochranQ",
    "Discordance",
    "McNemar",
    "clopper_pearson_lower",
    "clopper_pearson_upper",
    "cluster_difference",
    "cochran_q",
    "discordance",
    "holm",
    "mcnemar",
    "wilson",
]

EXACT_UP_TO = 25
"""Up to so many discordant pairs McNemar's test is exact."""
_RESAMPLES = 9999
_HELD = 2_000_000  # numbers of a draw that are held in memory at once


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
    _paired(first, second)
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
    _paired(first, second)
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
        _paired(columns[0], column)
    rows = [tuple(map(bool, row)) for row in zip(*columns, strict=True)]
    informative = [row for row in rows if any(row) and not all(row)]
    df = len(columns) - 1
    if not informative:
        return CochranQ(0.0, df, 1.0, len(rows), 0)
    # rows on which all agree add nothing to Q, and without them statsmodels always sees both values
    found = _statsmodels("Cochran's Q").cochrans_q([[int(mark) for mark in row] for row in informative])
    return CochranQ(float(found.statistic), df, float(found.pvalue), len(rows), len(informative))


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's step-down adjustment (Holm 1979), in the order given; never below the p-value itself, never above 1.

    Args:
        p_values: One a test.

    Raises:
        MissingExtra: statsmodels is not installed.
    """
    if not p_values:
        return ()
    try:
        from statsmodels.stats.multitest import multipletests
    except ImportError:
        raise MissingExtra("Holm's adjustment", "study") from None
    return tuple(float(p) for p in multipletests(list(p_values), method="holm")[1])


@dataclass(frozen=True)
class ClusterDifference:
    """The difference of two methods on the same items, which come in clusters.

    Attributes:
        difference: Share right of the second − share right of the first.
        interval: (low, high), percentile bootstrap over clusters; None where it would say nothing (see ``reason``).
        p_value: Two-sided; the two methods' answers are swapped, cluster by cluster.
        clusters: Number of clusters.
        differing: Clusters in which the two have not equally many right.
        reason: Why there is no interval, or "".
    """

    difference: float
    interval: tuple[float, float] | None
    p_value: float
    clusters: int
    differing: int
    reason: str = ""


def cluster_difference(
    first: Sequence[bool],
    second: Sequence[bool],
    clusters: Sequence[Hashable],
    *,
    confidence: float = 0.95,
    seed: int = 0,
) -> ClusterDifference:
    """Difference of two paired shares where items of one cluster are not independent.

    McNemar's test counts every item as if it were independent, although seven views of one step are nearly one thing, and
    the same picture comes again with every seed. Here the cluster is the unit: whole clusters are drawn anew for the
    interval, and whole clusters swap the methods for the p-value (exact up to 13 differing clusters, else 9,999 draws).

    Args:
        first: Whether the first method had each item right.
        second: The same for the second method, in the same order.
        clusters: What each item belongs to.
        confidence: Of the interval, two-sided.
        seed: Of the draws.

    Raises:
        ValueError: The columns differ in length, or are empty.
    """
    _paired(first, second)
    _paired(first, clusters)
    if not len(first):
        raise ValueError("no item to compare")
    import numpy as np

    places: dict[Hashable, int] = {}
    codes = np.array([places.setdefault(cluster, len(places)) for cluster in clusters])
    gains = np.asarray(second, dtype=float) - np.asarray(first, dtype=float)
    gain = np.bincount(codes, weights=gains).astype(np.float64)
    size = np.bincount(codes).astype(np.float64)
    differing = gain[gain != 0]
    if len(places) < 2:
        reason = "all items are of one cluster"
    elif not gain.any():
        reason = "no cluster differs, so no draw would"
    else:
        reason = ""
    return ClusterDifference(
        difference=float(gain.sum() / size.sum()),
        interval=None if reason else _drawn_anew(gain, size, confidence, seed),
        p_value=_swapped(differing, seed) if len(differing) > 1 else 1.0,  # one cluster alone cannot tell a side
        clusters=len(places),
        differing=len(differing),
        reason=reason,
    )


def _drawn_anew(
    gain: NDArray[np.float64], size: NDArray[np.float64], confidence: float, seed: int
) -> tuple[float, float]:
    import numpy as np
    from scipy.stats import bootstrap

    def share(gain: Any, size: Any, axis: int = -1) -> Any:
        return gain.sum(axis=axis) / size.sum(axis=axis)

    found = bootstrap(
        (gain, size),
        share,
        paired=True,
        vectorized=True,
        method="percentile",
        confidence_level=confidence,
        n_resamples=_RESAMPLES,
        batch=max(1, _HELD // len(gain)),
        random_state=np.random.default_rng(seed),
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def _swapped(gain: NDArray[np.float64], seed: int) -> float:
    import numpy as np
    from scipy.stats import permutation_test

    def total(a: Any, b: Any, axis: int = -1) -> Any:
        return (a - b).sum(axis=axis)

    found = permutation_test(
        (gain, np.zeros_like(gain)),
        total,
        permutation_type="samples",
        vectorized=True,
        n_resamples=_RESAMPLES,
        batch=max(1, _HELD // len(gain)),
        random_state=np.random.default_rng(seed),
    )
    return float(found.pvalue)


def _paired(first: Sequence[Any], second: Sequence[Any]) -> None:
    if len(first) != len(second):
        raise ValueError(f"paired columns of different length: {len(first)} and {len(second)}")


def _statsmodels(what: str) -> Any:
    try:
        from statsmodels.stats import contingency_tables
    except ImportError:
        raise MissingExtra(what, "study") from None
    return contingency_tables
