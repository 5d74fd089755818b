"""The page of a study: what came out, beside what the paper found, with its failures to look at (SPEC A7)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from sagehand.errors import InputError, NotAPicture
from sagehand.pages.page import data_uri, render

__all__ = ["study_page"]


def study_page(doc: Mapping[str, Any], images: Mapping[str, bytes]) -> str:
    """One self-contained HTML page for one study.

    Args:
        doc: ``title``; ``summary``, (name, value) pairs; ``warnings``; ``version``; and ``groups``, each with a ``title``
            and ``parts``. A part has ``name`` (of files, and its place on the page), ``number`` ("Table 1" or ""),
            ``title``, ``missing`` and ``stand_in`` (sentences or ""), ``beside`` ((what, the paper's, ours, source) rows),
            ``chart`` (a name in ``images`` or None), ``table`` (``header`` of (text, "name" or "number"), and ``rows`` of
            (text, small print, "name" or "number") cells; or None), ``notes``, and ``gallery`` (``rule`` and ``shown``,
            each with ``query`` and ``case`` (names in ``images`` or None), ``name``, ``kind`` and ``rows`` (what, of the
            query, of the case); or None).
        images: SVG bytes of charts and JPEG or PNG bytes of pictures, by name.

    Returns:
        The page. It holds its pictures and styles, runs no script, and fetches nothing.

    Raises:
        InputError: ``doc`` is no study.
        NotAPicture: One of the images is no SVG, JPEG or PNG.
    """
    missing = [key for key in ("title", "groups") if key not in doc]
    if missing:
        raise InputError(f"no study document: it lacks {' and '.join(missing)}", hint="hand in what the report builds")
    uris = {name: _svg(name, data) if b"<svg" in data[:1000] else data_uri(name, data) for name, data in images.items()}
    return render(
        "study.html",
        title=str(doc["title"]),
        summary=list(doc.get("summary") or ()),
        warnings=list(doc.get("warnings") or ()),
        groups=[_group(group, uris) for group in doc["groups"]],
        footer=[("sagehand", str(doc.get("version") or ""))],
    )


def _svg(name: str, data: bytes) -> str:
    """A chart as the address of an image: as one it can run nothing and fetch nothing."""
    if not data.lstrip().startswith((b"<?xml", b"<svg")):
        raise NotAPicture(f"page picture {name!r}: {len(data)} bytes that are no SVG", hint="draw it with matplotlib")
    return f"data:image/svg+xml;base64,{b64encode(data).decode('ascii')}"


def _group(group: Mapping[str, Any], uris: Mapping[str, str]) -> dict[str, Any]:
    parts = [_part(part, uris) for part in group["parts"]]
    return {"title": group["title"], "parts": parts}


def _part(part: Mapping[str, Any], uris: Mapping[str, str]) -> dict[str, Any]:
    gallery = part.get("gallery")
    return {
        "name": part["name"],
        "number": part.get("number") or "",
        "title": part["title"],
        "missing": part.get("missing") or "",
        "stand_in": part.get("stand_in") or "",
        "beside": list(part.get("beside") or ()),
        "chart": uris.get(part.get("chart") or ""),
        "table": part.get("table"),
        "notes": list(part.get("notes") or ()),
        "gallery": None
        if not gallery
        else {"rule": gallery["rule"], "shown": [_shown(s, uris) for s in gallery["shown"]]},
    }


def _shown(shown: Mapping[str, Any], uris: Mapping[str, str]) -> dict[str, Any]:
    return {
        "query": uris.get(shown.get("query") or ""),
        "case": uris.get(shown.get("case") or ""),
        "name": shown.get("name") or "",
        "kind": shown.get("kind") or "",
        # what differs is set off, for the eye that compares
        "rows": [(what, query, case, query != case) for what, query, case in shown.get("rows") or ()],
    }
