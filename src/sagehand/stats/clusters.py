"""Two methods on items that come in clusters and are not independent in them, as views of one step."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sagehand.stats.paired import check_paired

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ClusterDifference", "cluster_difference"]

_RESAMPLES = 9999
_HELD = 2_000_000  # numbers of a draw that are held in memory at once


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
    check_paired(first, second)
    check_paired(first, clusters)
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
