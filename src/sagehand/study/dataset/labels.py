"""Labels of a run as it unfolds: what was done is known at once, what comes next when the next action is done.

Steps count up along a run. Pictures with the same history show the same step, in this run and in earlier ones of the
device; a history that departs from the earlier runs gets numbers of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sagehand.action.library import END
from sagehand.cases import NOTHING_DONE

__all__ = ["Steps", "labels_after", "labels_now"]

_History = tuple[str, ...]


@dataclass
class Steps:
    """Which number each history has, for one device."""

    numbers: dict[_History, int] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]], family: str, device: str) -> Steps:
        """The numbers that a device's rows give out already."""
        steps = cls()
        for row in rows:
            if (row.get("family"), row.get("device")) != (family, device) or not isinstance(row.get("step"), int):
                continue
            steps.taken.add(row["step"])
            if isinstance(row.get("history"), list):
                steps.numbers.setdefault(tuple(row["history"]), row["step"])
        return steps

    def number(self, history: Sequence[str]) -> int:
        """The number of the step that this history leads to: its length and one, unless another history has that."""
        key = tuple(history)
        if key not in self.numbers:
            natural = len(key) + 1
            self.numbers[key] = natural if natural not in self.taken else max(self.taken) + 1
            self.taken.add(self.numbers[key])
        return self.numbers[key]


def labels_now(step: int, history: Sequence[str]) -> dict[str, Any]:
    """What a picture's label is certain of when it is taken."""
    return {
        "step": step,
        "previous_action": history[-1] if history else NOTHING_DONE,
        "history": list(history),
    }


def labels_after(history: Sequence[str], run: Sequence[str], *, complete: bool) -> dict[str, Any]:
    """What the whole run adds to a picture's label.

    Args:
        history: The actions before the picture.
        run: All actions of the run; begins with ``history``.
        complete: Whether nothing remained to be done after the run. If not, nothing is known past its last action.
    """
    left = list(run[len(history) :])
    if not complete:
        return {"next_action": left[0], "end_state": False} if left else {}
    return {
        "next_action": left[0] if left else END,
        "remaining_actions": left,
        "is_last": len(left) == 1,
        "end_state": not left,
    }
