"""The small regularised model that joins picture and context.

Belief in the cases is a softmax of a weighted sum of the evidence, w·f; belief in an action is the sum over the cases
whose next action it is. The weights maximise the log belief in the right action over queries whose own unit (picture and
near-duplicates, or device) is left out, less ½‖w − 1‖²: with no data every kind of evidence counts alike. w ≥ 0, since
agreement never speaks against a case. A second, logistic model of the same features says whether *one* case matches.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sagehand.judge.evidence import FEATURES

__all__ = ["belief", "believed", "fit_belief", "fit_match", "match_probability", "most_believed"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def belief(features: Floats, weights: Floats, allowed: Mask | None = None) -> Floats:
    """Belief in each case: softmax over the last axis of w·f.

    Args:
        features: (…, n, 4).
        weights: (4,).
        allowed: (…, n) cases that take part; the rest get 0. None for all.

    Returns:
        (…, n); each row sums to 1, or to 0 where no case takes part.
    """
    score = features @ weights
    if allowed is not None:
        score = np.where(allowed, score, -np.inf)
    top = score.max(axis=-1, keepdims=True, initial=-np.inf)
    share = np.exp(score - np.where(np.isfinite(top), top, 0.0))
    total = share.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(share, total, out=np.zeros_like(share), where=total > 0))


def believed(codes: NDArray[np.int32], shares: Floats, names: Sequence[str]) -> dict[str, float]:
    """Belief in each name: the sum over the cases that bear it, most first, ties by name.

    Args:
        codes: (c,) code of each case; −1 for none, which is left out.
        shares: (c,) belief in each case.
        names: What the codes count.
    """
    known = codes >= 0
    totals = np.bincount(codes[known], weights=shares[known], minlength=len(names)).tolist()
    present = sorted(set(codes[known].tolist()), key=lambda c: (-round(totals[c], 9), names[c]))
    return {names[c]: totals[c] for c in present}


def most_believed(beliefs: Mapping[str, float], among: Collection[str] | None = None) -> str | None:
    """The name with most belief; ties, to 1e-9, go to the first by name. None where there is none.

    Args:
        beliefs: Name → belief.
        among: The names that may win; None for all.
    """
    names = [name for name in beliefs if among is None or name in among]
    return min(names, key=lambda name: (-round(beliefs[name], 9), name), default=None)


def fit_belief(features: Floats, allowed: Mask, right: Mask, use: Sequence[str] = FEATURES) -> Floats:
    """Learn the weights of :func:`belief`.

    Args:
        features: (m, n, 4) evidence between m queries and n cases each.
        allowed: (m, n) cases that may be recalled for the query.
        right: (m, n) cases whose next action is the query's.
        use: The features that may have weight; the others are fixed at 0 (for ablations).

    Returns:
        (4,) weights, ≥ 0. Queries for which no allowed case is right teach nothing.
    """
    from scipy.optimize import minimize

    free = np.array([name in use for name in FEATURES])
    start = free.astype(np.float64)
    right = right & allowed
    teaches = right.any(axis=1) & (allowed & ~right).any(axis=1)
    features, allowed, right = features[teaches], allowed[teaches], right[teaches]
    if not len(features):
        return start

    def loss(w: Floats) -> tuple[float, Floats]:
        everything = belief(features, w, allowed)
        among_right = belief(features, w, right)
        mass = (everything * right).sum(axis=1)
        pull = np.einsum("mn,mnk->k", everything - among_right, features)
        return float(-np.log(np.maximum(mass, 1e-300)).sum() + 0.5 * ((w - start) ** 2).sum()), pull + (w - start)

    bounds = [(0.0, None) if f else (0.0, 0.0) for f in free]
    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x, dtype=np.float64)


def match_probability(features: Floats, weights: Floats) -> Floats:
    """Probability that a case matches the query, from its own evidence alone.

    Args:
        features: (…, 4).
        weights: (5,) four weights and the intercept.
    """
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(features @ weights[:4] + weights[4], -50, 50))))


def fit_match(features: Floats, matches: Mask) -> Floats:
    """Learn the logistic model of :func:`match_probability`, with the same prior; the intercept is almost free.

    Args:
        features: (p, 4) evidence of p pairs.
        matches: (p,) whether the pair shows the same.

    Returns:
        (5,) four weights ≥ 0 and the intercept.
    """
    from scipy.optimize import minimize

    centre = np.array([1.0, 1.0, 1.0, 1.0, 0.0])
    precision = np.array([1.0, 1.0, 1.0, 1.0, 0.01])
    sign = np.where(matches, 1.0, -1.0)
    design = np.concatenate([features, np.ones((len(features), 1))], axis=1)

    def loss(w: Floats) -> tuple[float, Floats]:
        margin = sign * (design @ w)
        residual = -sign / (1.0 + np.exp(np.clip(margin, -50, 50)))
        value = np.logaddexp(0.0, -margin).sum() + 0.5 * (precision * (w - centre) ** 2).sum()
        return float(value), design.T @ residual + precision * (w - centre)

    bounds = [(0.0, None)] * 4 + [(None, None)]
    return np.asarray(minimize(loss, centre, jac=True, method="L-BFGS-B", bounds=bounds).x, dtype=np.float64)
