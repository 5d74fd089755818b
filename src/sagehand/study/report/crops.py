"""Counterpart of the paper's Table 1: how much of the device a crop keeps, and how much of the picture it removes."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from sagehand.study.report.cells import Cell, Percent, words_of
from sagehand.study.report.load import Study, model_of
from sagehand.study.report.parts import Counterpart, Table
from sagehand.study.report.reference import beside
from sagehand.study.run.record import Record

__all__ = ["crop_table"]

_CROPS = {
    "none": "nothing cut away",
    "perceptual": "what stands out",
    "relief": "what stands up from the surface",
    "truth": "the labelled outline's box",
    "grid": "numbered grid, by a model",
    "box": "bounding box, by a model",
}


def crop_table(study: Study) -> Counterpart:
    """Table 1: how much of the device a crop keeps, and how much of the picture it removes."""
    rows: list[tuple[Cell, ...]] = []
    boxes: list[tuple[float, float]] = []
    for crop, model, records in _cropped(study):
        kept = [r.coverage for r in records if r.coverage is not None]
        removed = [r.removal for r in records if r.removal is not None]
        if not removed:
            continue
        rows.append(
            (
                crop,
                _CROPS.get(crop, ""),
                model or "–",
                len(records),
                _mean(kept),
                _sd(kept),
                Percent(min(kept)) if kept else None,
                _mean(removed),
                _sd(removed),
            )
        )
        if crop == "box" and kept:
            boxes.append((statistics.fmean(kept), statistics.fmean(removed)))
    best = max(boxes, default=None)
    lacking = [c for c in ("grid", "box") if c not in {row[0] for row in rows}]
    missing = (
        f"Not in this run: crops by a model ({' and '.join(lacking)}). To get them, set `crop: {lacking[0]}` in an arm and "
        "call `sagehand study run` with `--base-url` and `--model` of a VLM server."
        if lacking
        else ""
    )
    header = ("crop", "what is kept", "model", "pictures", "coverage", "SD", "least", "removal", "SD of removal")
    return Counterpart(
        "table-1",
        "Table 1",
        "What a crop keeps and what it removes",
        table=Table(header, tuple(rows)) if rows else None,
        beside=(
            beside("coverage", words_of(Percent(best[0])) if best else None),
            beside("removal", words_of(Percent(best[1])) if best else None),
        ),
        missing=missing,
        stand_in="Crops that need no model are shown." if lacking and rows else "",
        notes=(
            "Coverage: share of the labelled outline that stays in the crop (paper A eq. 4). Removal: share of the picture "
            "that is cut away (eq. 5). Each picture counts once.",
        ),
    )


def _cropped(study: Study) -> Iterable[tuple[str, str, list[Record]]]:
    """(crop, model, one record a picture) of each crop that was used; of several arms the first speaks."""
    spoken: dict[tuple[str, str], list[Record]] = {}
    for arm in study.asked:
        model = model_of(arm, study.manifest) if arm.crop in ("grid", "box") else ""
        records = [r for r in study.of(arm) if r.removal is not None and r.error is None]
        # an arm that looks at no picture cuts nothing, whatever crop it was given
        if arm.method in ("random", "majority", "context") or not records:
            continue
        spoken.setdefault((arm.crop, model), _once(study, records))
    return [(crop, model, records) for (crop, model), records in spoken.items() if crop != "none"]


def _once(study: Study, records: Sequence[Record]) -> list[Record]:
    first: dict[tuple[int | None, str], Record] = {}
    for record in records:
        first.setdefault(study.picture(record), record)
    return list(first.values())


def _mean(values: Sequence[float]) -> Percent | None:
    return Percent(statistics.fmean(values)) if values else None


def _sd(values: Sequence[float]) -> Percent | None:
    return Percent(statistics.stdev(values)) if len(values) > 1 else None
