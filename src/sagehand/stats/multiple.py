"""P-values of several tests at once."""

from __future__ import annotations

from collections.abc import Sequence

from sagehand.errors import MissingExtra

__all__ = ["holm"]


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
