"""How far two executors agree: shares with intervals over objects, kappa, confusions, ROC, reliability, speed, controls."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.world.agree.outcome import Outcome
from sagehand.world.agree.scores import RESAMPLES, auc, cluster_interval, kappa
from sagehand.world.agree.spoil import MUST_FAIL
from sagehand.world.agree.store import Entry
from sagehand.world.agree.subjects import base_of
from sagehand.world.quality import WEIGHTS

__all__ = ["Pair", "figures", "mismatched", "pairs_of"]

_DECILES = 10
Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pair:
    """One sample in both executors: the sample as plain data, the analytic outcome, the physical one."""

    sample: Mapping[str, Any]
    analytic: Outcome
    physics: Outcome

    @property
    def agree(self) -> bool:
        """Both succeed, or both fail."""
        return self.analytic.success == self.physics.success

    @property
    def object(self) -> str:
        """The object, whatever the instance."""
        return base_of(str(self.sample["object"]))


def pairs_of(entries: Iterable[Entry]) -> list[Pair]:
    """Samples that both executors have answered without breaking, by number; those of :func:`mismatched` are left out."""
    return [Pair(p.sample, a.outcome, p.outcome) for a, p in _both(entries) if _same_sample(a, p)]


def mismatched(entries: Iterable[Entry]) -> list[int]:
    """Numbers that both executors have answered, but of different samples: stale answers, which say nothing together."""
    return [a.outcome.number for a, p in _both(entries) if not _same_sample(a, p)]


def _both(entries: Iterable[Entry]) -> list[tuple[Entry, Entry]]:
    """The analytic and the physical entry of each number that has both, neither broken."""
    by_number: dict[int, dict[str, Entry]] = {}
    for entry in entries:
        if not entry.outcome.error:
            by_number.setdefault(entry.outcome.number, {})[entry.outcome.executor] = entry
    return [(e["analytic"], e["physics"]) for _, e in sorted(by_number.items()) if {"analytic", "physics"} <= set(e)]


def _same_sample(a: Entry, p: Entry) -> bool:
    one, other = (json.dumps(e.sample, sort_keys=True) for e in (a, p))
    return one == other


def figures(entries: Sequence[Entry], *, seed: int = 0, resamples: int = RESAMPLES) -> dict[str, Any]:
    """All figures of a study, plain data; shares are from 0 to 1.

    Args:
        entries: The records.
        seed: Of the bootstrap.
        resamples: Of the bootstrap.
    """
    from sagehand.stats import wilson

    pairs = pairs_of(entries)
    a = np.array([p.analytic.success for p in pairs], dtype=bool)
    y = np.array([p.physics.success for p in pairs], dtype=bool)
    same, n = a == y, len(pairs)
    objects = [p.object for p in pairs]
    return {
        "n": n,
        "agreement": _share(same),
        "agreement_wilson": wilson(int(same.sum()), n),
        "agreement_by_objects": cluster_interval(
            objects, lambda i: float(same[i].mean()), seed=seed, resamples=resamples
        ),
        "kappa": kappa(a, y),
        "base_rate": {"analytic": _share(a), "physics": _share(y)},
        "success": {
            "both": int((a & y).sum()),
            "analytic_only": int((a & ~y).sum()),
            "physics_only": int((~a & y).sum()),
            "neither": int((~a & ~y).sum()),
        },
        "failure_type": _types(pairs),
        "roc": _rocs(pairs, y, objects, seed, resamples),
        "reliability": _reliability(pairs),
        "by_kind": _groups(pairs, lambda p: str(p.sample["kind"])),
        "by_sub": _groups(
            pairs,
            lambda p: f"{p.sample['kind']}: {p.sample['sub']}",
            only=("disturbed", "force", "opening", "hopeless"),
        ),
        "by_object": _groups(pairs, lambda p: p.object),
        "with_neighbour": _groups(pairs, lambda p: "neighbour" if "neighbour" in p.sample["places"] else "alone"),
        "controls": _controls(pairs),
        "force_estimate": _force_estimate(pairs),
        "speed": {
            name: _speed([e.outcome for e in entries if e.outcome.executor == name]) for name in ("analytic", "physics")
        },
        "mismatched": mismatched(entries),
        "errors": [
            {"number": e.outcome.number, "executor": e.outcome.executor, "error": e.outcome.error}
            for e in sorted(entries, key=lambda e: e.key)
            if e.outcome.error
        ],
    }


def _share(flags: NDArray[np.bool_]) -> float | None:
    return float(flags.mean()) if len(flags) else None


def _types(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Confusion of verdicts (analytic → physics → count), and of those that fail in both the share of one type."""
    table: dict[str, dict[str, int]] = {}
    for (first, second), count in sorted(Counter((p.analytic.verdict, p.physics.verdict) for p in pairs).items()):
        table.setdefault(first, {})[second] = count
    failing = [p for p in pairs if not p.analytic.success and not p.physics.success]
    each = {}
    for name in sorted({v for p in failing for v in (p.analytic.verdict, p.physics.verdict)}):
        by = [p.analytic.verdict == name for p in failing], [p.physics.verdict == name for p in failing]
        both = sum(x and y for x, y in zip(*by, strict=True))
        each[name] = {"analytic": sum(by[0]), "physics": sum(by[1]), "both": both}
    return {
        "confusion": table,
        "n_both_fail": len(failing),
        "same_type": _share(np.array([p.analytic.verdict == p.physics.verdict for p in failing], dtype=bool)),
        "kappa": kappa([p.analytic.verdict for p in failing], [p.physics.verdict for p in failing]),
        "types": each,
    }


def _rocs(
    pairs: Sequence[Pair], y: NDArray[np.bool_], objects: Sequence[str], seed: int, resamples: int
) -> dict[str, Any]:
    """Score → AUC against physics: Q, the least factor, the analytic margin, each factor; where every pair has it."""
    rows = [p.analytic.quality for p in pairs]
    scores: dict[str, list[float | None]] = {
        "Q": [p.analytic.total for p in pairs],
        "least factor": [None if q is None else min(q[f] for f in WEIGHTS) for q in rows],
        "margin": [p.analytic.margin for p in pairs],
        **{f: [None if q is None else q[f] for q in rows] for f in WEIGHTS},
    }
    found: dict[str, Any] = {}
    for name, values in scores.items():
        have = np.array([v is not None for v in values], dtype=bool)
        if not have.any():
            continue
        s, right = np.array([v for v in values if v is not None], dtype=np.float64), y[have]
        entry: dict[str, Any] = {"n": int(have.sum()), "auc": auc(s, right)}
        if name in ("Q", "margin", "least factor"):
            of = [o for o, h in zip(objects, have, strict=True) if h]
            entry["by_objects"] = cluster_interval(of, _auc_of(s, right), seed=seed, resamples=resamples)
        found[name] = entry
    return found


def _auc_of(scores: Array, right: NDArray[np.bool_]) -> Callable[[NDArray[np.int64]], float | None]:
    return lambda drawn: auc(scores[drawn], right[drawn])


def _reliability(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """By tenths of the grasps in the order of Q: its mean there, and how many succeeded in each."""
    rows = sorted(
        (p.analytic.total, p.analytic.success, p.physics.success) for p in pairs if p.analytic.total is not None
    )
    found = []
    for part in np.array_split(np.arange(len(rows)), _DECILES):
        if len(part):
            q, a, y = zip(*(rows[i] for i in part), strict=True)
            found.append(
                {
                    "n": len(part),
                    "from": float(min(q)),
                    "to": float(max(q)),
                    "mean_q": float(np.mean(q)),
                    "analytic": float(np.mean(a)),
                    "physics": float(np.mean(y)),
                }
            )
    return found


def _groups(
    pairs: Sequence[Pair], name: Callable[[Pair], str], only: Sequence[str] | None = None
) -> dict[str, dict[str, Any]]:
    groups: dict[str, list[Pair]] = {}
    for pair in pairs:
        if only is None or pair.sample["kind"] in only:
            groups.setdefault(name(pair), []).append(pair)
    return {
        key: {
            "n": len(group),
            "agreement": sum(p.agree for p in group) / len(group),
            "analytic": sum(p.analytic.success for p in group) / len(group),
            "physics": sum(p.physics.success for p in group) / len(group),
        }
        for key, group in sorted(groups.items())
    }


def _controls(pairs: Sequence[Pair]) -> dict[str, Any]:
    """What must fail, and which of it did not."""
    found: dict[str, Any] = {}
    for sub in MUST_FAIL:
        those = [p for p in pairs if p.sample["sub"] == sub]
        found[sub] = {
            "n": len(those),
            "held_analytic": [p.analytic.number for p in those if p.analytic.success],
            "held_physics": [p.physics.number for p in those if p.physics.success],
        }
    return found


def _force_estimate(pairs: Sequence[Pair]) -> dict[str, Any]:
    """The force that the search says a grasp needs, over what the analytic executor says; and how weak "weak" grasps are.

    Of grasps carried out where they were searched (kinds good and force), where both have a number.
    """

    def needs(pair: Pair) -> tuple[float, float] | None:
        rough, better = pair.sample["required_n"], pair.analytic.truth.get("required_n")
        if not isinstance(rough, int | float) or not isinstance(better, int | float) or better <= 0:
            return None
        return float(rough), float(better)

    there = [(p, n) for p in pairs if p.sample["kind"] in ("good", "force") and (n := needs(p)) is not None]
    ratios = [rough / better for p, (rough, better) in there if p.sample["sub"] != "strong"]
    weak = [p.sample["command"]["force_n"] >= better for p, (_, better) in there if p.sample["sub"] == "weak"]
    shares = (0.05, 0.25, 0.5, 0.75, 0.95)
    return {
        "n": len(ratios),
        "ratio": {f"{q:g}": float(np.quantile(ratios, q)) for q in shares} if ratios else {},
        "below": sum(r < 1 for r in ratios) / len(ratios) if ratios else None,
        "n_weak": len(weak),
        "weak_enough": sum(weak) / len(weak) if weak else None,
    }


def _speed(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Grasps per second of one process: over all, of those that the arm came to carry out, and by processor time."""
    spent = [o.seconds for o in outcomes if not o.error]
    carried = [o for o in outcomes if not o.error and o.observation.get("reached")]

    def rate(seconds: Sequence[float]) -> float | None:
        return len(seconds) / sum(seconds) if seconds and sum(seconds) > 0 else None

    return {
        "n": len(spent),
        "seconds": float(sum(spent)),
        "per_second": rate(spent),
        "n_carried_out": len(carried),
        "per_second_carried_out": rate([o.seconds for o in carried]),
        "per_cpu_second_carried_out": rate([o.cpu_s for o in carried]),
        "median_ms": float(np.median(spent) * 1000) if spent else None,
    }
