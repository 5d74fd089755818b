"""Counterparts of the paper's Tables 1–6. Without a model, what stands nearest is shown under the number, by its name."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from sagehand.study.metrics import latency
from sagehand.study.report.cells import Cell, P, Seconds, Share, words_of
from sagehand.study.report.comparison import Comparison
from sagehand.study.report.crops import crop_table
from sagehand.study.report.load import Study, lacks, model_of, shown_instead, without_top_1
from sagehand.study.report.paired import (
    EACH_ITEM,
    PAIRED_HEADER,
    against,
    gain_of,
    paired_rows,
    relative_of,
    share_of,
    two,
)
from sagehand.study.report.parts import Beside, Counterpart, Table
from sagehand.study.report.reference import beside
from sagehand.study.run.plan import Arm

__all__ = ["paper_tables"]


def paper_tables(study: Study) -> list[Counterpart]:
    """Tables 1 to 6."""
    return [
        crop_table(study),
        _retrieval(study),
        _models(study),
        _bad_case(study),
        _guided_action(study),
        _times(study),
    ]


def _retrieval(study: Study) -> Counterpart:
    """Table 2: top-1 of the guided search against the most similar picture; without a model, of the judge."""
    found = against(study, ("guided", "guided-always", "perceptual"), ("nearest", "single-rag"), "top1")
    judged = {a.name for a in study.by_method("perceptual")}
    single = {a.name for a in study.by_method("single-rag")}
    held = {"the case of single-rag" if p.first.name in single else "the nearest picture" for p in found
            if p.second.name in judged}  # fmt: skip
    similar = " and ".join(sorted(held, reverse=True))
    header = (
        "method",
        "against",
        "items",
        "most similar",
        "method's case",
        "gain",
        "relative",
        "p",
        "p by step",
    )
    rows = tuple(
        (
            p.second.name,
            p.first.name,
            p.n,
            share_of(p, 0),
            share_of(p, 1),
            gain_of(p),
            relative_of(p),
            P(p.mcnemar.p_value),
            P(p.difference.p_value),
        )
        for p in found
    )
    return Counterpart(
        "table-2",
        "Table 2",
        "Top-1 retrieval: by search against by similarity",
        table=Table(header, rows) if rows else None,
        missing="" if study.by_method("guided") else lacks("guided") if rows else _no_search(study),
        stand_in=shown_instead(study, f"picture, context and depth weighed by the perceptual judge against {similar}")
        if similar
        else "",
        notes=(
            "Top-1: the case that was leant on shows the query's device and step. Both cut and embed the pictures alike.",
            EACH_ITEM,
        )
        if rows
        else (),
    )


def _models(study: Study) -> Counterpart:
    """Table 3: whether models differ in guided retrieval; without one, whether embedders differ."""
    guided = study.mains("guided")
    arms = guided if len(guided) > 1 else _by_embedder(study)
    found = [p for a, b in itertools.combinations(arms, 2) if (p := two(study, a, b, "top1"))]
    missing = (
        ""
        if len(guided) > 1
        else lacks("guided").replace("Not in this run:", "Not in this run with two models or more:")
    )
    keys = ("gpt-4o against qwen2.5", "gpt-4o against qwen3", "qwen against qwen")
    models = {a.name: model_of(a, study.manifest) for a in arms}
    named = {frozenset((models[p.first.name], models[p.second.name])): p for p in found}
    return Counterpart(
        "table-3",
        "Table 3",
        "Whether models differ in guided retrieval",
        table=Table(PAIRED_HEADER, paired_rows(found)) if found else None,
        beside=tuple(beside(key, _p_of_models(named, key)) for key in keys),
        missing=missing,
        stand_in="Shown instead: the perceptual judge with different embedders, top-1." if missing and found else "",
        notes=(EACH_ITEM,) if found else (),
    )


_MODELS = {
    "gpt-4o against qwen2.5": ("gpt-4o", "qwen2.5-vl-72b"),
    "gpt-4o against qwen3": ("gpt-4o", "qwen3-vl-30b"),
    "qwen against qwen": ("qwen2.5-vl-72b", "qwen3-vl-30b"),
}


def _p_of_models(named: dict[frozenset[str], Comparison], key: str) -> str | None:
    """Our p of the same two models, where the run asked them."""
    for models, found in named.items():
        if all(any(_is_model(model, name) for model in models) for name in _MODELS[key]):
            return f"p = {found.mcnemar.p_value:.3g}"
    return None


def _is_model(model: str, name: str) -> bool:
    """Whether a server's model is the one the paper names: "org/Qwen3-VL-30B-A3B" is, "gpt-4o-mini" is not GPT-4o."""
    found = model.lower().rpartition("/")[2]
    return found.startswith(name) and "mini" not in found.split("-")


def _by_embedder(study: Study) -> list[Arm]:
    """Arms of the perceptual judge that differ from its main arm in the embedder alone, the main arm first."""
    main = next(iter(study.mains("perceptual")), None)
    if main is None:
        return []
    same = [
        a for a in study.by_method("perceptual") if a.model_copy(update={"name": "", "embedder": ""})
        == main.model_copy(update={"name": "", "embedder": ""})
    ]  # fmt: skip
    return same if len(same) > 1 else []


def _bad_case(study: Study) -> Counterpart:
    """Table 4: whether a wrong case does harm."""
    found = against(study, ("bad-single-rag",), ("zero-shot",), "next_action")
    return Counterpart(
        "table-4",
        "Table 4",
        "Next action: without a case against with a wrong one",
        table=Table(PAIRED_HEADER, paired_rows(found)) if found else None,
        beside=(beside("bad case", _verdict(found)),),
        missing="" if found else lacks("zero-shot", "bad-single-rag") + " Without a model it has no counterpart.",
        notes=(EACH_ITEM,) if found else (),
    )


def _guided_action(study: Study) -> Counterpart:
    """Table 5: next action from the most similar case against from the guided search's."""
    with_model = against(study, ("guided", "guided-always"), ("single-rag",), "next_action")
    without = against(study, ("perceptual",), ("nearest",), "next_action")
    found = [*with_model, *without]
    return Counterpart(
        "table-5",
        "Table 5",
        "Next action: from the most similar case against from the searched one",
        table=Table(PAIRED_HEADER, paired_rows(found)) if found else None,
        beside=(beside("guided against single", _verdict(with_model)),),
        missing="" if with_model else lacks("single-rag", "guided"),
        stand_in=(shown_instead(study, "the nearest picture's labels against the perceptual judge") if without else ""),
        notes=(EACH_ITEM,) if found else (),
    )


def _times(study: Study) -> Counterpart:
    """Table 6: how long an answer takes."""
    rows: list[tuple[Cell, ...]] = []
    means: dict[str, float | None] = {}
    searched: Share | None = None
    main = {a.name for a in study.mains("zero-shot", "single-rag", "guided")}
    for arm in study.asked:
        answered = [r for r in study.of(arm) if r.error is None and r.failure is None]
        parts: dict[str, list[float]] = {"": [r.seconds for r in answered]}
        if arm.method in ("guided", "guided-always"):
            first = [bool((r.search or {}).get("first_confirmed")) for r in answered]
            confirmed = [r.seconds for r, yes in zip(answered, first, strict=True) if yes]
            full = [r.seconds for r, yes in zip(answered, first, strict=True) if not yes]
            parts = {", first candidate confirmed": confirmed, ", full search": full, ", all": parts[""]}
            if arm.name in main and arm.method == "guided" and searched is None:
                searched = Share(len(full), len(answered))
        for part, seconds in parts.items():
            if not seconds:
                continue
            took = latency(seconds)
            rows.append((arm.name + part, took.n, _seconds(took.mean), _seconds(took.sd), _seconds(took.median)))
            if arm.name in main:
                means.setdefault(arm.method + part, took.mean)
                means.setdefault(arm.method + part + " median", took.median)
    keys = {
        "time zero-shot": "zero-shot",
        "time single-rag": "single-rag",
        "time confirmed": "guided, first candidate confirmed",
        "time searched": "guided, full search",
        "time guided": "guided, all",
        "time guided median": "guided, all median",
    }
    shown: list[Beside] = [
        beside(k, words_of(_seconds(means.get(v))) if means.get(v) is not None else None) for k, v in keys.items()
    ]
    shown.append(beside("searched", words_of(searched) if searched and searched.n else None))
    lacking = [m for m in ("zero-shot", "single-rag", "guided") if not study.by_method(m)]
    return Counterpart(
        "table-6",
        "Table 6",
        "Time of one answer",
        table=Table(("method", "answers", "mean", "SD", "median"), tuple(rows)) if rows else None,
        beside=tuple(shown),
        missing=lacks(*lacking) if lacking else "",
        stand_in="Methods without a model are shown." if lacking and rows else "",
        notes=(
            "Answers that failed are left out. Times are of the machine in the manifest, beside whatever else ran there.",
        ),
    )


def _verdict(found: Sequence[Comparison]) -> str | None:
    if not found:
        return None
    below = sum(p.mcnemar.p_value < 0.05 for p in found)
    return f"p < .05 in {below} of {len(found)} comparison{'' if len(found) == 1 else 's'}"


def _no_search(study: Study) -> str:
    """What a run without a search lacks, and why nothing can be shown in its place."""
    judged = study.by_method("perceptual")
    return " ".join([lacks("guided"), *([without_top_1(study, "perceptual")] if judged else [])])


def _seconds(value: float | None) -> Seconds | None:
    return None if value is None else Seconds(value)
