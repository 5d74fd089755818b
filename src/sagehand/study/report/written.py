"""A counterpart as files: Markdown, CSV, SVG."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from sagehand.study.report.cells import csv_of, words_of
from sagehand.study.report.draw import svg_of
from sagehand.study.report.parts import Counterpart

__all__ = ["files_of", "markdown_of"]


def markdown_of(part: Counterpart) -> str:
    """A counterpart as Markdown: its table, the paper's figures beside ours, what is missing, and its notes."""
    lines = [f"# {part.number}: {part.title}" if part.number else f"# {part.title}", ""]
    for text in (part.missing, part.stand_in):
        if text:
            lines += [_escaped(text), ""]
    if part.beside:
        rows = [[b.what, b.paper, b.here, b.source] for b in part.beside]
        lines += [*_grid_lines(["measured", "paper A", "here", "where"], rows), ""]
    if part.table is not None:
        lines += [*_grid_lines(part.table.header, [[words_of(c) for c in row] for row in part.table.rows]), ""]
    for note in part.notes:
        lines += [_escaped(note), ""]
    return "\n".join(lines).rstrip() + "\n"


def _grid_lines(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    cells = [[_escaped(str(c)) for c in row] for row in [header, *rows]]
    ruled = ["| " + " | ".join(row) + " |" for row in cells]
    return [ruled[0], "|" + " --- |" * len(header), *ruled[1:]]


def _escaped(text: str) -> str:
    """Names of files and arms are text, not Markdown or HTML."""
    plain = " ".join(text.split())
    for mark in ("\\", "|", "<", "*", "_"):
        plain = plain.replace(mark, "\\" + mark)
    return plain


def files_of(part: Counterpart, folder: Path) -> dict[Path, bytes]:
    """The files of a counterpart: path → content. Nothing is written here.

    Args:
        part: The counterpart.
        folder: Where they are to lie.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    files: dict[Path, bytes] = {folder / f"{part.name}.md": markdown_of(part).encode("utf-8", "backslashreplace")}
    if part.table is not None:
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(csv_of(part.table.header, part.table.rows))
        files[folder / f"{part.name}.csv"] = out.getvalue().encode("utf-8", "backslashreplace")
    if part.chart is not None:
        files[folder / f"{part.name}.svg"] = svg_of(part.chart)
    return files
