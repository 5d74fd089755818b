"""Scores of agreement: area under the ROC curve, Cohen's κ, and intervals that draw whole objects anew.

Grasps of one object are not independent, so intervals are those of a bootstrap over objects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["RESAMPLES", "auc", "cluster_interval", "kappa", "roc_curve"]

RESAMPLES = 2000
"""Draws of a bootstrap."""
Array = NDArray[np.float64]


def auc(scores: ArrayLike, right: ArrayLike) -> float | None:
    """Area under the ROC curve: how often a success scores above a failure, ties half (Mann–Whitney); None without both.

    Args:
        scores: (N,) higher for success.
        right: (N,) whether it succeeded.
    """
    s, y = np.asarray(scores, dtype=np.float64), np.asarray(right, dtype=bool)
    wins, losses = int(y.sum()), int((~y).sum())
    if not wins or not losses:
        return None
    _, inverse, counts = np.unique(s, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = (last - (counts - 1) / 2)[inverse]
    return float((ranks[y].sum() - wins * (wins + 1) / 2) / (wins * losses))


def roc_curve(scores: ArrayLike, right: ArrayLike) -> tuple[Array, Array]:
    """False and true positive rates (K,) at every threshold, from none to all taken for successes."""
    s, y = np.asarray(scores, dtype=np.float64), np.asarray(right, dtype=bool)
    order = np.argsort(-s, kind="stable")
    s, y = s[order], y[order]
    cuts = np.append(np.nonzero(np.diff(s))[0], len(s) - 1)
    hits, alarms = np.cumsum(y)[cuts], np.cumsum(~y)[cuts]
    zero = np.zeros(1)
    return (
        np.concatenate([zero, alarms / max(int((~y).sum()), 1)]),
        np.concatenate([zero, hits / max(int(y.sum()), 1)]),
    )


def kappa(first: ArrayLike, second: ArrayLike) -> float | None:
    """Cohen's κ of two rows (N,) of labels: agreement beyond chance; None where chance alone agrees fully."""
    a, b = np.asarray(first), np.asarray(second)
    if not len(a):
        return None
    labels = np.unique(np.concatenate([a, b]))
    chance = float(sum((a == label).mean() * (b == label).mean() for label in labels))
    return None if chance >= 1 - 1e-12 else float(((a == b).mean() - chance) / (1 - chance))


def cluster_interval(
    clusters: Sequence[str],
    statistic: Callable[[NDArray[np.int64]], float | None],
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
) -> tuple[float, float] | None:
    """Percentile interval of a statistic when whole clusters are drawn anew; None where it cannot be had.

    Args:
        clusters: (N,) the cluster of each item.
        statistic: Of the numbers of the items drawn; None where it has no value.
        seed: Of the draws.
        resamples: How many.
        confidence: Two-sided.
    """
    members: dict[str, list[int]] = {}
    for place, cluster in enumerate(clusters):
        members.setdefault(cluster, []).append(place)
    if len(members) < 2:
        return None
    groups = [np.array(m, dtype=np.int64) for m in members.values()]
    rng = np.random.default_rng(seed)
    values = []
    for _ in range(resamples):
        drawn = np.concatenate([groups[i] for i in rng.integers(len(groups), size=len(groups))])
        if (value := statistic(drawn)) is not None:
            values.append(value)
    if len(values) < resamples / 2:
        return None
    tail = (1 - confidence) / 2
    low, high = np.quantile(values, (tail, 1 - tail))
    return float(low), float(high)
