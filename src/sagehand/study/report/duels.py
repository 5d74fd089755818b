"""Counterparts of the paper's Figures 13–16: two methods side by side. Without a model, what stands nearest."""

from __future__ import annotations

from collections.abc import Sequence

from sagehand.study.report.cells import Cell, Share, words_of
from sagehand.study.report.load import Study, accuracy, lacks, shown_instead
from sagehand.study.report.parts import Bars, Counterpart, Table
from sagehand.study.report.reference import beside
from sagehand.study.report.tasks import TASK_WORDS, TOLD
from sagehand.study.run.plan import Arm
from sagehand.study.run.record import TASKS, Record

__all__ = ["paper_duels"]

_MOST_DEVICES = 24  # groups of bars that can still be read


def paper_duels(study: Study) -> list[Counterpart]:
    """Figures 13 to 16."""
    return [
        _duel(study, 13, "Without a case against with the most similar one", ("zero-shot", "single-rag"),
              ("context", "nearest"), "single-rag"),
        _duel(study, 14, "Without a case against with a wrong one", ("zero-shot", "bad-single-rag"), None, "bad single"),
        _duel(study, 15, "The most similar case against the searched one", ("single-rag", "guided"),
              ("nearest", "perceptual"), "guided"),
        _devices(study),
    ]  # fmt: skip


_STANDS_IN = {
    ("context", "nearest"): "previous action and place alone, no picture, against the nearest picture's labels",
    ("nearest", "perceptual"): "the nearest picture's labels against picture, context and depth weighed",
}


def _pairs(
    study: Study, methods: tuple[str, str], instead: tuple[str, str] | None
) -> tuple[list[tuple[Arm, Arm]], str, str]:
    """The arms of each model; what is missing; and what is shown instead."""
    pairs = [(twin, arm) for arm in study.mains(methods[1]) if (twin := study.twin(arm, methods[0]))]
    if pairs:
        return pairs, "", ""
    missing = lacks(*(m for m in methods if not study.by_method(m))) if any(
        not study.by_method(m) for m in methods
    ) else f"The {methods[0]} and {methods[1]} arms of this run share no model, crop and embedder."  # fmt: skip
    if instead is None:
        return [], f"{missing} Without a model it has no counterpart.", ""
    pairs = [(twin, arm) for arm in study.mains(instead[1]) if (twin := study.twin(arm, instead[0]))]
    return pairs, missing, shown_instead(study, _STANDS_IN[instead]) if pairs else ""


def _duel(
    study: Study, number: int, title: str, methods: tuple[str, str], instead: tuple[str, str] | None, key: str
) -> Counterpart:
    """Accuracy by task of the arms of two methods."""
    pairs, missing, stand_in = _pairs(study, methods, instead)
    arms = list({arm.name: arm for pair in pairs for arm in pair}.values())
    shares = {a.name: [accuracy(study.of(a), task) for task in TASKS] for a in arms}
    rows: list[tuple[Cell, ...]] = [(name, *row) for name, row in shares.items()]
    tasks = tuple(TASK_WORDS[t] for t in TASKS)
    shown = [beside(key, _better(study, pairs) if pairs and not missing else None)]
    if number == 13:
        best = max(
            (s for a in study.by_method("zero-shot") if (s := accuracy(study.of(a)))),
            key=lambda s: s.value or 0,
            default=None,
        )
        shown.insert(0, beside("zero-shot", words_of(best) if best else None))
    return Counterpart(
        f"figure-{number}",
        f"Figure {number}",
        title,
        table=Table(("method", *tasks), tuple(rows)) if rows else None,
        chart=Bars(tasks, shares) if rows else None,
        beside=tuple(shown),
        missing=missing,
        stand_in=stand_in,
        notes=(TOLD,) if rows else (),
    )


def _better(study: Study, pairs: Sequence[tuple[Arm, Arm]]) -> str:
    """In how many models the second is better, next action."""
    values = [(accuracy(study.of(a)), accuracy(study.of(b))) for a, b in pairs]
    above = sum(1 for a, b in values if a and b and (b.value or 0) > (a.value or 0))
    return f"better in {above} of {len(pairs)}, next action"


def _devices(study: Study) -> Counterpart:
    """Figure 16: next action by device."""
    pairs, missing, stand_in = _pairs(study, ("zero-shot", "guided"), ("nearest", "perceptual"))
    arms = list({arm.name: arm for pair in pairs for arm in pair}.values())
    devices = sorted({_device(r) for a in arms for r in study.of(a)})
    shares: dict[str, list[Share | None]] = {
        a.name: [accuracy([r for r in study.of(a) if _device(r) == d]) for d in devices] for a in arms
    }
    rows: list[tuple[Cell, ...]] = [(d, *(shares[a.name][i] for a in arms)) for i, d in enumerate(devices)]
    even = None
    if pairs and not missing:
        even = "; ".join(f"{a.name} {_spread(shares[a.name])}" for a in arms)
    drawn = devices[:_MOST_DEVICES]
    return Counterpart(
        "figure-16",
        "Figure 16",
        "Next action by device",
        table=Table(("device", *(a.name for a in arms)), tuple(rows)) if rows else None,
        chart=Bars(tuple(drawn), {n: s[: len(drawn)] for n, s in shares.items()}) if rows else None,
        beside=(beside("devices even", even),),
        missing=missing,
        stand_in=stand_in,
        notes=(
            *(f"{name}: {_spread(row)} across devices." for name, row in shares.items()),
            *((f"The first {_MOST_DEVICES} devices by name are drawn.",) if len(devices) > _MOST_DEVICES else ()),
        ),
    )


def _device(record: Record) -> str:
    return str(record.truth.get("device"))


def _spread(shares: Sequence[Share | None]) -> str:
    values = [s.value for s in shares if s is not None and s.value is not None]
    return f"{100 * min(values):.1f}–{100 * max(values):.1f} %" if values else "–"
