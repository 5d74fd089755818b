"""The report of an agreement study: ``summary.md`` and ``.json``, ``confusion.csv``, ``roc.png``, ``worst/``."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sagehand.files import write_whole
from sagehand.world.agree.measure import Pair, figures, pairs_of
from sagehand.world.agree.scores import roc_curve
from sagehand.world.agree.store import Entry
from sagehand.world.agree.worst import caption, draw_worst, worst_pairs

__all__ = ["AgreementReport", "confusion_csv", "summary_text", "write_report"]


@dataclass(frozen=True, eq=False)
class AgreementReport:
    """What a study found.

    Attributes:
        folder: Where it lies.
        figures: All figures (:func:`~sagehand.world.agree.measure.figures`), with the header under "study".
        summary: The report as Markdown.
        made: Samples that were tried now.
        seconds: How long that took [s].
        notes: What could not be made, a line each.
    """

    folder: str
    figures: Mapping[str, Any]
    summary: str = field(repr=False)
    made: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "folder": self.folder,
            **self.figures,
            "made": self.made,
            "seconds": round(self.seconds, 1),
            "notes": list(self.notes),
        }


def write_report(
    folder: Path,
    entries: Sequence[Entry],
    study: Mapping[str, Any],
    *,
    pictures: int = 12,
    made: int = 0,
    seconds: float = 0.0,
) -> AgreementReport:
    """Measure the records and write the report beside them.

    Args:
        folder: The study's folder.
        entries: Its records.
        study: What the study is: seed, objects, versions, digests.
        pictures: Render so many of the worst disagreements.
        made: Samples that were tried now.
        seconds: How long that took [s].

    Raises:
        InputError: It cannot be written.
    """
    found = figures(entries)
    pairs = pairs_of(entries)
    worst = worst_pairs(pairs, pictures)
    notes: list[str] = []
    drawn: list[Path] = []
    if worst:
        from sagehand.world.objects.load import resolve
        from sagehand.world.robot.description import load_robot

        drawn, why = draw_worst(folder, worst, load_robot(), resolve)
        notes += [why] if why else []
    if not (roc := _draw_roc(folder, pairs)):
        notes.append("no roc.png: it needs matplotlib and both outcomes")
    captions = [caption(p) for p in worst]
    text = summary_text(found, study, captions, pictures=len(drawn), roc=roc)
    doc = {"study": dict(study), **found, "worst": captions}
    write_whole(folder / "summary.md", text.encode())
    write_whole(folder / "summary.json", json.dumps(doc, indent=1, ensure_ascii=False, allow_nan=False).encode())
    write_whole(folder / "confusion.csv", confusion_csv(found["failure_type"]["confusion"]).encode())
    return AgreementReport(str(folder), doc, text, made, seconds, tuple(notes))


def confusion_csv(table: Mapping[str, Mapping[str, int]]) -> str:
    """The confusion of verdicts as CSV: a row an analytic verdict, a column a physical one."""
    names = _verdicts(table)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["analytic \\ physics", *names])
    writer.writerows([name, *(table.get(name, {}).get(other, 0) for other in names)] for name in names)
    return out.getvalue()


def summary_text(
    found: Mapping[str, Any],
    study: Mapping[str, Any],
    captions: Sequence[str] = (),
    *,
    pictures: int = 0,
    roc: bool = False,
) -> str:
    """The report as Markdown."""
    types, success = found["failure_type"], found["success"]
    parts = [
        "# Agreement of the analytic executor with the physics",
        f"{found['n']} grasps, seed {study.get('seed')}, {len(study.get('objects', ()))} objects and instances"
        + (f"; {len(found['errors'])} outcomes broke and are left out" if found["errors"] else "")
        + ". Intervals are 95 %, objects drawn anew.",
        _table(
            ("figure", "value"),
            [
                ("agreement of success", f"{_pct(found['agreement'])} {_span(found['agreement_by_objects'])}"),
                ("Cohen's κ", _num(found["kappa"])),
                ("success, analytic", _pct(found["base_rate"]["analytic"])),
                ("success, physics", _pct(found["base_rate"]["physics"])),
                *[
                    (f"ROC AUC of {name}", f"{_num(row['auc'])} {_span(row.get('by_objects'), 3)} (n {row['n']})")
                    for name, row in found["roc"].items()
                    if "by_objects" in row
                ],
                ("same failure type where both fail", f"{_pct(types['same_type'])} of {types['n_both_fail']}"),
            ],
        ),
        "## Success",
        _table(
            ("", "physics: held", "physics: not"),
            [
                ("analytic: held", str(success["both"]), str(success["analytic_only"])),
                ("analytic: not", str(success["physics_only"]), str(success["neither"])),
            ],
        ),
        "## By kind",
        _groups(found["by_kind"], "kind"),
        "## What was done to them",
        _groups(found["by_sub"], "kind: what"),
        "## Alone and with a neighbour",
        _groups(found["with_neighbour"], "scene"),
        "## By object",
        _groups(found["by_object"], "object"),
        "## Verdicts (rows: analytic; columns: physics)",
        _confusion(types["confusion"]),
        "## Failure types where both fail",
        _table(
            ("type", "analytic", "physics", "both"),
            [(k, *(str(v[c]) for c in ("analytic", "physics", "both"))) for k, v in types["types"].items()],
        ),
        "## Q",
        *(["![ROC](roc.png)"] if roc else []),
        _table(
            ("score", "AUC against physics", "n"),
            [(k, _num(v["auc"]), str(v["n"])) for k, v in found["roc"].items()],
        ),
        _table(
            ("tenth by Q", "n", "mean Q", "held, analytic", "held, physics"),
            [
                (
                    f"{r['from']:.2f}–{r['to']:.2f}",
                    str(r["n"]),
                    _num(r["mean_q"]),
                    _pct(r["analytic"]),
                    _pct(r["physics"]),
                )
                for r in found["reliability"]
            ],
        ),
        "## Negative controls (must fail)",
        _table(
            ("control", "n", "held, analytic", "held, physics"),
            [
                (k, str(v["n"]), _numbers(v["held_analytic"]), _numbers(v["held_physics"]))
                for k, v in found["controls"].items()
            ],
        ),
        "## Speed, one process",
        _table(
            ("executor", "grasps", "grasps/s", "carried out", "grasps/s", "by processor time", "median ms"),
            [
                (
                    k,
                    str(v["n"]),
                    _num(v["per_second"], 1),
                    str(v["n_carried_out"]),
                    _num(v["per_second_carried_out"], 1),
                    _num(v["per_cpu_second_carried_out"], 1),
                    _num(v["median_ms"], 1),
                )
                for k, v in found["speed"].items()
            ],
        ),
    ]
    if captions:
        parts.append("## Disagreements in which the analytic executor was surest")
        for place, text in enumerate(captions, 1):
            picture = f"![{place}](worst/{place:02d}.png)\n\n" if place <= pictures else ""
            parts.append(f"{picture}{place}. " + text.replace("\n", "\n   "))
    return "\n\n".join(p for p in parts if p) + "\n"


def _verdicts(table: Mapping[str, Mapping[str, int]]) -> list[str]:
    names = {*table, *(other for row in table.values() for other in row)}
    return sorted(names, key=lambda n: (n != "success", n))


def _confusion(table: Mapping[str, Mapping[str, int]]) -> str:
    names = _verdicts(table)
    rows = [(name, *(str(table.get(name, {}).get(other, "") or "·") for other in names)) for name in names]
    return _table(("", *names), rows)


def _groups(groups: Mapping[str, Mapping[str, Any]], what: str) -> str:
    return _table(
        (what, "n", "agreement", "held, analytic", "held, physics"),
        [(k, str(v["n"]), _pct(v["agreement"]), _pct(v["analytic"]), _pct(v["physics"])) for k, v in groups.items()],
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _pct(share: float | None) -> str:
    return "–" if share is None else f"{share * 100:.1f} %"


def _num(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _span(interval: Sequence[float] | None, digits: int = 0) -> str:
    if interval is None:
        return ""
    low, high = interval
    return f"({low:.{digits}f}–{high:.{digits}f})" if digits else f"({low * 100:.1f}–{high * 100:.1f})"


def _numbers(numbers: Sequence[int]) -> str:
    if not numbers:
        return "none"
    return f"{len(numbers)} (grasps {', '.join(map(str, numbers[:8]))}{', …' if len(numbers) > 8 else ''})"


def _draw_roc(folder: Path, pairs: Sequence[Pair]) -> bool:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return False
    have = [(p.analytic.total, p.physics.success) for p in pairs if p.analytic.total is not None]
    if len({y for _, y in have}) < 2:
        return False
    false, true = roc_curve([q for q, _ in have], [y for _, y in have])
    figure = Figure(figsize=(4.5, 4.5), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color="0.8", linewidth=1)
    axes.plot(false, true, color="#1f4e79")
    axes.set_xlabel("failures in physics taken for successes")
    axes.set_ylabel("successes in physics recognised")
    axes.set_title("Q against physics")
    axes.set_aspect("equal")
    target = io.BytesIO()
    FigureCanvasAgg(figure).print_png(target, metadata={"Software": None})
    write_whole(folder / "roc.png", target.getvalue())
    return True
