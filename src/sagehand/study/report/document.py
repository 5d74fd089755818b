"""A report as the plain data that its page is made from, and the small pictures of its galleries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sagehand.errors import SagehandError
from sagehand.study.report.about import warnings_of
from sagehand.study.report.cells import Cell, text_of
from sagehand.study.report.load import Study
from sagehand.study.report.parts import Counterpart, Gallery, Shown, Table

__all__ = ["Sections", "document", "thumbnails"]

Sections = list[tuple[str, list[Counterpart]]]
"""(heading, its counterparts), in the order of the page."""

_THUMBNAIL = 160  # pixels along the longer side


def _picture_key(study: Study, shown: Shown, key: str) -> str:
    return f"{shown.seed if shown.seed in study.data else ''}:{key}"


def thumbnails(study: Study, gallery: Gallery) -> dict[str, bytes]:
    """Small pictures of a gallery, as JPEG by name; one that cannot be read any more is left out.

    Args:
        study: The run.
        gallery: The gallery.
    """
    from sagehand.picture import load, to_jpeg

    found: dict[str, bytes] = {}
    for shown in gallery.shown:
        for key in (shown.query, shown.case):
            sample, name = study.sample(shown.seed, key or None), _picture_key(study, shown, key)
            if sample is None or name in found:
                continue
            try:
                found[name] = to_jpeg(load(sample.path).pixels, long_side=_THUMBNAIL, quality=80)
            except (SagehandError, OSError):
                continue
    return found


def document(study: Study, parts: Sections, pictures: Iterable[str]) -> dict[str, Any]:
    """What :func:`sagehand.pages.study_page` makes a page from.

    Args:
        study: The run.
        parts: Its sections.
        pictures: Names of the charts and pictures there are.
    """
    from sagehand.version import __version__

    there = frozenset(pictures)
    asked = [r for a in study.asked for r in study.of(a)]
    summary = [
        ("arms", str(len(study.asked))),
        ("items", f"{len(asked):,}"),
        ("pictures asked", f"{len({study.picture(r) for r in asked}):,}"),
        ("seeds", str(len({r.seed for r in study.records}))),
        ("main arm", study.main.name if study.main else "–"),
    ]
    return {
        "title": study.plan.name,
        "summary": summary,
        "warnings": warnings_of(study),
        "groups": [{"title": title, "parts": [_part(study, part, there) for part in group]} for title, group in parts],
        "version": __version__,
    }


def _part(study: Study, part: Counterpart, pictures: frozenset[str]) -> dict[str, Any]:
    return {
        "name": part.name,
        "number": part.number,
        "title": part.title,
        "missing": part.missing,
        "stand_in": part.stand_in,
        "beside": [(b.what, b.paper, b.here, b.source) for b in part.beside],
        "chart": part.name if part.chart is not None else None,
        "table": _table(part.table),
        "notes": list(part.notes),
        "gallery": None
        if part.gallery is None
        else {
            "rule": part.gallery.rule,
            "shown": [
                {
                    "query": _there(_picture_key(study, s, s.query), pictures),
                    "case": _there(_picture_key(study, s, s.case), pictures),
                    "name": s.query,
                    "kind": s.kind,
                    "rows": list(s.rows),
                }
                for s in part.gallery.shown
            ],
        },
    }


def _there(key: str, pictures: frozenset[str]) -> str | None:
    return key if key in pictures else None


def _table(table: Table | None) -> dict[str, Any] | None:
    if table is None:
        return None
    return {
        "header": [(name, _kind([row[i] for row in table.rows])) for i, name in enumerate(table.header)],
        "rows": [[(*text_of(cell), _kind([cell])) for cell in row] for row in table.rows],
    }


def _kind(cells: Sequence[Cell]) -> str:
    """Names stand to the left, numbers to the right."""
    return "name" if any(isinstance(cell, str) for cell in cells) else "number"
