"""Tables and numbers of the report as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["md_numbers", "md_pct", "md_span", "md_table", "md_value"]


def md_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; "" without rows."""
    if not rows:
        return ""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def md_pct(share: float | None) -> str:
    """A share from 0 to 1 in per cent; "–" for None."""
    return "–" if share is None else f"{share * 100:.1f} %"


def md_value(value: float | None, digits: int = 3) -> str:
    """A number; "–" for None."""
    return "–" if value is None else f"{value:.{digits}f}"


def md_span(interval: Sequence[float] | None, digits: int = 0) -> str:
    """An interval in brackets: of shares in per cent, or with ``digits`` as it is; "" for None."""
    if interval is None:
        return ""
    low, high = interval
    return f"({low:.{digits}f}–{high:.{digits}f})" if digits else f"({low * 100:.1f}–{high * 100:.1f})"


def md_numbers(numbers: Sequence[int]) -> str:
    """How many grasps, and the first of them by number; "none" where there is none."""
    if not numbers:
        return "none"
    return f"{len(numbers)} (grasps {', '.join(map(str, numbers[:8]))}{', …' if len(numbers) > 8 else ''})"
