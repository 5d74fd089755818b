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
from sagehand.world.agree.markdown import md_numbers
from sagehand.world.agree.measure import Pair, figures, pairs_of
from sagehand.world.agree.scores import roc_curve
from sagehand.world.agree.store import Entry
from sagehand.world.agree.text import summary_text, verdicts
from sagehand.world.agree.worst import WORST, draw_worst, told, worst_pairs

__all__ = ["AgreementReport", "confusion_csv", "write_report"]


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
    robot: str = "panda",
    made: int = 0,
    seconds: float = 0.0,
) -> AgreementReport:
    """Measure the records and write the report beside them.

    Args:
        folder: The study's folder.
        entries: Its records.
        study: What the study is: seed, objects, versions, digests.
        pictures: Render so many of the worst disagreements; 12 are told of at least.
        robot: Whose arm and hand the pictures show.
        made: Samples that were tried now.
        seconds: How long that took [s].

    Raises:
        InputError: It cannot be written.
    """
    found, pairs = figures(entries), pairs_of(entries)
    worst = worst_pairs(pairs, max(pictures, WORST))
    drawn, notes = _pictures(folder, worst[:pictures], robot)
    if not (roc := _draw_roc(folder, pairs)):
        notes.append("no roc.png: it needs matplotlib and both outcomes")
    if found["mismatched"]:
        notes.append(f"grasps left out, answers to different samples: {md_numbers(found['mismatched'])}; run again")
    rows = [told(p) for p in worst]
    text = summary_text(found, study, [r["caption"] for r in rows], pictures=drawn, roc=roc)
    doc = {"study": dict(study), **found, "worst": rows}
    write_whole(folder / "summary.md", text.encode())
    write_whole(folder / "summary.json", json.dumps(doc, indent=1, ensure_ascii=False, allow_nan=False).encode())
    write_whole(folder / "confusion.csv", confusion_csv(found["failure_type"]["confusion"]).encode())
    return AgreementReport(str(folder), doc, text, made, seconds, tuple(notes))


def _pictures(folder: Path, worst: Sequence[Pair], robot: str) -> tuple[int, list[str]]:
    """How many were drawn, and why not the others."""
    if not worst:
        return 0, []
    from sagehand.world.objects.load import resolve
    from sagehand.world.robot.description import load_robot

    drawn, why = draw_worst(folder, worst, load_robot(robot), resolve)
    return len(drawn), [why] if why else []


def confusion_csv(table: Mapping[str, Mapping[str, int]]) -> str:
    """The confusion of verdicts as CSV: a row an analytic verdict, a column a physical one."""
    names = verdicts(table)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["analytic \\ physics", *names])
    writer.writerows([name, *(table.get(name, {}).get(other, 0) for other in names)] for name in names)
    return out.getvalue()


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
