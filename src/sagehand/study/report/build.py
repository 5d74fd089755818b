"""``study report``: one self-contained page of a run, and beside it every table as Markdown and CSV, every figure as SVG."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sagehand.errors import InputError
from sagehand.files import write_whole
from sagehand.study.report.about import settings_of, warnings_of
from sagehand.study.report.abstention import abstention, certified
from sagehand.study.report.document import Sections, document, thumbnails
from sagehand.study.report.duels import paper_duels
from sagehand.study.report.figures import retrieval_figures
from sagehand.study.report.galleries import galleries
from sagehand.study.report.load import Study, load_study
from sagehand.study.report.overview import ablations, against_baseline, confusion, main_table
from sagehand.study.report.tables import paper_tables
from sagehand.study.report.tasks import task_figures
from sagehand.study.report.written import files_of

__all__ = ["ReportFiles", "build", "write_report"]


@dataclass(frozen=True)
class ReportFiles:
    """What was written.

    Attributes:
        page: The page.
        files: Everything beside it.
        main: Name of the main arm, or None.
        arms: Arm → items that it answered.
        missing: Counterpart → which method the run lacks for it.
        warnings: What makes figures weaker than they look.
    """

    page: Path
    files: tuple[Path, ...]
    main: str | None
    arms: dict[str, int]
    missing: dict[str, str]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "page": str(self.page),
            "files": [str(f) for f in self.files],
            "main": self.main,
            "arms": self.arms,
            "missing": self.missing,
            "warnings": list(self.warnings),
        }


def write_report(
    run: str | Path,
    out: str | Path,
    *,
    data: str | Path | None = None,
    main: str | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> ReportFiles:
    """Write the report of a run. The same records give the same bytes.

    Args:
        run: The run's folder.
        out: The page; tables and figures go into the folder of its name without ending.
        data: Folder of the labelled pictures, for galleries and counts; None for the one the run was made on.
        main: Name of the arm the report is about; None for the one that the plan implies.
        on_progress: Called with (sections done, all sections).

    Raises:
        InputError: The run cannot be read or has no records, or a file cannot be written.
        UnknownName: There is no such arm.
        MissingExtra: matplotlib or statsmodels is not installed.
    """
    from sagehand.pages import study_page

    out = Path(out)
    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{out}: a report is a page", hint=f"name it {out.stem or 'report'}.html")
    study = load_study(Path(run), data=data, main=main)
    parts = build(study)
    beside = out.with_suffix("")
    files: list[Path] = []
    pictures: dict[str, bytes] = {}
    written: dict[Path, bytes] = {}
    for done, (_, group) in enumerate(parts):
        for part in group:
            written |= files_of(part, beside)
            if part.chart is not None:
                pictures[part.name] = written[beside / f"{part.name}.svg"]
            if part.gallery is not None:
                pictures |= thumbnails(study, part.gallery)
        if on_progress is not None:
            on_progress(done + 1, len(parts))
    page = study_page(document(study, parts, pictures), pictures)
    for path, content in written.items():
        write_whole(path, content)
        files.append(path)
    everything = [part for _, group in parts for part in group]
    _tidy(beside, {p.name for p in everything}, set(files))
    write_whole(out, page.encode())
    return ReportFiles(
        page=out,
        files=tuple(files),
        main=study.main.name if study.main else None,
        arms={a.name: len(study.of(a)) for a in study.asked},
        missing={(p.number or p.title): p.missing for p in everything if p.missing},
        warnings=tuple(warnings_of(study)),
    )


def build(study: Study) -> Sections:
    """All sections of the report: (heading, its counterparts), in the order of the page."""
    tables, figures, duels, shown = paper_tables(study), retrieval_figures(study), paper_duels(study), galleries(study)
    return [
        ("Results", [main_table(study), *against_baseline(study), ablations(study), confusion(study)]),
        ("Abstaining", [abstention(study), certified(study)]),
        ("The paper's tables", tables),
        ("The paper's figures", [*figures, *task_figures(study), *duels]),
        ("Failures", shown),
        ("Settings", [settings_of(study)]),
    ]


def _tidy(folder: Path, names: set[str], written: set[Path]) -> None:
    """Take away what an earlier report wrote under a name of ours and this one did not: it would look like this one's."""
    for name in names:
        for ending in ("csv", "svg"):
            path = folder / f"{name}.{ending}"
            if path not in written:
                path.unlink(missing_ok=True)
