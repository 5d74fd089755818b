"""Is this picture one of the kind that the case base knows? A conformal test (SPEC C3).

How *strange* a picture is: its distance to the nearest case over the square root of that case's distance to its own
nearest other one. Near an empty fixture stand the cases of the fixture with a device in it, but these stand much nearer
to each other: the bare distance does not see it, while the ratio of the two (Tax and Duin, ICPR 2000) does not see what
is far from loose cases. Half-way between the two was the best of the three on renders of the demo cell with other seeds than
its own (``scripts/make_demo_cell.py --seed 7`` to ``10``), where it was chosen.

Each case of the base has such a number too, its own unit left out; the p-value is the share of cases that are as strange
or stranger. When query and cases are exchangeable, a right picture is turned away with a probability of at most
``level``. With fewer than 1/level − 1 cases nothing is.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sagehand.judge.evidence import COSINE_FLOOR

__all__ = ["NEAR_DUPLICATE", "Domain", "in_domain", "own_nearest", "strangeness"]

NEAR_DUPLICATE = 0.99
"""Pictures with a cosine of at least this are near-duplicates: one of them says nothing new about the other."""


@dataclass(frozen=True)
class Domain:
    """Outcome of the test.

    Attributes:
        p_value: Share of the base's cases that are at least as strange; None when it was not learnt.
        level: At most this share of right pictures is turned away.
        similarity: Cosine of the query to its nearest case.
        usual: Cosine of that case to its own nearest other one; None when there is none.
        strangeness: See :func:`strangeness`; None where ``usual`` is.
        in_domain: False when p < level; None when the base is too small to tell.
    """

    p_value: float | None
    level: float
    similarity: float
    usual: float | None
    strangeness: float | None
    in_domain: bool | None


def strangeness(similarity: float, usual: float) -> float:
    """Distance to the nearest case over the root of that case's distance to its own nearest other one.

    Args:
        similarity: Cosine to the nearest case.
        usual: Cosine of that case to its own nearest other one.
    """
    return float((1 - similarity + COSINE_FLOOR) / (1 - usual + COSINE_FLOOR) ** 0.5)


def own_nearest(vectors: NDArray[np.float32], nearest: NDArray[np.float32], same: NDArray[np.bool_]) -> float | None:
    """Cosine of a case to its nearest other one among the cases near it, its near-duplicates and its unit left out.

    Args:
        vectors: (c, d) the cases near it.
        nearest: (d,) the case.
        same: (c,) which of them are itself or of its own unit.

    Returns:
        The cosine, or None where no other case is left.
    """
    cosines = vectors @ nearest
    cosines = cosines[~same & (cosines < NEAR_DUPLICATE)]
    return float(cosines.max()) if len(cosines) else None


def in_domain(strange: Sequence[float], similarity: float, usual: float | None, level: float) -> Domain:
    """Test a query.

    Args:
        strange: Sorted strangeness of the base's own cases, from the calibration.
        similarity: Cosine of the query to the nearest case, the query's own picture left out.
        usual: From :func:`own_nearest`.
        level: Share of right pictures that may be turned away, in [0, 1); 0 turns nothing away.
    """
    if not strange or usual is None:
        return Domain(None, level, similarity, usual, None, None)
    own = strangeness(similarity, usual)
    count = len(strange)
    p_value = (1 + count - bisect.bisect_left(strange, own)) / (count + 1)
    able = 1 / (count + 1) < level
    return Domain(p_value, level, similarity, usual, own, p_value >= level if able else None)
