"""The figures of a study as Markdown: a function a section."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sagehand.world.agree.markdown import md_numbers, md_pct, md_span, md_table, md_value

__all__ = ["md_force_estimate", "md_reliability", "summary_text", "verdicts"]

Figures = Mapping[str, Any]
_GROUPS = (
    ("By kind", "by_kind", "kind"),
    ("What was done to them", "by_sub", "kind: what"),
    ("Alone and with a neighbour", "with_neighbour", "scene"),
    ("By object", "by_object", "object"),
)


def summary_text(
    found: Figures, study: Figures, captions: Sequence[str] = (), *, pictures: int = 0, roc: bool = False
) -> str:
    """The report as Markdown.

    Args:
        found: All figures (:func:`~sagehand.world.agree.measure.figures`).
        study: What the study is: seed, objects.
        captions: Of the worst disagreements.
        pictures: So many of them were drawn.
        roc: Whether the curve was drawn.
    """
    parts = [
        "# Agreement of the analytic executor with the physics",
        _opening(found, study),
        _headline(found),
        "## Success",
        _success(found["success"]),
        *(part for title, key, what in _GROUPS for part in (f"## {title}", _groups(found[key], what))),
        "## Verdicts (rows: analytic; columns: physics)",
        _confusion(found["failure_type"]["confusion"]),
        "## Failure types where both fail",
        _types(found["failure_type"]["types"]),
        "## Q",
        "![ROC](roc.png)" if roc else "",
        _scores(found["roc"]),
        md_reliability(found["reliability"]),
        "## Negative controls (must fail)",
        _controls(found["controls"]),
        "## The search's estimate of force",
        md_force_estimate([found["force_estimate"]]),
        "## Speed, one process",
        _speed(found["speed"]),
        *_worst(captions, pictures),
    ]
    return "\n\n".join(p for p in parts if p) + "\n"


def verdicts(table: Mapping[str, Mapping[str, int]]) -> list[str]:
    """The verdicts of a confusion, success first."""
    names = {*table, *(other for row in table.values() for other in row)}
    return sorted(names, key=lambda n: (n != "success", n))


def md_force_estimate(found: Sequence[Figures], names: Sequence[str] = ("value",)) -> str:
    """What the search says that grasps need over what the analytic executor says, a column a study."""
    quantiles = list(dict.fromkeys(q for f in found for q in f["ratio"]))
    return md_table(
        ("the search's force over the analytic one", *names),
        [
            ("n", *(str(f["n"]) for f in found)),
            *((f"quantile {q}", *(md_value(f["ratio"].get(q), 2) for f in found)) for q in quantiles),
            ("too low (below 1)", *(md_pct(f["below"]) for f in found)),
            (
                "of the kind “weak”, pressed as hard as the analytic one asks",
                *(f"{md_pct(f['weak_enough'])} of {f['n_weak']}" for f in found),
            ),
        ],
    )


def _opening(found: Figures, study: Figures) -> str:
    text = f"{found['n']} grasps, seed {study.get('seed')}, {len(study.get('objects', ()))} objects and instances"
    if found["errors"]:
        text += f"; {len(found['errors'])} outcomes broke and are left out"
    if found["mismatched"]:
        text += f"; {md_numbers(found['mismatched'])} are left out, for the two executors answered different samples"
    return text + ". Intervals are 95 %, objects drawn anew."


def _headline(found: Figures) -> str:
    types, base = found["failure_type"], found["base_rate"]
    return md_table(
        ("figure", "value"),
        [
            ("agreement of success", f"{md_pct(found['agreement'])} {md_span(found['agreement_by_objects'])}"),
            ("Cohen's κ", md_value(found["kappa"])),
            ("success, analytic", md_pct(base["analytic"])),
            ("success, physics", md_pct(base["physics"])),
            *[
                (f"ROC AUC of {name}", f"{md_value(row['auc'])} {md_span(row.get('by_objects'), 3)} (n {row['n']})")
                for name, row in found["roc"].items()
                if "by_objects" in row
            ],
            ("same failure type where both fail", f"{md_pct(types['same_type'])} of {types['n_both_fail']}"),
        ],
    )


def _success(counts: Mapping[str, int]) -> str:
    return md_table(
        ("", "physics: held", "physics: not"),
        [
            ("analytic: held", str(counts["both"]), str(counts["analytic_only"])),
            ("analytic: not", str(counts["physics_only"]), str(counts["neither"])),
        ],
    )


def _groups(groups: Mapping[str, Figures], what: str) -> str:
    return md_table(
        (what, "n", "agreement", "held, analytic", "held, physics"),
        [
            (k, str(v["n"]), md_pct(v["agreement"]), md_pct(v["analytic"]), md_pct(v["physics"]))
            for k, v in groups.items()
        ],
    )


def _confusion(table: Mapping[str, Mapping[str, int]]) -> str:
    names = verdicts(table)
    rows = [(name, *(str(table.get(name, {}).get(other, "") or "·") for other in names)) for name in names]
    return md_table(("", *names), rows)


def _types(types: Mapping[str, Mapping[str, int]]) -> str:
    return md_table(
        ("type", "analytic", "physics", "both"),
        [(k, *(str(v[c]) for c in ("analytic", "physics", "both"))) for k, v in types.items()],
    )


def _scores(roc: Mapping[str, Figures]) -> str:
    rows = [(k, md_value(v["auc"]), str(v["n"])) for k, v in roc.items()]
    return md_table(("score", "AUC against physics", "n"), rows)


def md_reliability(rows: Sequence[Figures]) -> str:
    """How many succeed in each tenth by Q."""
    return md_table(
        ("tenth by Q", "n", "mean Q", "held, analytic", "held, physics"),
        [
            (
                f"{r['from']:.2f}–{r['to']:.2f}",
                str(r["n"]),
                md_value(r["mean_q"]),
                md_pct(r["analytic"]),
                md_pct(r["physics"]),
            )
            for r in rows
        ],
    )


def _controls(controls: Mapping[str, Figures]) -> str:
    return md_table(
        ("control", "n", "held, analytic", "held, physics"),
        [(k, str(v["n"]), md_numbers(v["held_analytic"]), md_numbers(v["held_physics"])) for k, v in controls.items()],
    )


def _speed(speed: Mapping[str, Figures]) -> str:
    return md_table(
        ("executor", "grasps", "grasps/s", "carried out", "grasps/s", "by processor time", "median ms"),
        [
            (
                k,
                str(v["n"]),
                md_value(v["per_second"], 1),
                str(v["n_carried_out"]),
                md_value(v["per_second_carried_out"], 1),
                md_value(v["per_cpu_second_carried_out"], 1),
                md_value(v["median_ms"], 1),
            )
            for k, v in speed.items()
        ],
    )


def _worst(captions: Sequence[str], pictures: int) -> list[str]:
    if not captions:
        return []
    parts = ["## Disagreements in which the analytic executor was surest"]
    for place, text in enumerate(captions, 1):
        picture = f"![{place}](worst/{place:02d}.png)\n\n" if place <= pictures else ""
        parts.append(f"{picture}{place}. " + text.replace("\n", "\n   "))
    return parts
