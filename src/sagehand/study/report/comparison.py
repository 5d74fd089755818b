"""What a comparison of arms found, as plain data: sides, differences, tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sagehand.stats import ClusterDifference, CochranQ, McNemar
from sagehand.study.score import p_rounded, share

__all__ = ["Comparison", "Comparisons", "SeedDifference", "Side"]


@dataclass(frozen=True)
class Side:
    """One arm, on the items that all arms have.

    Attributes:
        ref: ``RUN:ARM``.
        name: What to call it: the arm, or the ref where two arms are called alike.
        right: Items that it has right.
        n: Items.
        abstained: Items that it left to the operator; they count as wrong.
        failures: Items that a model failed to answer; they count as wrong.
        errors: Items that could not be answered at all; they count as wrong.
        unpaired: Items of this arm that another arm does not have; they are not compared.
    """

    ref: str
    name: str
    right: int
    n: int
    abstained: int
    failures: int
    errors: int
    unpaired: int

    def to_dict(self) -> dict[str, Any]:
        """As plain data, with accuracy and its 95 % Wilson interval."""
        marks = [True] * self.right + [False] * (self.n - self.right)
        told = {k: getattr(self, k) for k in ("abstained", "failures", "errors", "unpaired")}
        return {"ref": self.ref, "name": self.name, **share(marks), **told}


@dataclass(frozen=True)
class SeedDifference:
    """The two arms on the items of one seed.

    Attributes:
        seed: The seed.
        n: Items.
        first: Items that the first has right.
        second: Items that the second has right.
        mcnemar: McNemar's test on them.
    """

    seed: int
    n: int
    first: int
    second: int
    mcnemar: McNemar

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "seed": self.seed,
            "n": self.n,
            "accuracy": [round(self.first / self.n, 4), round(self.second / self.n, 4)],
            "difference": round((self.second - self.first) / self.n, 4),
            "mcnemar": _mcnemar_dict(self.mcnemar),
        }


@dataclass(frozen=True)
class Comparison:
    """Two arms, paired.

    Attributes:
        task: What was compared, a name in :data:`~sagehand.study.report.compare.COMPARED`.
        first: The one arm.
        second: The other.
        n: Paired items, over all seeds.
        pictures: Different pictures among them.
        unknown: Paired items whose truth is not known; they are not compared.
        same_data: As of :class:`Comparisons`.
        difference: Second − first, with the interval and the p-value by cluster (device and step).
        mcnemar: Pooled over seeds.
        per_seed: Seed by seed.
        p_holm: ``mcnemar.p_value`` by Holm, where several pairs were tested; else None.
        p_holm_by_cluster: ``difference.p_value`` likewise.
    """

    task: str
    first: Side
    second: Side
    n: int
    pictures: int
    unknown: int
    same_data: bool | None
    difference: ClusterDifference
    mcnemar: McNemar
    per_seed: tuple[SeedDifference, ...]
    p_holm: float | None = None
    p_holm_by_cluster: float | None = None

    @property
    def words(self) -> str:
        """One sentence: shares, difference, tests."""
        from sagehand.study.report.compare_words import comparison_words

        return comparison_words(self)

    def to_dict(self) -> dict[str, Any]:
        """As plain data; shares in [0, 1], rounded to four places."""
        pair = {
            "task": self.task,
            "n": self.n,
            "pictures": self.pictures,
            "unknown_truth": self.unknown,
            "same_data": self.same_data,
            "arms": [self.first.to_dict(), self.second.to_dict()],
            **_difference_dict(self.difference),
            "mcnemar": _mcnemar_dict(self.mcnemar),
            "per_seed": [seed.to_dict() for seed in self.per_seed],
            "words": self.words,
        }
        if self.p_holm is not None and self.p_holm_by_cluster is not None:
            pair |= {"p_holm": p_rounded(self.p_holm), "p_holm_by_cluster": p_rounded(self.p_holm_by_cluster)}
        return pair


@dataclass(frozen=True)
class Comparisons:
    """Several arms on the items that all of them have: Cochran's Q, then every pair, adjusted by Holm.

    Attributes:
        task: What was compared.
        sides: The arms.
        n: Items that all have.
        unknown: Items that all have and whose truth is not known.
        cochran: Cochran's Q over all arms.
        pairs: Every pair, in the order of the arms.
        same_data: Whether the runs' data have one digest, seed by seed; None where a run does not say. The labels of the
            paired items are alike in any case.
    """

    task: str
    sides: tuple[Side, ...]
    n: int
    unknown: int
    cochran: CochranQ
    pairs: tuple[Comparison, ...]
    same_data: bool | None = None

    @property
    def words(self) -> str:
        """One sentence: whether the arms differ at all, and which pairs do."""
        from sagehand.study.report.compare_words import comparisons_words

        return comparisons_words(self)

    def to_dict(self) -> dict[str, Any]:
        """As plain data; shares in [0, 1], rounded to four places."""
        q = self.cochran
        return {
            "task": self.task,
            "n": self.n,
            "unknown_truth": self.unknown,
            "same_data": self.same_data,
            "arms": [side.to_dict() for side in self.sides],
            "cochran": {
                "q": round(q.statistic, 4),
                "df": q.df,
                "p_value": p_rounded(q.p_value),
                "informative": q.informative,
            },
            "pairs": [pair.to_dict() for pair in self.pairs],
            "words": self.words,
        }


def _difference_dict(found: ClusterDifference) -> dict[str, Any]:
    interval = None if found.interval is None else [round(edge, 4) for edge in found.interval]
    doc: dict[str, Any] = {"difference": round(found.difference, 4), "interval95": interval}
    if found.reason:
        doc["interval_reason"] = found.reason
    return {**doc, "clusters": found.clusters, "p_by_cluster": p_rounded(found.p_value)}


def _mcnemar_dict(found: McNemar) -> dict[str, Any]:
    return {
        "both_right": found.both_right,
        "only_first": found.only_first,
        "only_second": found.only_second,
        "both_wrong": found.both_wrong,
        "statistic": None if found.statistic is None else round(found.statistic, 4),
        "p_value": p_rounded(found.p_value),
        "method": found.method,
    }
