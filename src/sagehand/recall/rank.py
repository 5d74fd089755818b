"""The first ranking: past cases by picture *and* by what is known (paper A §2.3, SPEC C2).

The 256 nearest pictures are weighed with the calibration of the case base. The result is a belief over cases, and so over
next actions and device classes; a known family narrows the cases beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sagehand.cases import Index, Where
from sagehand.judge.calibration import Calibration
from sagehand.judge.domain import own_nearest
from sagehand.judge.evidence import agreement, picture_likeness, stack
from sagehand.judge.leaveout import MAX_CANDIDATES
from sagehand.judge.model import belief, believed
from sagehand.judge.questions import Candidate, Evidence, Query

__all__ = ["Ranking", "rank"]

_Columns = tuple[list[float], list[int], list[int], list[float]]


@dataclass(frozen=True, eq=False)
class Ranking:
    """Past cases in the order in which they matter. Candidates are made when they are looked at.

    Attributes:
        index: The cases.
        rows: (c,) index rows of the cases weighed, by cosine, then by id.
        by_belief: (c,) positions in ``rows``, by belief, then by cosine and id.
        evidence: Cosine, previous action, place, depth of each row, as :class:`Evidence` holds them.
        scores: (c,) weighed sum of the evidence.
        shares: (c,) belief in each case.
        actions: Belief in each next action, most first: of the cases whose next action is known.
        classes: Belief in each family.
        apart: Cosine of the nearest case to its own nearest other one; None where there is none.
        keep: How many :attr:`candidates` are handed out.
        query: What was ranked for.
        calibration: The weights.
        exclude: Ids of cases that are never candidates.
    """

    index: Index
    rows: NDArray[np.int64]
    by_belief: NDArray[np.int64]
    evidence: _Columns
    scores: list[float]
    shares: list[float]
    actions: Mapping[str, float]
    classes: Mapping[str, float]
    apart: float | None
    keep: int
    query: Query
    calibration: Calibration
    exclude: frozenset[str]
    _made: dict[int, Candidate] = field(default_factory=dict)

    @property
    def order(self) -> NDArray[np.int64]:
        """(c,) index rows by belief, then by cosine and id."""
        return self.rows[self.by_belief]

    @property
    def nearest(self) -> Candidate | None:
        """The nearest picture, whatever the context; None where there is no case."""
        return self._candidate(0) if len(self.rows) else None

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The first ``keep`` by belief."""
        return self.first(self.keep)

    def first(self, count: int) -> tuple[Candidate, ...]:
        """The first few by belief."""
        return tuple(self._candidate(at) for at in self.by_belief[:count].tolist())

    @cached_property
    def leading(self) -> dict[str, Candidate]:
        """For each next action, the candidate that speaks most for it; it need not be among :attr:`candidates`."""
        codes, names = self.index.codes("next_action")
        ordered = codes[self.order]
        found, first = np.unique(ordered, return_index=True)
        return {
            names[code]: self._candidate(int(self.by_belief[at]))
            for code, at in zip(found.tolist(), first.tolist(), strict=True)
            if code >= 0
        }

    def mask(self) -> NDArray[np.bool_] | None:
        """(n,) index rows that may be candidates at all; None for all of them."""
        return self.index.mask(Where(family=self.query.family, exclude=self.exclude))

    def weigh(self, rows: NDArray[np.int64], cosine: NDArray[np.float64]) -> tuple[Candidate, ...]:
        """Candidates for any rows of the index, weighed as those ranked; a case beyond them has no share of belief.

        Args:
            rows: (k,) index rows.
            cosine: (k,) their cosine to the query.
        """
        _, evidence, scores = _measure(self.index, self.query, self.calibration, rows, cosine)
        ranked = {row: at for at, row in enumerate(self.rows.tolist())}
        made = []
        for at, (row, score) in enumerate(zip(rows.tolist(), scores.tolist(), strict=True)):
            known = ranked.get(row)
            candidate = None if known is None else self._candidate(known)
            made.append(candidate or Candidate(self.index.cases[row], _evidence(evidence, at), score, 0.0))
        return tuple(made)

    def _candidate(self, at: int) -> Candidate:
        made = self._made.get(at)
        if made is None:
            case = self.index.cases[int(self.rows[at])]
            evidence = _evidence(self.evidence, at)
            made = self._made[at] = Candidate(case, evidence, self.scores[at], self.shares[at])
        return made


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
        nothing: _Columns = ([], [], [], [])
        return Ranking(index, rows, rows, nothing, [], [], {}, {}, None, keep, query, calibration, exclude)
    features, evidence, scores = _measure(index, query, calibration, rows, cosine)
    weights = np.array(calibration.weights)
    action_codes, action_names = index.codes("next_action")
    family_codes, family_names = index.codes("family")
    # a case whose next action is not known speaks for a family, and for no action
    shares = belief(features, weights, action_codes[rows] >= 0)
    return Ranking(
        index=index,
        rows=rows,
        # `top` hands the rows out by cosine, then id: a stable sort by score keeps that order within ties
        by_belief=np.argsort(-scores, kind="stable"),
        evidence=evidence,
        scores=scores.tolist(),
        shares=shares.tolist(),
        actions=believed(action_codes[rows], shares, action_names),
        classes=believed(family_codes[rows], belief(features, weights), family_names),
        apart=_apart(index, rows, calibration),
        keep=keep,
        query=query,
        calibration=calibration,
        exclude=exclude,
    )


def _measure(
    index: Index,
    query: Query,
    calibration: Calibration,
    rows: NDArray[np.int64],
    cosine: NDArray[np.float64],
) -> tuple[NDArray[np.float64], _Columns, NDArray[np.float64]]:
    """(k, 4) features, the evidence behind them, and (k,) their weighed sums."""
    previous = _agree(index, "previous_action", query.previous_action, rows)
    place = _agree(index, "place", query.place, rows)
    depth = _depth(index, query, rows)
    features = stack(picture_likeness(cosine), previous, place, depth, calibration.scaling)
    scores = np.round(features @ np.array(calibration.weights), 9)
    return features, (cosine.tolist(), previous.tolist(), place.tolist(), depth.tolist()), scores


def _evidence(columns: _Columns, at: int) -> Evidence:
    cosine, previous, place, depth = (column[at] for column in columns)
    return Evidence(cosine, int(previous), int(place), depth if depth == depth else None)


def _apart(index: Index, rows: NDArray[np.int64], calibration: Calibration) -> float | None:
    """What was left out while the calibration was learnt is left out here."""
    groups = index.codes("group")[0][rows]
    same = (groups == groups[0]) & (groups >= 0)
    if calibration.leave_out == "device":
        family, device = index.codes("family")[0][rows], index.codes("device")[0][rows]
        same |= (family == family[0]) & (device == device[0])
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
