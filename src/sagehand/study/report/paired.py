"""Comparisons of two arms of a run as rows of a table; the tests themselves stand in ``compare``."""

from __future__ import annotations

from collections.abc import Sequence

from sagehand.study.report.cells import Cell, Gain, P, Percent, Share
from sagehand.study.report.compare import compare_records
from sagehand.study.report.comparison import Comparison
from sagehand.study.report.load import Study, top_1
from sagehand.study.report.refs import ArmRecords
from sagehand.study.run.plan import Arm

__all__ = [
    "EACH_ITEM",
    "PAIRED_HEADER",
    "against",
    "gain_of",
    "measured",
    "paired_rows",
    "relative_of",
    "share_of",
    "two",
]

PAIRED_HEADER = (
    "first",
    "second",
    "items",
    "first right",
    "second right",
    "gain",
    "only first",
    "only second",
    "p",
    "p by step",
)
"""Of a table with a comparison in each row."""

EACH_ITEM = (
    "p: McNemar's test, which counts every item for itself. “p by step” and the interval of the gain take all pictures of a "
    "device's step as one thing, over all seeds."
)


def two(study: Study, first: Arm, second: Arm, task: str = "next_action") -> Comparison | None:
    """Compare two arms; None where they share no item or no protocol, or one cannot have the task right.

    Args:
        study: The run.
        first: The first arm.
        second: The second arm; the gain is its own.
        task: A name in ``compare.COMPARED``.
    """
    key = first.name, second.name, task
    if key not in study.compared:
        study.compared[key] = _compared(study, first, second, task)
    return study.compared[key]


def _compared(study: Study, first: Arm, second: Arm, task: str) -> Comparison | None:
    if study.plan.protocol_of(first) != study.plan.protocol_of(second):
        return None
    if task in ("top1", "device") and (top_1(study, first) is None or top_1(study, second) is None):
        return None
    sides = [ArmRecords(a.name, a.name, tuple(study.of(a)), study.plan.protocol_of(a), a.risk) for a in (first, second)]
    if not {r.key[1:] for r in sides[0].records} & {r.key[1:] for r in sides[1].records}:
        return None
    return compare_records(sides, task).pairs[0]


def against(study: Study, methods: Sequence[str], others: Sequence[str], task: str) -> list[Comparison]:
    """Each arm of the methods (second) against its twin of the others (first); arms that may abstain are left out.

    Args:
        study: The run.
        methods: Methods.
        others: Methods to hold them against.
        task: A name in ``compare.COMPARED``.
    """
    found = []
    for arm in study.by_method(*methods):
        if arm.risk is not None or arm.domain:  # what they leave to the operator would count as wrong
            continue
        other = study.twin(arm, *others)
        if other is not None and (pair := two(study, other, arm, task)) is not None:
            found.append(pair)
    return found


def share_of(found: Comparison, side: int) -> Share:
    """What the first (0) or second (1) arm had right, of the paired items."""
    arm = (found.first, found.second)[side]
    return Share(arm.right, arm.n)


def gain_of(found: Comparison) -> Gain:
    """Second − first, with its interval by device and step."""
    return Gain(found.difference.difference, *(found.difference.interval or (None, None)))


def relative_of(found: Comparison) -> Percent | None:
    """The gain relative to the first; None where the first had nothing right."""
    base = share_of(found, 0).value
    return Percent(found.difference.difference / base, signed=True) if base else None


def paired_rows(found: Sequence[Comparison]) -> tuple[tuple[Cell, ...], ...]:
    """Rows under :data:`PAIRED_HEADER`."""
    return tuple((c.first.name, *measured(c), P(c.difference.p_value)) for c in found)


def measured(c: Comparison) -> tuple[Cell, ...]:
    """What a row says of the second arm: name, items, both shares, gain, who alone is right, McNemar's p."""
    return (
        c.second.name,
        c.n,
        share_of(c, 0),
        share_of(c, 1),
        gain_of(c),
        c.mcnemar.only_first,
        c.mcnemar.only_second,
        P(c.mcnemar.p_value),
    )
