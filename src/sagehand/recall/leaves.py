"""The leaves of the knowledge tree in the order in which a search looks at them (paper A §2.4, SPEC A5).

A leaf is a device of a family. Leaves are ordered by their nearest case; what the ranking did not weigh comes after it, by
cosine, then by id. Of a leaf every step is looked at, with its nearest pictures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sagehand.cases import Case
from sagehand.judge.questions import Candidate
from sagehand.recall.rank import Ranking

__all__ = ["Leaf", "leaves"]

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Leaf:
    """One device, and its pictures that a search grades.

    Attributes:
        family: The device's family.
        device: The device.
        candidates: The pictures to grade, nearest first.
        left_out: How many of its pictures are not graded, because their step has nearer ones.
    """

    family: str
    device: str
    candidates: tuple[Candidate, ...]
    left_out: int

    @property
    def name(self) -> str:
        """Family and device, which together are one leaf."""
        return f"{self.family} / {self.device}"


def leaves(ranking: Ranking, *, images_per_step: int) -> Iterator[Leaf]:
    """Every leaf of the index that the ranking may draw from, nearest first; each is made when it is asked for.

    Args:
        ranking: The first ranking; its family and its excluded cases hold here, too.
        images_per_step: How many pictures of a step are graded, the nearest.
    """
    index = ranking.index
    families, devices = index.codes("family")[0], index.codes("device")[0]
    place = {row: at for at, row in enumerate(ranking.order.tolist())}
    allowed = ranking.mask()
    left = np.ones(len(index), np.bool_) if allowed is None else allowed.copy()
    for row in _nearest(ranking, left):
        if not left[row]:
            continue
        own = left & (families == families[row]) & (devices == devices[row])
        left &= ~own
        rows, chosen = _pictures(ranking, own, place, images_per_step)
        case = index.cases[row]
        yield Leaf(case.family, case.device, chosen, len(rows) - len(chosen))


def _nearest(ranking: Ranking, left: NDArray[np.bool_]) -> Iterator[int]:
    """Rows in the order of the ranking; then, as long as any is left, the nearest of them. ``left`` shrinks meanwhile."""
    yield from ranking.order.tolist()
    while left.any():
        rows, _ = ranking.index.top(ranking.query.vector, 1, left)
        yield int(rows[0])


def _pictures(
    ranking: Ranking, own: NDArray[np.bool_], place: dict[int, int], images_per_step: int
) -> tuple[Rows, tuple[Candidate, ...]]:
    """All rows of a leaf, and of each step the nearest pictures."""
    rows, cosine = ranking.index.top(ranking.query.vector, int(own.sum()), own)
    # `top` orders by cosine, then id; what was ranked comes first, in the order of the ranking
    order = sorted(range(len(rows)), key=lambda at: place.get(int(rows[at]), len(place)))
    seen: Counter[Hashable] = Counter()
    chosen = []
    for at in order:
        step = _step(ranking.index.cases[int(rows[at])])
        if seen[step] < images_per_step:
            seen[step] += 1
            chosen.append(at)
    return rows, ranking.weigh(rows[chosen], cosine[chosen])


def _step(case: Case) -> Hashable:
    """What tells the steps of a device apart; a case without a number is told by what its label says of the state."""
    return case.step if case.step is not None else (case.state, case.previous_action, case.next_action)
