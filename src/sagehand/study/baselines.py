"""What the simple methods answer: the nearest picture, context alone, the majority. Used by ``evaluate`` and the study."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from sagehand.cases import Case, CaseBase, Index
from sagehand.judge.calibration import Calibration
from sagehand.judge.evidence import agreement, stack
from sagehand.judge.leaveout import LeaveOut, gather
from sagehand.judge.model import belief, believed, fit_belief, most_believed

__all__ = ["Baselines"]

_CONTEXT = ("previous", "place")


class Baselines:
    """The simple methods on one case base; :meth:`of` makes them as the base was calibrated.

    Args:
        index: The cases.
        leave_out: What was left out while the weights of the context were learnt: "case" or "device".
    """

    def __init__(self, index: Index, leave_out: LeaveOut = "case") -> None:
        self.index = index
        self._codes, self._names = index.codes("next_action")
        pairs = gather(index, leave_out, drawn=True)
        self._scaling = pairs.scaling(pairs.labelled)
        self._weights = fit_belief(pairs.features(self._scaling), pairs.labelled, pairs.right, _CONTEXT)

    @classmethod
    def of(cls, base: CaseBase) -> Baselines:
        """Of a case base: its calibration says whether cases or devices are left out; cases without one."""
        doc = base.calibration()
        return cls(base.index(), Calibration.from_dict(doc).leave_out if doc else "case")

    def first_labelled(self, rows: list[int]) -> Case | None:
        """The first of these cases whose next action is known."""
        return next((self.index.cases[row] for row in rows if self._codes[row] >= 0), None)

    def context(
        self, previous: str | None, place: str | None, own: int | None, among: Collection[str] | None = None
    ) -> str | None:
        """The next action with most belief by the previous action and the place, by weights learnt on the base.

        Args:
            previous: The previous action, if known.
            place: The place, if known.
            own: Row of the query's own picture, which does not count.
            among: The actions that may be answered; None for all.
        """
        return most_believed(self.actions(self.context_shares(previous, place, own)), among)

    def context_shares(self, previous: str | None, place: str | None, own: int | None) -> NDArray[np.float64]:
        """(n,) belief in each case by the previous action and the place; 0 for the own one and for one without a label."""
        count = len(self._codes)
        agree = [self._agree("previous_action", previous), self._agree("place", place)]
        features = stack(np.zeros(count), agree[0], agree[1], np.full(count, np.nan), self._scaling)
        return belief(features, self._weights, self._others(own))

    def actions(self, shares: NDArray[np.float64]) -> dict[str, float]:
        """Belief in each next action, from the belief in each case, (n,)."""
        return believed(np.where(shares > 0, self._codes, -1).astype(np.int32), shares, self._names)

    def majority(self, own: int | None) -> str | None:
        """The commonest next action; ties go to the first by name."""
        counts = np.bincount(self._codes[self._others(own)], minlength=len(self._names)).tolist()
        return most_believed({name: count for name, count in zip(self._names, counts, strict=True) if count})

    def _others(self, own: int | None) -> NDArray[np.bool_]:
        """(n,) labelled cases but the query's own picture."""
        others = self._codes >= 0
        if own is not None:
            others[own] = False
        return others

    def _agree(self, field: str, known: str | None) -> NDArray[np.int8]:
        codes, names = self.index.codes(field)
        if known is None:
            return np.zeros(len(codes), dtype=np.int8)
        return agreement(names.index(known) if known in names else len(names), codes)
