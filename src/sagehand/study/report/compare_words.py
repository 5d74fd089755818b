"""A comparison told in words and as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sagehand.study.score import p_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sagehand.study.report.comparison import Comparison, Comparisons, Side

__all__ = ["comparison_words", "comparisons_words", "notes"]

_LEVEL = 0.05
_FEW = 20  # clusters; below, a percentile bootstrap says less than its 95 %
_METHODS = {"exact": "exact", "chi-squared, continuity-corrected": "corrected χ²"}


def comparison_words(found: Comparison) -> str:
    """One sentence on two arms: shares, difference with its interval, tests."""
    task, first, second = found.task.replace("_", " "), found.first, found.second
    points = 100 * found.difference.difference
    by_how_much = f"{abs(points):.1f} points {'more' if points > 0 else 'less'}" if points else "no difference"
    interval = found.difference.interval
    if interval is not None:
        low, high = (f"{100 * edge:+.1f}".replace("-", "−") for edge in interval)
        by_how_much += f" (95 % interval {low} to {high}, by device and step)"
    return (
        f"{task}: {second.name} is right in {_percent(second)} and {first.name} in {_percent(first)} of {found.n} items, "
        f"{by_how_much}; {_mcnemar(found)}, by device and step {p_text(found.difference.p_value)}"
    )


def comparisons_words(found: Comparisons) -> str:
    """One sentence on several arms: Cochran's Q, and the pairs that differ after Holm's adjustment, by item and by step."""
    task, q = found.task.replace("_", " "), found.cochran
    told = (
        f"{task}: Cochran's Q = {q.statistic:.2f} over {len(found.sides)} arms and {found.n} items, {p_text(q.p_value)}"
    )
    by_item = [p for p in found.pairs if (p.mcnemar.p_value if p.p_holm is None else p.p_holm) < _LEVEL]
    if not by_item:
        return f"{told}; no pair differs at {_LEVEL:g} (McNemar, Holm)"
    by_step = [
        p for p in by_item if (p.difference.p_value if p.p_holm_by_cluster is None else p.p_holm_by_cluster) < _LEVEL
    ]
    # views of a step are not independent: what only the test by item tells must not stand alone
    of_these = "all of these" if by_step == by_item else _above(by_step) if by_step else "none of these"
    return f"{told}; at {_LEVEL:g} (McNemar, Holm): {_above(by_item)}; by device and step (Holm): {of_these}"


def notes(found: Comparisons) -> list[str]:
    """What a reader must know beside the figures, a line each."""
    lines = []
    for side in found.sides:
        counts = (
            ("left to the operator", side.abstained),
            ("failed by the model", side.failures),
            ("in error", side.errors),
        )
        wrong = ", ".join(f"{count} {what}" for what, count in counts if count)
        if wrong:
            lines.append(f"{side.name}: of {side.n} items {wrong}; they count as wrong")
        if side.unpaired:
            lines.append(f"{side.name}: {side.unpaired} items have no partner and are not compared")
    if found.unknown:
        lines.append(
            f"{found.unknown} items have no {found.task.replace('_', ' ')} in their labels and are not compared"
        )
    if found.same_data is False:
        lines.append("the runs' data differ by digest: their labels are alike here, their pictures may not be")
    clusters, pictures = found.pairs[0].difference.clusters, found.pairs[0].pictures
    if clusters < _FEW:
        lines.append(
            f"only {clusters} steps of devices are compared: intervals by device and step are too narrow below {_FEW}"
        )
    if clusters < pictures:
        by_item = "McNemar's test and Cochran's Q count" if len(found.sides) > 2 else "McNemar's test counts"
        lines.append(
            f"{pictures} pictures show {clusters} steps of devices: {by_item} each view for itself, the p by device and step "
            "does not"
        )
    if pictures < found.n:
        lines.append(
            f"{pictures} pictures stand behind {found.n} items: McNemar's test counts a picture anew with every seed, "
            "the p by device and step does not"
        )
    return lines


def _percent(side: Side) -> str:
    return f"{side.right / side.n:.1%}".replace("%", " %")


def _mcnemar(found: Comparison) -> str:
    test = found.mcnemar
    if test.method not in _METHODS:
        return "no item on which one alone is right, McNemar p = 1"
    return (
        f"McNemar {p_text(test.p_value)} ({_METHODS[test.method]}, {test.only_second} against {test.only_first} items)"
    )


def _above(pairs: Sequence[Comparison]) -> str:
    return ", ".join(f"{a.name} above {b.name}" for a, b in (_by_right(pair.first, pair.second) for pair in pairs))


def _by_right(first: Side, second: Side) -> tuple[Side, Side]:
    return (first, second) if first.right > second.right else (second, first)
