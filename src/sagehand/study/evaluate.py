"""``evaluate``: a labelled folder against a case base, decided as ``predict`` would (SPEC A7).

Each picture is known with its previous action and place, as its label says. The query's own picture is never recalled.
Abstentions count in every denominator; a picture that cannot be read is reported apart, and never dropped quietly.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sagehand.action.decision import Decision, Known
from sagehand.action.predict import Predictor
from sagehand.cases import Index, parse_row, read_table
from sagehand.errors import InputError, PictureError
from sagehand.judge.evidence import agreement, stack
from sagehand.judge.leaveout import gather
from sagehand.judge.model import belief, fit_belief
from sagehand.study.score import Item, summarise

__all__ = ["EvaluateReport", "evaluate"]

_CONTEXT = ("previous", "place")


@dataclass(frozen=True)
class EvaluateReport:
    """Figures, items and failures.

    Attributes:
        figures: What ``evaluate --json`` prints.
        items: One for each labelled picture that could be read.
        failed: (file name, reason) of the others.
    """

    figures: dict[str, Any]
    items: tuple[Item, ...]
    failed: tuple[tuple[str, str], ...]


def evaluate(
    folder: str | Path,
    predictor: Predictor,
    *,
    on_item: Callable[[Item], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> EvaluateReport:
    """Decide on every labelled picture of a folder and score the decisions.

    Args:
        folder: Pictures with ``metadata.jsonl`` or ``metadata.csv``.
        predictor: Decides; its log should be off.
        on_item: Called with each item as soon as it is there.
        on_progress: Called with (done, all).

    Raises:
        InputError: The folder cannot be used, or no row has a next action.
    """
    started = time.perf_counter()
    folder = Path(folder)
    table = read_table(folder)
    failed = [(p.file_name or f"line {p.line}", p.reason) for p in table.problems]
    index = predictor.base.index()
    context = _Context(index)
    items: list[Item] = []
    unlabelled = 0
    for done, row in enumerate(table.rows):
        try:
            label = parse_row(row.values)
            if label.get("next_action") is None:
                unlabelled += 1
                continue
            item = _item(folder, row.values, label, predictor, index, context)
        except (InputError, PictureError) as error:
            failed.append((str(row.values["file_name"]), str(error)))
            continue
        items.append(item)
        if on_item:
            on_item(item)
        if on_progress:
            on_progress(done + 1, len(table.rows))
    if not items:
        reason = failed[0][1] if failed else "no row has a next_action"
        raise InputError(f"nothing in {folder} can be evaluated: {reason}", hint="label the pictures in metadata.jsonl")
    figures = {
        "judge": "perceptual",
        "method": "single",
        **summarise(items, rank_of="the same device and step"),
        "unlabelled": unlabelled,
        "failed": [{"file_name": name, "reason": reason} for name, reason in failed],
        "seconds": round(time.perf_counter() - started, 3),
    }
    return EvaluateReport(figures, tuple(items), tuple(failed))


def _item(
    folder: Path,
    row: Mapping[str, Any],
    label: Mapping[str, Any],
    predictor: Predictor,
    index: Index,
    context: _Context,
) -> Item:
    previous = label.get("previous_action")
    depth = row.get("depth_file_name")
    loading = {"depth": folder / depth, "depth_unit": "mm"} if depth else {}
    known = Known(previous=previous, place=label.get("place"))
    decision = predictor.predict(folder / row["file_name"], known, **loading)
    nearest = decision.ranking.nearest if decision.ranking else None
    lead = decision.case if not decision.abstained else None
    return Item(
        file_name=row["file_name"],
        next_action=label["next_action"],
        family=label["family"],
        device=label["device"],
        step=label.get("step"),
        answer=decision.next_action,
        confidence=decision.confidence,
        reason=decision.reason,
        case_device=_same(lead, label, step=False),
        case_step=_same(lead, label, step=True),
        rank=_rank(decision, index, label),
        in_domain=decision.domain["in_domain"] if decision.domain else None,
        others={
            "photo_only": nearest.case.next_action if nearest else None,
            "context_only": context.answer(previous, label.get("place")),
            "majority": context.majority,
        },
        other_device={"photo_only": _same(nearest, label, step=False)},
        other_step={"photo_only": _same(nearest, label, step=True)},
    )


def _same(candidate: Any, label: Mapping[str, Any], *, step: bool) -> bool | None:
    if candidate is None:
        return None
    case = candidate.case
    same = (case.family, case.device) == (label["family"], label["device"])
    return same and (not step or case.step == label.get("step"))


def _rank(decision: Decision, index: Index, label: Mapping[str, Any]) -> int | None:
    if decision.ranking is None:
        return None
    for place, row in enumerate(decision.ranking.order.tolist(), 1):
        case = index.cases[row]
        if (case.family, case.device, case.step) == (label["family"], label["device"], label.get("step")):
            return place
    return None


class _Context:
    """Answers from the previous action and the place alone, by weights learnt on the base, and the base's majority."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._codes, self._names = index.codes("next_action")
        counts = Counter(self._codes[self._codes >= 0].tolist())
        self.majority = min((self._names[c] for c in counts if counts[c] == max(counts.values())), default=None)
        pairs = gather(index, "case", drawn=True)
        scaling = pairs.scaling(pairs.present)
        self._scaling = scaling
        self._weights = fit_belief(pairs.features(scaling), pairs.present, pairs.right, _CONTEXT)

    def answer(self, previous: str | None, place: str | None) -> str | None:
        """The next action with most belief."""
        if not self._names:
            return None
        zeros = np.zeros(len(self._codes))
        agree = [self._agree("previous_action", previous), self._agree("place", place)]
        features = stack(zeros, agree[0], agree[1], np.full(len(self._codes), np.nan), self._scaling)
        totals = np.bincount(self._codes + 1, weights=belief(features, self._weights), minlength=len(self._names) + 1)[
            1:
        ]
        return max(self._names, key=lambda name: (round(float(totals[self._names.index(name)]), 9), name))

    def _agree(self, field: str, known: str | None) -> Any:
        codes, names = self._index.codes(field)
        if known is None:
            return np.zeros(len(codes), dtype=np.int8)
        return agreement(names.index(known) if known in names else len(names), codes)
