"""Score answers against labels: the figures that ``cases check`` and ``evaluate`` print (paper A §3.2, SPEC A7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from sagehand.stats import discordance, wilson

if TYPE_CHECKING:
    from sagehand.cases import Case

__all__ = ["ARMS", "Item", "p_rounded", "p_text", "same_place", "share", "summarise"]

ARMS = ("photo_only", "context_only", "majority")
"""The simple methods that sagehand is compared with."""

_RECALLS_NONE = {
    "context_only": "answers from context alone: it recalls no picture",
    "majority": "gives the commonest answer: it recalls no case",
}


@dataclass(frozen=True)
class Item:
    """One labelled picture and what was answered.

    Attributes:
        file_name: The picture.
        next_action: The true next action.
        family: The true family.
        device: The true device.
        step: The true step, or None.
        answer: The answer, or None for an abstention.
        confidence: Belief in it.
        reason: Why, or why none.
        case_device: Whether the case leant on shows the true device; None where that is impossible or no case was found.
        case_step: Whether it shows the true device and step; None likewise.
        rank: Place of the first correct result, from 1; None where no correct one exists.
        in_domain: Outcome of the domain test.
        others: Arm → its next action.
        other_device: Arm → whether its case shows the true device.
        other_step: Arm → whether its case shows the true device and step.
        other_rank: Arm → place of its first correct result.
        overlap: Why the case base is no stranger to the picture, in words; "" when it is one.
    """

    file_name: str
    next_action: str
    family: str
    device: str
    step: int | None
    answer: str | None
    confidence: float | None
    reason: str = ""
    case_device: bool | None = None
    case_step: bool | None = None
    rank: int | None = None
    in_domain: bool | None = None
    others: dict[str, str | None] = field(default_factory=dict)
    other_device: dict[str, bool | None] = field(default_factory=dict)
    other_step: dict[str, bool | None] = field(default_factory=dict)
    other_rank: dict[str, int | None] = field(default_factory=dict)
    overlap: str = ""

    @property
    def right(self) -> bool:
        """Whether the answer is the true next action; an abstention is not."""
        return self.answer == self.next_action

    def to_dict(self) -> dict[str, Any]:
        """As one JSON line."""
        return {**asdict(self), "right": self.right}


def same_place(case: Case | None, family: str, device: str, step: int | None = None) -> bool | None:
    """Whether a case shows the true device, and the true step where one is given; None where there is no case.

    Args:
        case: The case that was recalled.
        family: The true family.
        device: The true device.
        step: The true step; None compares the device alone.
    """
    if case is None:
        return None
    return (case.family, case.device) == (family, device) and (step is None or case.step == step)


def p_rounded(p_value: float) -> float:
    """A p-value at three significant digits: a small one is not rounded to 0."""
    return float(f"{p_value:.3g}")


def p_text(p_value: float) -> str:
    """A p-value for a reader."""
    return "p < 0.0001" if p_value < 1e-4 else f"p = {p_value:.3g}"


def share(marks: Sequence[bool | None] | Sequence[bool], why_none: str | None = None) -> dict[str, Any]:
    """Accuracy with its 95 % Wilson interval; null with its reason where a figure is impossible.

    Args:
        marks: Right or wrong, item by item; None counts as wrong, unless all are None.
        why_none: Reason, when the figure is impossible.
    """
    if why_none is not None or not marks:
        return {
            "accuracy": None,
            "wilson95": None,
            "right": None,
            "n": len(marks),
            "reason": why_none or "there is no item",
        }
    right = sum(bool(m) for m in marks)
    low, high = wilson(right, len(marks)) or (0.0, 1.0)
    return {
        "accuracy": round(right / len(marks), 4),
        "wilson95": [round(low, 4), round(high, 4)],
        "right": right,
        "n": len(marks),
    }


def summarise(
    items: Sequence[Item], *, no_device: str | None = None, no_step: str | None = None, rank_of: str
) -> dict[str, Any]:
    """The figures of many items.

    Args:
        items: All of them; abstentions stay in every denominator.
        no_device: Why device accuracy is impossible, if it is.
        no_step: Why step accuracy is impossible, if it is.
        rank_of: What a correct result is, in words.
    """
    answered = [i for i in items if i.answer is not None]
    ranks = [i.rank for i in items if i.rank is not None]
    with_step = [i for i in items if i.step is not None]
    report: dict[str, Any] = {
        "n": len(items),
        "answered": len(answered),
        "next_action": share([i.right for i in items]),
        "next_action_of_answered": share([i.right for i in answered]),
        "device": share([i.case_device for i in items], no_device),
        "step": share([i.case_step for i in with_step], no_step),
        **_mean_rank(ranks),
        "rank_of": rank_of,
        "unranked": len(items) - len(ranks),
        "out_of_domain": sum(i.in_domain is False for i in items),
    }
    for arm in ARMS:
        none = _RECALLS_NONE.get(arm)
        report[arm] = {
            "next_action": share([i.others.get(arm) == i.next_action for i in items]),
            "device": share([i.other_device.get(arm) for i in items], none or no_device),
            "step": share([i.other_step.get(arm) for i in with_step], none or no_step),
            **_mean_rank([r for i in items if (r := i.other_rank.get(arm)) is not None], none),
        }
    report["discordant"] = {arm: discordant(items, arm) for arm in ARMS}
    return report


def discordant(items: Sequence[Item], arm: str) -> dict[str, Any]:
    """Where sagehand and a simple method differ in the next action, with McNemar's exact p (paper A §3.2.1)."""
    found = discordance([i.right for i in items], [i.others.get(arm) == i.next_action for i in items])
    return {"only_sagehand": found.only_first, f"only_{arm}": found.only_second, "p_value": p_rounded(found.p_value)}


def _mean_rank(ranks: Sequence[int], why_none: str | None = None) -> dict[str, Any]:
    if why_none is not None or not ranks:
        return {"mean_rank": None, "mean_rank_reason": why_none or "no correct result was found for any item"}
    return {"mean_rank": round(sum(ranks) / len(ranks), 3)}
