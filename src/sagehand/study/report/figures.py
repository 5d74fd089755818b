"""Counterparts of the paper's Figures 7–9: the data, and retrieval by similarity alone."""

from __future__ import annotations

from collections.abc import Sequence

from sagehand.study.metrics import RankFits, fit_ranks
from sagehand.study.report.cells import Cell, Gain, Number, Percent, Share, words_of
from sagehand.study.report.load import Study, top_1, without_top_1
from sagehand.study.report.parts import Bars, Counterpart, Counts, Histograms, RankPanel, Table
from sagehand.study.report.reference import beside
from sagehand.study.run.plan import Arm

__all__ = ["retrieval_figures"]

_MOST_DEVICES = 40  # bars that can still be told apart
_MOST_PANELS = 9
_BY_HAND = "truth"  # the crop of the label: no machine's, so it is not held against the paper's


def retrieval_figures(study: Study) -> list[Counterpart]:
    """Figures 7 to 9."""
    return [
        _pictures(study),
        _top_1(study),
        _ranks(study),
    ]


def _pictures(study: Study) -> Counterpart:
    """Figure 7: pictures of each device and step."""
    counts, whole = _counted(study)
    steps = sorted({step for _, step in counts}, key=lambda s: (s is None, s or 0))
    devices = sorted({device for device, _ in counts})
    rows: list[tuple[Cell, ...]] = [
        (d, *(counts.get((d, s), 0) for s in steps), sum(counts.get((d, s), 0) for s in steps)) for d in devices
    ]
    names = tuple("no step" if s is None else f"step {s}" for s in steps)
    drawn = devices[:_MOST_DEVICES]
    total = sum(counts.values())
    return Counterpart(
        "figure-7",
        "Figure 7",
        "Pictures by device and step",
        table=Table(("device", *names, "all"), tuple(rows)) if rows else None,
        chart=Counts(
            tuple(drawn), {n: [counts.get((d, s), 0) for d in drawn] for n, s in zip(names, steps, strict=True)}
        )
        if rows
        else None,
        beside=(
            beside("pictures", str(total)),
            beside("devices", str(len(devices))),
            beside("per step", f"{total / len(counts):.1f}" if counts else None),
        ),
        notes=(
            *(() if whole else ("The folder of pictures is not at hand: only the queries are counted.",)),
            *((f"The first {_MOST_DEVICES} devices by name are drawn.",) if len(devices) > _MOST_DEVICES else ()),
        ),
    )


def _counted(study: Study) -> tuple[dict[tuple[str, int | None], int], bool]:
    """(device, step) → pictures, over all folders; and whether the folders were at hand."""
    counts: dict[tuple[str, int | None], int] = {}
    if study.data:
        for data in study.data.values():
            for sample in data.samples:
                counts[sample.device, sample.step] = counts.get((sample.device, sample.step), 0) + 1
        return counts, True
    seen = {study.picture(r): (str(r.truth.get("device")), r.truth.get("step")) for r in study.records}
    for place in seen.values():
        counts[place] = counts.get(place, 0) + 1
    return counts, False


def _top_1(study: Study) -> Counterpart:
    """Figure 8: top-1 of similarity alone, by embedder and crop."""
    found: dict[tuple[str, str], Share] = {}
    protocol = None  # a crop is held against none under one protocol; the first arm's speaks
    for arm in study.by_method("nearest"):
        share = top_1(study, arm)
        if share is not None and (protocol := protocol or study.plan.protocol_of(arm)) == study.plan.protocol_of(arm):
            found.setdefault((arm.embedder, arm.crop), share)
    embedders = list(dict.fromkeys(e for e, _ in found))
    crops = sorted({c for _, c in found}, key=lambda c: (c != "none", c))
    rows: list[tuple[Cell, ...]] = []
    gains = []
    for embedder in embedders:
        whole = found.get((embedder, "none"))
        for crop in crops:
            share = found.get((embedder, crop))
            if share is None:
                continue
            gain: Cell = None
            relative: Cell = None
            if crop != "none" and whole is not None and whole.value and share.value is not None:
                gain = Gain(share.value - whole.value)
                relative = Percent((share.value - whole.value) / whole.value, signed=True)
                if crop != _BY_HAND:
                    gains.append(relative.value)
            rows.append((embedder, crop, share, gain, relative))
    whole_best = max((s for (_, c), s in found.items() if c == "none"), key=lambda s: s.value or 0, default=None)
    cut = (s for (_, c), s in found.items() if c not in ("none", _BY_HAND))
    crop_best = max(cut, key=lambda s: s.value or 0, default=None)
    ends = [words_of(Percent(gain, signed=True)) for gain in sorted({min(gains), max(gains)})] if gains else []
    spread = " to ".join(ends) or None
    return Counterpart(
        "figure-8",
        "Figure 8",
        "Top-1 of the nearest picture, by embedder and crop",
        table=Table(("embedder", "crop", "top-1", "gain by cropping", "relative"), tuple(rows)) if rows else None,
        chart=Bars(tuple(embedders), {c: [found.get((e, c)) for e in embedders] for c in crops}, "top-1")
        if rows
        else None,
        beside=(
            beside("top-1 whole", words_of(whole_best) if whole_best else None),
            beside("top-1 cropped", words_of(crop_best) if crop_best else None),
            beside("crop gain", spread),
        ),
        missing="" if rows else without_top_1(study, "nearest"),
        notes=(
            "Similarity alone: no context, no depth, no model. Bars: 95 % Wilson intervals. The crop “truth” is given by "
            "hand: what a perfect crop would do; it does not stand beside the paper's figures.",
        )
        if rows
        else (),
    )


def _ranks(study: Study) -> Counterpart:
    """Figure 9: ranks of the correct result, with both fits."""
    arms = [*study.by_method("nearest"), *study.mains("perceptual")]
    rows: list[tuple[Cell, ...]] = []
    panels = []
    main_fits: RankFits | None = None
    notes = []
    for arm in arms:
        records = study.of(arm)
        ranks = [r.rank for r in records if r.rank is not None]
        if not ranks:
            continue
        fits = fit_ranks(ranks)
        if arm in study.mains("nearest"):
            main_fits = main_fits or fits
        panels.append(RankPanel(arm.name, tuple(ranks), fits))
        rows.append(
            (
                arm.name,
                fits.n,
                len(records) - fits.n,
                _number(fits.mean),
                _number(fits.lognormal.shape if fits.lognormal else None),
                _number(fits.exponential.scale if fits.exponential else None),
                _number(fits.exponential.aic if fits.exponential else None, 1),
                _number(fits.lognormal.aic if fits.lognormal else None, 1),
                fits.better or "–",
            )
        )
        if fits.note:
            notes.append(f"{arm.name}: {fits.note}.")
    header = (
        "arm",
        "ranked",
        "without",
        "mean rank",
        "log-normal σ",
        "exponential mean",
        "AIC exponential",
        "AIC log-normal",
        "better",
    )
    fit = main_fits
    return Counterpart(
        "figure-9",
        "Figure 9",
        "Rank of the first correct case",
        table=Table(header, tuple(rows)) if rows else None,
        chart=Histograms(tuple(panels[:_MOST_PANELS])) if panels else None,
        beside=(
            beside("mean rank", words_of(_number(fit.mean)) if fit else None),
            beside("sigma", words_of(_number(fit.lognormal.shape)) if fit and fit.lognormal else None),
            beside("better fit", fit.better if fit else None),
        ),
        missing="" if rows else _without_rank(study, arms),
        notes=(
            "Ranks are whole numbers from 1; the paper fits continuous distributions with location 0, and so does this.",
            *notes,
            *((f"The first {_MOST_PANELS} are drawn.",) if len(panels) > _MOST_PANELS else ()),
        )
        if rows
        else (),
    )


def _without_rank(study: Study, arms: Sequence[Arm]) -> str:
    """Why no arm has a rank: none leans on a case, or no case of the right device and step was there to be ranked."""
    leaning = [a.name for a in arms if top_1(study, a) is not None]
    if not leaning:
        return without_top_1(study, "nearest")
    return f"In {', '.join(leaning)} no case of the query's device and step was in the base, so no answer has a rank."


def _number(value: float | None, digits: int = 2) -> Number | None:
    return None if value is None else Number(value, digits)
