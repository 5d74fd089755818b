"""``evaluate``: a labelled folder against a case base, decided as ``predict`` would (SPEC A7).

Each picture is known with its previous action and place, as its label says. The query's own picture is never recalled,
nor counted by the simple methods. Pictures that the case base knows otherwise (``overlap``) are counted and told: to
answer them is no test of new pictures. Abstentions count in every denominator; a picture that cannot be read, or whose
label the action library does not know, is reported apart, and never dropped quietly.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sagehand.action.decision import Decision, Known
from sagehand.action.guard import conflicts
from sagehand.action.labels import label_check
from sagehand.action.predict import Predictor
from sagehand.cases import DepthUnit, parse_row, read_table
from sagehand.errors import InputError, PictureError
from sagehand.judge.cost import FREE
from sagehand.judge.domain import NEAR_DUPLICATE
from sagehand.picture import DEFAULT_LIMITS, Limits
from sagehand.study.baselines import Baselines
from sagehand.study.check import label_conflicts
from sagehand.study.score import Item, same_place, summarise

__all__ = ["EvaluateReport", "evaluate"]


@dataclass(frozen=True)
class EvaluateReport:
    """Figures, items and failures.

    Attributes:
        figures: What ``evaluate --json`` prints.
        items: One for each labelled picture that could be used.
        failed: (file name, reason) of the others.
    """

    figures: dict[str, Any]
    items: tuple[Item, ...]
    failed: tuple[tuple[str, str], ...]


def evaluate(
    folder: str | Path,
    predictor: Predictor,
    *,
    method: str = "single",
    depth_unit: DepthUnit = "mm",
    limits: Limits | None = None,
    on_item: Callable[[Item], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> EvaluateReport:
    """Decide on every labelled picture of a folder and score the decisions.

    Args:
        folder: Pictures with ``metadata.jsonl`` or ``metadata.csv``.
        predictor: Decides; its log should be off.
        method: As for :meth:`~sagehand.action.predict.Predictor.predict`.
        depth_unit: Unit of integer depth images.
        limits: Caps on pictures and depth images.
        on_item: Called with each item as soon as it is there.
        on_progress: Called with (done, all).

    Raises:
        InputError: The folder cannot be used, or no row has a next action.
    """
    started = time.perf_counter()
    loading = {"limits": limits or DEFAULT_LIMITS, "method": method}
    asking = _Asking(Path(folder), predictor, loading, depth_unit)
    table = read_table(folder)
    failed = [(p.file_name or f"line {p.line}", p.reason) for p in table.problems]
    items: list[Item] = []
    unlabelled = 0
    for done, row in enumerate(table.rows, 1):
        try:
            label = parse_row(row.values)
            if label["next_action"] is None:
                unlabelled += 1
            else:
                items.append(asking.item(row.values, label))
                if on_item:
                    on_item(items[-1])
        except (InputError, PictureError) as error:
            failed.append((row.file_name, str(error)))
        if on_progress:
            on_progress(done, len(table.rows))
    if not items:
        reason = failed[0][1] if failed else "no row has a next_action"
        raise InputError(f"nothing in {folder} can be evaluated: {reason}", hint="label the pictures in metadata.jsonl")
    figures = {
        "judge": ", ".join(sorted(asking.judges)),
        "method": method,
        **summarise(items, rank_of="the same device and step"),
        "usage": asking.usage.to_dict(),
        "saved": asking.saved,
        "overlap": sum(bool(i.overlap) for i in items),
        "unlabelled": unlabelled,
        "failed": [{"file_name": name, "reason": reason} for name, reason in failed],
        "conflicts": asking.conflicts(),
        "seconds": round(time.perf_counter() - started, 3),
    }
    return EvaluateReport(figures, tuple(items), tuple(failed))


class _Asking:
    """One folder put to one predictor.

    Args:
        folder: The pictures.
        predictor: Decides.
        loading: Options of ``predict`` that are the same for every picture.
        depth_unit: Unit of integer depth images.

    Attributes:
        judges: Who answered.
        usage: What was asked of a model, in all.
        saved: Decisions for which a model was not asked because the cases alone were sure enough.
    """

    def __init__(self, folder: Path, predictor: Predictor, loading: dict[str, Any], depth_unit: DepthUnit) -> None:
        self._folder, self._predictor, self._loading, self._depth_unit = folder, predictor, loading, depth_unit
        self._library = predictor.library
        self._check = label_check(predictor.library) if predictor.library else None
        self._simple = Baselines.of(predictor.base)
        self._index = self._simple.index
        self._labels: list[Mapping[str, Any]] = []
        self.judges: set[str] = set()
        self.usage = FREE
        self.saved = 0

    def item(self, row: Mapping[str, Any], label: Mapping[str, Any]) -> Item:
        """Decide on the picture of a row and hold the decision against its label.

        Raises:
            UnknownName: The label has an action that the library does not have.
            PictureError: The picture cannot be used.
        """
        if self._check:
            self._check(label)
        self._labels.append(label)
        loading = self._loading
        if row.get("depth_file_name"):
            loading = {**loading, "depth": self._folder / row["depth_file_name"], "depth_unit": self._depth_unit}
        known = Known(previous=label["previous_action"], place=label["place"])
        decision = self._predictor.predict(self._folder / row["file_name"], known, **loading)
        self.judges.add(decision.judge)
        self.usage += decision.usage
        self.saved += decision.saved is not None
        lead = decision.case.case if decision.case and not decision.abstained else None
        own = self._index.row(str(decision.query["pixel_id"]))
        by_photo = decision.ranking.rows.tolist() if decision.ranking else []
        nearest = self._simple.first_labelled(by_photo)
        place = (label["family"], label["device"])
        step = label["step"]
        return Item(
            file_name=row["file_name"],
            next_action=label["next_action"],
            family=label["family"],
            device=label["device"],
            step=step,
            answer=decision.next_action,
            confidence=decision.confidence,
            reason=decision.reason,
            case_device=same_place(lead, *place),
            case_step=None if step is None else same_place(lead, *place, step),
            rank=self._rank(decision.ranking.order.tolist() if decision.ranking else [], label),
            in_domain=decision.domain["in_domain"] if decision.domain else None,
            others={
                "photo_only": nearest.next_action if nearest else None,
                "context_only": self._simple.context(label["previous_action"], label["place"], own),
                "majority": self._simple.majority(own),
            },
            other_device={"photo_only": same_place(nearest, *place)},
            other_step={"photo_only": None if step is None else same_place(nearest, *place, step)},
            other_rank={"photo_only": self._rank(by_photo, label)},
            overlap=self._overlap(decision, own, label["group"]),
        )

    def conflicts(self) -> list[str]:
        """Labels of the case base, then of the folder, that the library contradicts, a line each."""
        library = self._library
        if library is None:
            return []
        rows = [
            (
                str(self._folder / label["file_name"]),
                label["previous_action"],
                label["history"],
                label["next_action"],
                label["family"] if library.families else None,
            )
            for label in self._labels
        ]
        return label_conflicts(self._predictor.base.cases(), library) + conflicts(library, rows)

    def _rank(self, rows: list[int], label: Mapping[str, Any]) -> int | None:
        """Place of the first case of the same device and step; None where there is none, or the step is not known."""
        if label["step"] is None:
            return None
        wanted = (label["family"], label["device"], label["step"])
        found = (at for at, row in enumerate(rows, 1) if same_place(self._index.cases[row], *wanted))
        return next(found, None)

    def _overlap(self, decision: Decision, own: int | None, group: str | None) -> str:
        """Why the picture is no new one to the case base; "" where it is."""
        if own is not None:
            return "the picture is in the case base"
        nearest = decision.ranking.nearest if decision.ranking else None
        if nearest is not None and nearest.evidence.picture >= NEAR_DUPLICATE:
            return f"a near-duplicate is in the case base: {nearest.case.file_name}"
        codes, names = self._index.codes("group")
        if group in names and bool((codes == names.index(group)).any()):
            return f"its group {group!r} is in the case base"
        return ""
