"""Decision pages as files: gathers the pictures that a page shows and writes it whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sagehand.action.decision import Decision
from sagehand.cases import CaseBase
from sagehand.errors import NoSuchCase, PictureError
from sagehand.files import write_whole
from sagehand.pages import IndexEntry, decision_page, index_page
from sagehand.picture import Box, Limits, Picture, load, to_jpeg

__all__ = ["write_logged_page", "write_page", "write_pages"]

_LARGE, _SMALL = 1000, 200


def write_page(path: Path, decision: Decision, base: CaseBase, picture: str | Path | Picture) -> None:
    """Write the page of a decision just made.

    Args:
        path: The HTML file; its folder is made when it is not there.
        decision: The decision.
        base: The case base that it leans on.
        picture: The query.

    Raises:
        InputError: The file cannot be written.
    """
    seen = picture if isinstance(picture, Picture) else load(picture)
    doc = decision.to_dict()
    write_whole(path, decision_page(doc, _query_images(doc, seen) | _case_images(doc, base)).encode())


def write_logged_page(path: Path, doc: Mapping[str, Any], base: CaseBase) -> None:
    """Write the page of a logged decision; the query shows as the small picture that was logged."""
    images = dict(_case_images(doc, base))
    small = base.decision_thumbnail(int(doc["decision"]))
    if small:
        images["query"] = small
    write_whole(path, decision_page(doc, images).encode())


def write_pages(
    folder: Path,
    source: Path,
    results: Sequence[tuple[str, Decision | str]],
    base: CaseBase,
    *,
    limits: Limits | None = None,
) -> None:
    """Write a page for each picture of a folder, and an index.

    Args:
        folder: Where the pages go.
        source: Where the pictures are.
        results: (name, decision or error) of each picture.
        base: The case base.
        limits: Caps on the pictures that are read.
    """
    entries = []
    for number, (name, result) in enumerate(results, 1):
        if isinstance(result, str):
            entries.append(IndexEntry(name=name, reason=result, failed=True))
            continue
        href = f"{number:04d}.html"
        try:
            seen = load(source / name, limits=limits or Limits())
        except PictureError as error:  # it has gone since it was decided on: the answer still stands in the index
            why = f"{result.reason}; no page: {error.message}"
            entries.append(
                IndexEntry(
                    name=name,
                    answer=result.next_action,
                    reason=why,
                    confidence=result.confidence,
                    needs_confirmation=result.needs_confirmation,
                )
            )
            continue
        write_page(folder / href, result, base, seen)
        entries.append(
            IndexEntry(
                name=name,
                href=href,
                answer=result.next_action,
                reason=result.reason,
                confidence=result.confidence,
                needs_confirmation=result.needs_confirmation,
                thumbnail=to_jpeg(seen.pixels, long_side=320),
            )
        )
    write_whole(folder / "index.html", index_page(entries, title=source.name or "Decisions").encode())


def _query_images(doc: Mapping[str, Any], seen: Picture) -> dict[str, bytes]:
    images = {"query": to_jpeg(seen.pixels, long_side=_LARGE)}
    if doc["query"]["box"]:
        images["crop"] = to_jpeg(seen.crop(Box(*doc["query"]["box"])).picture.pixels, long_side=_LARGE)
    return images


def _case_images(doc: Mapping[str, Any], base: CaseBase) -> dict[str, bytes]:
    """The leaning case large, the candidates small; a case that is gone from the file has no picture."""
    wanted = [(f"candidate:{ident}", ident, _SMALL) for ident in _shown_small(doc)]
    if doc.get("case"):
        wanted.append(("case", doc["case"]["id"], _LARGE))
    images = {}
    for name, case_id, side in wanted:
        try:
            images[name] = to_jpeg(load(base.image(case_id)).pixels, long_side=side)
        except (NoSuchCase, PictureError):
            continue
    return images


def _shown_small(doc: Mapping[str, Any]) -> list[str]:
    """Ids of the candidates, of the first that a guided search looked at, and of those that it graded; each once."""
    search = doc.get("search") or {}
    looked = [
        q["about"][0] for q in search.get("questions") or () if q.get("kind") == "BoolGradeImage" and q.get("about")
    ]
    graded = [image["id"] for leaf in search.get("leaves") or () for image in leaf.get("images") or ()]
    return list(dict.fromkeys([*(c["id"] for c in doc.get("candidates") or ()), *looked, *graded]))
