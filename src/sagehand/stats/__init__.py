"""Intervals and paired tests, thin over SciPy and statsmodels. Both are imported where they are used: they start slowly.

The intervals are those of paper A: 95 % Wilson (§4.2) and McNemar's test (§3.2.1); the one-sided Clopper–Pearson bound
is what a certified risk stands on (SPEC C3). Where more than two methods meet: Cochran's Q, then pairs with Holm's
adjustment. Views of one step are not independent: :func:`cluster_difference` takes them as one thing.
"""

from __future__ import annotations

from sagehand.stats.clusters import ClusterDifference, cluster_difference
from sagehand.stats.intervals import clopper_pearson_lower, clopper_pearson_upper, wilson
from sagehand.stats.multiple import holm
from sagehand.stats.paired import EXACT_UP_TO, CochranQ, Discordance, McNemar, cochran_q, discordance, mcnemar

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
