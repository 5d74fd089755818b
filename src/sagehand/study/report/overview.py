"""The report's own sections: the main table, comparisons with the best baseline, ablations, and what was confused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sagehand.stats import holm
from sagehand.study.report.cells import Cell, Gain, Number, P, Share, Spread
from sagehand.study.report.comparison import Comparison
from sagehand.study.report.load import BASELINES, TRAINED, Study, accuracy, lacks, top_1, unasked, without_top_1
from sagehand.study.report.paired import EACH_ITEM, gain_of, measured, share_of, two
from sagehand.study.report.parts import Counterpart, Grid, Table
from sagehand.study.run.plan import Arm

__all__ = ["ablations", "against_baseline", "confusion", "main_table"]

_NO_ANSWER, _FAILED = "(no answer)", "(failed)"


def main_table(study: Study) -> Counterpart:
    """Every arm: next action, device, top-1, mean rank; seed by seed; failures, errors and abstentions apart."""
    rows: list[tuple[Cell, ...]] = []
    for arm in study.asked:
        records = study.of(arm)
        ranks = [r.rank for r in records if r.rank is not None]
        ranked = ranks and top_1(study, arm) is not None
        rows.append(
            (
                arm.name,
                arm.method,
                len(records),
                accuracy(records),
                _seeds(study, arm),
                top_1(study, arm, "device"),
                top_1(study, arm),
                Number(sum(ranks) / len(ranks)) if ranked else None,
                sum(bool(r.answer.get("abstained")) for r in records),
                sum(r.failure is not None for r in records),
                sum(r.error is not None for r in records),
            )
        )
    header = (
        "arm",
        "method",
        "items",
        "next action",
        "each seed",
        "device",
        "device and step",
        "mean rank",
        "abstained",
        "failed",
        "errors",
    )
    trained = [a.name for a in study.arms if a.method in TRAINED]
    notes = [
        "All seeds are pooled; with each share its 95 % Wilson interval. “Each seed”: least and greatest next-action accuracy "
        "of a seed, where there are several. Abstentions, failures (a model that did not answer in form) and errors count as "
        "wrong and stay in every share.",
        "Device, and device and step: of the case that was leant on. A dash: the method recalls no case, or the device is "
        "left out of the base, so that no case can show it. Mean rank: over the queries for which a correct case was found.",
    ]
    if trained:
        notes.append(f"Trained on folds, so told in Figures 10 and 11 alone: {', '.join(trained)}.")
    return Counterpart(
        "main",
        "",
        "All arms",
        table=Table(header, tuple(rows)) if rows else None,
        missing="" if rows else unasked(study),
        notes=tuple(notes),
    )


def _seeds(study: Study, arm: Arm) -> Spread | None:
    """Least and greatest accuracy of a seed; None below two seeds."""
    records = study.of(arm)
    seeds = sorted({r.seed for r in records})
    values = [
        share.value
        for seed in seeds
        if (share := accuracy([r for r in records if r.seed == seed])) and share.value is not None
    ]
    return Spread(min(values), max(values)) if len(values) > 1 else None


def against_baseline(study: Study) -> list[Counterpart]:
    """Every arm against the best baseline, in next action and in top-1, adjusted by Holm."""
    return [
        _best(study, "next_action", "baseline-next-action", "Against the best baseline: next action"),
        _best(study, "top1", "baseline-top-1", "Against the best baseline: device and step"),
    ]


def _best(study: Study, task: str, name: str, title: str) -> Counterpart:
    scored = [
        (share.value, arm)
        for arm in study.by_method(*BASELINES)
        if (share := top_1(study, arm) if task == "top1" else accuracy(study.of(arm))) and share.value is not None
    ]
    if not scored:
        why = without_top_1(study, "nearest") if task == "top1" else lacks("nearest")
        return Counterpart(name, "", title, missing=why)
    best = max(scored, key=lambda pair: pair[0])[1]
    found = [pair for arm in study.asked if arm is not best and (pair := two(study, best, arm, task)) is not None]
    if not found:
        return Counterpart(name, "", title, missing="No other arm answered the same items under the same protocol.")
    abstain = [
        a.name for a in study.asked if (a.risk is not None or a.domain) and a.name in {c.second.name for c in found}
    ]
    protocol = study.plan.protocol_of(best)
    apart = [a.name for a in study.asked if study.plan.protocol_of(a) != protocol]
    return Counterpart(
        name,
        "",
        f"{title} ({best.name})",
        table=Table(_BEST_HEADER, _with_holm(found)),
        notes=(
            f"The best baseline is {best.name}, picked by this very figure among random, majority, context and nearest arms: "
            "that favours the baseline.",
            EACH_ITEM
            + f" Holm: adjusted for the {len(found)} comparison{'' if len(found) == 1 else 's'} of this table.",
            *((_ABSTAINS.format(names=", ".join(abstain)),) if abstain and task == "next_action" else ()),
            *((f"Of another protocol than {protocol}, so not paired with it: {', '.join(apart)}.",) if apart else ()),
        ),
    )


_ABSTAINS = "May abstain, and what it leaves to the operator counts as wrong: {names}."
_BEST_HEADER = (
    "arm",
    "items",
    "baseline",
    "arm right",
    "gain",
    "only baseline",
    "only arm",
    "p",
    "p, Holm",
    "p by step, Holm",
)


def _with_holm(found: Sequence[Comparison]) -> tuple[tuple[Cell, ...], ...]:
    by_item = holm([c.mcnemar.p_value for c in found])
    by_step = holm([c.difference.p_value for c in found])
    return tuple((*measured(c), P(item), P(step)) for c, item, step in zip(found, by_item, by_step, strict=True))


_ABLATED: dict[str, tuple[str, ...]] = {
    "crop": ("crop",),
    "embedder": ("embedder",),
    "context": ("previous", "place"),
    "previous action": ("previous",),
    "place": ("place",),
    "depth": ("depth",),
    "guard": ("guard",),
}


def ablations(study: Study) -> Counterpart:
    """Arms that differ from their method's main arm in one thing: crop, context, depth, guard, embedder."""
    pairs = [
        (what, main, arm)
        for main in study.mains(*dict.fromkeys(a.method for a in study.asked))
        for arm in study.by_method(main.method)
        if study.plan.protocol_of(arm) == study.plan.protocol_of(main) and (what := _changed(main, arm)) is not None
    ]
    found = [
        (what, main, arm, pair)
        for what, main, arm in pairs
        if (pair := two(study, main, arm, "next_action")) is not None
    ]
    rows: list[tuple[Cell, ...]] = []
    by_item = holm([pair.mcnemar.p_value for *_, pair in found])
    by_step = holm([pair.difference.p_value for *_, pair in found])
    for (what, main, arm, pair), item, step in zip(found, by_item, by_step, strict=True):
        top = two(study, main, arm, "top1")
        gain: Gain | None = gain_of(top) if top else None
        rows.append(
            (
                main.name,
                what,
                arm.name,
                share_of(pair, 1),
                gain_of(pair),
                P(pair.mcnemar.p_value),
                P(item),
                P(step),
                gain,
                P(top.difference.p_value) if top else None,
            )
        )
    header = (
        "whole",
        "changed",
        "arm",
        "next action",
        "gain",
        "p",
        "p, Holm",
        "p by step, Holm",
        "gain in top-1",
        "its p by step",
    )
    return Counterpart(
        "ablations",
        "",
        "What each part brings",
        table=Table(header, tuple(rows)) if rows else None,
        missing=""
        if rows
        else "No arm differs from its method's main arm in one thing alone. To see what a part brings, add such an arm: "
        "`crop: none`, `depth: false`, `guard: false`, or `previous: false` with `place: false`.",
        notes=(
            "A negative gain: the arm does worse than the whole. "
            + EACH_ITEM
            + " Holm: adjusted for the next actions of this table; the p of top-1 is not adjusted.",
        )
        if rows
        else (),
    )


def _changed(main: Arm, arm: Arm) -> str | None:
    """What one thing sets an arm apart from the main arm of its method, in words; None where it is not one thing."""
    if arm is main or arm.model != main.model:
        return None
    apart = {n for n in type(arm).model_fields if n not in ("name", "protocol") and getattr(arm, n) != getattr(main, n)}
    for what, fields in _ABLATED.items():
        if apart == set(fields):
            values = [(getattr(main, f), getattr(arm, f)) for f in fields]
            if len(set(values)) == 1:
                return f"{what}: {_told(values[0][0])} → {_told(values[0][1])}"
    return None


def _told(value: object) -> str:
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def confusion(study: Study) -> Counterpart:
    """What the main arm answered to which true next action."""
    main = study.main
    if main is None:
        return Counterpart("confusion", "", "Next action: truth against answer", missing=unasked(study))
    counts: Counter[tuple[str, str]] = Counter()
    for record in study.of(main):
        truth = record.truth.get("next_action")
        if truth is None:
            continue
        if record.error is not None or record.failure is not None:
            answer = _FAILED
        else:
            answer = record.answer.get("next_action") or _NO_ANSWER
        counts[truth, answer] += 1
    truths = sorted({t for t, _ in counts})
    answers = [
        *sorted({a for _, a in counts} | set(truths) - {_NO_ANSWER, _FAILED}, key=lambda a: (a.startswith("("), a))
    ]
    rows: list[tuple[Cell, ...]] = [
        (t, *(counts[t, a] for a in answers), Share(counts[t, t], sum(counts[t, a] for a in answers))) for t in truths
    ]
    return Counterpart(
        "confusion",
        "",
        f"Next action: truth against answer, {main.name}",
        table=Table(("truth", *answers, "right"), tuple(rows)) if rows else None,
        chart=Grid(
            tuple(truths),
            tuple(answers),
            tuple(tuple(counts[t, a] for a in answers) for t in truths),
            "answer",
            "truth",
        )
        if rows
        else None,
        notes=(
            "Rows: the true next action. Columns: the answer. All seeds are pooled. A darker cell: a greater share of its row.",
        ),
    )
