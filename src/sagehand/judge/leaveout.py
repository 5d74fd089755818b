"""Every case as a query against the others, with itself, its near-duplicates and its group (or its whole device) left out.

This is how a calibration is learnt and how a case base is checked: what answers a query is never learnt from the query,
nor from a picture that is almost the query. The recipe, fixed before it was run on any data set:

* own unit: the same ``group``, or a cosine of 0.99 or more (transitively); leaving out ``device``, the same device too;
* folds: ``device`` — each device is a fold (20 at most); ``case`` — 10 folds of whole units, dealt by a hash of their ids.
  While a fold's weights are learnt, its cases and their near-duplicates elsewhere are neither queries nor candidates;
* candidates: the 256 nearest pictures outside the own unit; queries: at most 2,000, drawn by the hash of their ids.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sagehand.cases import Index
from sagehand.judge.domain import NEAR_DUPLICATE, own_nearest, strangeness
from sagehand.judge.evidence import FEATURES, Scaling, agreement, picture_likeness, stack
from sagehand.judge.model import belief, fit_belief

__all__ = ["MAX_CANDIDATES", "Fold", "LeaveOut", "Pairs", "crossfit", "gather", "strangenesses"]

LeaveOut = Literal["case", "device"]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_CANDIDATES = 256
_MAX_QUERIES = 2000
_BLOCK = 256


@dataclass(frozen=True, eq=False)
class Pairs:
    """m queries, each beside its c nearest cases outside its own unit.

    Attributes:
        leave_out: What the own unit is.
        rows: (m,) index row of each query.
        cases: (m, c) index row of each candidate; −1 where there are fewer.
        cosine: (m, c) picture cosine, −1 where there is no candidate.
        previous: (m, c) agreement of the previous action, in −1, 0, 1.
        place: (m, c) the same of the place.
        depth: (m, c) depth cosine, NaN where either has none.
        next_action: (n,) next-action code of every index row, −1 for none.
        near: (n,) group and near-duplicates of every index row, as a number.
        unit: (n,) what is left out with every index row, named by its smallest case id.
        fold: (n,) fold of every index row.
        folds: Number of folds.
    """

    leave_out: LeaveOut
    rows: Ints
    cases: Ints
    cosine: Floats
    previous: NDArray[np.int8]
    place: NDArray[np.int8]
    depth: Floats
    next_action: NDArray[np.int32]
    near: Ints
    unit: Sequence[str]
    fold: Ints
    folds: int

    @property
    def present(self) -> NDArray[np.bool_]:
        """(m, c) whether there is a candidate at that place."""
        return self.cases >= 0

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """(m, c) whether there is a candidate whose next action is known: only these speak for an action."""
        return np.asarray(self.present & (self.next_action[self.cases] >= 0))

    @property
    def right(self) -> NDArray[np.bool_]:
        """(m, c) whether the candidate's next action is the query's own."""
        same = self.next_action[self.cases] == self.next_action[self.rows][:, None]
        return np.asarray(self.present & same)

    def with_previous(self, codes: NDArray[np.int32]) -> Pairs:
        """The same pairs with other previous actions, (n,) codes (for the shuffled control)."""
        previous = np.where(self.present, agreement(codes[self.rows][:, None], codes[self.cases]), 0)
        return replace(self, previous=previous.astype(np.int8))

    def scaling(self, used: NDArray[np.bool_]) -> Scaling:
        """The scale of the pairs chosen by an (m, c) mask."""
        return Scaling.of(picture_likeness(self.cosine[used]), self.depth[used])

    def features(self, by: Scaling) -> Floats:
        """(m, c, 4) evidence on a scale."""
        return stack(picture_likeness(self.cosine), self.previous, self.place, self.depth, by)


@dataclass(frozen=True, eq=False)
class Fold:
    """One fold's answers, given by weights that were learnt without the fold.

    Attributes:
        queries: (q,) positions in ``Pairs.rows``.
        belief: (q, c) belief in each candidate.
        weights: (4,) the weights learnt on the other folds.
        scaling: The scale learnt there.
    """

    queries: Ints
    belief: Floats
    weights: Floats
    scaling: Scaling


def gather(index: Index, leave_out: LeaveOut, *, drawn: bool = False) -> Pairs:
    """Put every labelled case beside its nearest cases outside its own unit.

    Args:
        index: The cases.
        leave_out: "case" or "device".
        drawn: Take candidates by the hash of their ids, not by nearness, so that the pictures choose nothing (for
            answers from context alone).

    Returns:
        The pairs; queries are cases whose next action is known.
    """
    ids = index.ids
    next_action = index.codes("next_action")[0]
    codes = index.codes("previous_action")[0]
    places = index.codes("place")[0]
    rows = np.flatnonzero(next_action >= 0)
    if len(rows) > _MAX_QUERIES:
        rows = np.sort(np.array(sorted(rows.tolist(), key=lambda r: _key(ids[r]))[:_MAX_QUERIES]))
    vectors = np.asarray(index.vectors, dtype=np.float32)
    near_unit = _near(index, vectors, rows)
    unit = _devices(index) if leave_out == "device" else near_unit
    names, fold, folds = _deal(unit, ids, 20 if leave_out == "device" else 10)
    lot = np.array([int.from_bytes(_key(name), "big") if drawn else 0 for name in ids], dtype=np.float64)
    width = max(min(MAX_CANDIDATES, len(ids) - 1), 1)
    cases = np.full((len(rows), width), -1, dtype=np.int64)
    cosine = np.full((len(rows), width), -1.0)
    for start, block in _blocks(vectors, rows):
        asked = rows[start : start + len(block)]
        outside = (unit[asked][:, None] != unit[None, :]) & (near_unit[asked][:, None] != near_unit[None, :])
        block = np.where(outside, block, -np.inf)
        wish = np.where(outside, lot, -np.inf) if drawn else block
        near = np.argsort(-wish, axis=1, kind="stable")[:, :width]
        values = np.take_along_axis(block, near, axis=1)
        cases[start : start + len(block), : near.shape[1]] = np.where(np.isfinite(values), near, -1)
        cosine[start : start + len(block), : near.shape[1]] = np.where(np.isfinite(values), values, -1.0)
    there = cases >= 0
    return Pairs(
        leave_out=leave_out,
        rows=rows,
        cases=cases,
        cosine=cosine,
        previous=np.where(there, agreement(codes[rows][:, None], codes[cases]), 0).astype(np.int8),
        place=np.where(there, agreement(places[rows][:, None], places[cases]), 0).astype(np.int8),
        depth=_relief(index, rows, cases),
        next_action=next_action,
        near=near_unit,
        unit=names,
        fold=fold,
        folds=folds,
    )


def crossfit(pairs: Pairs, use: Sequence[str] = FEATURES) -> Iterator[Fold]:
    """For each fold: learn on the others, answer its queries.

    Cases of the fold are neither queries nor candidates while its weights are learnt. When its queries are answered, all
    cases outside the query's own unit may be recalled.

    Args:
        pairs: The queries and candidates.
        use: The features that may have weight.
    """
    query_fold = pairs.fold[pairs.rows]
    labelled = pairs.labelled
    for fold in range(pairs.folds):
        queries = np.flatnonzero(query_fold == fold)
        if not len(queries):
            continue
        hidden = np.isin(pairs.near, pairs.near[pairs.fold == fold]) | (pairs.fold == fold)
        others = np.flatnonzero(~hidden[pairs.rows])
        seen = labelled & ~hidden[pairs.cases]
        used = np.zeros_like(seen)
        used[others] = seen[others]
        scaling = pairs.scaling(used)
        features = pairs.features(scaling)
        weights = fit_belief(features[others], seen[others], pairs.right[others], use)
        yield Fold(queries, belief(features[queries], weights, labelled[queries]), weights, scaling)


def strangenesses(index: Index, pairs: Pairs) -> Floats:
    """(m,) how strange each query is to the base without its own unit; NaN where too few cases are left.

    Args:
        index: The cases that the pairs were gathered from, by nearness.
        pairs: The queries and candidates.
    """
    found = np.full(len(pairs.rows), np.nan)
    unit = np.unique(np.array(pairs.unit), return_inverse=True)[1]
    for query, there in enumerate(pairs.present):
        cases = pairs.cases[query][there]
        if len(cases) > 1:
            same = (unit[cases] == unit[cases[0]]) | (pairs.near[cases] == pairs.near[cases[0]])
            usual = own_nearest(index.vectors[cases], index.vectors[cases[0]], same)
            if usual is not None:
                found[query] = strangeness(float(pairs.cosine[query, 0]), usual)
    return found


def _key(text: str) -> bytes:
    """A stable pseudo-random order of ids, the same in every process."""
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def _blocks(vectors: NDArray[np.float32], rows: Ints) -> Iterator[tuple[int, NDArray[np.float32]]]:
    for start in range(0, len(rows), _BLOCK):
        yield start, vectors[rows[start : start + _BLOCK]] @ vectors.T


def _devices(index: Index) -> Ints:
    family, device = index.codes("family")[0].astype(np.int64), index.codes("device")[0].astype(np.int64)
    return np.unique(np.stack([family, device]), axis=1, return_inverse=True)[1].reshape(-1)


def _near(index: Index, vectors: NDArray[np.float32], rows: Ints) -> Ints:
    """Unit of each row: connected through the same group, or through near-duplicate pictures."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    count = len(vectors)
    group = index.codes("group")[0]
    first: dict[int, int] = {}
    left, right = [], []
    for row in np.flatnonzero(group >= 0):
        left.append(row)
        right.append(first.setdefault(int(group[row]), int(row)))
    for start, block in _blocks(vectors, rows):
        near, other = np.nonzero(block >= NEAR_DUPLICATE)
        left.extend(rows[start + near])
        right.extend(other)
    graph = coo_array((np.ones(len(left), dtype=np.int8), (left, right)), shape=(count, count))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def _deal(unit: Ints, ids: Sequence[str], at_most: int) -> tuple[list[str], Ints, int]:
    """Name each row's unit by its smallest id; deal whole units to folds, in the order of a hash of that name."""
    smallest: dict[int, str] = {}
    for row, owner in enumerate(unit.tolist()):
        smallest[owner] = min(smallest.get(owner, ids[row]), ids[row])
    order = sorted(smallest, key=lambda owner: _key(smallest[owner]))
    folds = max(min(at_most, len(order)), 1)
    of_unit = {owner: place % folds for place, owner in enumerate(order)}
    owners = unit.tolist()
    return [smallest[o] for o in owners], np.array([of_unit[o] for o in owners], dtype=np.int64), folds


def _relief(index: Index, rows: Ints, cases: Ints) -> Floats:
    """(m, c) cosine of the depth vectors; NaN where either side has none."""
    found = np.full(cases.shape, np.nan)
    relief = index.depth_vectors
    if not relief:
        return found
    for place, row in enumerate(rows.tolist()):
        own = relief.get(row)
        if own is None:
            continue
        for column, case in enumerate(cases[place].tolist()):
            if case in relief:
                found[place, column] = float(own @ relief[case])
    return found
