"""Is this picture one of the kind that the case base knows? A conformal test on the nearest picture (SPEC C3).

Each case of the base has a cosine to its nearest other case, near-duplicates and group left out. The p-value of a query
is the share of cases that are as lonely as it or lonelier; when query and cases are exchangeable, a picture of the right
kind is turned away with a probability of at most ``level``. With fewer than 1/level − 1 cases nothing can be turned away.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass

from sagehand.judge.calibration import Calibration

__all__ = ["Domain", "in_domain"]


@dataclass(frozen=True)
class Domain:
    """Outcome of the test.

    Attributes:
        p_value: Share of the base's cases that are at most as close to another one; None when it was not learnt.
        level: At most this share of right pictures is turned away.
        similarity: Cosine of the query to its nearest case.
        usual: The middle of the same cosines within the base; None when it was not learnt.
        in_domain: False when p < level; None when the base is too small to tell.
    """

    p_value: float | None
    level: float
    similarity: float
    usual: float | None
    in_domain: bool | None


def in_domain(calibration: Calibration, similarity: float, level: float) -> Domain:
    """Test a query.

    Args:
        calibration: Holds what is usual.
        similarity: Cosine to the nearest case, the query's own picture left out.
        level: Share of right pictures that may be turned away, in [0, 1); 0 turns nothing away.
    """
    usual = calibration.usual
    if not usual:
        return Domain(None, level, similarity, None, None)
    p_value = (1 + bisect.bisect_right(usual, similarity)) / (len(usual) + 1)
    able = 1 / (len(usual) + 1) < level
    return Domain(p_value, level, similarity, usual[len(usual) // 2], p_value >= level if able else None)
