"""The first ranking: past cases by picture *and* by what is known (paper A §2.3, SPEC C2).

The 256 nearest pictures are weighed with the calibration of the case base. The result is a belief over cases, and so over
next actions and device classes; a known family narrows the cases beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sagehand.cases import Index, Where
from sagehand.judge.calibration import Calibration
from sagehand.judge.domain import own_nearest
from sagehand.judge.evidence import agreement, picture_likeness, stack
from sagehand.judge.leaveout import MAX_CANDIDATES
from sagehand.judge.model import belief
from sagehand.judge.questions import Candidate, Evidence, Query

__all__ = ["Ranking", "rank"]


@dataclass(frozen=True, eq=False)
class Ranking:
    """Past cases in the order in which they matter.

    Attributes:
        candidates: The best, at most ``keep``, by belief, then by id.
        leading: For each next action, the candidate that speaks most for it (it need not be among ``candidates``).
        actions: Belief in each next action, most first; cases without one believe in none, so the sum may be below 1.
        classes: Belief in each family.
        apart: Cosine of that nearest case to its own nearest other one; None where there is none.
        nearest: The nearest picture whatever the context, with its cosine; None for an empty base.
        order: (c,) index rows of the cases weighed, by belief, then by id.
    """

    candidates: tuple[Candidate, ...]
    leading: Mapping[str, Candidate]
    actions: Mapping[str, float]
    classes: Mapping[str, float]
    nearest: Candidate | None
    apart: float | None
    order: NDArray[np.int64]


def rank(
    index: Index,
    query: Query,
    calibration: Calibration,
    *,
    exclude: frozenset[str] = frozenset(),
    keep: int = 15,
) -> Ranking:
    """Weigh the nearest cases.

    Args:
        index: The cases.
        query: The picture's vector and what is known.
        calibration: The weights; the defaults where nothing was learnt.
        exclude: Ids of cases that are never candidates (the query's own picture).
        keep: How many candidates to hand out (paper A §2.4: n = 15).
    """
    mask = index.mask(Where(family=query.family, exclude=exclude))
    rows, cosine = index.top(query.vector, MAX_CANDIDATES, mask)
    if not len(rows):
        return Ranking((), {}, {}, {}, None, None, rows)
    previous = _agree(index, "previous_action", query.previous_action, rows)
    place = _agree(index, "place", query.place, rows)
    depth = _depth(index, query, rows)
    features = stack(picture_likeness(cosine), previous, place, depth, calibration.scaling)
    weights = np.array(calibration.weights)
    scores = np.round(features @ weights, 9)
    shares = belief(features, weights)

    def candidate(at: int) -> Candidate:
        relief = float(depth[at]) if np.isfinite(depth[at]) else None
        evidence = Evidence(float(cosine[at]), int(previous[at]), int(place[at]), relief)
        return Candidate(index.cases[int(rows[at])], evidence, float(scores[at]), float(shares[at]))

    # `top` hands the rows out by cosine, then id: a stable sort by score keeps that order within ties
    order = np.argsort(-scores, kind="stable")
    action_codes, action_names = index.codes("next_action")
    actions = _totals(action_codes[rows], action_names, shares)
    leading = {}
    for at in order.tolist():
        code = int(action_codes[rows[at]])
        if code >= 0 and action_names[code] not in leading:
            leading[action_names[code]] = at
    family_codes, family_names = index.codes("family")
    return Ranking(
        candidates=tuple(candidate(at) for at in order[:keep].tolist()),
        leading={name: candidate(at) for name, at in leading.items()},
        actions=actions,
        classes=_totals(family_codes[rows], family_names, shares),
        nearest=candidate(0),
        apart=_apart(index, rows),
        order=rows[order],
    )


def _apart(index: Index, rows: NDArray[np.int64]) -> float | None:
    groups = index.codes("group")[0][rows]
    same = (groups == groups[0]) & (groups >= 0)
    same[0] = True
    return own_nearest(index.vectors[rows], index.vectors[rows[0]], same)


def _agree(index: Index, field: str, known: str | None, rows: NDArray[np.int64]) -> NDArray[np.int8]:
    codes, names = index.codes(field)
    if known is None:
        return np.zeros(len(rows), dtype=np.int8)
    # a value that no case has differs from every known one
    own = names.index(known) if known in names else len(names)
    return agreement(own, codes[rows])


def _depth(index: Index, query: Query, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    found = np.full(len(rows), np.nan)
    relief = index.depth_vectors
    if query.depth_vector is not None and relief:
        for at, row in enumerate(rows.tolist()):
            if row in relief:
                found[at] = float(query.depth_vector @ relief[row])
    return found


def _totals(codes: NDArray[np.int32], names: list[str], shares: NDArray[np.float64]) -> dict[str, float]:
    totals = np.bincount(codes[codes >= 0], weights=shares[codes >= 0], minlength=len(names)).tolist()
    present = sorted(set(codes[codes >= 0].tolist()), key=lambda c: (-round(totals[c], 9), names[c]))
    return {names[c]: totals[c] for c in present}
